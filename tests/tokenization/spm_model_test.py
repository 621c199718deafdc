"""DeBERTa's tokenizer: spm.model and a mask behind it, or tokenizer.json; ids as by SentencePiece and Transformers."""

import json
import os
import re
import shutil
import unicodedata

import pytest

from bert_tf.models.families import family
from bert_tf.tokenization.registry import read_tokenizer
from tests import parity

FOLDER = parity.GOLDENS / "tokenizers" / "deberta"
FILES = {"model": ("spm.model",), "whole": ("tokenizer.json", "tokenizer_config.json")}


def _has_mark(text):
    """Whether Hugging Face maps characters as whole graphemes, which SentencePiece does not know."""
    return any(unicodedata.category(char)[0] == "M" or char == "\u0e33" for char in text)


def _read(folder):
    row = family("deberta-v2")
    return read_tokenizer(str(folder), row, row.template)


@pytest.fixture(params=["model", pytest.param("whole", marks=pytest.mark.slow)])
def folder(request, tmp_path):
    for name in FILES[request.param]:
        shutil.copy(FOLDER / name, tmp_path)
    return tmp_path


def test_ids_and_special_tokens(folder):
    tokenizer, size = _read(folder), 300
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id, tokenizer.vocab_size) == (0, 3, size, size + 1)
    texts = json.loads((FOLDER.parent / "rust.json").read_text(encoding="utf-8"))["texts"]
    expected = json.loads((FOLDER / "ids.json").read_text(encoding="utf-8"))
    marker, found = tokenizer.id_of("\u2581"), tokenizer.tokenize(texts).to_list()
    for text, ids, slow, fast in zip(texts, found, expected["slow"], expected["fast"], strict=True):
        # There, the end of a text may become a space, and "[CLS]" in a text its token; SentencePiece has neither.
        assert ids in (fast, fast[:-1]) and fast[len(ids) :] in ([], [marker]) or "[CLS]" in text, text
        assert ids == slow or _has_mark(text), text
    one, two = texts[2], texts[3]
    packed = tokenizer([one], [two], max_seq_length=128)["input_ids"].numpy()[0].tolist()
    assert packed[: packed.index(0)] == [1, *found[2], 2, *found[3], 2]


@pytest.mark.slow
def test_saved_files_give_the_same_ids_each_alone(folder, tmp_path):
    tokenizer, texts = _read(folder), ["The old film.", "caf\u00e9 [MASK] 12", ""]
    found = tokenizer.tokenize(texts).to_list()
    tokenizer.save(str(tmp_path / "saved"))
    for drop in (None, "tokenizer.json"):
        if drop:
            os.remove(tmp_path / "saved" / drop)
        again = _read(tmp_path / "saved")
        assert again.vocab == tokenizer.vocab and again.tokenize(texts).to_list() == found
    assert os.path.basename(again.vocab_file) == "spm.model"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("split_by_punct", True, "split_by_punct must be false or absent, because here punctuation is split by the"),
        ("vocab_type", "gpt2", "vocab_type must be 'spm' or absent, because here the vocabulary is a SentencePiece"),
        ("tokenizer_class", "AlbertTokenizer", "tokenizer_class must be DebertaV2Tokenizer, to match the vocabulary"),
    ],
)
def test_what_is_refused(tmp_path, key, value, message):
    shutil.copy(FOLDER / "spm.model", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({key: value}), encoding="utf-8")
    with pytest.raises(ValueError, match=f"tokenizer_config.json: {re.escape(message)}"):
        _read(tmp_path)


@pytest.mark.slow
def test_letter_case_is_kept_unless_the_files_say_otherwise(tmp_path):
    shutil.copy(FOLDER / "spm.model", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true, "vocab_type": "spm"}', encoding="utf-8")
    lower, cased = _read(tmp_path), _read(FOLDER)
    assert lower.tokenize(["The Film"]).to_list() == cased.tokenize(["the film"]).to_list()
    assert lower.tokenize(["The Film"]).to_list() != cased.tokenize(["The Film"]).to_list()


@pytest.mark.slow
def test_transformers_makes_the_same_files_again(tmp_path):
    parity.run_torch("deberta_tokenizer.py", tmp_path)
    for name in ("spm.model", "tokenizer.json", "ids.json"):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()
