"""The flags of special tokens: read from each file, followed by fill-mask, written back; as in Transformers."""

import itertools
import json
import shutil

import pytest

from bert_tf.models.family_registry import family
from bert_tf.tokenization.mask_reader import MaskReader
from bert_tf.tokenization.registry import TOKENIZERS, read_tokenizer
from tests import parity
from tests.other_envs import run, torch_python, transformers_5_python

pytestmark = pytest.mark.usefixtures("run_eagerly")

FOLDER = parity.GOLDENS / "tokenizers"
FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
SOURCES = {
    "roberta": ("whole/5/roberta", "RobertaTokenizer"),
    "xlm-roberta": ("whole/5/xlm-roberta", "XLMRobertaTokenizer"),
    "albert": ("whole/5/albert", "AlbertTokenizer"),
    "bert": ("whole/5/bert", "BertTokenizer"),
    "modernbert": ("modernbert", "PreTrainedTokenizerFast"),
    "deberta-v2": ("deberta", "DebertaV2Tokenizer"),
}
READ = """
import json, sys
from transformers import AutoTokenizer
texts, out, *folders = sys.argv[1:]
texts, found = json.load(open(texts, encoding="utf-8")), []
for folder in folders:
    read = AutoTokenizer.from_pretrained(folder)._tokenizer.encode_batch(texts, add_special_tokens=False)
    found.append([each.ids for each in read])
json.dump(found, open(out, "w"))
"""


def _texts(mask):
    return [
        f"the {mask} sea", f"the  {mask}\t sea", f"the{mask}sea", f"{mask}{mask} {mask}", f"the {mask}.", f" {mask} ",
        f"_{mask}", f"the ,{mask} ,", mask.lower(), "the sea",
    ]  # fmt: skip


def _write(folder, name, flags=None, config=(), named=None):
    """Writes a tokenizer whose mask has these flags in tokenizer.json; returns the mask."""
    source, tokenizer_class = SOURCES[name]
    whole = json.loads((FOLDER / source / "tokenizer.json").read_text(encoding="utf-8"))
    mask = next(token for token in whole["added_tokens"] if "mask" in token["content"].lower())
    if flags is None:
        whole["added_tokens"].remove(mask)
    else:
        mask |= dict.fromkeys(FLAGS, False) | flags
    folder.mkdir(exist_ok=True)
    values = {"tokenizer.json": whole, "config.json": {"model_type": name}}
    values["tokenizer_config.json"] = {
        "tokenizer_class": tokenizer_class, "mask_token": mask["content"], **dict(config)
    }  # fmt: skip
    if named is not None:
        values["special_tokens_map.json"] = {"mask_token": {"content": mask["content"], **named}}
    for path, each in values.items():
        (folder / path).write_text(json.dumps(each), encoding="utf-8")
    return mask


def _read(folder, name):
    row = family(name)
    return read_tokenizer(str(folder), row, row.template)


def _flags(tokenizer):
    token = next(token for token in tokenizer.special_added_tokens if token.content == tokenizer.mask)
    return [flag for flag in FLAGS if getattr(token, flag)]


@pytest.mark.parametrize("flags", [{}, {"lstrip": True}, {"rstrip": True, "single_word": True}], ids=["", "l", "rs"])
def test_fill_mask_follows_the_mask_s_flags_and_they_are_written_back(flags, tmp_path):
    _write(tmp_path / "source", "roberta", flags)
    tokenizer = _read(tmp_path / "source", "roberta")
    assert _flags(tokenizer) == [*flags] and tokenizer.added_tokens == ()
    tokenizer.save(tmp_path / "saved")
    settings = json.loads(json.dumps(tokenizer.settings))
    saved = TOKENIZERS["byte_bpe"].from_saved(str(tmp_path / "saved"), tokenizer.template, settings)
    written = json.loads((tmp_path / "saved" / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
    assert {flag: True for flag in FLAGS if written[-1][flag]} == flags
    texts = _texts("<mask>")
    for each in (tokenizer, saved, _read(tmp_path / "saved", "roberta")):
        vocab, reader = each.vocab, MaskReader(each)
        assert _flags(each) == [*flags]
        rows = [[vocab[i] for i in row] for row in reader.tokenize(texts[:3]).to_list()]
        spaces = [row[: row.index("<mask>")].count("\u0120") for row in rows[:2]]
        assert spaces == ([0, 0] if "lstrip" in flags else [1, 2])
        behind = ["".join(row[row.index("<mask>") + 1 :]) for row in rows[:2]]
        assert behind == (["sea", "sea"] if "rstrip" in flags else ["\u0120sea", "\u0109\u0120sea"])
        assert ("<mask>" in rows[2]) == ("single_word" not in flags)


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({"flags": {"rstrip": True}, "named": {"single_word": True}}, ["rstrip"]),
        ({"named": {"single_word": True}}, ["single_word"]),
        ({"named": {"single_word": True}, "config": {"mask_token": {"content": "<mask>", "rstrip": True}}},
         ["single_word"]),
        ({"config": {"mask_token": {"content": "<mask>", "rstrip": True, "normalized": False}}}, ["rstrip"]),
        ({"flags": {"rstrip": True}, "config": {"added_tokens_decoder": {600: {"content": "<mask>", "lstrip": True,
          "special": True}}}}, ["lstrip"]),
        ({}, ["lstrip"]),
    ],
    ids=["json", "map", "map before config", "config", "decoder", "none"],
)  # fmt: skip
def test_the_file_that_counts(options, flags, tmp_path):
    mask = _write(tmp_path, "roberta", **options)
    assert mask["id"] == 600 and _flags(_read(tmp_path, "roberta")) == flags


