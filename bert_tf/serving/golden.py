"""Golden requests of an export: what the model answered when it was exported, and how far an answer is from that."""

import dataclasses
import os
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import prediction_log_pb2

from bert_tf.serving.client.requests import listed
from bert_tf.serving.server.classify import check_examples
from bert_tf.serving.server.predict import read_input
from bert_tf.serving.server.regular_files import check_regular
from bert_tf.serving.server.signatures import Signature
from bert_tf.serving.server.tensors import read_answer
from bert_tf.serving.wire import check_missing
from bert_tf.utils.names import GOLDEN_REQUESTS

FILE = os.path.join("assets.extra", GOLDEN_REQUESTS)

_SHOWN = 200  # bytes of a string

Outputs = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Golden:
    """A request and the answer that is right.

    Attributes:
        signature: its name.
        kind: "predict", "classify" or "regress".
        request: a PredictRequest, ClassificationRequest or RegressionRequest.
        outputs: {output: array} of the answer; strings as objects of type bytes.
    """

    signature: str
    kind: str
    request: Any
    outputs: Outputs

    @property
    def input_names(self) -> set[str]:
        """Names of the inputs that the request gives."""
        return set(self.request.inputs) if self.kind == "predict" else {"inputs"}

    def inputs(self, signature: Signature) -> dict[str, np.ndarray]:
        """Returns {input: array} as the graph takes them; tf.Examples as serialized.

        Args:
            signature: the one that is asked, which has inputs of these names.

        Raises:
            ServingError: the signature does not take such tensors; nothing of their size was made.
        """
        if self.kind == "predict":
            return {name: read_input(signature, name, proto) for name, proto in self.request.inputs.items()}
        examples = self.request.input.example_list.examples
        serialized = np.array([example.SerializeToString() for example in examples], object)
        check_examples(signature, serialized)
        return {"inputs": serialized}


def read_goldens(path: str) -> list[Golden]:
    """Returns the golden requests of the version in the folder `path`, in the file's order.

    Raises:
        ValueError: there are none, or their file is damaged.
    """
    file = os.path.join(path, FILE)
    if not os.path.exists(file):
        raise ValueError(
            f"{path} must have golden requests, {FILE}. Received a version without; export the model again to have "
            "them written."
        )
    try:
        check_regular(file)
        records = [record.numpy() for record in tf.data.TFRecordDataset(file)]
        goldens = [golden_of(prediction_log_pb2.PredictionLog.FromString(record)) for record in records]
    except (tf.errors.OpError, DecodeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"{file} must hold TFRecords of PredictionLog with responses. Received: {reason}; export the model again."
        ) from error
    if not goldens:
        raise ValueError(f"{file} must hold at least one request. Received an empty file; export the model again.")
    return goldens


def golden_of(log: prediction_log_pb2.PredictionLog) -> Golden:
    """Returns the golden request that a PredictionLog holds; raises ValueError for one of another kind."""
    kind = (log.WhichOneof("log_type") or "").removesuffix("_log")
    if kind not in _READERS:
        raise ValueError(f"a record of the kind {kind or 'none'!r}")
    pair = getattr(log, f"{kind}_log")
    return Golden(pair.request.model_spec.signature_name, kind, pair.request, outputs_of(kind, pair.response))


def outputs_of(kind: str, response) -> Outputs:
    """Returns what a response holds: {output: array}; of Classify `classes` and `scores`, of Regress `outputs` [n].

    Raises:
        ValueError: an output is malformed, or too large.
    """
    return _READERS[kind](response)


def difference(expected: Outputs, got: Outputs, tolerance: float) -> tuple[float, str]:
    """Compares an answer with the right one.

    Args:
        expected: the right one.
        got: the one to judge.
        tolerance: of numbers: the difference allowed, times the right number where that is over 1.

    Returns:
        the largest difference of a number, in the same measure, infinite where there is no number to compare; and what
        is wrong in words, "" if nothing is.
    """
    if set(expected) != set(got):
        return float("inf"), f"the outputs are {_listed(got)} in place of {_listed(expected)}"
    largest, problem = 0.0, ""
    for name in sorted(expected):
        distance, what = _distance(expected[name], got[name])
        largest = max(largest, distance)
        if distance > tolerance and not problem:
            problem = f"{name} {what}"
    return largest, problem


def _of_predict(response):
    check_missing(response.outputs.values())
    return {name: read_answer(proto, name) for name, proto in response.outputs.items()}


def _of_classify(response):
    rows = [row.classes for row in response.result.classifications]
    if len({len(row) for row in rows}) > 1:
        raise ValueError("An answer must have equally many classes for each example. Received uneven ones.")
    labels = np.array([[each.label.encode() for each in row] for row in rows], object)
    return {"classes": labels, "scores": np.array([[each.score for each in row] for row in rows], np.float32)}


def _of_regress(response):
    return {"outputs": np.array([each.value for each in response.result.regressions], np.float32)}


_READERS = {"predict": _of_predict, "classify": _of_classify, "regress": _of_regress}


def _distance(expected, got):
    """Returns the largest difference of two arrays, and what to say of it."""
    if expected.shape != got.shape or (expected.dtype == object) != (got.dtype == object):
        return float("inf"), f"is {_type(got)} in place of {_type(expected)}"
    if expected.dtype == object or not np.issubdtype(expected.dtype, np.inexact):
        wrong = np.argwhere(expected != got)
        if not len(wrong):
            return 0.0, ""
        place = tuple(wrong[0])
        there, right = (_shown(array[place]) for array in (got, expected))
        return float("inf"), f"is {there} in place of {right} in row {place[0]}"
    expected, got = expected.astype(np.float64), got.astype(np.float64)
    same = (expected == got) | (np.isnan(expected) & np.isnan(got))
    with np.errstate(invalid="ignore"):
        distances = np.where(same, 0.0, np.abs(expected - got) / np.maximum(1.0, np.abs(expected)))
    distances = np.where(np.isnan(distances), np.inf, distances)
    place = np.unravel_index(np.argmax(distances), distances.shape) if distances.size else ()
    if not place:
        return 0.0, ""
    return float(distances[place]), f"is {got[place]:.6g} in place of {expected[place]:.6g} in row {place[0]}"


def _shown(value):
    return repr(value[:_SHOWN].decode("utf-8", "replace")) if isinstance(value, bytes) else str(value)


def _type(array):
    return f"{'strings' if array.dtype == object else array.dtype} {list(array.shape)}"


def _listed(names):
    return listed(sorted(names))
