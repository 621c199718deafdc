"""What tokenizer.json says of our tokenizers, and (slow) what Transformers makes of it, and we of what it writes."""

import json
import pathlib
import shutil

import pytest

from bert_tf.models import family_registry
from bert_tf.tokenization.registry import read_tokenizer
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import other_envs, tiny
from tests.tokenization.tokenizer_json_test import LITERALS, WHOLE

pytestmark = pytest.mark.usefixtures("run_eagerly")

SCRIPT = pathlib.Path(__file__).parents[1] / "goldens" / "whole_tokenizers.py"
_RUN = "import runpy, sys; made = runpy.run_path(sys.argv[1]); "
SAVE = _RUN + "made['main'](sys.argv[2])"
ROWS = _RUN + "[made['rows'](folder, folder + '/rows.json') for folder in sys.argv[2:]]"


def _file(folder):
    return json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["5/bert", "5/bert-cased", "5/roberta", "5/albert", "5/xlm-roberta"])
def test_what_is_written_is_what_transformers_wrote(name, tmp_path):
    family = family_registry.family(name.removeprefix("5/").removesuffix("-cased"))
    read_tokenizer(WHOLE / name, family, family.template).save(tmp_path)
    ours, theirs = _file(tmp_path), _file(WHOLE / name)
    assert list(ours) == list(theirs)
    for section in ("pre_tokenizer", "post_processor", "truncation", "padding"):
        if section == "post_processor" and name == "5/roberta":  # RobertaProcessing, as a template
            continue
        assert ours[section] == theirs[section], section
    steps, other = (_steps(each["normalizer"]) for each in (ours, theirs))
    if "xlm" in name or "albert" in name:  # runs of spaces, which WhitespaceSplit splits alike
        assert steps.pop() == {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    assert steps == other
    vocabularies = [each["model"].pop("vocab") for each in (ours, theirs)]
    assert ours["model"] == theirs["model"]
    if isinstance(vocabularies[0], dict):
        assert vocabularies[0] == vocabularies[1]
    else:
        assert [token for token, _ in vocabularies[0]] == [token for token, _ in vocabularies[1]]
        scores = [[score for _, score in each] for each in vocabularies]
        assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    known = {(token["id"], token["content"]) for token in theirs["added_tokens"]}
    assert {(token["id"], token["content"]) for token in ours["added_tokens"]} <= known


def _steps(normalizer):
    return normalizer.get("normalizers", [normalizer]) if normalizer else None


def test_of_equal_tokens_the_last_one_is_written(tmp_path):
    with pytest.warns(UserWarning, match="contain a token that is repeated on a later line"):
        tokenizer = WordPieceTokenizer([*tiny.VOCAB, "twice", "", "twice"])
    tokenizer.save(tmp_path)
    vocab, size = _file(tmp_path)["model"]["vocab"], len(tiny.VOCAB)
    assert vocab["twice"] == size + 2 and "" not in vocab and len(vocab) == size + 1
    # Of the vocab.txt beside it.
    with pytest.warns(UserWarning, match="contain a token that is repeated on a later line"):
        again = WordPieceTokenizer.from_directory(tmp_path)
    assert again.vocab_size == size + 3
    assert again.tokenize(["twice"]).to_list() == tokenizer.tokenize(["twice"]).to_list() == [[size + 2]]


def _compare(folder, tokenizer):
    """Holds the rows that Transformers made of a folder's files against the tokenizer."""
    expected = json.loads((folder / "rows.json").read_text(encoding="utf-8"))
    texts = expected["texts"]
    wanted = {text: ids for text, ids in zip(texts, expected["ids"], strict=True) if text != LITERALS}
    # Transformers' WordPiece takes words of 100 characters, and version 5 whatever tokenizer.json says.
    if getattr(tokenizer, "max_input_chars_per_word", 100) != 100:
        del wanted["b" * 101]
    found = dict(zip(wanted, tokenizer.tokenize(list(wanted)).to_list(), strict=True))
    assert {text: ids for text, ids in found.items() if ids != wanted[text]} == {}
    rows = tokenizer.pack(tokenizer.tokenize(texts[:10]), tokenizer.tokenize(texts[1:11]))
    assert rows["input_ids"].to_list() == [ids for ids, _ in expected["pairs"]]
    # These models have no segments, although tokenizer.json numbers them.
    if folder.name not in ("distilbert", "mpnet"):
        assert rows["segment_ids"].to_list() == [segments for _, segments in expected["pairs"]]


def _read(folder):
    model_type = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    family = family_registry.family(model_type)
    return read_tokenizer(folder, family, family.template)


@pytest.mark.slow
def test_transformers_reads_what_we_write_and_we_what_it_writes(tmp_path):
    """Of every family; BERT_TF_TORCH_PYTHON names a Python with Transformers 4 or 5, and sentencepiece."""
    python = other_envs.torch_python()
    other_envs.run(python, SAVE, SCRIPT, tmp_path / "theirs")
    folders = sorted(path.parent for path in (tmp_path / "theirs").rglob("rows.json"))
    assert len(folders) == 11
    tokenizers, ours = {folder: _read(folder) for folder in folders}, []
    for folder, tokenizer in tokenizers.items():
        _compare(folder, tokenizer)
        saved = tmp_path / "ours" / folder.name
        tokenizer.save(saved)
        for name in ("vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model"):
            (saved / name).unlink(missing_ok=True)  # so that nothing but tokenizer.json can be read
        shutil.copy(folder / "config.json", saved)
        ours.append(saved)
    other_envs.run(python, ROWS, SCRIPT, *ours)
    for folder, saved in zip(tokenizers, ours, strict=True):
        _compare(saved, tokenizers[folder])


@pytest.mark.slow
def test_transformers_reads_what_we_write_of_googles_files(tmp_path):
    """A vocab.txt alone is google-research/bert's, whose longest word has 200 characters."""
    folder = tmp_path / "bert"
    tokens = _file(WHOLE / "5/bert")["model"]["vocab"]
    tokenizer = WordPieceTokenizer(sorted(tokens, key=tokens.get))
    tokenizer.save(folder)
    (folder / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    other_envs.run(other_envs.torch_python(), ROWS, SCRIPT, folder)
    _compare(folder, tokenizer)