def test_a_model_with_added_tokens_keeps_the_flags_of_special_ones(tmp_path):
    _write(tmp_path, "roberta", {"rstrip": True})
    tokenizer = _read(tmp_path, "roberta")
    size = tokenizer.vocab_size
    path = tmp_path / "tokenizer.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    whole["added_tokens"].append({"id": size, "content": "[E1]", **dict.fromkeys((*FLAGS, "special"), False)})
    path.write_text(json.dumps(whole), encoding="utf-8")
    tokenizer = _read(tmp_path, "roberta")
    tokenizer.save(tmp_path / "saved")
    config = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text(encoding="utf-8"))
    decoder = config["added_tokens_decoder"]
    assert decoder[str(tokenizer.mask_id)] == {
        "content": "<mask>", "lstrip": False, "rstrip": True, "single_word": False, "normalized": False, "special": True
    }  # fmt: skip
    assert decoder["0"]["content"] == "<s>" and decoder[str(size)]["content"] == "[E1]"
    assert _flags(_read(tmp_path / "saved", "roberta")) == ["rstrip"]


def test_deberta_s_and_bert_s_masks_take_no_space_unless_a_file_says_so(tmp_path):
    _write(tmp_path / "bert", "bert")
    (tmp_path / "deberta").mkdir()
    shutil.copy(FOLDER / "deberta" / "spm.model", tmp_path / "deberta")
    assert _flags(_read(tmp_path / "bert", "bert")) == _flags(_read(tmp_path / "deberta", "deberta-v2")) == []


@pytest.mark.slow
@pytest.mark.parametrize("python", [torch_python, transformers_5_python])
@pytest.mark.parametrize("name", SOURCES)
def test_transformers_reads_masks_with_all_flags_alike(name, python, tmp_path):
    """From the source's files, and from those that were written back."""
    ours = {}
    for n, values in enumerate(itertools.product((False, True), repeat=len(FLAGS))):
        source, saved = tmp_path / f"files{n}", tmp_path / f"saved{n}"
        texts = _texts(_write(source, name, dict(zip(FLAGS, values, strict=True)))["content"])
        tokenizer = _read(source, name)
        tokenizer.save(saved)
        (saved / "config.json").write_text(json.dumps({"model_type": name}), encoding="utf-8")
        ours[source] = ours[saved] = MaskReader(tokenizer).tokenize(texts).to_list()
    (tmp_path / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    run(python(), READ, tmp_path / "texts.json", tmp_path / "out.json", *ours)
    theirs = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    for (folder, own), found in zip(ours.items(), theirs, strict=True):
        for text, one, other in zip(texts, own, found, strict=True):
            known = _is_known_to_differ(name, text, int(folder.name[5:]))
            assert one == other or known, (folder.name, text)


def _is_known_to_differ(name, text, number):
    """Their unigram models that keep case find a mask of the vocabulary within a word, whatever its flags.

    DeBERTa's spaces around a mask that is found in normalized text, which no model has, are one character there.
    """
    within = name in ("xlm-roberta", "deberta-v2") and any(each in text for each in ("the<", "the[", "_"))
    return within or (name == "deberta-v2" and number % 2 == 1 and " " in text)
