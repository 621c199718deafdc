"""Warm-up of a version.

The first run of a signature is slow, because TensorFlow then optimizes its graph. This is done before a version
serves, for every signature, even those without a request in the export's warm-up file.
"""

import os
import time

from absl import logging

from bert_tf.serving.errors import ServingError, invalid
from bert_tf.serving.server import metrics
from bert_tf.serving.server.classify import classify, regress
from bert_tf.serving.server.multi_inference import multi_inference
from bert_tf.serving.server.predict import predict
from bert_tf.serving.server.regular_files import check_regular
from bert_tf.serving.server.tensorflow_messages import prediction_log_pb2

FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")
_MOST = 1000
_HANDLERS = {
    "predict_log": predict,
    "classify_log": classify,
    "regress_log": regress,
    "multi_inference_log": multi_inference,
}


def prepare_signatures(version):
    """Makes TensorFlow optimize the graph of each signature."""
    for name, signature in version.model.signatures.items():
        if not signature.outputs:
            continue  # the initialization signature
        try:
            version.model.prepare(*signature.key)
        except (ServingError, ValueError) as error:  # the others can still serve
            reason = str(error).splitlines()[0]
            logging.warning("Signature %s of version %d cannot be run: %s", name, version.number, reason)


def replay(version, folder: str, iterations: int = 1) -> int:
    """Runs the requests in `folder`'s warm-up file, TFRecords of PredictionLog; returns their number.

    Args:
        version: the version that runs them.
        folder: directory of the version.
        iterations: number of runs of each.

    Raises:
        ServingError: one of them fails, or there are more than TensorFlow Serving takes.
        ValueError: the file is not a regular file.
        tf.errors.OpError: the file is damaged.
    """
    path = os.path.join(folder, FILE)
    if not os.path.exists(path):
        return 0
    import tensorflow as tf

    check_regular(path)
    started, count = time.monotonic(), 0
    for count, record in enumerate(tf.data.TFRecordDataset(path), start=1):
        if count > _MOST:
            raise invalid(f"Number of warmup records exceeds the maximum ({_MOST}) at {path}")
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        kind = log.WhichOneof("log_type")
        if kind in _HANDLERS:
            for _ in range(iterations):
                _HANDLERS[kind](version, getattr(log, kind).request)
        else:
            logging.warning("%s: record %d, a %s, is not supported for warm-up and was skipped.", path, count, kind)
    metrics.WARMUP_LATENCY.labels(folder, "OK").observe((time.monotonic() - started) * 1e6)
    return count
