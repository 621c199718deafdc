"""Every kind of tokenizer against its reference, on 10,080 texts in twelve scripts, by the graph and in plain Python.

Libraries have tables of different Unicode versions, so that a few characters may be a mark, a letter or nothing. Texts
may differ by these alone, which is shown by taking them out. docs/concepts/tokenizers.md gives the rates.
"""

import functools
import io
import json
import pathlib
import subprocess
import unicodedata
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from bert_tf.models.family_registry import family
from bert_tf.tokenization.fast_tokenizer import FastTokenizer
from bert_tf.tokenization.registry import TOKENIZERS, read_tokenizer
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import japanese, other_envs
from tests.conftest import ROOT
from tests.tokenization import material
from tests.tokenization.google import google_tokenizer
from tests.tokenization.rust_test import READ
from tests.tokenization.scripts import random_strings, sentences

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("run_eagerly")]

BYTE_BPE = """
import json, sys
from tokenizers import ByteLevelBPETokenizer
texts, folder = sys.argv[1:]
bpe = ByteLevelBPETokenizer()
special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
bpe.train_from_iterator(json.load(open(texts, encoding="utf-8"))[::5], vocab_size=6000, special_tokens=special)
bpe.save_model(folder)
"""
READ_MECAB = """
import json, sys
from transformers import AutoTokenizer
folder, texts, out = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder)
rows = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in json.load(open(texts, encoding="utf-8"))]
json.dump([[ids] for ids in rows], open(out, "w"))
"""
# Of the scripts in the texts, marks and others of Unicode 9 to 16 that one of the libraries does not know as such.
_NEWER = (
    (0x61D, 0x61E), (0x890, 0x892), (0x897, 0x8A0), (0x8CA, 0x8E3), (0x1C89, 0x1C8B), (0xA7CB, 0xA7DD),
    (0xA7F1, 0xA7F5), (0xA8FF, 0xA900), (0x10EFA, 0x10F00), (0x11FFF, 0x12000), (0x1E08F, 0x1E090),
)  # fmt: skip


def of_another_unicode(char: str) -> bool:
    """Returns whether a character is not in this Python's version of Unicode, or not in the reference's."""
    return unicodedata.category(char) == "Cn" or any(first <= ord(char) < end for first, end in _NEWER)


def unlike_hugging_face(char: str) -> bool:
    """Returns whether WordPiece does with a character as Google does: a final sigma, a letter of private use."""
    return of_another_unicode(char) or char == "\u03a3" or unicodedata.category(char) == "Co"


def _learn_byte_bpe(folder, texts):
    other_envs.run(other_envs.torch_python(), BYTE_BPE, texts, folder)
    return TOKENIZERS["byte_bpe"].from_directory(folder)


def _learn_by_script(folder, texts, script, vocab_size):
    code = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    path = ROOT / "tests" / "goldens" / script
    other_envs.run(other_envs.torch_python(), code, path, folder, texts, vocab_size)
    return read_tokenizer(str(folder), family("modernbert"), family("modernbert").template)


def _learn_unigram(folder, texts, model_type, rules):
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, which trains a model here")
    model, name = io.BytesIO(), "spiece.model" if model_type == "albert" else "sentencepiece.bpe.model"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(json.loads(texts.read_text(encoding="utf-8"))[::5]), model_writer=model,
        vocab_size=6000, character_coverage=0.99, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, pad_piece="<pad>",
        minloglevel=2, normalization_rule_name=rules, control_symbols=["[CLS]", "[SEP]", "[MASK]"],
    )  # fmt: skip
    (folder / name).write_bytes(model.getvalue())
    tokenizer = TOKENIZERS["unigram"].from_directory(folder, family=family(model_type))
    assert tokenizer.maps_characters == (rules != "identity")
    return tokenizer


def _with_every_character(folder, texts, do_lower_case):
    return WordPieceTokenizer(material.small_vocabulary(ideographs=1), do_lower_case)


def _with_mecab(folder, texts):
    for package in ("fugashi", "unidic_lite"):
        pytest.importorskip(package, reason=f"needs {package} (bert-tf[mecab])")
    python = other_envs.torch_python()
    if subprocess.run([python, "-c", "import fugashi, unidic_lite"], capture_output=True, check=False).returncode:
        pytest.skip(f"needs fugashi and unidic_lite, which {python} has not: BERT_TF_TORCH_PYTHON names another")
    vocab = japanese.vocabulary(json.loads(texts.read_text(encoding="utf-8")))
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in vocab), encoding="utf-8")
    japanese.write_settings(folder, mecab_kwargs={"mecab_dic": "unidic_lite"})
    return read_tokenizer(str(folder), family("bert"), family("bert").template)


