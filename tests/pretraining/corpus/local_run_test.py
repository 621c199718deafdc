"""From text to record files: the same bytes whoever works, the laws on what is written, nothing half-made."""

import dataclasses
import logging
import os
import types

import numpy as np
import pytest

from bert_tf.data.record_features import describe_records
from bert_tf.pretraining.corpus import local_run, stages, units
from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.pretraining.corpus.stages import CorpusStages
from bert_tf.utils.text_options import TextOptions
from bert_tf.utils.workers import WorkerDied
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
    monkeypatch.setattr(local_run, "_TASK_BYTES", 1 << 13)
    for module in (stages, local_run):
        monkeypatch.setattr(module, "BUCKET_BYTES", 1 << 17)
    monkeypatch.setattr(units, "UNIT_TOKENS", 1 << 12)


def test_google_s_features_with_google_s_shapes(corpus, tmp_path):
    local_run.create_pretraining_data(support.job(corpus, [tmp_path / "a.tfrecord"]))
    assert {name: length for name, (_, length) in describe_records(str(tmp_path / "a.tfrecord")).items()} == {
        "input_ids": 48, "input_mask": 48, "segment_ids": 48, "next_sentence_labels": 1,
        "masked_lm_positions": 8, "masked_lm_ids": 8, "masked_lm_weights": 8,
    }  # fmt: skip
    assert sorted(os.listdir(tmp_path)) == ["a.tfrecord", "a_records.json", "a_vocabulary"]


def test_small_and_large_tasks_make_the_laws_hold(corpus, tmp_path, small):
    statistics = local_run.create_pretraining_data(support.job(corpus, [tmp_path / "a.tfrecord"], dupe_factor=4))
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


@pytest.mark.slow
def test_the_records_are_shuffled_and_shared_out(corpus, tmp_path, small):
    paths = [tmp_path / f"{n}.tfrecord" for n in range(4)]
    local_run.create_pretraining_data(support.job(corpus, paths, sentence_objective="none"))
    sizes = [len(_read([path])["input_ids"]) for path in paths]
    assert min(sizes) > 0.6 * np.mean(sizes)
    local_run.create_pretraining_data(support.job(corpus, [tmp_path / "one.tfrecord"], sentence_objective="none"))
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
        local_run.create_pretraining_data(job)
    plain, packed = (_read([tmp_path / f"{packing}.tfrecord"]) for packing in (False, True))
    assert len(packed["input_ids"]) < 0.9 * len(plain["input_ids"])
    for name in ("input_mask", "segment_ids", "masked_lm_weights"):
        assert packed[name].sum() == plain[name].sum()
    assert packed["next_sentence_weights"].sum() == len(plain["input_ids"])


def test_a_full_disk_midway_keeps_the_old_files_and_the_finished_work(corpus, tmp_path, monkeypatch):
    (tmp_path / "a.tfrecord").write_bytes(b"old")
    job = support.job(corpus, [tmp_path / "a.tfrecord", tmp_path / "b.tfrecord"])

    def fail(*_, **__):
        raise OSError(28, "No space left on device", "records")

    with monkeypatch.context() as patch:
        patch.setattr(stages.tfrecords, "write_records", fail)
        with pytest.raises(OSError, match="No space left"):
            local_run.create_pretraining_data(job)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".a.tfrecord.parts", "a.tfrecord"]
    assert (tmp_path / "a.tfrecord").read_bytes() == b"old"
    other = dataclasses.replace(job, options=dataclasses.replace(job.options, random_seed=1))
    with pytest.raises(ValueError, match=r"resume with the settings .* random_seed: 12345 before, 1 now.*remove the d"):
        local_run.create_pretraining_data(other)
    local_run.create_pretraining_data(job)
    assert not (tmp_path / ".a.tfrecord.parts").exists() and len(_read([tmp_path / "a.tfrecord"])["input_ids"]) > 100


# Which call of which function is the one that does not come to its end.
INTERRUPTED = {
    "the first task": ("tokenize", 0),
    "tokenizing": ("tokenize", 1),
    "merging documents": ("merge", 1),
    "making examples": ("make_records", 4),
    "merging records": ("merge", 9),
    "writing": ("write_part", 3),
    "joining the parts": ("_concatenate", 1),
}
_FAST = ("merging documents", "making examples", "joining the parts")


def _interrupt(owner, name, at, patch, error=KeyboardInterrupt):
    """Lets call number `at` of a function do its work and raise an error; returns the list of all calls."""
    function, calls = getattr(owner, name), []

    def interrupted(*arguments):
        result = function(*arguments)
        calls.append(arguments[1:])
        if len(calls) == at + 1:
            raise error
        return result

    patch.setattr(owner, name, interrupted)
    return calls


@pytest.fixture
def several_levels(small, monkeypatch):
    """Sizes under which the runs of the small corpus are merged twice."""
    monkeypatch.setattr(local_run, "_MOST_RUNS", 2)
    monkeypatch.setattr(local_run, "_MERGED", 2)


