"""What a server does under load: many callers, batches beside none and beside rows of 128, three times the peak.

    python benchmarks/serving_load.py EXPORT_DIR TEXTS.txt
    python benchmarks/serving_load.py EXPORT_DIR TEXTS.txt --embedder=EXPORT_DIR --encoder=MODEL
    python benchmarks/serving_load.py EXPORT_DIR TEXTS.txt --batched="tensorflow_model_server --enable_batching" \
        --unbatched=tensorflow_model_server

EXPORT_DIR is a model whose default signature takes `text` and whose `ids` takes rows; TEXTS has a text a line. The two
commands start servers; model, name and ports are added to them. Requests carry one text each and come from this
process, on the same machine. `--parts` chooses among throughput, overload and vectors.

Of rows of 128 the client makes the pieces before the clock runs: the server is spared its tokenizer there.
"""

import argparse
import asyncio
import contextlib
import os
import pathlib
import random
import shlex
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy as np

from bert_tf.serving import Client, Retry
from bert_tf.serving.client.load_calls import grpc_bodies, over_grpc
from bert_tf.serving.client.load_generation import OK, ask_at_rate, ask_by_callers
from bert_tf.serving.client.load_report import report_lines, summarize
from bert_tf.serving.client.requests import ModelTarget
from bert_tf.utils.ports import free_ports

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_OURS = f"{sys.executable} -m bert_tf serve"
_NAME, _ROW, _MANY = "model", 128, 64
_PARTS = ("throughput", "overload", "vectors")


