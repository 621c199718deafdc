"""What record files say of how they were made, in their first records and in the files next to them."""

import dataclasses
import hashlib
import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.data import example_bytes, record_features, tfrecords
from bert_tf.pretraining import record_compatibility, record_metadata
from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.corpus.local_run import create_pretraining_data
from bert_tf.pretraining.record_metadata import RecordMetadata, vocabulary_fingerprint
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.wordpiece import Tokenizer
from tests.pretraining.corpus import support
from tests.record_files import read_records

METADATA = RecordMetadata(vocabulary_fingerprint(["[PAD]", "a"]), True, False, "sop", None)
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
    with pytest.raises(ValueError, match="a must state how it was made in made_with, a feature of its first record."):
        RecordMetadata.of(_write(tmp_path / "a", stamp))


def test_vocabularies_are_told_apart_by_their_pieces_and_order():
    assert len({vocabulary_fingerprint(tokens) for tokens in (["a", "b"], ["b", "a"], ["a", "B"], ["a"])}) == 4
    assert dataclasses.replace(METADATA, vocabulary=vocabulary_fingerprint(["[PAD]", "a"])) == METADATA


@pytest.fixture(scope="module")
def made(corpus, tmp_path_factory):
    """A folder as create_pretraining_data leaves it, with two files of records."""
    folder = tmp_path_factory.mktemp("made")
    paths = [folder / f"train-0000{n}-of-00002.tfrecord" for n in range(2)]
    create_pretraining_data(support.job(corpus, paths, dupe_factor=1))
    return folder


@pytest.fixture
def folder(made, tmp_path):
    return pathlib.Path(shutil.copytree(made, tmp_path / "records"))


def test_a_folder_is_all_records_in_it(folder):
    for name in ("train_report.txt", "train_report.html", ".hidden", "half.tfrecord.tmp"):
        (folder / name).write_text("no records")
    (folder / "more").mkdir()
    (folder / "more" / "b").write_text("")
    shards = [f"{folder}/train-0000{n}-of-00002.tfrecord" for n in range(2)]
    assert record_metadata.find_record_files([str(folder)]) == [f"{folder}/more/b", *shards]
    assert record_metadata.find_record_files([f"{folder}/*"]) == [f"{folder}/more/b", *shards]
    assert record_metadata.find_record_files([f"{folder}/train-*", str(folder)]) == [*shards, f"{folder}/more/b"]
    assert record_metadata.find_record_files([f"{folder}/*"], without=[shards[0]]) == [f"{folder}/more/b", shards[1]]
    assert record_metadata.find_record_files([shards[0], str(folder / "train_report.txt")], without=shards) == [
        shards[0], f"{folder}/train_report.txt",
    ]  # fmt: skip


@pytest.mark.parametrize(("pattern", "received"), [
    ("HOME/empty", "HOME/empty' contains none. Create some"), ("HOME/x*", r"HOME/x\*' matches none. Create"),
])  # fmt: skip
def test_where_there_are_none(tmp_path, pattern, received):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("")
    with pytest.raises(ValueError, match=f"No record files found: .*{received}".replace("HOME", str(tmp_path))):
        record_metadata.find_record_files([pattern.replace("HOME", str(tmp_path))])


def test_nothing_but_what_is_scored_on(folder):
    with pytest.raises(ValueError, match="contains none except those of `eval_file`"):
        record_metadata.find_record_files([str(folder)], without=record_metadata.find_record_files([str(folder)]))


def _records_of(path):
    """The records of a file that is not compressed, as bytes with what stands around them."""
    data, records = path.read_bytes(), []
    while data:
        size = int.from_bytes(data[:8], "little") + 16
        records.append(data[:size])
        data = data[size:]
    return records


def test_a_file_cut_off_between_two_records(folder):
    path = folder / "train-00001-of-00002.tfrecord"
    whole = path.stat().st_size
    path.write_bytes(b"".join(_records_of(path)[:-3]))
    message = rf"{path} must have {whole:,} bytes according to {folder}/train_records.json, but it has [\d,]+: it was"
    with pytest.raises(ValueError, match=message):
        Records.of([str(folder)])
    os.remove(folder / "train_records.json")
    assert len(Records.of([str(folder)]).paths) == 2


def test_one_of_several_descriptions_may_be_of_an_earlier_file(folder):
    (folder / "a_records.json").write_text('{"files": {"train-00000-of-00002.tfrecord": 1}}')
    assert len(Records.of([str(folder)]).paths) == 2


@pytest.mark.parametrize("text", ["[]", "{", '{"files": 1}', '{"files": {"a": "b"}}'])
def test_a_description_that_is_none(folder, text):
    (folder / "train_records.json").write_text(text)
    with pytest.raises(ValueError, match=f"{folder}/train_records.json must .*; copy it again, or remove it"):
        Records.of([str(folder)])


