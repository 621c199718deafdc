"""Replays an export's golden requests, on the exported files or on a server, and compares the outputs."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from absl import logging
from google.protobuf.message import DecodeError
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import classification_pb2, predict_pb2, prediction_log_pb2, regression_pb2

from bert_tf.serving.client.channel import MAX_ANSWER_BYTES, Tls, open_channel
from bert_tf.serving.client.client_core import explain
from bert_tf.serving.client.requests import clean, join_names, parse_answer
from bert_tf.serving.client.results import PREDICTED, RANKING
from bert_tf.serving.errors import GRPC_BYTES, ServingError
from bert_tf.serving.server.predict import INTERNAL, check_input, read_input
from bert_tf.serving.server.saved_model import SavedModel
from bert_tf.serving.server.scheduling import Scheduler
from bert_tf.serving.server.signatures import Signature, read_answer
from bert_tf.serving.server.version_folders import SAVED_MODEL, check_regular, explain_no_versions, find_versions
from bert_tf.serving.server.versions import direct
from bert_tf.serving.tensor_messages import check_missing
from bert_tf.utils.files import path_text
from bert_tf.utils.names import GOLDEN_REQUESTS
from bert_tf.utils.tensorflow_internals import SavedModelLoader

# === Exports ===


def find_export(model: str) -> str:
    """Returns the directory of a SavedModel: `model` itself, or its newest version.

    Raises:
        ValueError: there is no SavedModel.
    """
    model = path_text(model, "model")
    if os.path.isfile(os.path.join(model, SAVED_MODEL)):
        return model
    versions = find_versions(model) if os.path.isdir(model) else {}
    whole = {number: path for number, path in versions.items() if os.path.isfile(os.path.join(path, SAVED_MODEL))}
    if not whole:
        is_folder = os.path.isdir(model)
        found = "a directory without either" if is_folder else "not a directory"
        what = explain_no_versions(model) if is_folder else ""
        what = what or f"which is {found}; create one from a trained model with `bert-tf export`"
        raise ValueError(
            f"`model` must be a directory with {SAVED_MODEL}, or with numbered versions of it, as written by an "
            f"export; got {model}, {what}."
        )
    if len(whole) > 1:
        logging.info("Using version %d of %s, the newest of %d.", max(whole), model, len(whole))
    return whole[max(whole)]


def open_export(path: str):
    """Loads the `SavedModel` in a version's directory.

    Raises:
        ValueError: it cannot be loaded: a file is missing, damaged, or belongs to another model.
    """
    try:
        return SavedModel(path)
    except (ServingError, OSError, ValueError, tf.errors.OpError) as error:
        raise ValueError(f"{path} is not a complete SavedModel: {error}. Export it again.") from error


# === Golden ===
# Requests stored in an export, with the model's responses at that time.


FILE = os.path.join("assets.extra", GOLDEN_REQUESTS)

_SHOWN = 200  # bytes of a string

Outputs = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Golden:
    """A golden request and its expected response.

    Attributes:
        signature: name of the signature.
        kind: "predict", "classify" or "regress".
        request: a PredictRequest, ClassificationRequest or RegressionRequest.
        outputs: {output: array} of the response; strings as objects of type bytes.
    """

    signature: str
    kind: str
    request: Any
    outputs: Outputs

    def inputs(self, signature: Signature) -> dict[str, np.ndarray]:
        """Returns {input: array} for the graph; tf.Examples are serialized.

        Args:
            signature: the signature, which has inputs of these names.

        Raises:
            ServingError: the signature does not accept such tensors; no memory was allocated for them.
        """
        if self.kind == "predict":
            return {name: read_input(signature, name, proto) for name, proto in self.request.inputs.items()}
        examples = self.request.input.example_list.examples
        serialized = np.array([example.SerializeToString() for example in examples], object)
        check_input(signature, "inputs", types_pb2.DT_STRING, serialized.shape)
        return {"inputs": serialized}


def read_goldens(path: str) -> list[Golden]:
    """Returns the golden requests of the version in the directory `path`, in the file's order.

    Raises:
        ValueError: there are none, or their file is damaged.
    """
    file = os.path.join(path, FILE)
    if not os.path.exists(file):
        raise ValueError(
            f"{path} has no golden requests ({FILE}). Export the model again to "
            "create them."
        )
    try:
        check_regular(file)
        records = [record.numpy() for record in tf.data.TFRecordDataset(file)]
        goldens = [golden_of(prediction_log_pb2.PredictionLog.FromString(record)) for record in records]
    except (tf.errors.OpError, DecodeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"{file} does not hold TFRecords of PredictionLog with responses: {reason}. Export the model again."
        ) from error
    if not goldens:
        raise ValueError(f"{file} is empty. Export the model again.")
    return goldens


def golden_of(log: prediction_log_pb2.PredictionLog) -> Golden:
    """Returns the golden request in a PredictionLog; raises ValueError for other kinds."""
    kind = (log.WhichOneof("log_type") or "").removesuffix("_log")
    if kind not in _METHODS:
        raise ValueError(f"a record of the kind {kind or 'none'!r}")
    pair = getattr(log, f"{kind}_log")
    return Golden(pair.request.model_spec.signature_name, kind, pair.request, outputs_of(kind, pair.response))


def outputs_of(kind: str, response) -> Outputs:
    """Returns {output: array} from a response: for Classify `classes` and `scores`, for Regress `outputs` [n].

    Raises:
        ValueError: an output is malformed, or too large.
    """
    if kind == "predict":
        check_missing(response.outputs.values())
        return {name: read_answer(proto, name) for name, proto in response.outputs.items()}
    if kind == "regress":
        return {"outputs": np.array([each.value for each in response.result.regressions], np.float32)}
    rows = [row.classes for row in response.result.classifications]
    if len({len(row) for row in rows}) > 1:
        raise ValueError("The response must have the same number of classes for each example.")
    labels = np.array([[each.label.encode() for each in row] for row in rows], object)
    return {"classes": labels, "scores": np.array([[each.score for each in row] for row in rows], np.float32)}


def difference(expected: Outputs, got: Outputs, tolerance: float) -> tuple[float, str]:
    """Compares a response with the expected one.

    Args:
        expected: the expected response.
        got: the actual response.
        tolerance: allowed difference of numbers, multiplied by the expected number if that is over 1. A reranker's
            documents may change places if their scores differ by less than it does, and one of several labels may be
            predicted or not if its probability moved that way.

    Returns:
        the largest difference of a number, in the same measure, infinite if there is no number to compare; and the
        problem in words, or "".
    """
    if set(expected) != set(got):
        names = [join_names(sorted(each)) for each in (got, expected)]
        return float("inf"), f"the outputs are {names[0]} in place of {names[1]}"
    if set(RANKING) <= set(expected) and _is_order_of(got["order"], expected, tolerance):
        expected = {**expected, "order": got["order"]}
    if {"probabilities", PREDICTED} <= set(expected) and _are_marks_of(got, expected):
        expected = {**expected, PREDICTED: got[PREDICTED]}
    largest, problem = 0.0, ""
    for name in sorted(expected):
        distance, what = _distance(expected[name], got[name])
        largest = max(largest, distance)
        if distance > tolerance and not problem:
            problem = f"{name} {what}"
    return largest, problem


def _is_order_of(order, expected, tolerance):
    """Returns whether an order ranks the same documents, by scores that nowhere rise by more than the tolerances."""
    scores, right = expected["scores"], expected["order"]
    if order.shape != right.shape or not np.array_equal(np.sort(order), np.sort(right)):
        return False
    ranked = np.where(order < 0, -1e30, np.take_along_axis(scores.astype(np.float64), np.maximum(order, 0), -1))
    highest = ranked[:, :-1] + 2 * tolerance * np.maximum(1.0, np.abs(ranked[:, :-1]))
    return bool((ranked[:, 1:] <= highest).all())


def _are_marks_of(got, expected):
    """Returns whether labels are newly predicted only where probabilities rose, and no longer only where they fell."""
    arrays = [(each["probabilities"], each[PREDICTED]) for each in (expected, got)]
    if len({array.shape for pair in arrays for array in pair}) > 1:
        return False
    (before, was), (after, is_) = arrays
    return bool(np.where(is_ & ~was, after > before, True).all() and np.where(was & ~is_, after < before, True).all())


def _distance(expected, got):
    """Returns the largest difference of two arrays, and its description."""
    if expected.shape != got.shape or (expected.dtype == object) != (got.dtype == object):
        return float("inf"), f"is {_type(got)} in place of {_type(expected)}"
    if expected.dtype == object or not np.issubdtype(expected.dtype, np.inexact):
        wrong = np.argwhere(expected != got)
        if not len(wrong):
            return 0.0, ""
        index = tuple(wrong[0])
        values = (array[index] for array in (got, expected))
        there, right = (
            repr(each[:_SHOWN].decode("utf-8", "replace")) if isinstance(each, bytes) else str(each) for each in values
        )
        return float("inf"), f"is {there} in place of {right} in row {index[0]}"
    expected, got = expected.astype(np.float64), got.astype(np.float64)
    same = (expected == got) | (np.isnan(expected) & np.isnan(got))
    with np.errstate(invalid="ignore"):
        distances = np.where(same, 0.0, np.abs(expected - got) / np.maximum(1.0, np.abs(expected)))
    distances = np.where(np.isnan(distances), np.inf, distances)
    index = np.unravel_index(np.argmax(distances), distances.shape) if distances.size else ()
    if not index:
        return 0.0, ""
    return float(distances[index]), f"is {got[index]:.6g} in place of {expected[index]:.6g} in row {index[0]}"


def _type(array):
    return f"{'strings' if array.dtype == object else array.dtype} {list(array.shape)}"


# === Verification ===


# Of float32, between one kind of processor and another; of bfloat16, whose numbers have 8 bits; of int8, where the last
# digit of a float32 decides how a number is rounded to 8 bits, which accumulates over layers.
_TOLERANCE, _COARSE_TOLERANCES = 1e-4, {tf.int8: 0.1, tf.bfloat16: 2e-2, tf.float16: 5e-3}
_REFUSALS = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)

_SERVICE = "/tensorflow.serving.PredictionService"
_METHODS = {  # kind of a golden request: name, message of the answer
    "predict": ("Predict", predict_pb2.PredictResponse),
    "classify": ("Classify", classification_pb2.ClassificationResponse),
    "regress": ("Regress", regression_pb2.RegressionResponse),
}

# A golden request -> its current response; raises ServingError if the request is rejected.
Answer = Callable[[Golden], Outputs]


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
        server: "host:port" of a model server's gRPC interface; None: the model is loaded in this process.
        model_name: name of the model on the server.
        timeout: seconds per request.
        tolerance: as in `difference`; None: 1e-4, or 0.02 if weights are bfloat16, 0.005 if float16, 0.1 if int8.
        tls: encryption of the connection; None: no encryption.

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
            return judge(goldens, local_answer(loaded), tolerance)
        finally:
            loaded.close()
    with open_channel(server, tls) as channel:
        return judge(goldens, remote_answer(channel, server, model_name, timeout, path), tolerance)


def judge(goldens: Sequence[Golden], answer: Answer, tolerance: float) -> list[Verdict]:
    """Returns one verdict per signature in `goldens`."""
    verdicts = {}
    for golden in goldens:
        verdict = verdicts.setdefault(golden.signature, Verdict(golden.signature))
        verdict.requests += 1
        try:
            largest, problem = difference(golden.outputs, answer(golden), tolerance)
        except ServingError as error:
            largest, problem = float("inf"), f"refused: {error.cut_message(GRPC_BYTES)}"
        verdict.largest = max(verdict.largest, largest)
        if problem:
            verdict.problems.append(f"{golden.signature}, request {verdict.requests}: {problem}")
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


def remote_answer(channel: grpc.Channel, server: str, model_name: str, timeout: float, path: str) -> Answer:
    """Returns a function that queries a server; logs a warning if its version is not the one in `path`."""
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