@contextlib.contextmanager
def running(command, base_path):
    """Starts a server and yields its address once it answers."""
    port, rest_port = free_ports(2)
    flags = [f"--model_base_path={os.path.abspath(base_path)}", f"--model_name={_NAME}", f"--port={port}",
             f"--rest_api_port={rest_port}"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", str(_ROOT))}
    process = subprocess.Popen([*shlex.split(command), *flags], env=environment, stderr=subprocess.DEVNULL)
    address = f"localhost:{port}"
    try:
        _wait_for(process, address)
        yield address
    finally:
        process.terminate()
        process.wait()


def _wait_for(process, address):
    with Client(address, _NAME, retry=Retry(1)) as client:
        while process.poll() is None:
            with contextlib.suppress(ValueError, OSError):  # not yet, or the model is still being loaded
                client.signatures()
                return
            time.sleep(0.5)
    raise RuntimeError(f"The server ended with {process.returncode}: {shlex.join(process.args)}")


def measure(address, bodies, callers=None, rate=None, seconds=10.0):
    """Returns the samples of one run against a server that is warm."""

    async def ask():
        async with over_grpc(address, ModelTarget(_NAME), bodies, 60.0) as send:
            await ask_by_callers(send, 8, 2.0)
            return await (ask_at_rate(send, rate, seconds) if rate else ask_by_callers(send, callers, seconds))

    return asyncio.run(ask())


def text_bodies(texts):
    return grpc_bodies(ModelTarget(_NAME), [{"text": [text]} for text in texts])


def padded_bodies(export_dir, texts):
    """Returns requests of one row of `_ROW` pieces each, as clients send that pad every text to the longest."""
    from bert_tf.tokenization.wordpiece import WordPieceTokenizer

    newest = max(int(path.name) for path in pathlib.Path(export_dir).iterdir() if path.name.isdigit())
    tokenizer = WordPieceTokenizer(pathlib.Path(export_dir, str(newest), "assets", "vocab.txt"))
    rows = {name: np.asarray(values) for name, values in tokenizer(texts, None, _ROW).items()}
    return grpc_bodies(
        ModelTarget(_NAME),
        [{name: values[i : i + 1] for name, values in rows.items()} for i in range(len(texts))],
        "ids",
    )


def compare_throughput(options, texts):
    """Says how many requests a second each way of asking gives, measured in turns."""
    short, padded = text_bodies(texts), padded_bodies(options.export_dir, texts)
    with running(options.batched, options.export_dir) as batched, running(options.unbatched, options.export_dir) as one:
        ways = {
            "batched, 1 caller": (batched, short, 1),
            f"batched, {_MANY} callers": (batched, short, _MANY),
            f"unbatched, {_MANY} callers": (one, short, _MANY),
            f"batched, {_MANY} callers, rows of {_ROW}": (batched, padded, _MANY),
        }
        found = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, (address, bodies, callers) in ways.items():
                summary = summarize(measure(address, bodies, callers, seconds=options.seconds), 1)
                print("\n".join(report_lines(name, summary)), flush=True)
                found[name].append(summary["requests_per_second"])
    alone, many, unbatched, rows = (statistics.median(each) for each in found.values())
    _tell(f"{_MANY} callers beside one", many / alone, "at least", 2.5)
    _tell("batched beside unbatched", many / unbatched, "at least", 1.6)
    _tell(f"batched beside rows of {_ROW}", many / rows, "at least", 3.0)


def overload(options, texts):
    """Says what latencies are at 70% of the peak, and what becomes of three times the peak."""
    bodies = text_bodies(texts)
    with running(options.batched, options.export_dir) as address:
        peak = summarize(measure(address, bodies, _MANY, seconds=options.seconds), 1)["requests_per_second"]
        usual = measure(address, bodies, rate=0.7 * peak, seconds=2 * options.seconds)
        flood, after = asyncio.run(_flood(address, bodies, peak, options.seconds))
    for name, samples in ((f"70% of {peak:.0f}/s", usual), ("three times the peak", flood), ("afterwards", after)):
        print("\n".join(report_lines(name, summarize(samples, 1))), flush=True)
    latency = summarize(usual, 1)["latency_ms"]
    _tell("p99 beside p50 at 70% of the peak", latency["p99"] / latency["p50"], "at most", 10.0)
    told = summarize(flood, 1)
    lost = sum(count for code, count in told["codes"].items() if code not in (OK, "UNAVAILABLE"))
    _tell("requests neither answered nor refused at three times the peak", lost, "at most", 0)
    _tell("answered at three times the peak, beside the peak", told["requests_per_second"] / peak, "at least", 0.7)
    if refusals := [sample.seconds - sample.late for sample in flood if sample.code != OK]:
        middle = 1e3 * statistics.median(refusals)
        _tell("median ms until a refusal, the generator's own delay off", middle, "at most", 100)
    late = [sample for sample in after if sample.due > 2]
    _tell("refused from 2 s after it", sum(sample.code != OK for sample in late), "at most", 0)
    slow = np.percentile([sample.seconds * 1e3 for sample in late], 99)
    _tell("p99 ms from 2 s after it, beside that at 70%", slow / latency["p99"], "at most", 2.0)


async def _flood(address, bodies, peak, seconds):
    """Returns the samples at three times the peak, and those of half of it from the moment at which that ends."""
    async with over_grpc(address, ModelTarget(_NAME), bodies, 60.0) as send:
        flood = asyncio.create_task(ask_at_rate(send, 3 * peak, seconds))
        await asyncio.sleep(seconds)
        return await asyncio.gather(flood, ask_at_rate(send, 0.5 * peak, seconds, seed=1))


def compare_vectors(options, texts):
    """Says how many texts a second become vectors, through the server and in this process, measured in turns."""
    from bert_tf.inference.sentence_encoder import SentenceEncoder

    encoder = SentenceEncoder(options.encoder)
    with running(options.batched, options.embedder) as address, Client(address, _NAME, timeout=60) as client:
        ways = {
            "in process": lambda: encoder(texts),
            f"server, {_MANY} texts in flight": lambda: np.array(
                [row["embedding"] for row in client.stream(texts, in_flight=_MANY)]
            ),
            "server, encode()": lambda: client.encode(texts),
        }
        expected = ways["in process"]()
        found = {name: [] for name in ways}
        for _ in range(options.rounds + 1):  # the first is for warming up
            for name, encode in ways.items():
                start = time.perf_counter()
                vectors = encode()
                found[name].append(len(texts) / (time.perf_counter() - start))
                np.testing.assert_allclose(vectors, expected, atol=1e-4)
    rates = {name: statistics.median(each[1:]) for name, each in found.items()}
    for name, rate in rates.items():
        print(f"{name}: {rate:.0f} texts/s, {rate / rates['in process']:.2f} of in process", flush=True)


def _tell(what, value, bound, wanted):
    holds = value >= wanted if bound == "at least" else value <= wanted
    print(f"{what}: {value:.2f}, wanted {bound} {wanted:g}: {'yes' if holds else 'NO'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export_dir")
    parser.add_argument("texts")
    parser.add_argument("--batched", default=f"{_OURS} --enable_batching")
    parser.add_argument("--unbatched", default=_OURS)
    parser.add_argument("--embedder")
    parser.add_argument("--encoder")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=_PARTS)
    options = parser.parse_args()
    texts = [line for line in pathlib.Path(options.texts).read_text(encoding="utf-8").split("\n") if line]
    random.Random(0).shuffle(texts)
    if "throughput" in options.parts:
        compare_throughput(options, texts)
    if "overload" in options.parts:
        overload(options, texts)
    if "vectors" in options.parts and options.embedder and options.encoder:
        compare_vectors(options, texts)


if __name__ == "__main__":
    main()
