"""Verification of an export: its golden requests, replayed on the exported files or on a server."""

import dataclasses
import os
from collections.abc import Callable, Sequence

import grpc
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.lite.fast_path import FOLDER, FastPath
from bert_tf.serving.client.call_errors import explain
from bert_tf.serving.client.channel import MAX_RESPONSE_BYTES, Tls, open_channel
from bert_tf.serving.client.requests import DEFAULT, clean, parse_answer
from bert_tf.serving.errors import GRPC_BYTES, ServingError
from bert_tf.serving.exports import find_export, open_export
from bert_tf.serving.golden_requests import GOLDEN_METHODS, Golden, Outputs, difference, outputs_of, read_goldens
from bert_tf.serving.server.request_context import INTERNAL
from bert_tf.serving.server.scheduling import Scheduler
from bert_tf.serving.server.versions import direct
from bert_tf.utils.resources import cores
from bert_tf.utils.tensorflow_internals import SavedModelLoader

# Of float32, between one kind of processor and another; of bfloat16, whose numbers have 8 bits; of int8, where the last
# digit of a float32 decides how a number is rounded to 8 bits, which accumulates over layers.
_TOLERANCE, _COARSE_TOLERANCES = 1e-4, {tf.int8: 0.1, tf.bfloat16: 2e-2, tf.float16: 5e-3}
_REFUSALS = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)

_SERVICE = "/tensorflow.serving.PredictionService"

# A golden request -> its current response, or None if another engine answers such requests; raises ServingError if the
# request is rejected.
Answer = Callable[[Golden], Outputs | None]


@dataclasses.dataclass
class Verdict:
    """Result of the golden requests of a signature.

    Attributes:
        signature: name of the signature.
        requests: number of requests.
        largest: the largest difference of a number, as in `difference`; infinite if a request was
            rejected, or strings or integers differ.
        problems: one sentence per failed request.
    """

    signature: str
    requests: int = 0
    largest: float = 0.0
    problems: list[str] = dataclasses.field(default_factory=list)


def verify(
    model: str, server: str | None = None, model_name: str = "default", timeout: float = 60.0,
    tolerance: float | None = None, tls: Tls | None = None,
) -> list[Verdict]:  # fmt: skip
    """Replays an export's golden requests and compares the outputs.

    Args:
        model: the export's directory of numbered versions, of which the newest is used, or one version's directory.
        server: "host:port" of a model server's gRPC interface; if None, the model is loaded in this process.
        model_name: name of the model on the server.
        timeout: seconds per request.
        tolerance: as in `difference`; if None, 1e-4, or 0.02 if weights are bfloat16, 0.005 if float16, 0.1 if int8.
        tls: encryption of the connection; None for no encryption.

    Returns:
        One verdict per signature, in the order of the requests.

    Raises:
        ValueError: `model` is not an export, it has no golden requests, its files are damaged, or the server has no
            such model.
        ConnectionError: no server responds.
        TimeoutError: a response takes too long.
    """
    path = find_export(model)
    goldens = read_goldens(path)
    tolerance = default_tolerance(path) if tolerance is None else tolerance
    if server is None:
        loaded = open_export(path)
        try:
            verdicts = judge(goldens, local_answer(loaded), tolerance)
        finally:
            loaded.close()
        of_texts = [each for each in goldens if (each.kind, each.signature) == ("predict", DEFAULT)]
        if os.path.isdir(os.path.join(path, FOLDER)):
            verdicts += judge(of_texts, fast_path_answer(FastPath(path, cores())), tolerance, " (LiteRT)")
        return verdicts
    with open_channel(server, tls) as channel:
        return judge(goldens, remote_answer(channel, server, model_name, timeout, path), tolerance)


