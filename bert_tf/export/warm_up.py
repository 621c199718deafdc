"""Requests that an export brings along: to warm a server up with, and golden ones, with the model's own answers.

A signature's first run takes seconds, for TensorFlow then optimizes its graph; another number or length of texts costs
next to nothing more. So each signature is asked about one short example, several, and one that fills the longest row.
"""

import os
from collections.abc import Callable, Iterable, Mapping

import tensorflow as tf

from bert_tf.export.requests import explanation_inputs, prediction_log, signature_inputs
from bert_tf.export.samples import sample_texts
from bert_tf.export.served import ServedModel
from bert_tf.utils.names import GOLDEN_REQUESTS

WARM_UP = "tf_serving_warmup_requests"
_SEVERAL = 4

Requests = list[tuple[str, dict[str, tf.Tensor]]]  # signature and {input: tensor}


def sample_requests(served: ServedModel) -> Requests:
    """Returns requests for every signature of the model, the shortest first.

    One that explains is asked about the short example alone: it may compute what fifty answers do.
    """
    names = served.text_inputs, served.task.list_inputs
    sizes = ((1, None), (_SEVERAL, None), (1, served.max_seq_length))
    texts = [sample_texts(*names, rows, served.blank, words) for rows, words in sizes]
    requests = [request for each in texts for request in signature_inputs(served, each).items()]
    return requests + list(explanation_inputs(served, texts[0]).items())


def write_requests(directory: str, requests: Requests):
    """Writes `assets.extra/tf_serving_warmup_requests` of the SavedModel in `directory`.

    TensorFlow Serving runs them before it announces a version, so that the first user does not wait.
    """
    _write(directory, WARM_UP, (prediction_log(*request) for request in requests))


def write_goldens(directory: str, requests: Requests, functions: Mapping[str, Callable]):
    """Writes `assets.extra/golden_requests`: the same requests, with responses; `serving/verification.py` asks again.

    Args:
        directory: the SavedModel's.
        requests: for every signature.
        functions: {signature: traced function} of the model in memory: its files have no part in the responses.
    """
    logs = (prediction_log(name, inputs, functions[name](*inputs.values())) for name, inputs in requests)
    _write(directory, GOLDEN_REQUESTS, logs)


def _write(directory, name, logs: Iterable):
    folder = os.path.join(directory, "assets.extra")
    os.makedirs(folder, exist_ok=True)
    with tf.io.TFRecordWriter(os.path.join(folder, name)) as writer:
        for log in logs:
            writer.write(log.SerializeToString(deterministic=True))
