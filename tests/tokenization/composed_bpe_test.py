"""ModernBERT's tokenizer.json: byte-level BPE after NFC, added tokens, its template; equal to the Rust tokenizer."""

import itertools
import json
import random
import shutil
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.family_registry import family
from bert_tf.tokenization.composition import Composer, combining_marks
from bert_tf.tokenization.registry import read_tokenizer
from tests import other_envs, parity
from tests.conftest import ROOT
from tests.tokenization.rust import differences, mixed_texts, xnli_texts

FOLDER = parity.GOLDENS / "tokenizers" / "modernbert"


def _read(folder):
    row = family("modernbert")
    return read_tokenizer(str(folder), row, row.template)


@pytest.fixture(scope="module")
def tokenizer():
    return _read(FOLDER)


def _check(tokenizer, folder):
    golden = json.loads((folder / "rust.json").read_text(encoding="utf-8"))
    assert list(differences(tokenizer, golden["texts"], golden["encoded"])) == []
    (a, b), pair = golden["texts"][:2], golden["pair"]
    assert tokenizer([a], [b], max_seq_length=len(pair))["input_ids"].numpy().tolist() == [pair]


@pytest.mark.slow
def test_ids_and_offsets_are_those_of_the_rust_tokenizer(tokenizer):
    _check(tokenizer, FOLDER)


@pytest.mark.slow
def test_the_one_file_is_enough(tokenizer, tmp_path):
    shutil.copy(FOLDER / "tokenizer.json", tmp_path)
    alone = _read(tmp_path)
    assert alone.settings == tokenizer.settings
    _check(alone, FOLDER)


@pytest.mark.slow
def test_a_saved_tokenizer_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    again = _read(tmp_path)
    assert again.settings == tokenizer.settings and again.nfc
    config = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    _check(again, FOLDER)
    _check(type(tokenizer).from_saved(str(tmp_path), tokenizer.template, tokenizer.settings), FOLDER)


def test_a_composed_character_came_from_its_letter_and_its_accent(tokenizer):
    ids, starts, ends = (each.to_list() for each in tokenizer.tokenize_with_offsets(["xe\u0301 y", "x\u00e9 y"]))
    assert ids[0] == ids[1]
    assert (starts[0][-1], ends[0][-1], starts[1][-1], ends[1][-1]) == (4, 5, 3, 4)
    spans = [(start, end) for start, end in zip(starts[0], ends[0], strict=True) if start == 1]
    assert spans and all(span == (1, 3) for span in spans)


def test_long_runs_of_marks_are_sorted_before_icu_and_composed_alike():
    composer, rng = Composer(), random.Random(0)
    marks = [chr(code) for code in np.flatnonzero(combining_marks()[0])]
    runs = ["".join(rng.choices(marks, k=200)) for _ in range(4)]
    texts = [f"x{runs[0]}y", "", f"\u1e69{runs[1]}\u00e9\u0323{runs[2]}", runs[3], "\u0f73" * 40, "e\u0301\u0323"]
    made = composer(texts)
    rows = made.chars.to_list()
    assert ["".join(map(chr, row)) for row in rows] == [unicodedata.normalize("NFC", text) for text in texts]
    spans = [made.chars.with_flat_values(each).to_list() for each in (made.starts, made.ends)]
    assert [set(each[0][1:-1]) for each in spans] == [{0, 1}, {201}] or [set(each[0][2:-1]) for each in spans] == [
        {1}, {201}
    ]  # fmt: skip
    for text, starts, ends in zip(texts, *spans, strict=True):
        assert starts == sorted(starts) and ends == sorted(ends) and ends[-1:] == [len(text)] * bool(text)
    # What costs ICU time: marks of a run behind others of a higher class.
    chars, *_ = composer._with_sorted_runs(tf.strings.unicode_decode(texts, "UTF-8"))
    for row in chars.to_list()[:5]:
        classes = [unicodedata.combining(chr(code)) for code in row]
        assert not any(0 < after < before for before, after in itertools.pairwise(classes))


def test_texts_without_characters_or_of_invalid_bytes(tokenizer):
    ids, starts, _ = tokenizer.tokenize_with_offsets([b"", b"a\xffe\xcc\x81", "a\u00e9".encode()])
    assert ids.to_list()[0] == [] and ids.to_list()[1] == ids.to_list()[2]
    assert starts.to_list()[1][0] == 0


@pytest.mark.parametrize(
    ("section", "value", "message"),
    [
        ("normalizer", {"type": "NFKC"}, "normalizer must be null, as in RoBERTa, or NFC, as in ModernBERT; got"),
        ("pre_tokenizer", {"type": "Metaspace"}, "pre_tokenizer must be ByteLevel; got"),
        ("model", {"type": "WordLevel", "vocab": {}}, "model.type must be WordPiece or BPE or Unigram; got"),
        ("post_processor", None, "post_processor must add the special tokens that this model_type"),
    ],
)
def test_a_tokenizer_json_of_another_kind_is_refused(section, value, message, tmp_path):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        values = json.loads((FOLDER / name).read_text(encoding="utf-8"))
        values |= {section: value} if name == "tokenizer.json" else {}
        (tmp_path / name).write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        _read(tmp_path)


@pytest.mark.slow
def test_real_texts(shared_data, tmp_path):
    texts = xnli_texts(shared_data) + mixed_texts()
    (tmp_path / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    script = ROOT / "tests" / "goldens" / "modernbert_tokenizer.py"
    code = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    other_envs.run(other_envs.torch_python(), code, script, tmp_path / "model", tmp_path / "texts.json", "3000")
    golden = json.loads((tmp_path / "model" / "rust.json").read_text(encoding="utf-8"))
    found = list(differences(_read(tmp_path / "model"), golden["texts"], golden["encoded"]))
    print(f"{len(found)} of {len(golden['texts']):,} texts have other offsets")
    assert not any(each.of_ids for each in found)
    # A mark behind a character that NFC takes apart: it came from itself, for Rust from the character before it.
    assert len(found) < 30 and all(any(map(unicodedata.combining, each.text)) for each in found)