def judge(goldens: Sequence[Golden], answer: Answer, tolerance: float, ending: str = "") -> list[Verdict]:
    """Returns one verdict per signature in `goldens`, with `ending` after its name."""
    verdicts = {}
    for golden in goldens:
        try:
            outputs = answer(golden)
            if outputs is None:
                continue
            largest, problem = difference(golden.outputs, outputs, tolerance)
        except ServingError as error:
            largest, problem = float("inf"), f"refused: {error.cut_message(GRPC_BYTES)}"
        verdict = verdicts.setdefault(golden.signature, Verdict(golden.signature + ending))
        verdict.requests += 1
        verdict.largest = max(verdict.largest, largest)
        if problem:
            verdict.problems.append(f"{verdict.signature}, request {verdict.requests}: {problem}")
    return list(verdicts.values())


def local_answer(model) -> Answer:
    """Returns a function that queries a `SavedModel`."""

    compute = direct(model, Scheduler())

    def answer(golden):
        signature = model.signatures.get(golden.signature)
        if signature is None:
            raise ServingError(grpc.StatusCode.NOT_FOUND, "the signature does not exist")
        given = golden.request.inputs if golden.kind == "predict" else ("inputs",)
        if set(given) != set(signature.inputs) or not set(golden.outputs) <= set(signature.outputs):
            raise ServingError(grpc.StatusCode.INVALID_ARGUMENT, "the signature has other inputs or outputs")
        outputs = compute(signature, golden.inputs(signature), list(golden.outputs), INTERNAL)
        if golden.kind == "regress":  # [n, 1] and [n] are equivalent
            return {name: np.ravel(array) for name, array in outputs.items()}
        return outputs

    return answer


def fast_path_answer(fast_path: FastPath) -> Answer:
    """Returns a function that asks LiteRT's model next to a SavedModel, which answers longer texts."""

    def answer(golden):
        texts = {name: tf.make_ndarray(tensor) for name, tensor in golden.request.inputs.items()}
        answer_and_counts = fast_path.answer(texts)
        return answer_and_counts and answer_and_counts[0]

    return answer


def remote_answer(channel: grpc.Channel, server: str, model_name: str, timeout: float, path: str) -> Answer:
    """Returns a function that queries a server; logs a warning if its version is not the one in `path`."""
    calls = {kind: channel.unary_unary(f"{_SERVICE}/{name}") for kind, (name, _) in GOLDEN_METHODS.items()}
    seen = set()

    def answer(golden):
        request = type(golden.request).FromString(golden.request.SerializeToString())
        request.model_spec.name = model_name
        try:
            data = calls[golden.kind](request.SerializeToString(), timeout=timeout)
        except grpc.RpcError as error:
            if error.code() in _REFUSALS:
                raise ServingError(error.code(), clean(error.details() or "")) from error
            raise explain(error, server, model_name, timeout) from error
        response = parse_answer(data, GOLDEN_METHODS[golden.kind][1], MAX_RESPONSE_BYTES)
        number, wanted = response.model_spec.version.value, os.path.basename(os.path.realpath(path))
        if number not in seen and wanted.isdecimal() and int(wanted) != number:
            logging.warning("The server uses version %d, but the golden requests are for version %s.", number, wanted)
        seen.add(number)
        return outputs_of(golden.kind, response)

    return answer


def default_tolerance(path: str) -> float:
    """Returns the difference to allow by default: more if the SavedModel in `path` computes in 16 bits or int8."""
    try:
        weights = tf.train.load_checkpoint(os.path.join(path, "variables", "variables"))
    except (tf.errors.OpError, ValueError) as error:
        raise ValueError(f"{path} has no readable weights: {error}. Export it again.") from error
    dtypes = {*weights.get_variable_to_dtype_map().values(), *_dtypes_of_constants(path)}
    return max((_COARSE_TOLERANCES.get(dtype, _TOLERANCE) for dtype in dtypes), default=_TOLERANCE)


def _dtypes_of_constants(path):
    """Returns the dtypes of the constants of an export, which may be weights."""
    try:
        graph = SavedModelLoader(path).get_meta_graph_def_from_tags(["serve"]).graph_def
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{path} is not a complete SavedModel: {error}. Export it again.") from error
    constants = (node for function in graph.library.function for node in function.node_def if node.op == "Const")
    return {tf.as_dtype(node.attr["dtype"].type) for node in constants}
