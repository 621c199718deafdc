"""Requests that TensorFlow Serving runs before it announces a version, so that the first user does not wait."""

import os

import tensorflow as tf

_SIZES = (1, 8)
_TEXT = "A request to warm up with: the first one is slow, and nobody should wait for it."


def write_requests(directory: str, text_inputs: tuple[str, ...], list_inputs: tuple[str, ...] = ()):
    """Writes `assets.extra/tf_serving_warmup_requests` of a SavedModel: Predict with 1 and with 8 examples.

    Args:
        directory: the SavedModel's.
        text_inputs: names of the texts of an example.
        list_inputs: those of them of which an example has several.
    """
    from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

    folder = os.path.join(directory, "assets.extra")
    os.makedirs(folder, exist_ok=True)
    with tf.io.TFRecordWriter(os.path.join(folder, "tf_serving_warmup_requests")) as writer:
        for size in _SIZES:
            request = predict_pb2.PredictRequest()
            request.model_spec.name = "default"  # a server puts the model's own name here
            request.model_spec.signature_name = "serving_default"
            for name in text_inputs:
                example = [_TEXT] * 2 if name in list_inputs else _TEXT
                request.inputs[name].CopyFrom(tf.make_tensor_proto([example] * size))
            log = prediction_log_pb2.PredictLog(request=request)
            writer.write(prediction_log_pb2.PredictionLog(predict_log=log).SerializeToString())
