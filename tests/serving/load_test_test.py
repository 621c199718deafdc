"""The load test: when requests come, what is counted, and the program against a server that refuses some."""

import asyncio
import json
import time

import grpc
import numpy as np
import pytest

from bert_tf.serving.client import load_calls, load_generation, load_report
from bert_tf.serving.client.load_generation import OK, RequestTiming
from tests.serving.fake_server import FakeServer, failure
from tests.serving.programs import run_program


def test_times_are_those_of_a_poisson_process():
    times = np.array(load_generation.arrivals(100, 50, seed=3))
    assert times.tolist() == load_generation.arrivals(100, 50, seed=3) != load_generation.arrivals(100, 50, seed=4)
    assert (np.diff(times) > 0).all() and times[0] > 0 and times[-1] < 50
    gaps = np.diff(times)
    assert abs(len(times) - 5000) < 300 and abs(gaps.std() / gaps.mean() - 1) < 0.1


def test_a_latency_counts_from_when_its_request_was_due():
    async def send(number):
        if number == 0:
            time.sleep(0.2)  # the generator itself is kept from its work
        return OK

    samples = asyncio.run(load_generation.ask_at_rate(send, 1000, 0.05))
    due = load_generation.arrivals(1000, 0.05)
    assert [sample.due for sample in samples] == due and len(due) > 20
    assert all(sample.late >= 0.1 and sample.seconds >= sample.late for sample in samples[1:])


def test_no_answer_delays_the_next_request():
    async def run():
        last = asyncio.Event()
        total = len(load_generation.arrivals(1000, 0.02))

        async def send(number):
            if number == total - 1:
                last.set()
            await asyncio.wait_for(last.wait(), 20)  # all others wait for the last one to be sent
            return OK

        return total, await load_generation.ask_at_rate(send, 1000, 0.02)

    total, samples = asyncio.run(run())
    assert len(samples) == total > 5


def test_callers_wait_for_their_answers():
    now, most, numbers = 0, 0, []

    async def send(number):
        nonlocal now, most
        now += 1
        most = max(most, now)
        numbers.append(number)
        await asyncio.sleep(0.001)
        now -= 1
        return OK if number % 5 else "UNAVAILABLE"

    samples = asyncio.run(load_generation.ask_by_callers(send, 3, 0.1))
    assert most == 3 and sorted(numbers)[:3] == [0, 1, 2] and len(samples) == len(numbers) == len(set(numbers))
    assert {sample.code for sample in samples} == {OK, "UNAVAILABLE"}


def test_the_summary_and_its_lines():
    samples = [RequestTiming(i / 100, 0.0, (i + 1) / 1000, OK) for i in range(100)] + [
        RequestTiming(0.5, 0.0, 0.002, "UNAVAILABLE")
    ]
    found = load_report.summarize(samples, 4)
    assert found["codes"] == {OK: 100, "UNAVAILABLE": 1} and (found["requests"], found["answered"]) == (101, 100)
    assert found["seconds"] == 1.09 and found["rows_per_second"] == pytest.approx(400 / 1.09, abs=0.01)
    assert found["latency_ms"] == {"p50": 50.5, "p90": 90.1, "p95": 95.05, "p99": 99.01, "p99.9": 99.901, "max": 100.0}
    assert found["refusal_ms"]["max"] == 2.0
    told = load_report.report_lines("9 clients", found)
    assert told[0] == "9 clients: 91.7 requests/s, 367.0 rows/s, 100 of 101 answered in 1.1 s"
    assert "p99 99.0 ms" in told[1] and told[3] == "  codes: OK 100, UNAVAILABLE 1"
    late = load_report.summarize([sample._replace(late=0.05) for sample in samples], 1)
    assert "The generator itself was late by p99 50.0 ms" in load_report.report_lines("x", late)[-1]


def test_the_program_writes_codes_latencies_and_a_page(tmp_path):
    texts, server = tmp_path / "texts.txt", FakeServer()
    texts.write_text("one\ntwo\nthree\n", encoding="utf-8")
    # The first is asked to see whether anybody answers.
    server.script = [None, *[failure(grpc.StatusCode.UNAVAILABLE)] * 2]
    try:
        flags = [f"--server=localhost:{server.port}", f"--input_file={texts}", "--batch_size=2", "--seconds=0.5"]
        flags += ["--rate=0.001,100", "--warmup_seconds=0", f"--output_dir={tmp_path}/out"]
        done = run_program("load_test", *flags)
    finally:
        server.stop().wait()
    assert done.returncode == 0, done.stderr
    assert "codes: OK" in done.stdout and "UNAVAILABLE 2" in done.stdout
    assert "No request at 0.001 requests a second was answered within --seconds=0.5." in done.stderr
    run = json.loads((tmp_path / "out" / "load_test.json").read_text())["runs"]["100 requests a second"]
    assert run["codes"]["UNAVAILABLE"] == 2 and run["requests"] == len(server.requests) - 1
    assert {len(request.inputs[0].value.string_val) for request in server.requests} == {2}
    page = (tmp_path / "out" / "load_test.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2 and "latency p99.9" in page and "mathdefault" not in page


def test_the_program_over_rest(film, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("fine\nx\n", encoding="utf-8")
    flags = [f"--server=localhost:{film.rest_port}", f"--input_file={texts}", "--rest", "--seconds=0.2"]
    done = run_program("load_test", *flags, "--model_name=film", "--concurrency=2", "--warmup_seconds=0")
    assert done.returncode == 0 and done.stdout.startswith("2 clients: "), done.stderr
    assert "codes" not in done.stdout
    done = run_program("load_test", *flags, "--model_name=film", "--signature=q")
    assert done.returncode == 1 and "--signature must be one of classify, echo" in done.stderr


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--rate=1", "--concurrency=2"], "--concurrency and --rate cannot be combined."),
        (["--rate=1,x"], "--rate must be positive numbers separated by commas, such as 50,100; got 1,x."),
        (["--server=127.0.0.1:1"], "No model server responded at 127.0.0.1:1"),
    ],
)
def test_the_program_says_what_is_wrong(flags, message, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("fine\n", encoding="utf-8")
    done = run_program("load_test", f"--input_file={texts}", *flags)
    assert done.returncode == 1 and message in done.stderr and len(done.stderr.splitlines()) == 1


def test_the_port_of_grpc_in_place_of_that_for_rest(film):
    with pytest.raises(ConnectionError, match="No model server responded over HTTP at .* rather than for gRPC"):
        load_calls.inputs_over_rest(f"localhost:{film.port}", "film", "", 10.0)
