"""Record files: which are found, which are whole, and the vocabulary next to them."""

import os
import pathlib
import shutil

import pytest

from bert_tf.pretraining import record_files
from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.corpus.local_run import create_pretraining_data
from bert_tf.pretraining.record_metadata import RecordMetadata
from tests.pretraining.corpus import support


@pytest.fixture(scope="module")
def made(corpus, tmp_path_factory):
    """A folder as `pretrain data` leaves it, with two files of records."""
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
    assert record_files.find_record_files([str(folder)]) == [f"{folder}/more/b", *shards]
    assert record_files.find_record_files([f"{folder}/*"]) == [f"{folder}/more/b", *shards]
    assert record_files.find_record_files([f"{folder}/train-*", str(folder)]) == [*shards, f"{folder}/more/b"]
    assert record_files.find_record_files([f"{folder}/*"], without=[shards[0]]) == [f"{folder}/more/b", shards[1]]
    assert record_files.find_record_files([shards[0], str(folder / "train_report.txt")], without=shards) == [
        shards[0], f"{folder}/train_report.txt",
    ]  # fmt: skip


@pytest.mark.parametrize(("pattern", "received"), [
    ("HOME/empty", "HOME/empty' contains none. Create some"), ("HOME/x*", r"HOME/x\*' matches none. Create"),
])  # fmt: skip
def test_where_there_are_none(tmp_path, pattern, received):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("")
    with pytest.raises(ValueError, match=f"No record files found: .*{received}".replace("HOME", str(tmp_path))):
        record_files.find_record_files([pattern.replace("HOME", str(tmp_path))])


def test_nothing_but_what_is_scored_on(folder):
    with pytest.raises(ValueError, match="contains none except those of `eval_file`"):
        record_files.find_record_files([str(folder)], without=record_files.find_record_files([str(folder)]))


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
    assert record_files.find_vocabulary(path, metadata) == str(folder / "train_vocabulary" / "vocab.txt")
    assert (folder / "train_vocabulary" / "vocab.txt").read_text() == (corpus / "vocab.txt").read_text()
    (folder / "train_vocabulary" / "vocab.txt").write_text(other.read_text())
    assert record_files.find_vocabulary(path, metadata) is None
