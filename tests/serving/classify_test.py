"""What a graph may give for Classify and Regress, and TensorFlow Serving's words for what it may not."""

import grpc
import numpy as np
import pytest
from tensorflow_serving.apis import classification_pb2, regression_pb2

from bert_tf.serving.errors import ServingError
from bert_tf.serving.server.classify import fill_classes, fill_values

NAMES = np.array([[b"bad", b"good"]] * 2, object)
SCORES = np.array([[0.25, 0.75]] * 2, np.float32)
WRONG_CLASSES = {
    "widths": (
        {"classes": NAMES, "scores": SCORES[:, :1]},
        "Tensors class and score should match in dim_size(1). Got 2 vs. 1",
    ),
    "rank": ({"scores": SCORES[0]}, "Expected Tensor shape: [batch_size num_classes] but got [2]"),
    "batch": ({"classes": NAMES[:1]}, "Expected classes output batch size of 2. Got: 1"),
    "type of classes": ({"classes": SCORES}, "Expected classes Tensor of DT_STRING. Got: DT_FLOAT"),
    "type of scores": ({"scores": SCORES.astype(np.float64)}, "Expected scores Tensor of DT_FLOAT. Got: DT_DOUBLE"),
}
WRONG_VALUES = {
    "shape": (SCORES, "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got [2,2]"),
    "batch": (SCORES[0, :1], "Input batch size did not match output batch size: 2 vs. 1"),
    "type": (np.array([1, 2], np.int64), "Expected output Tensor of DT_FLOAT.  Got: DT_INT64"),
}


def refusal(fill, *args):
    """Returns the message of the ServingError that fill(*args) raises, which is INVALID_ARGUMENT."""
    with pytest.raises(ServingError) as caught:
        fill(*args)
    assert caught.value.code == grpc.StatusCode.INVALID_ARGUMENT
    return caught.value.message


@pytest.mark.parametrize("case", WRONG_CLASSES)
def test_classes_that_are_none(case):
    outputs, message = WRONG_CLASSES[case]
    assert refusal(fill_classes, classification_pb2.ClassificationResult(), outputs, 2) == message


@pytest.mark.parametrize("case", WRONG_VALUES)
def test_values_that_are_none(case):
    outputs, message = WRONG_VALUES[case]
    assert refusal(fill_values, regression_pb2.RegressionResult(), {"outputs": outputs}, 2) == message


def test_either_output_is_enough():
    result = classification_pb2.ClassificationResult()
    fill_classes(result, {"classes": NAMES}, 2)
    assert [[(each.label, each.score) for each in row.classes] for row in result.classifications] == [
        [("bad", 0.0), ("good", 0.0)]
    ] * 2
