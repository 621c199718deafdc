"""What record files say in their first records of how they were made."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import example_bytes, record_features, tfrecords
from bert_tf.models.family_registry import family
from bert_tf.models.family_spec import InputTemplate
from bert_tf.pretraining.record_metadata import RecordMetadata, tokenizer_fingerprint, vocabulary_fingerprint
from bert_tf.tokenization.table_registry import TABLES, read_saved_tables, read_tables, save_tables
from tests.pretraining import families
from tests.record_files import read_records

METADATA = RecordMetadata(vocabulary_fingerprint(["[PAD]", "a"]), "f" * 64, True, False, "sop", None)
ROWS = {"input_ids": np.arange(6).reshape(3, 2), "masked_lm_weights": np.ones((3, 1), np.float32)}


def _write(path, stamp):
    tfrecords.write_records(path, example_bytes.serialize(ROWS), stamp=stamp)
    return str(path)


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_a_file_says_how_it_was_made_and_its_rows_are_as_without(tmp_path, name):
    path = _write(tmp_path / name, METADATA.stamp())
    assert RecordMetadata.of(path) == METADATA
    assert record_features.describe_records(path) == {"input_ids": ("int64", 2), "masked_lm_weights": ("float32", 1)}
    (batch,) = read_records([path, _write(tmp_path / f"other-{name}", b"")], batch_size=6)
    assert batch.keys() == ROWS.keys()
    np.testing.assert_array_equal(batch["input_ids"], np.concatenate([ROWS["input_ids"]] * 2))


def test_only_the_first_record_says_it(tmp_path):
    first, *others = tf.data.TFRecordDataset(_write(tmp_path / "a", METADATA.stamp())).as_numpy_iterator()
    plain = list(tf.data.TFRecordDataset(_write(tmp_path / "b", b"")).as_numpy_iterator())
    assert first == plain[0] + METADATA.stamp() and others == plain[1:]
    assert set(tf.train.Example.FromString(first).features.feature) == {*ROWS, "made_with"}
    parsed = tf.io.parse_single_example(first, {"input_ids": tf.io.FixedLenFeature([2], tf.int64)})  # as Google reads
    assert parsed["input_ids"].numpy().tolist() == [0, 1]


def test_files_of_others_say_nothing(tmp_path):
    assert RecordMetadata.of(_write(tmp_path / "a", b"")) is None


@pytest.mark.parametrize("said", [b"nonsense", b"[" * 5000, b'{"vocabulary": 1}', b"[]", b" " * 20_000])
def test_what_cannot_be_understood_is_refused(tmp_path, said):
    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[said]))
    stamp = tf.train.Example(features=tf.train.Features(feature={"made_with": feature})).SerializeToString()
    with pytest.raises(ValueError, match="a must describe how it was made in made_with, a feature of its first"):
        RecordMetadata.of(_write(tmp_path / "a", stamp))


def test_vocabularies_are_told_apart_by_their_pieces_and_order():
    assert len({vocabulary_fingerprint(tokens) for tokens in (["a", "b"], ["b", "a"], ["a", "B"], ["a"])}) == 4
    assert dataclasses.replace(METADATA, vocabulary=vocabulary_fingerprint(["[PAD]", "a"])) == METADATA


@pytest.mark.parametrize("model_type", families.FAMILIES)
def test_a_tokenizer_is_recognized_after_it_is_saved(tmp_path, model_type):
    tables = families.tokenizer_of(tmp_path / "tokenizer", model_type, TABLES)
    save_tables(tables, tmp_path / "saved")
    row = family(model_type)
    for again in (read_saved_tables(tmp_path / "saved"), read_tables(str(tmp_path / "saved"), row, row.template)):
        assert vocabulary_fingerprint(again.vocab) == vocabulary_fingerprint(tables.vocab)
        assert tokenizer_fingerprint(again) == tokenizer_fingerprint(tables)


def test_other_merges_scores_and_special_tokens_are_another_tokenizer(tmp_path):
    merges = families.tokenizer_of(tmp_path / "bpe", "roberta", TABLES)
    before = tokenizer_fingerprint(merges)
    merges.merges = merges.merges[::-1]
    scores = families.tokenizer_of(tmp_path / "unigram", "albert", TABLES)
    known = tokenizer_fingerprint(scores)
    scores.model.message.pieces[-1].score -= 1
    words = families.tokenizer_of(tmp_path / "words", "bert", TABLES)
    usual = tokenizer_fingerprint(words)
    words.template = InputTemplate(("[CLS]",), ("[SEP]", "[SEP]"), ("[SEP]",))
    assert before != tokenizer_fingerprint(merges) and known != tokenizer_fingerprint(scores)
    assert usual != tokenizer_fingerprint(words)