def test_the_vocabulary_is_found_by_what_it_holds(folder, corpus):
    path = f"{folder}/train-00000-of-00002.tfrecord"
    shutil.copytree(folder / "train_vocabulary", folder / "another_vocabulary")
    other = folder / "another_vocabulary" / "vocab.txt"
    other.write_text(other.read_text().replace("wak", "wxx"))
    metadata = RecordMetadata.of(path)
    assert record_metadata.find_vocabulary(path, metadata) == str(folder / "train_vocabulary" / "vocab.txt")
    assert (folder / "train_vocabulary" / "vocab.txt").read_text() == (corpus / "vocab.txt").read_text()
    (folder / "train_vocabulary" / "vocab.txt").write_text(other.read_text())
    assert record_metadata.find_vocabulary(path, metadata) is None


# === What create_pretraining_data writes ===


@pytest.fixture(scope="module")
def described(corpus, tmp_path_factory):
    """Two files in two folders, made with a cased vocabulary, and the statistics of the run."""
    folder = tmp_path_factory.mktemp("made")
    paths = [folder / str(n) / f"train-0000{n}-of-00002.tfrecord" for n in range(2)]
    job = support.job(corpus, paths, dupe_factor=1, sentence_objective="sop", masking="whole_word")
    return folder, create_pretraining_data(dataclasses.replace(job, do_lower_case=False))


@pytest.mark.parametrize("number", [0, 1])
def test_it_says_what_was_made_of_what(described, corpus, number):
    (folder, statistics), text = described, (corpus / "1.txt").read_bytes()
    values = json.loads((folder / str(number) / "train_records.json").read_text(encoding="utf-8"))
    name = f"train-0000{number}-of-00002.tfrecord"
    assert values["files"] == {name: os.path.getsize(folder / str(number) / name)}
    assert values["rows"] == statistics.rows and values["examples"] == statistics.examples
    assert values["sources"]["files"] == 3 and values["sources"]["each"][1] == {
        "path": f"{corpus}/1.txt", "bytes": len(text), "sha256": hashlib.sha256(text).hexdigest(),
    }  # fmt: skip
    assert values["versions"]["bert_tf"] == bert_tf.__version__
    chosen = {"sentence_objective": "sop", "masking": "whole_word", "max_seq_length": 48, "random_seed": 12345,
              "dupe_factor": 1, "packing": False, "dynamic_masking": False}  # fmt: skip
    assert {name: values["options"][name] for name in chosen} == chosen
    assert values["vocabulary"]["tokens"] == len(support.VOCAB) and not values["vocabulary"]["do_lower_case"]


def test_the_tokenizer_beside_is_the_one_that_made_them(described, corpus):
    for number in range(2):
        tokenizer = Tokenizer.from_directory(described[0] / str(number) / "train_vocabulary")
        assert tokenizer.vocab == support.VOCAB and not tokenizer.do_lower_case and not tokenizer.strip_accents


def test_each_file_says_the_same_of_itself(described):
    held = Records.of([str(described[0])])
    assert set(held.metadata.values()) == {
        RecordMetadata(vocabulary_fingerprint(support.VOCAB), False, False, "sop", "whole_word")
    }
    assert held.sentence_objective == "sop"


def test_accents_that_stay(corpus, tmp_path):
    job = support.job(corpus, [tmp_path / "a"], dupe_factor=1, dynamic_masking=True, sentence_objective="none")
    create_pretraining_data(dataclasses.replace(job, strip_accents=False))
    metadata = RecordMetadata.of(tmp_path / "a")
    assert (metadata.do_lower_case, metadata.strip_accents, metadata.masking) == (True, False, None)
    assert not Tokenizer.from_directory(tmp_path / "a_vocabulary").strip_accents


def test_of_many_sources_only_some_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(record_metadata, "_LISTED", 2)
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_text(path.name)
    one = record_metadata.hash_sources([str(path) for path in paths])
    paths[2].write_text("d")
    other = record_metadata.hash_sources([str(path) for path in paths])
    assert one["each"] == other["each"] and len(one["each"]) == 2 and one["files"] == one["bytes"] == 3
    assert one["sha256"] != other["sha256"]


def test_added_tokens_are_part_of_the_records_and_of_what_lies_beside(corpus, tmp_path):
    sentences = [f"{one} [E1] {other} ." for one, other in zip(support.WORDS, support.WORDS[1:], strict=False)]
    (tmp_path / "text.txt").write_text("\n\n".join(sentences) + "\n")
    added = (AddedToken("[E1]", len(support.VOCAB)),)
    job = support.job(corpus, [tmp_path / "train.tfrecord"], dupe_factor=1, dynamic_masking=True)
    job = dataclasses.replace(job, paths=[str(tmp_path / "text.txt")], formats=["sentences"], added_tokens=added)
    create_pretraining_data(job)
    tokenizer = Tokenizer.from_directory(tmp_path / "train_vocabulary")
    assert tokenizer.added_tokens == added
    records = Records.of([str(tmp_path / "train.tfrecord")])
    ids = next(iter(records.in_order(1)))["input_ids"].numpy()
    assert len(support.VOCAB) in ids
    record_compatibility.check_compatibility([records], tokenizer, ("nsp",))
    with pytest.raises(ValueError, match="must be made with the model's vocabulary"):
        record_compatibility.check_compatibility([records], Tokenizer(support.VOCAB), ("nsp",))
    (path, metadata), *_ = records.metadata.items()
    assert record_metadata.find_vocabulary(path, metadata) == str(tmp_path / "train_vocabulary" / "vocab.txt")
