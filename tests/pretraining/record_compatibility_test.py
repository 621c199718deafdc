"""Records of another vocabulary, letter case or sentence objective are refused, and what cannot be known is told."""

import dataclasses
import logging

import numpy as np
import pytest

from bert_tf.data import example_bytes, tfrecords
from bert_tf.models.family_spec import InputTemplate
from bert_tf.pretraining import record_compatibility
from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.record_metadata import RecordMetadata, tokenizer_fingerprint, vocabulary_fingerprint
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.tokenization.wordpiece_tables import WordPieceTables
from bert_tf.utils.names import SENTENCE_OBJECTIVES
from tests.pretraining.corpus.support import VOCAB

TOKENIZER = tokenizer_fingerprint(WordPieceTables(VOCAB))
METADATA = RecordMetadata(vocabulary_fingerprint(VOCAB), TOKENIZER, True, True, "nsp", "token")
CLS, SEP, MASK, ROWS, S = 2, 3, 4, 60, 8


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("".join(f"{piece}\n" for piece in VOCAB))
    return WordPieceTokenizer(str(path))


def _features(cls=CLS, sep=SEP, mask=MASK, masked=True):
    rng = np.random.default_rng(0)
    ids, lengths = rng.integers(5, len(VOCAB), (ROWS, S)), rng.integers(5, S + 1, ROWS)
    real = np.arange(S) < lengths[:, None]
    ids = ids * real
    ids[:, 0], ids[np.arange(ROWS), lengths - 1] = cls, sep
    features = {"input_ids": ids, "input_mask": real.astype(int), "segment_ids": 0 * ids}
    features["next_sentence_labels"] = ids[:, :1] % 2
    if masked:
        features |= {"masked_lm_positions": np.full((ROWS, 1), 2), "masked_lm_ids": ids[:, 2:3].copy()}
        features["masked_lm_weights"] = np.ones((ROWS, 1), np.float32)
        hidden = rng.random(ROWS)  # 80 of 100 hidden, 10 at random
        ids[:, 2] = np.where(hidden < 0.8, mask, np.where(hidden < 0.9, rng.integers(5, len(VOCAB), ROWS), ids[:, 2]))
    return features


def _records(path, metadata=None, **made):
    stamp = metadata.stamp() if metadata else b""
    tfrecords.write_records(str(path), example_bytes.serialize(_features(**made)), stamp=stamp)
    return Records.of([str(path)])


def _check(several, tokenizer, sentence_objectives=SENTENCE_OBJECTIVES):
    record_compatibility.check_compatibility(several, tokenizer, sentence_objectives)


def test_what_fits_is_not_spoken_of(tmp_path, tokenizer, caplog):
    with caplog.at_level(logging.WARNING, logger="absl"):
        _check([_records(tmp_path / "a", METADATA), _records(tmp_path / "b", METADATA)], tokenizer)
    assert not caplog.text


@pytest.mark.parametrize(("change", "message"), [
    ({"vocabulary": vocabulary_fingerprint(VOCAB[::-1])},
     r"made with the model's vocabulary, .*vocab\.txt, of 107 tokens with the SHA-256 \w{16}\. \S+/b was "
     r"made with another one, with the SHA-256 \w{16}; create the records again, or use that one\."),
    ({"tokenizer": "f" * 64},
     r"the model's tokenizer, .* the special tokens \[CLS\] \[SEP\]\. \S+/b .* create the records again with `init_c"),
    ({"do_lower_case": False, "strip_accents": False},
     r"the model's do_lower_case, true\. \S+/b was made with do_lower_case false; .* if false is correct, "
     r"set it in `do_low"),
    ({"strip_accents": False}, r"model's strip_accents, true\. \S+/b was made with strip_accents false; .* in t"),
], ids=["vocabulary", "tokenizer", "case", "accents"])  # fmt: skip
def test_records_that_do_not_fit_the_model(tmp_path, tokenizer, change, message):
    with pytest.raises(ValueError, match=message):
        _check([_records(tmp_path / "b", dataclasses.replace(METADATA, **change))], tokenizer)