class Kind(NamedTuple):
    """A tokenizer, and what of its ids may differ from those of Transformers.

    Attributes:
        make: (empty folder, path of the texts) -> our tokenizer.
        unlike: whether a character may have other ids.
        most: how many of the 5,040 random strings may differ by such characters; no sentence may.
        ties: how many texts may be split in another of several equally probable ways.
        read: the program that writes the reference's ids.
    """

    make: Callable[[pathlib.Path, pathlib.Path], Any]
    unlike: Callable[[str], bool] = lambda char: False
    most: int = 0
    ties: int = 0
    read: str = READ


KINDS = {
    "byte_bpe": Kind(_learn_byte_bpe, of_another_unicode, 300),
    "composed_bpe": Kind(
        functools.partial(_learn_by_script, script="modernbert_tokenizer.py", vocab_size=4000), of_another_unicode, 300
    ),
    "sentencepiece_bpe": Kind(functools.partial(_learn_by_script, script="mmbert_tokenizer.py", vocab_size=6000)),
    "unigram": Kind(
        functools.partial(_learn_unigram, model_type="albert", rules="nmt_nfkc"), of_another_unicode, 500, ties=10
    ),
    "unigram_in_front": Kind(functools.partial(_learn_unigram, model_type="xlm-roberta", rules="nmt_nfkc"), ties=10),
    "unigram_without_map": Kind(functools.partial(_learn_unigram, model_type="xlm-roberta", rules="identity"), ties=10),
    "wordpiece": Kind(functools.partial(_with_every_character, do_lower_case=True), unlike_hugging_face, 500),
    "wordpiece_cased": Kind(functools.partial(_with_every_character, do_lower_case=False), unlike_hugging_face, 300),
    "mecab": Kind(_with_mecab, read=READ_MECAB),
}


@pytest.fixture(scope="module")
def texts(shared_data):
    """Sentences, and random strings."""
    return sentences(shared_data), random_strings()


@pytest.mark.parametrize("name", KINDS)
def test_ids_are_those_of_transformers(name, texts, tmp_path):
    kind, (real, strings) = KINDS[name], texts
    (tmp_path / "made").mkdir()
    (tmp_path / "texts.json").write_text(json.dumps([*real, *strings]), encoding="utf-8")
    tokenizer = kind.make(tmp_path / "made", tmp_path / "texts.json")
    tokenizer.save(tmp_path / "saved")
    found, ties = _differences(tokenizer, kind, [*real, *strings], tmp_path)
    total = len(real) + len(strings)
    print(f"{name}: of {total:,} texts, {len(found)} differ by a character, {len(ties)} are split another way")
    assert len(ties) <= kind.ties
    assert not {*found} & {*real}
    assert len(found) <= kind.most
    # Nothing else is the cause: without these characters, the same texts have the same ids.
    assert all(any(map(kind.unlike, text)) for text in found)
    left = ["".join(char for char in text if not kind.unlike(char)) for text in found]
    assert not found or _differences(tokenizer, kind, left, tmp_path) == ([], [])


def _differences(tokenizer, kind, texts, folder):
    """Returns the texts that have other ids, by the graph or in plain Python, than by Transformers, and those with the
    same tokens in another order, if the kind may have ties."""
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    other_envs.run(
        other_envs.torch_python(), kind.read, folder / "saved", folder / "texts.json", folder / "read.json"
    )
    theirs = json.loads((folder / "read.json").read_text(encoding="utf-8"))
    graph, plain = tokenizer.tokenize(texts).to_list(), map(FastTokenizer(tokenizer).tokenize, texts)
    other, ties = [], []
    for text, (expected, *_), ours, here in zip(texts, theirs, graph, plain, strict=True):
        is_tie = kind.ties and ours == here and sorted(ours) == sorted(expected)
        if not ours == here == expected:
            (ties if is_tie else other).append(text)
    return other, ties


@pytest.mark.parametrize("do_lower_case", [True, False], ids=["uncased", "cased"])
def test_wordpiece_ids_are_those_of_google(do_lower_case, texts, tmp_path):
    WordPieceTokenizer(material.small_vocabulary(ideographs=1), do_lower_case).save(tmp_path)
    tokenizer, all_texts = WordPieceTokenizer.from_directory(tmp_path), [*texts[0], *texts[1]]
    google = google_tokenizer(tmp_path)
    expected = google("uncased" if do_lower_case else "cased", tokenizer.asset_file, all_texts)
    assert tokenizer.tokenize(all_texts).to_list() == expected
    assert list(map(FastTokenizer(tokenizer).tokenize, all_texts)) == expected
