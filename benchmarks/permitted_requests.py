"""What the largest requests that a server permits take: seconds and memory, of one alone and of as many as it takes.

    python benchmarks/permitted_requests.py
    python benchmarks/permitted_requests.py --sizes tiny base --flags="--max_batch_size=64 --grpc_max_threads=8"

Models have random weights. Of each kind of request the largest is sought that is not refused; then it is sent alone,
and by as many callers at once as `serve` has threads, beside a short request that is asked all the while. Every kind
has a server of its own. Prints the rows of the table in SECURITY.md. A server that leaves the machine less than
`--spare_mib` is ended, and its row says so.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import shlex
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import grpc
import numpy as np

from bert_tf.cli.serve import FLAGS
from bert_tf.serving.limits import Limits
from bert_tf.utils.proxies import exempt_local
from tests.serving.server_process import running

_PREDICTION = "/tensorflow.serving.PredictionService/"
_SIZES = {
    "tiny": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64},
    "MiniLM": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
}
_POSITIONS = 512
_WORDS = 30_000
_ROW = "." * (_POSITIONS - 2)  # a token for every byte, as many as a row takes
_LIMITS = Limits()
_DEFAULTS = {flag.name: flag.default for flag in FLAGS}
_STEP = 0.75  # from a size that is refused to the next
_CHANNEL = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1))  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of request.

    Attributes:
        name: what it is, with {} for its size.
        make: make(size) -> its bytes.
        most: the size to begin with.
        method: of gRPC; "" for a REST body.
        headers: of REST.
        sought: whether smaller ones are tried until one is not refused.
        path: of REST.
    """

    name: str
    make: Callable[[int], bytes]
    most: int = 1
    method: str = "Predict"
    headers: tuple[tuple[str, str], ...] = ()
    sought: bool = True
    path: str = "/v1/models/film:predict"


def export_model(name: str, folder: pathlib.Path) -> pathlib.Path:
    """Exports a classifier with random weights that explains itself; returns its base path."""
    import keras

    from bert_tf.checkpoints import tf1
    from bert_tf.checkpoints.loading import save_description
    from bert_tf.export.export_options import ExportOptions
    from bert_tf.export.trained_model import export_trained
    from bert_tf.models.config import EncoderConfig
    from bert_tf.tasks.base import TrainedTask
    from bert_tf.tasks.classification.task import ClassificationTask
    from bert_tf.tasks.registry import save_task
    from bert_tf.tokenization.wordpiece import WordPieceTokenizer

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *(f"w{i}" for i in range(_WORDS))]
    config = EncoderConfig(vocab_size=len(vocabulary), max_position_embeddings=_POSITIONS, **_SIZES[name])
    task = ClassificationTask(config, 2, labels=["bad", "good"])
    tokenizer = WordPieceTokenizer(vocabulary)
    tokenizer.save(folder)
    save_description(folder, config, tokenizer, task.labels)
    save_task(folder, TrainedTask(task, ("text",), _POSITIONS))
    keras.utils.set_random_seed(0)
    tf1.write_tf1(str(folder / "model.ckpt-1"), task.build_model().variables)
    return pathlib.Path(
        export_trained(str(folder), options=ExportOptions(explanations=("attention", "attributions")))
    ).parent