@pytest.mark.parametrize(("name", "value", "option"), [
    ("vocabulary", vocabulary_fingerprint(VOCAB[::-1]), "vocab_file"), ("do_lower_case", False, "do_lower_case"),
    ("sentence_objective", "sop", "sentence_objective"),
], ids=["vocabulary", "case", "sentences"])  # fmt: skip
def test_records_that_do_not_fit_each_other(tmp_path, tokenizer, name, value, option):
    """Whether they are trained on together, or the ones are scored on."""
    other = _records(tmp_path / "b", dataclasses.replace(METADATA, **{name: value}))
    one = _records(tmp_path / "a", METADATA)
    message = rf"must be made with the same `{option}`\. \S+/b was made with \w+, but \S+/a with \w+; remove"
    for several in ([one, other], [Records.of([*one.paths, *other.paths])]):
        with pytest.raises(ValueError, match=message):
            _check(several, tokenizer)


def test_a_sentence_objective_that_is_left_out_does_not_matter(tmp_path, tokenizer):
    other = _records(tmp_path / "b", dataclasses.replace(METADATA, sentence_objective="sop"))
    _check([_records(tmp_path / "a", METADATA), other], tokenizer, ("none",))


def test_a_sentence_objective_that_must_be_learned(tmp_path, tokenizer):
    records = _records(tmp_path / "a", METADATA)
    message = r"made with `sentence_objective=sop`, which .* \S+/a was made with nsp; create them again, or choose an"
    with pytest.raises(ValueError, match=message):
        _check([records], tokenizer, ("sop",))
    _check([_records(tmp_path / "b", dataclasses.replace(METADATA, sentence_objective="sop"))], tokenizer, ("sop",))


def test_records_that_say_nothing_are_told_of_once(tmp_path, tokenizer, caplog):
    several = [_records(tmp_path / name) for name in "ab"] + [_records(tmp_path / "c", METADATA)]
    with caplog.at_level(logging.WARNING, logger="absl"):
        _check([*several, several[0]], tokenizer)
    (line,) = caplog.records
    assert f"2 of 3 record files, such as {tmp_path}/a, do not describe how they were made" in line.getMessage()
    assert "letter case" in line.getMessage() and "sentence objective are unknown" in line.getMessage()
    assert several[0].sentence_objective is None and several[2].sentence_objective == "nsp"


@pytest.mark.parametrize(("made", "message"), [
    ({"cls": 7}, r"b must begin with \[CLS\], 2 in the model's vocabulary, .*vocab\.txt; got 7: the records w"),
    ({"sep": 9}, r"b must end with \[SEP\], 3 in the model's vocabulary.* got 9: "),
    ({"mask": 11}, r"b must mask tokens with \[MASK\], 4 in the model's vocabulary.* got 11: the records wer"),
], ids=["first", "last", "hidden"])  # fmt: skip
def test_their_special_ids_are_those_of_the_model(tmp_path, tokenizer, made, message):
    with pytest.raises(ValueError, match=message):
        _check([_records(tmp_path / "b", **made)], tokenizer)


def test_a_model_with_other_special_tokens(tmp_path):
    other = WordPieceTokenizer(VOCAB, template=InputTemplate(before=(VOCAB[5],)))
    message = rf"with the special tokens {VOCAB[5]} \[SEP\]\. \S+a was made with .* other special tokens; create"
    with pytest.raises(ValueError, match=message):
        _check([_records(tmp_path / "a", METADATA)], other)
    with pytest.raises(ValueError, match=f"a must begin with {VOCAB[5]}, 5 in the model's"):
        _check([_records(tmp_path / "a")], other)


def test_without_masks_there_is_less_to_see(tmp_path, tokenizer, caplog):
    _check([_records(tmp_path / "a", masked=False)], tokenizer)
    assert "do not describe how they were made" in caplog.text