@pytest.mark.parametrize(("free", "warned"), [(10**5, True), (10**12, False)])
def test_a_disk_that_will_be_full_is_told_of_early(corpus, tmp_path, small, monkeypatch, caplog, free, warned):
    monkeypatch.setattr(local_run.shutil, "disk_usage", lambda path: types.SimpleNamespace(free=free))
    statistics = local_run.create_pretraining_data(support.job(corpus, [tmp_path / "a.tfrecord"], dupe_factor=4))
    said = [record.getMessage() for record in caplog.records if "GB are free" in record.getMessage()]
    assert statistics.record_bytes > 10**5 and len(said) == warned


@pytest.mark.slow
def test_merging_changes_no_byte(corpus, tmp_path, small, monkeypatch):
    made = []
    for name, most in (("not merged", 1000), ("merged", 4)):
        monkeypatch.setattr(local_run, "_MOST_RUNS", most)
        with monkeypatch.context() as patch:
            merges = _interrupt(CorpusStages, "merge", -1, patch)
            path = tmp_path / name / "a.tfrecord"
            statistics = local_run.create_pretraining_data(support.job(corpus, [path]))
        made.append((path.read_bytes(), statistics.to_json()))
        assert bool(merges) == (name == "merged")
    assert made[0] == made[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment", [m if m in _FAST else pytest.param(m, marks=pytest.mark.slow) for m in INTERRUPTED]
)
def test_an_interrupted_run_resumes_and_writes_the_same_bytes(corpus, tmp_path, several_levels, monkeypatch, moment):
    local_run.create_pretraining_data(_two_files(corpus, tmp_path / "whole"))
    name, at = INTERRUPTED[moment]
    owner = local_run if name.startswith("_") else CorpusStages
    with monkeypatch.context() as patch:
        before = _interrupt(owner, name, at, patch)
        with pytest.raises(KeyboardInterrupt):
            local_run.create_pretraining_data(_two_files(corpus, tmp_path / "parts"))
    assert len(before) == at + 1 and not list((tmp_path / "parts").glob("[0-9]*"))
    with monkeypatch.context() as patch:
        after = _interrupt(owner, name, -1, patch)
        local_run.create_pretraining_data(_two_files(corpus, tmp_path / "parts"))
    if owner is CorpusStages:  # only the one that was interrupted is run twice
        assert [arguments for arguments in before if arguments in after] == [before[-1]]
    assert scripts.files(tmp_path / "parts") == scripts.files(tmp_path / "whole")


def test_what_other_processes_have_finished_is_kept_when_one_dies(corpus, tmp_path, several_levels, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(WorkerDied):
        _interrupt(CorpusStages, "make_records", 2, patch, WorkerDied)
        local_run.create_pretraining_data(_two_files(corpus, tmp_path))
    assert os.listdir(tmp_path) == [".0.tfrecord.gz.parts"]


def _two_files(corpus, folder):
    return support.job(corpus, [folder / f"{n}.tfrecord.gz" for n in range(2)])


def test_one_document_is_not_enough_for_next_sentences(corpus, tmp_path):
    (tmp_path / "one.txt").write_text("wak .\nwal .\n")
    job = dataclasses.replace(
        support.job(corpus, [tmp_path / "a"]), paths=[str(tmp_path / "one.txt")], formats=["sentences"]
    )
    with pytest.raises(ValueError, match="at least two documents.*There is only one"):
        local_run.create_pretraining_data(job)
    local_run.create_pretraining_data(
        dataclasses.replace(job, options=CorpusOptions(sentence_objective="sop", max_seq_length=8))
    )
    assert describe_records(str(tmp_path / "a"))["input_ids"][1] == 8


def test_text_without_a_sentence(corpus, tmp_path):
    (tmp_path / "none.txt").write_text("\n \n")
    job = dataclasses.replace(
        support.job(corpus, [tmp_path / "a"]), paths=[str(tmp_path / "none.txt")], formats=["sentences"]
    )
    with pytest.raises(ValueError, match="No sentences found in 1 file"):
        local_run.create_pretraining_data(job)


def test_more_files_than_records(corpus, tmp_path):
    (tmp_path / "two.txt").write_text("wak .\nwal .\n\nwam .\n")
    paths = [tmp_path / f"{n}.tfrecord" for n in range(50)]
    job = dataclasses.replace(support.job(corpus, paths), paths=[str(tmp_path / "two.txt")], formats=["sentences"])
    with pytest.raises(ValueError, match="Too many output files.* one of 50 files"):
        local_run.create_pretraining_data(job)
    assert [p.name for p in tmp_path.iterdir()] == ["two.txt"]


def test_a_document_start_that_is_nowhere_is_told(corpus, tmp_path, caplog):
    (tmp_path / "a.txt").write_text(" = One = \nwak .\n = Two = \nwal .\n")
    for start, told in (("^= .* =$", False), ("^ = .* = $", True)):
        text = TextOptions(document_start=start)
        job = support.job(corpus, [tmp_path / "a.tfrecord"], text=text, sentence_objective="none", dupe_factor=1)
        with caplog.at_level(logging.WARNING, logger="absl"):
            job = dataclasses.replace(job, paths=[str(tmp_path / "a.txt")], formats=["prose"])
            local_run.create_pretraining_data(job)
        assert ("matched no line" in caplog.text) == told
