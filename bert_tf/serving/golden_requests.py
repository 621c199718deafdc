"""Golden requests: stored in an export, with the model's responses at that time; and how far others differ."""

import dataclasses
import os
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import classification_pb2, predict_pb2, prediction_log_pb2, regression_pb2

from bert_tf.serving.client.requests import join_names
from bert_tf.serving.server.predict import check_input, read_input
from bert_tf.serving.server.regular_files import check_regular
from bert_tf.serving.server.signature_tensors import read_answer
from bert_tf.serving.server.signatures import Signature
from bert_tf.serving.tensor_messages import check_missing
from bert_tf.utils.answers import PREDICTED, RANKING, SPARSE
from bert_tf.utils.names import GOLDEN_REQUESTS

FILE = os.path.join("assets.extra", GOLDEN_REQUESTS)

_SHOWN = 200  # bytes of a string
GOLDEN_METHODS = {  # kind of a golden request: name, message of the answer
    "predict": ("Predict", predict_pb2.PredictResponse),
    "classify": ("Classify", classification_pb2.ClassificationResponse),
    "regress": ("Regress", regression_pb2.RegressionResponse),
}

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
            f"{file} does not contain TFRecords of PredictionLog with responses: {reason}. Export the model again."
        ) from error
    if not goldens:
        raise ValueError(f"{file} is empty. Export the model again.")
    return goldens


def golden_of(log: prediction_log_pb2.PredictionLog) -> Golden:
    """Returns the golden request in a PredictionLog; raises ValueError for other kinds."""
    kind = (log.WhichOneof("log_type") or "").removesuffix("_log")
    if kind not in GOLDEN_METHODS:
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
            predicted or not if its probability moved that way. The tokens of a sparse embedding may have any order,
            and one without a weight has a weight of 0.

    Returns:
        the largest difference of a number, in the same measure, infinite if there is no number to compare; and the
        problem in words, or "".
    """
    if set(expected) != set(got):
        names = [join_names(sorted(each)) for each in (got, expected)]
        return float("inf"), f"the outputs are {names[0]} in place of {names[1]}"
    if set(SPARSE) == set(expected) and _have_weights(expected) and _have_weights(got):
        expected, got = _align_weights(expected, got)
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


def _have_weights(outputs):
    """Returns whether outputs are sparse embeddings, whatever their order: indices and weights of one shape [n, K]."""
    indices, weights = (outputs[name] for name in SPARSE)
    good = indices.ndim == 2 and indices.shape == weights.shape
    return good and np.issubdtype(indices.dtype, np.integer) and np.issubdtype(weights.dtype, np.floating)


def _align_weights(*sides):
    """Returns the weights of sparse embeddings, [n, number of different indices] each, in the order of the indices."""
    ids = np.unique(np.concatenate([each["indices"].ravel() for each in sides]))
    aligned = []
    for each in sides:
        indices, given = (each[name] for name in SPARSE)
        weights = np.zeros([len(given), len(ids)])
        np.add.at(weights, (np.arange(len(given))[:, np.newaxis], np.searchsorted(ids, indices)), given)
        aligned.append({"weights": weights})
    return aligned


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
