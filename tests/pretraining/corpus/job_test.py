"""From text to record files: the same bytes whoever works, the laws on what is written, nothing half-made."""

import dataclasses
import logging
import os

import numpy as np
import pytest

from bert_tf.data import tfrecords
from bert_tf.pretraining.corpus import job as jobs
from bert_tf.pretraining.corpus.examples import CorpusOptions
from bert_tf.utils.documents import TextOptions
from tests import processes, scripts
from tests.pretraining.corpus import support
from tests.record_files import read_records


def _read(paths):
    """All rows of the files: {name: [n, ...]}."""
    batches = list(read_records([str(path) for path in paths], batch_size=64).as_numpy_iterator())
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


@pytest.fixture
def small(monkeypatch):
    """Sizes under which the small corpus has several tasks, units and buckets."""
    monkeypatch.setattr(jobs, "_TASK_BYTES", 1 << 13)
    monkeypatch.setattr(jobs, "_BUCKET_BYTES", 1 << 17)
    monkeypatch.setattr(jobs, "UNIT_TOKENS", 1 << 12)


def test_google_s_features_with_google_s_shapes(corpus, tmp_path):
    jobs.create_pretraining_data(support.job(corpus, [tmp_path / "a.tfrecord"]))
    assert {name: length for name, (_, length) in tfrecords.describe_records(str(tmp_path / "a.tfrecord")).items()} == {
        "input_ids": 48, "input_mask": 48, "segment_ids": 48, "next_sentence_labels": 1,
        "masked_lm_positions": 8, "masked_lm_ids": 8, "masked_lm_weights": 8,
    }  # fmt: skip
    assert sorted(os.listdir(tmp_path)) == ["a.tfrecord", "a_records.json", "a_vocabulary"]


def test_small_and_large_tasks_make_the_laws_hold(corpus, tmp_path, small):
    statistics = jobs.create_pretraining_data(support.job(corpus, [tmp_path / "a.tfrecord"], dupe_factor=4))
    rows = _read([tmp_path / "a.tfrecord"])
    tokens = rows["input_mask"].sum(1)
    budget = np.minimum(8, np.maximum(1, np.round(0.15 * tokens)))
    assert (rows["masked_lm_weights"].sum(1) == budget).all()
    original = np.take_along_axis(rows["input_ids"], rows["masked_lm_positions"], 1)
    chosen = rows["masked_lm_weights"] > 0
    assert rows["masked_lm_ids"][chosen].min() >= 5
    assert abs((original[chosen] == 4).mean() - 0.8) < 0.03
    assert statistics.rows == len(tokens) and 0.4 < rows["next_sentence_labels"].mean() < 0.7
    assert len(np.unique(rows["input_ids"], axis=0)) > 0.99 * len(tokens)  # each pass makes others


def test_the_records_are_shuffled_and_shared_out(corpus, tmp_path, small):
    paths = [tmp_path / f"{n}.tfrecord" for n in range(4)]
    jobs.create_pretraining_data(support.job(corpus, paths, sentence_objective="none"))
    sizes = [len(_read([path])["input_ids"]) for path in paths]
    assert min(sizes) > 0.6 * np.mean(sizes)
    jobs.create_pretraining_data(support.job(corpus, [tmp_path / "one.tfrecord"], sentence_objective="none"))
    several, one = _read(paths), _read([tmp_path / "one.tfrecord"])
    assert all((several[name] == one[name]).all() for name in one)  # cut into files, the order is the same


@pytest.mark.slow
@pytest.mark.parametrize("several", [2, 4])
def test_one_and_several_workers_write_the_same_bytes(corpus, tmp_path, several):
    """In processes of their own, with the real sizes of tasks."""
    written = []
    for workers in (1, several):
        path = tmp_path / str(workers) / "out.tfrecord.gz"
        _run(corpus, path, f"--num_workers={workers}", "--num_shards=2")
        written.append(scripts.files(path.parent))
    assert written[0] == written[1]
    assert sorted(written[0]) == [
        "out-00000-of-00002.tfrecord.gz", "out-00001-of-00002.tfrecord.gz", "out_records.json", "out_report.html",
        "out_report.txt", "out_vocabulary/tokenizer_config.json", "out_vocabulary/vocab.txt",
    ]  # fmt: skip


