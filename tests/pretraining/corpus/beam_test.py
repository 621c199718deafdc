"""Apache Beam makes the records that a local run makes."""

import dataclasses
import os
import pickle
import secrets
from collections import Counter

import pytest

from bert_tf.pretraining.corpus import local_run, units
from bert_tf.pretraining.corpus.job import CorpusJob
from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.tokenization.table_registry import TABLES
from tests import scripts
from tests.pretraining import families
from tests.pretraining.corpus import support

apache_beam = pytest.importorskip("apache_beam", reason="Apache Beam is an extra: pip install bert-tf[beam]")
beam = pytest.importorskip(
    "bert_tf.pretraining.corpus.beam", reason="Apache Beam is an extra: pip install bert-tf[beam]"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, phrases", [pytest.param("a.tfrecord", False, marks=pytest.mark.slow), ("a.tfrecord.gz", True)]
)
def test_the_same_records_as_a_local_run(corpus, tmp_path, name, phrases, monkeypatch):
    options = {"masking": "phrase", "phrase_file": str(corpus / "phrases.list")} if phrases else {}
    monkeypatch.setattr(units, "UNIT_TOKENS", 1 << 13)
    written = {}
    for kind in ("local", "beam"):
        os.mkdir(tmp_path / kind)
        job = support.job(corpus, [tmp_path / kind / str(n) / name for n in range(2)], **options)
        is_local = kind == "local"
        statistics = local_run.create_pretraining_data(job) if is_local else beam.run_pipeline(job, "DirectRunner")
        assert (statistics.phrases["found"] > 0) == phrases
        written[kind] = scripts.files(tmp_path / kind), statistics.to_json()
    assert written["beam"] == written["local"]
    beside = ["a_records.json", "a_vocabulary/tokenizer_config.json", "a_vocabulary/vocab.txt"]
    assert sorted(written["beam"][0]) == sorted(f"{n}/{each}" for n in range(2) for each in (name, *beside))


@pytest.mark.slow
def test_the_same_records_with_the_tokenizer_of_a_model(tmp_path):
    families.tokenizer_of(tmp_path / "model", "albert", TABLES)
    (tmp_path / "text.txt").write_text(families.text(), encoding="utf-8")
    options, written = CorpusOptions(max_seq_length=32, dupe_factor=1, sentence_objective="sop"), {}
    for run in (local_run.create_pretraining_data, lambda job: beam.run_pipeline(job, "DirectRunner")):
        output = tmp_path / str(len(written)) / "a.tfrecord"
        output.parent.mkdir()
        job = CorpusJob([str(tmp_path / "text.txt")], ["sentences"], [str(output)], do_lower_case=None, options=options,
                        model_directory=str(tmp_path / "model"))  # fmt: skip
        statistics = run(job)
        written[len(written)] = scripts.files(output.parent), statistics.to_json()
    assert written[0] == written[1] and "a_vocabulary/spiece.model" in written[0][0]


@pytest.mark.slow
def test_the_list_of_files_is_in_the_pipeline_once_however_many_steps_there_are(corpus, tmp_path):
    paths = [secrets.token_hex(64) for _ in range(300)]  # random, so that they cannot be compressed
    job = dataclasses.replace(support.job(corpus, [tmp_path / "a"]), paths=paths, formats=["prose"] * len(paths))

    def size(job):
        pipeline = apache_beam.Pipeline()
        beam.build_pipeline(pipeline, job, ["a"], "report")
        return len(pipeline.to_runner_api().SerializeToString())

    few = dataclasses.replace(job, paths=paths[:1], formats=["prose"])
    once = len("".join(paths))
    assert once / 2 < size(job) - size(few) < 3 * once  # it was written seven times


@pytest.mark.slow
def test_what_is_wrong_with_the_text_is_said_and_nothing_is_left(corpus, tmp_path):
    (tmp_path / "one.txt").write_text("wak .\nwal .\n")
    job = dataclasses.replace(
        support.job(corpus, [tmp_path / "a"]), paths=[str(tmp_path / "one.txt")], formats=["sentences"]
    )
    with pytest.raises(Exception, match="at least two documents"):
        beam.run_pipeline(job, "DirectRunner")
    assert os.listdir(tmp_path) == ["one.txt"]


def test_a_report_is_what_was_counted_and_runs_nothing(tmp_path):
    path, statistics = str(tmp_path / "report"), Statistics.empty(CorpusOptions(), 3)
    statistics.masked_ids[1], statistics.rows = 2**40, 7
    statistics.text.update({"bytes": 5})
    beam._write_report(Counter(tokens=9), statistics, path)
    with open(path, "rb") as file:
        counts, read = beam._parse_report(file.read())
    assert counts == Counter(tokens=9) and (read.rows, read.text) == (7, Counter(bytes=5))
    for name in ("shapes", "pairs", "replacements", "masked_ids"):
        ours, theirs = getattr(read, name), getattr(statistics, name)
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and (ours == theirs).all()
    with pytest.raises(ValueError, match="decode"):
        beam._parse_report(pickle.dumps((counts, statistics)))
