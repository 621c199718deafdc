"""Sample requests in an export: warm-up requests, and golden requests with the model's responses."""

import functools
import os
from collections.abc import Callable, Iterable, Mapping

import tensorflow as tf

from bert_tf.export import gpu
from bert_tf.export.prediction_logs import explanation_inputs, prediction_log, signature_inputs
from bert_tf.export.sample_texts import SENTENCES, sample_texts
from bert_tf.export.serving_module import ServingModule
from bert_tf.utils.model_outputs import check_finite_outputs
from bert_tf.utils.names import GOLDEN_REQUESTS, TOKEN_COUNTS

_REMEDY = "Export it with `export_dtype=float32`, or with bfloat16, which has the same range."

WARM_UP = "tf_serving_warmup_requests"
_SEVERAL = 4
_MOST_WORDS = 1024  # of a text: for every signature, memory for more would be several times that of the model

Requests = list[tuple[str, dict[str, tf.Tensor]]]  # signature and {input: tensor}


def sample_requests(served: ServingModule) -> Requests:
    """Returns requests for every signature of the model, the shortest first.

    Explanations get only the short example, because one may cost as much as fifty predictions.
    """
    names = served.text_inputs, served.task.list_inputs
    sizes = ((1, None), (_SEVERAL, None), (1, min(served.max_seq_length, _MOST_WORDS)))
    texts = [sample_texts(*names, count, served.blank, words) for count, words in sizes]
    requests = [request for each in texts for request in signature_inputs(served, each).items()]
    return requests + list(explanation_inputs(served, texts[0]).items())


def requests_of_shapes(served: ServingModule) -> Requests:
    """Returns a request for each prediction signature and each of `gpu.warm_up_shapes`.

    XLA compiles the graph of each signature separately, even if they share the model.
    """
    names, widths = (served.text_inputs, served.task.list_inputs), gpu.widths(served.positions)

    @functools.cache
    def width(rows, words):
        tensors = [tf.constant(each) for each in sample_texts(*names, rows, served.blank, words).values()]
        features, _ = served.task.preprocess(served.tokenizer, tensors, served.max_seq_length)
        return next(each for each in widths if each >= features["input_ids"].shape[-1])

    requests = []
    for rows, wanted in gpu.warm_up_shapes(served.positions, served.max_seq_length):
        several = min(rows, len(SENTENCES))  # more are repetitions
        words = next((n for n in range(1, served.max_seq_length + 1) if width(several, n) == wanted), None)
        if words is not None:
            requests += signature_inputs(served, sample_texts(*names, rows, served.blank, words)).items()
    return requests


def write_requests(directory: str, requests: Requests):
    """Writes `assets.extra/tf_serving_warmup_requests` of the SavedModel in `directory`.

    TensorFlow Serving runs them before it announces a version, so that the first user does not have to wait.
    """
    _write(directory, WARM_UP, (prediction_log(*request) for request in requests))


def write_goldens(directory: str, requests: Requests, functions: Mapping[str, Callable]):
    """Writes `assets.extra/golden_requests`: requests with responses, which `serving/verification.py` replays.

    Args:
        directory: directory of the SavedModel.
        requests: requests for every signature.
        functions: {signature: traced function} of the model in memory, so that the responses do not depend on its
            files.

    Raises:
        ValueError: a response is NaN or infinite.
    """

    def answered():
        for name, inputs in requests:
            outputs = functions[name](*inputs.values())
            outputs.pop(TOKEN_COUNTS, None)  # which clients do not see
            numbers = (each for each in outputs.values() if each.dtype.is_floating)
            check_finite_outputs([tf.cast(each, tf.float32).numpy() for each in numbers], _REMEDY)
            yield prediction_log(name, inputs, outputs)

    _write(directory, GOLDEN_REQUESTS, answered())


def _write(directory, name, logs: Iterable):
    folder = os.path.join(directory, "assets.extra")
    os.makedirs(folder, exist_ok=True)
    with tf.io.TFRecordWriter(os.path.join(folder, name)) as writer:
        for log in logs:
            writer.write(log.SerializeToString(deterministic=True))