def _run(corpus, path, *flags):
    processes.run(
        "-m", "bert_tf", "create_pretraining_data", f"--input_file={corpus}/*.txt", "--dupe_factor=2",
        f"--vocab_file={corpus}/vocab.txt", f"--output_file={path}", *flags,
    ).check_returncode()  # fmt: skip


def test_packed_rows_hold_the_same_examples_in_fewer_rows(corpus, tmp_path):
    for packing in (False, True):
        job = support.job(corpus, [tmp_path / f"{packing}.tfrecord"], packing=packing, short_seq_prob=0.9)
        jobs.create_pretraining_data(job)
    plain, packed = (_read([tmp_path / f"{packing}.tfrecord"]) for packing in (False, True))
    assert len(packed["input_ids"]) < 0.9 * len(plain["input_ids"])
    for name in ("input_mask", "segment_ids", "masked_lm_weights"):
        assert packed[name].sum() == plain[name].sum()
    assert packed["next_sentence_weights"].sum() == len(plain["input_ids"])


def test_an_error_midway_leaves_nothing_and_keeps_the_old_files(corpus, tmp_path, monkeypatch):
    (tmp_path / "a.tfrecord").write_bytes(b"old")

    def fail(*_, **__):
        raise OSError(28, "No space left on device", "records")

    monkeypatch.setattr(jobs.tfrecords, "write_records", fail)
    with pytest.raises(OSError, match="No space left"):
        jobs.create_pretraining_data(support.job(corpus, [tmp_path / "a.tfrecord", tmp_path / "b.tfrecord"]))
    assert [p.name for p in tmp_path.iterdir()] == ["a.tfrecord"] and (tmp_path / "a.tfrecord").read_bytes() == b"old"


def test_one_document_is_not_enough_for_next_sentences(corpus, tmp_path):
    (tmp_path / "one.txt").write_text("wak .\nwal .\n")
    job = dataclasses.replace(
        support.job(corpus, [tmp_path / "a"]), paths=[str(tmp_path / "one.txt")], formats=["sentences"]
    )
    with pytest.raises(ValueError, match="at least two documents.*There is only one"):
        jobs.create_pretraining_data(job)
    jobs.create_pretraining_data(
        dataclasses.replace(job, options=CorpusOptions(sentence_objective="sop", max_seq_length=8))
    )
    assert tfrecords.describe_records(str(tmp_path / "a"))["input_ids"][1] == 8


def test_text_without_a_sentence(corpus, tmp_path):
    (tmp_path / "none.txt").write_text("\n \n")
    job = dataclasses.replace(
        support.job(corpus, [tmp_path / "a"]), paths=[str(tmp_path / "none.txt")], formats=["sentences"]
    )
    with pytest.raises(ValueError, match="No sentences found in 1 file"):
        jobs.create_pretraining_data(job)


def test_more_files_than_records(corpus, tmp_path):
    (tmp_path / "two.txt").write_text("wak .\nwal .\n\nwam .\n")
    paths = [tmp_path / f"{n}.tfrecord" for n in range(50)]
    job = dataclasses.replace(support.job(corpus, paths), paths=[str(tmp_path / "two.txt")], formats=["sentences"])
    with pytest.raises(ValueError, match="Too many output files.* one of 50 files"):
        jobs.create_pretraining_data(job)
    assert [p.name for p in tmp_path.iterdir()] == ["two.txt"]


def test_a_document_start_that_is_nowhere_is_told(corpus, tmp_path, caplog):
    (tmp_path / "a.txt").write_text(" = One = \nwak .\n = Two = \nwal .\n")
    for start, told in (("^= .* =$", False), ("^ = .* = $", True)):
        text = TextOptions(document_start=start)
        job = support.job(corpus, [tmp_path / "a.tfrecord"], text=text, sentence_objective="none", dupe_factor=1)
        with caplog.at_level(logging.WARNING, logger="absl"):
            jobs.create_pretraining_data(dataclasses.replace(job, paths=[str(tmp_path / "a.txt")], formats=["prose"]))
        assert ("matched no line" in caplog.text) == told
