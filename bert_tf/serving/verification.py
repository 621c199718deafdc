"""Holds a model, in its folder or behind a server, to the golden requests that its export brought along."""

import dataclasses
import os
from collections.abc import Callable, Sequence

import grpc
import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow.python.saved_model import loader_impl
from tensorflow_serving.apis import classification_pb2, predict_pb2, regression_pb2

from bert_tf.serving.client.channel import MAX_ANSWER_BYTES, Tls, open_channel
from bert_tf.serving.client.errors import explain
from bert_tf.serving.client.requests import clean, parse_answer
from bert_tf.serving.errors import ServingError
from bert_tf.serving.exports import find_export, open_export
from bert_tf.serving.golden import Golden, Outputs, difference, outputs_of, read_goldens
from bert_tf.serving.server.call import INTERNAL
from bert_tf.serving.server.versions import direct
from bert_tf.serving.server.workload import Workload

# Of float32, between one kind of processor and another; of bfloat16, whose numbers have 8 bits; of int8, where the last
# digit of a float32 decides how a number is rounded to 8 bits, which layer after layer adds to.
_TOLERANCE, _COARSE_TOLERANCES = 1e-4, {tf.int8: 0.1, tf.bfloat16: 2e-2}
_REFUSALS = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)

_SERVICE = "/tensorflow.serving.PredictionService"
_METHODS = {  # kind of a golden request: name, message of the answer
    "predict": ("Predict", predict_pb2.PredictResponse),
    "classify": ("Classify", classification_pb2.ClassificationResponse),
    "regress": ("Regress", regression_pb2.RegressionResponse),
}

# A golden request -> the answer to it now; raises ServingError where the request is refused.
Answer = Callable[[Golden], Outputs]


@dataclasses.dataclass
class Verdict:
    """How a signature did.

    Attributes:
        signature: its name.
        requests: how many it was asked.
        largest: the greatest difference of a number, as `golden.difference` measures it; infinite where a request was
            refused, or strings or integers differ.
        problems: what was wrong, a sentence for each request that went wrong.
    """

    signature: str
    requests: int = 0
    largest: float = 0.0
    problems: list[str] = dataclasses.field(default_factory=list)


def verify(
    model: str, server: str | None = None, model_name: str = "default", timeout: float = 60.0,
    tolerance: float | None = None, tls: Tls | None = None,
) -> list[Verdict]:  # fmt: skip
    """Asks a model the golden requests of its export.

    Args:
        model: the export's folder of numbered versions, of which the newest is meant, or one version's folder.
        server: "host:port" of a model server's gRPC face that serves it; None: the model is loaded here.
        model_name: its name there.
        timeout: seconds that the server has for a request.
        tolerance: as in `golden.difference`; None: 1e-4, where weights are bfloat16 0.02, int8 0.1.
        tls: how the connection is encrypted; None: it is not.

    Returns:
        a verdict for each signature, in the order in which they were asked.

    Raises:
        ValueError: `model` is no export, it has no golden requests, its files are damaged, or the server knows no such
            model.
        ConnectionError: no server answers.
        TimeoutError: it takes too long.
    """
    path = find_export(model)
    goldens = read_goldens(path)
    tolerance = default_tolerance(path) if tolerance is None else tolerance
    if server is None:
        loaded = open_export(path)
        try:
            return judge(goldens, local_answer(loaded), tolerance)
        finally:
            loaded.close()
    with open_channel(server, tls) as channel:
        return judge(goldens, remote_answer(channel, server, model_name, timeout, path), tolerance)


def judge(goldens: Sequence[Golden], answer: Answer, tolerance: float) -> list[Verdict]:
    """Returns a verdict for each signature that `goldens` ask."""
    verdicts = {}
    for golden in goldens:
        verdict = verdicts.setdefault(golden.signature, Verdict(golden.signature))
        verdict.requests += 1
        try:
            largest, problem = difference(golden.outputs, answer(golden), tolerance)
        except ServingError as error:
            largest, problem = float("inf"), f"refused: {error.short_message}"
        verdict.largest = max(verdict.largest, largest)
        if problem:
            verdict.problems.append(f"{golden.signature}, request {verdict.requests}: {problem}")
    return list(verdicts.values())


def local_answer(model) -> Answer:
    """Returns what asks a `SavedModel`."""

    compute = direct(model, Workload())

    def answer(golden):
        signature = model.signatures.get(golden.signature)
        if signature is None:
            raise ServingError(grpc.StatusCode.NOT_FOUND, "there is no such signature")
        if golden.input_names != set(signature.inputs) or not set(golden.outputs) <= set(signature.outputs):
            raise ServingError(grpc.StatusCode.INVALID_ARGUMENT, "the signature has other inputs or outputs")
        outputs = compute(signature, golden.inputs(signature), list(golden.outputs), INTERNAL)
        if golden.kind == "regress":  # [n, 1] and [n] are one answer
            return {name: np.ravel(array) for name, array in outputs.items()}
        return outputs

    return answer


def remote_answer(channel: grpc.Channel, server: str, model_name: str, timeout: float, path: str) -> Answer:
    """Returns what asks a server; it says in the log where that serves another version than the one in `path`."""
    calls = {kind: channel.unary_unary(f"{_SERVICE}/{name}") for kind, (name, _) in _METHODS.items()}
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
        response = parse_answer(data, _METHODS[golden.kind][1], MAX_ANSWER_BYTES)
        if response.model_spec.version.value not in seen:
            seen.add(response.model_spec.version.value)
            _compare_version(response.model_spec.version.value, path)
        return outputs_of(golden.kind, response)

    return answer


def default_tolerance(path: str) -> float:
    """Returns the difference to allow by default: more where the SavedModel in `path` computes in bfloat16 or int8."""
    try:
        weights = tf.train.load_checkpoint(os.path.join(path, "variables", "variables"))
    except (tf.errors.OpError, ValueError) as error:
        raise ValueError(f"{path} must have its weights. Received: {error}; export it again.") from error
    dtypes = {*weights.get_variable_to_dtype_map().values(), *_dtypes_of_constants(path)}
    return max((_COARSE_TOLERANCES.get(dtype, _TOLERANCE) for dtype in dtypes), default=_TOLERANCE)


def _dtypes_of_constants(path):
    """Returns the dtypes of the constants of an export, some or all of whose weights may be such."""
    try:
        graph = loader_impl.SavedModelLoader(path).get_meta_graph_def_from_tags(["serve"]).graph_def
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{path} must be a whole SavedModel. Received: {error}; export it again.") from error
    constants = (node for function in graph.library.function for node in function.node_def if node.op == "Const")
    return {tf.as_dtype(node.attr["dtype"].type) for node in constants}


def _compare_version(number, path):
    name = os.path.basename(os.path.realpath(path))
    if name.isdecimal() and int(name) != number:
        logging.warning("Version %d answers, and not version %s, whose golden requests these are.", number, name)
