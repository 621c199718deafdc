"""Hostile requests over sockets: the server lives, answers each properly, and others hardly notice.

BERT_TF_FUZZ_REQUESTS sets how many the slow test sends, BERT_TF_FUZZ_SEED which, and BERT_TF_FUZZ_SECONDS how long a
short request may take beside them where the machine has other work. A million, in some twenty minutes on two cores:

    BERT_TF_FUZZ_REQUESTS=1000000 python -m pytest -s -m slow tests/robustness/serving_fuzz_test.py
"""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import sys

import pytest

from bert_tf.export.export_options import ExportOptions
from bert_tf.export.trained_model import export_trained
from bert_tf.lite.fast_path import FOLDER, INTERPRETERS, MOST_TEXTS, ONLY_SHORT, SPEED
from bert_tf.serving.client.client import Client
from tests.conftest import ROOT
from tests.export.models import write_trained
from tests.processor import COMPUTES_INT8
from tests.serving import fuzzing, hostile, hostile_bodies, hostile_tensors
from tests.serving.hostile_configs import Configs
from tests.serving.server_process import running

REQUESTS = int(os.environ.get("BERT_TF_FUZZ_REQUESTS", "20000"))
SEED = int(os.environ.get("BERT_TF_FUZZ_SEED", "0"))
SHORT_S = float(os.environ.get("BERT_TF_FUZZ_SECONDS", "2"))  # for a short request beside them
FEW = 400  # requests of the fast test
GROWTH_MIB = 1500  # of the process, with several bodies of 64 MiB in it
LEAK_MIB = 400  # more after the second half of the requests than after the first, whose largest may come late
LOG_LINES = 1000  # however many requests; each version that is published may have some of its own
LINES_OF_VERSION = 20
FLAGS = ("--file_system_poll_wait_seconds=0.5", "--load_retry_interval_micros=5000000")
TASKS = {
    "reviews": ("classification", ExportOptions(explanations=("attention",))),
    "choose": ("choices", ExportOptions()),
    "rate": ("regression", ExportOptions()),
    "squad": ("questions", ExportOptions()),
}
if COMPUTES_INT8:
    TASKS["quick"] = ("classification", ExportOptions("int8", "cpu"))  # LiteRT answers few texts


@pytest.fixture(scope="module")
def models(tmp_path_factory, film_path):
    """{name: base path} of models with every kind of signature: texts, pairs, choices, ids, tf.Examples, `layers`."""
    found = {"film": film_path}
    for name, (task, form) in TASKS.items():
        folder = tmp_path_factory.mktemp(name)
        write_trained(folder, task)
        version = pathlib.Path(export_trained(str(folder), options=form))
        if (speed := version / FOLDER / SPEED).exists():  # of this machine
            most = {MOST_TEXTS: {"8": 32, "16": 32}, INTERPRETERS: 2, ONLY_SHORT: False}
            speed.write_text(json.dumps(most), encoding="utf-8")
        found[name] = version.parent
    return found


class Fuzz:
    """A server of some models, and the requests that their signatures suggest.

    Args:
        models: {name: base path}; one is "film".
        folder: for its files.
        seed: of all requests.
    """

    def __init__(self, models, folder, seed):
        self.models, self._folder, self._seed = models, folder, seed
        self.warm = folder / "warm"
        self.warm.mkdir()
        shutil.copytree(_newest(models["film"]), self.warm / "1")
        broken = folder / "broken"
        broken.mkdir()
        self.configs = Configs({**models, "warm": self.warm}, broken)
        self.asked = [each for name, base in models.items() for each in hostile_tensors.read_signatures(
            name, _newest(base))]  # fmt: skip
        self.config_file = folder / "models.config"
        self.config_file.write_text(self.configs.text(), encoding="utf-8")

    def messages(self, n, big=0, part=0):
        return hostile_bodies.messages(self._seed + 1000 * part, n, big, self.asked, self.configs)

    def exchanges(self, n, big=0, part=0):
        return hostile_bodies.exchanges(self._seed + 1000 * part, n, big, self.asked)

    @contextlib.contextmanager
    def server(self, *flags):
        """Yields a `ServerProcess`, beside which versions of "warm" are published that bring requests along."""
        flags = (f"--model_config_file={self.config_file}", *FLAGS, *flags)
        with (
            running(None, self._folder / "log", *flags) as server,
            fuzzing.Publisher(self.warm, self.messages(10**9, part=9)) as publisher,
        ):
            yield server, publisher