def kinds(layers: int) -> list[Kind]:
    """Returns all kinds, of a model of so many layers."""
    rows = _LIMITS.max_batch_size
    gzip = (("Content-Encoding", "gzip"),)
    text_bytes, all_bytes = _LIMITS.max_text_bytes, _LIMITS.max_input_text_bytes
    body_bytes = _LIMITS.max_body_bytes
    return [
        Kind("{} texts of one byte", lambda n: predict(text=np.array([b"."] * n, object)), rows),
        Kind("{} texts of 510 bytes", lambda n: predict(text=np.array([_ROW.encode()] * n, object)), rows),
        Kind(
            f"{{}} texts of {text_bytes / 2**20:g} MiB",
            lambda n: predict(text=np.array([b"." * text_bytes] * n, object)),
            all_bytes // text_bytes,
        ),  # fmt: skip
        Kind("`ids` [{}, 512]", lambda n: predict("ids", **ids(n, _POSITIONS)), rows),
        Kind("`ids` [1, {}]", lambda n: predict("ids", **ids(1, n)), _LIMITS.max_tensor_elements),
        Kind("Classify, {} examples of 510 bytes", examples, rows, "Classify"),
        Kind(f"`attention`, {{}} texts, {layers} layers", lambda n: explain(n, layers), rows),
        Kind("`attributions`, {} texts", lambda n: explain(n, 0), rows),
        Kind("JSON, `ids` [{}, 512]", json_ids, rows, ""),
        Kind("TEI, `/predict` of {} texts of 510 bytes", tei_predict, rows, "", path="/predict"),
        Kind("TEI, `/tokenize` of {} bytes", tei_tokenize, text_bytes, "", path="/tokenize"),
        Kind("KServe, `ids` [{}, 512]", kserve_ids, rows, "", path="/v2/models/film/infer"),
        Kind("JSON of 64 MiB in small values (refused)", lambda n: small_values(body_bytes), 1, "", (), False),
        Kind("gzip that unpacks to 64 MiB (refused)", lambda n: packed(small_values(body_bytes)), 1, "", gzip, False),
        Kind("gzip of 8 MiB of empty members (refused)", lambda n: packed(b"") * (2**23 // 20), 1, "", gzip, False),
        Kind(
            "gRPC message of 63 MiB (refused)",
            lambda n: predict(text=np.array([b"." * (63 * 2**20)], object)),
            1,
            "Predict",
            (),
            False,
        ),  # fmt: skip
    ]


def predict(signature: str = "serving_default", **arrays: np.ndarray) -> bytes:
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "film", signature
    for alias, array in arrays.items():
        request.inputs[alias].CopyFrom(tf.make_tensor_proto(array))
    return request.SerializeToString()


def ids(rows: int, width: int) -> dict[str, np.ndarray]:
    numbers = np.full([rows, width], 7, np.int32)
    return {"input_ids": numbers, "input_mask": np.ones_like(numbers), "segment_ids": np.zeros_like(numbers)}


def explain(texts: int, layers: int) -> bytes:
    text = np.array([_ROW.encode()] * texts, object)
    if layers:
        return predict("attention", text=text, layers=np.tile(np.arange(layers, dtype=np.int32), [texts, 1]))
    return predict("attributions", text=text, target=np.array([b""] * texts, object))


def examples(rows: int) -> bytes:
    from tensorflow_serving.apis import classification_pb2

    request = classification_pb2.ClassificationRequest()
    request.model_spec.name, request.model_spec.signature_name = "film", "classify"
    for _ in range(rows):
        feature = request.input.example_list.examples.add().features.feature["text"]
        feature.bytes_list.value.append(_ROW.encode())
    return request.SerializeToString()


def json_ids(rows: int) -> bytes:
    row = {alias: array[0].tolist() for alias, array in ids(1, _POSITIONS).items()}
    return json.dumps({"signature_name": "ids", "instances": [row] * rows}).encode()


def tei_predict(rows: int) -> bytes:
    return json.dumps({"inputs": [[_ROW]] * rows, "truncate": False}).encode()


def tei_tokenize(size: int) -> bytes:
    return json.dumps({"inputs": "." * size}).encode()


def kserve_ids(rows: int) -> bytes:
    tensors = [
        {"name": alias, "shape": list(array.shape), "datatype": "INT32", "data": array.ravel().tolist()}
        for alias, array in ids(rows, _POSITIONS).items()
    ]
    return json.dumps({"inputs": tensors, "parameters": {"signature_name": "ids"}}).encode()


def small_values(size: int) -> bytes:
    head, end = b'{"instances": [', b"1]}"
    return head + b"1," * ((size - len(head) - len(end)) // 2) + end


def packed(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


class Caller:
    """Asks one server.

    Args:
        server: a `ServerProcess`.
        patience: seconds for an answer.
    """

    def __init__(self, server, patience: float):
        self._server, self._patience = server, patience
        self._channel = grpc.insecure_channel(f"127.0.0.1:{server.port}", _CHANNEL)

    def send(self, kind: Kind, data: bytes) -> str:
        """Sends one request; returns "OK" or why there was no answer."""
        if not kind.method:
            return self._post(kind.path, data, dict(kind.headers))
        try:
            self._channel.unary_unary(_PREDICTION + kind.method)(data, timeout=self._patience)
        except grpc.RpcError as error:
            return error.code().name
        return "OK"

    def _post(self, path, data, headers):
        url = f"http://127.0.0.1:{self._server.rest_port}{path}"
        try:
            urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=self._patience).read()
        except urllib.error.HTTPError as error:
            return str(error.code)
        except OSError as error:
            return type(error).__name__
        return "OK"


@contextlib.contextmanager
def short_requests(server):
    """Yields a list that grows by the seconds of each short request, asked until the block ends."""
    data, found, end = predict(text=np.array([b"."], object)), [], threading.Event()
    caller, kind = Caller(server, 300), Kind("short", lambda n: data)

    def ask():
        while not end.wait(0.2) and server.alive():
            started = time.monotonic()
            if caller.send(kind, data) == "OK" or time.monotonic() - started > 1:
                found.append(time.monotonic() - started)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield found
    finally:
        end.set()
        thread.join()


def largest(kind: Kind, caller: Caller) -> tuple[int, bytes, str, float]:
    """Returns (size, request, answer, its seconds) of the largest request of a kind that is not refused."""
    size = kind.most
    while True:
        data = kind.make(size)
        started = time.monotonic()
        answer = caller.send(kind, data)
        seconds = time.monotonic() - started
        refused = answer in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "400", "413", "422", "429", "503")
        if not (refused and kind.sought) or size == 1:
            return size, data, answer, seconds
        size = max(1, int(size * _STEP))


def at_once(caller: Caller, jobs: list[tuple[Kind, bytes]]) -> tuple[list[str], float]:
    """Sends all at once; returns the answers and the seconds until the last."""
    answers = []
    threads = [threading.Thread(target=lambda job=job: answers.append(caller.send(*job))) for job in jobs]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers, time.monotonic() - started


@contextlib.contextmanager
def watched(server, spare_mib: int):
    """Ends the server in the block where the machine has less memory than `spare_mib` left."""
    end = threading.Event()

    def watch():
        while not end.wait(0.05) and server.alive():
            lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
            left = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
            if left < spare_mib * 1024:
                server.process.kill()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def measure(model: str, base: pathlib.Path, kind: Kind, options) -> tuple[str, tuple[Kind, bytes]]:
    """Returns a row of the table, and the request that it is about."""
    with tempfile.TemporaryDirectory() as folder, started(base, folder, options) as (server, caller):
        idle = server.memory()
        size, data, answer, seconds = largest(kind, caller)
        alone = peak(server) - idle
        count = options.at_once or _DEFAULTS["grpc_max_threads" if kind.method else "rest_api_num_threads"]
        tail = together(server, caller, [(kind, data)] * count, idle)
    words = "" if answer == "OK" or not kind.sought else f" ({answer})"
    name = kind.name.format(f"{size:,}") + words
    return f"| {model} | {name} | {seconds:.1f} | {alone:,.0f} MiB | {tail} |", (kind, data)


def together(server, caller: Caller, jobs: list[tuple[Kind, bytes]], idle: float) -> str:
    """Returns the second half of a row: how many at once, how many were answered, seconds, memory, a short request."""
    with short_requests(server) as short:
        answers, seconds = at_once(caller, jobs)
    if not server.alive():
        return f"{len(jobs)} | the machine's memory was not enough | {seconds:.0f} | | "
    good = sum(answer == "OK" for answer in answers)
    return f"{len(jobs)} | {good} | {seconds:.0f} | {peak(server) - idle:,.0f} MiB | {max(short, default=0):.1f}"


def peak(server) -> float:
    """Returns the most MiB that a server ever had; 0 for one that has ended."""
    return server.memory("VmHWM") if server.alive() else 0.0


@contextlib.contextmanager
def started(base, folder, options):
    """Yields (a server, a Caller)."""
    with running(base, pathlib.Path(folder, "log"), *shlex.split(options.flags)) as server:
        caller = Caller(server, options.patience)
        caller.send(Kind("first", bytes), predict(text=np.array([b"."], object)))
        with watched(server, options.spare_mib):
            yield server, caller


def everything(model: str, base: pathlib.Path, jobs: list[tuple[Kind, bytes]], options) -> str:
    """Returns the row of all kinds at once, in turn as many over each protocol as it has threads."""
    chosen = []
    for method, threads in ((True, "grpc_max_threads"), (False, "rest_api_num_threads")):
        some = [job for job in jobs if bool(job[0].method) == method]
        chosen += [some[i % len(some)] for i in range(options.at_once or _DEFAULTS[threads]) if some]
    with tempfile.TemporaryDirectory() as folder, started(base, folder, options) as (server, caller):
        return f"| {model} | all of these together | | | {together(server, caller, chosen, server.memory())} |"


def main():
    exempt_local()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", choices=_SIZES, default=list(_SIZES), help="of models")
    parser.add_argument("--flags", default="", help="of the server")
    parser.add_argument("--kinds", default="", help="only those whose names have this in them")
    parser.add_argument("--at_once", type=int, help="requests at once; default: as many as the server has threads")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds that a caller waits")
    parser.add_argument("--spare_mib", type=int, default=2048, help="memory that must be left to the machine")
    options = parser.parse_args()
    for model in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            base, jobs = export_model(model, pathlib.Path(folder)), []
            for kind in kinds(_SIZES[model]["num_hidden_layers"]):
                if options.kinds in kind.name:
                    row, job = measure(model, base, kind, options)
                    jobs.append(job)
                    print(row, flush=True)
            print(everything(model, base, jobs, options), flush=True)


if __name__ == "__main__":
    main()
