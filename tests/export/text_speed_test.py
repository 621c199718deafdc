"""`make bench`'s part `text`: its entrants answer the same texts alike, and its tables say who was the fastest."""

import argparse
import asyncio
import json
import sys

import numpy as np
import pytest

from bert_tf.export.export_options import ExportOptions
from bert_tf.utils.ports import free_ports
from tests.conftest import ROOT
from tests.documentation import checks

TEXTS = ["the film is good", "bad story .", "the story is a warm film"]
CASE = "REST 32 callers"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


@pytest.fixture
def version(exported):
    return exported("classification", ExportOptions("float32", "litert"))


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.json"
    path.write_text(json.dumps(TEXTS))
    return path


@pytest.fixture
def start(texts, tmp_path):
    """Starts an entrant of a kind, "process", "aiohttp" or "serve", with the file `texts`."""
    import text_entrants

    started = []

    def start(kind, version):
        (port,) = free_ports(1)
        worker = ["lite_predictor", version, 1]
        commands = {
            "aiohttp": [ROOT / "benchmarks" / "text_server.py", *worker, port, 2],
            "serve": ["-m", "bert_tf", "serve", f"--model_base_path={version.removesuffix('/1')}",
                      "--model_name=model", "--port=0", f"--rest_api_port={port}", "--engine=litert",
                      "--enable_batching"],
        }  # fmt: skip
        if kind == "process":
            started.append(text_entrants.InProcess(sys.executable, worker, texts))
        else:
            command = [sys.executable, *commands[kind]]
            started.append(text_entrants.OverRest(command, port, texts, tmp_path / f"{kind}.log"))
        return started[-1]

    yield start
    for each in started:
        each.end()


@pytest.mark.slow
def test_a_process_and_servers_answer_alike(start, version, texts):
    import text_entrants
    import text_speed

    entrants = {(f"bert_tf float32 {kind}", "1"): start(kind, version) for kind in ("process", "aiohttp", "serve")}
    text_speed._check_answers(entrants)
    for (name, _), entrant in entrants.items():
        assert np.shape(entrant.answers) == (len(TEXTS), 2)
        for callers in (1,) if name.endswith("process") else (1, 4):
            seconds = entrant.seconds(text_entrants.Request(str(callers), texts, callers))
            assert len(seconds) == len(TEXTS) and min(seconds) > 0
        assert len(entrant.cpu["1"]) == 1
        assert entrant.first[0] > max(seconds)
        rss, private = text_entrants.memory(entrant.process.pid)
        assert rss > private > 2**20
    entrants["bert_tf float32 serve", "1"].answers[0][0] += 0.01
    with pytest.raises(ValueError, match=r"The probabilities of bert_tf float32 serve \(1 threads\) are 0.0100 off"):
        text_speed._check_answers(entrants)


def test_a_server_that_does_not_start_is_reported_with_its_log(texts, tmp_path):
    import text_entrants

    command = [sys.executable, "-c", "raise SystemExit('the model is damaged')"]
    with pytest.raises(RuntimeError, match="ended with status 1: the model is damaged"):
        text_entrants.OverRest(command, free_ports(1)[0], texts, tmp_path / "log")


def test_texts_that_wait_are_answered_as_one_batch():
    import text_server

    asked = []

    def answer(texts):
        asked.append(texts)
        if "bad" in texts:
            raise ValueError("a bad text")
        return [[len(text)] for text in texts]

    async def ask(*texts):
        queue = text_server.BatchingQueue([answer], 3)
        first = await asyncio.gather(*map(queue.answer, texts), return_exceptions=True)
        return [*first, await queue.answer("afterwards")]

    assert asyncio.run(ask("a", "bb", "ccc", "dddd")) == [[1], [2], [3], [4], [10]]
    assert asked == [["a", "bb", "ccc"], ["dddd"], ["afterwards"]]
    *failed, last = asyncio.run(ask("a", "bad"))
    assert [str(each) for each in failed] == ["a bad text"] * 2 and last == [10]


def test_texts_are_new_in_each_turn_and_as_long_as_their_case_says(tmp_path):
    import text_speed

    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "vocab.txt").write_text("\n".join(f"w{n}" for n in range(5000)))
    files = text_speed._write_texts(argparse.Namespace(rounds=2), tmp_path)
    for requests in (*files["process"], *files["rest"]):
        assert len(requests) == 3
        turns = [json.loads(request.file.read_text()) for request in requests]
        assert len({text for turn in turns for text in turn}) == 3 * len(turns[0])
        lengths = {len(text.split()) for turn in turns for text in turn}
        fewest, most = text_speed.CASES[requests[0].case.removeprefix("text 1 x ").removeprefix("REST 1 x ")]
        assert fewest <= min(lengths) and max(lengths) <= most
        assert requests[0].callers == (32 if requests[0].case == CASE else 1)
    assert turns[0][0].count(".") >= 1


def test_the_tables_compare_with_the_fastest_peer_of_the_same_dtype(tmp_path, capsys):
    import bench
    import inference_table
    import text_table

    one, many = "text 1 x 24", CASE
    times = {
        (("bert_tf int8 Predictor", "1"), one): [0.002, 0.002],
        (("bert_tf int8 serve", "1"), many): [0.002, 0.002],
        (("bert_tf int8 serve", "2"), many): [0.001, 0.002],
        (("onnxruntime int8", "1"), one): [0.003, 0.004],
        (("onnxruntime int8 aiohttp", "2"), many): [0.0012, 0.0012],
        (("openvino float32", "1"), one): [0.001, 0.001],
    }
    cpu, processes = {}, {}
    for (name, threads), case in times:
        cpu.setdefault(name, {}).setdefault(case, {})[threads] = [3.0, 4.0]
        processes.setdefault(name, {})[threads] = {
            "first_seconds": 1.5, "first_cpu_seconds": 2.5, "rss_mib": 200, "private_mib": 100,
        }  # fmt: skip
    path = tmp_path / "text-int8.json"
    inference_table.write(path, times, cpu_milliseconds=cpu, processes=processes)
    text_table.show(path)
    said = capsys.readouterr().out
    assert "| bert_tf int8 Predictor | 2.00 (1 t) |  |" in said
    assert "| bert_tf int8 serve |  | 667/s (2 t) |" in said
    assert "| bert_tf int8 Predictor | 3.5 |  |" in said
    assert "| bert_tf int8 Predictor | 1.75 |  |" in said and "| bert_tf int8 serve |  | 0.80 |" in said
    assert "| onnxruntime int8 aiohttp | 2 | 1.5 | 2.5 | 200 | 100 |" in said
    inference_table.write(path, {key: each for key, each in times.items() if "int8" in key[0][0]})
    ratios = bench._ratios("text", path)
    assert ratios == {one: pytest.approx((1.75, 1.5, 2.0)), many: pytest.approx((0.8, 0.6, 1.2))}


def test_every_part_is_started_with_flags_that_its_script_has(tmp_path):
    import bench

    options = argparse.Namespace(
        folder=tmp_path, rounds=1, peers=["torch", "onnxruntime", "openvino"], checkpoint="minilm", train_file=None,
        peer_python="python", threads=[1, 2], dry_run=True,
    )  # fmt: skip
    for part in bench.PARTS:
        for dtype in bench.DTYPES:
            if command := bench._command(options, part, dtype):
                checks.check_options(ROOT / "benchmarks" / command[0], command[1:])
    *_, peers, results = bench._command(options, "text", "int8")
    assert (peers, results) == ("--peers=onnxruntime,openvino", f"--results={tmp_path / 'text-int8.json'}")