def _newest(base):
    return max((each for each in base.iterdir() if each.name.isdigit()), key=lambda each: int(each.name))


def run(fuzz, server, publisher, requests, big, report, last):
    """Sends requests in two halves, says what came back, and checks all that must hold."""
    before, memory = server.memory(), []
    with fuzzing.ShortRequests(server, *({"reviews"} & fuzz.models.keys())) as short:
        seconds = 0
        for part in range(2):
            n, large = requests // 4, big // 4
            streams = fuzz.messages(n, large, part), fuzz.exchanges(n, large, part)
            seconds += fuzzing.attack(server, report, *streams, requests)
            memory.append(server.memory() if server.alive() else 0)
    report.write_last(last)
    log = server.log()
    assert server.alive(), f"{log[-3000:]}\nWhat was sent last: {last}"
    peak, worst = server.memory("VmHWM"), max(short.seconds)
    lines = [
        str(report),
        f"{requests:,} requests in {seconds:.0f} s, {requests / seconds:.0f}/s, {publisher.published} versions; "
        f"{len(short.seconds):,} short requests, the slowest {worst:.2f} s",
        f"{before:.0f} MiB before, {memory[0]:.0f} after half, {memory[1]:.0f} after all, {peak:.0f} at most; "
        f"{len(log):,} characters of log",
        *(f"slow: {seconds:.2f} s, {what}" for seconds, what in report.slowest),
    ]
    print("\n".join(lines), flush=True)
    assert not report.faults, "\n".join(f"{len(each)} times {each[0]}" for each in report.faults.values())
    assert sum(report.counts.values()) == requests // 4 * 4
    assert not short.failures and worst < SHORT_S, (worst, short.failures[:10])
    assert peak - before < GROWTH_MIB and memory[1] - memory[0] < LEAK_MIB
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:3000]
    assert log.count("\n") < LOG_LINES + LINES_OF_VERSION * publisher.published, log[-3000:]
    with Client(f"127.0.0.1:{server.port}", "warm", timeout=60) as client:  # whatever its versions brought along
        assert client.classify(["fine"])[0]["label"] == "good"


def answered(report, kind):
    return sum(count for (_, what, code), count in report.counts.items() if what == kind and code in ("OK", "200"))


def test_the_requests_are_the_same_each_time_and_of_all_kinds(film_path, tmp_path):
    fuzz = Fuzz({"film": film_path}, tmp_path, 3)
    other = Fuzz({"film": film_path}, _made(tmp_path / "other"), 4)
    for make, again, kinds in (
        (fuzz.messages, other.messages, {"noise", "mutant", "tensor", "spec", "lie", "right", "examples", "tasks",
                                         "about", "spliced", "reload"}),
        (fuzz.exchanges, other.exchanges, {"values", "mutant", "path", "bytes", "framing", "document", "gzip",
                                           "members", "spliced", "cut", "repeated", "chunked"}),
    ):  # fmt: skip
        made = list(make(1000))
        assert made == list(make(1000)) != list(again(1000))
        assert {request.kind for request in made} == kinds
    big = [i for i, request in enumerate(fuzz.messages(40, 2)) if request.kind == "big"]
    assert big == [19, 39]
    assert next(itertools.islice(hostile.messages(0, 1, 1), 1)).data.count(b"fine ") == hostile.BIG // 5


def _made(folder):
    folder.mkdir()
    return folder


@pytest.mark.slow
def test_a_few_hundred_hostile_requests(film_path, tmp_path):
    fuzz = Fuzz({"film": film_path}, tmp_path, SEED)
    with fuzz.server() as (server, publisher):
        report = fuzzing.Report(server.alive, str(film_path), str(ROOT), sys.prefix)
        run(fuzz, server, publisher, FEW, 0, report, tmp_path / "last.jsonl")
    assert answered(report, "right") > 5 and answered(report, "document") > 5


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--enable_batching",)], ids=["each_alone", "batched"])
def test_very_many_hostile_requests(models, flags, tmp_path):
    fuzz = Fuzz(models, tmp_path, SEED)
    with fuzz.server(*flags) as (server, publisher):
        report = fuzzing.Report(server.alive, str(models["film"]), str(ROOT), sys.prefix)
        run(fuzz, server, publisher, REQUESTS // 2, 100, report, tmp_path / "last.jsonl")
    for kind in ("right", "examples", "tasks", "about", "document", "gzip", "members", "repeated", "chunked"):
        assert answered(report, kind), kind
