"""Sample requests in an export: warm-up requests, and golden requests with the model's responses.

A signature's first run takes seconds, because TensorFlow then optimizes its graph; another number or length of texts
costs little more. So each signature gets requests with one short example, several, and one of maximum length.
"""

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

import tensorflow as tf

from bert_tf.export import gpu
from bert_tf.export.serving_module import ATTENTION, ATTRIBUTIONS, ServingModule
from bert_tf.utils.model_outputs import check_finite_outputs
from bert_tf.utils.names import GOLDEN_REQUESTS, TOKEN_COUNTS

# === Samples ===
# Sentences in every export for warm-up and for checks of its predictions. They are not user texts.


_SENTENCES = (
    "The library opens at nine.",
    "Rain is expected in the north on Tuesday, and a little sun in the south from noon on.",
    "Anna Berg moved from Oslo to Lisbon in 1998, where she taught mathematics at a small school near the harbour.",
    "Café № 5 serves naïve 😀 guests, 图书馆九点开门。",
)
_CHOICES = 3  # number of texts in a list input
_REMEDY = "Export it with `export_dtype=float32`, or with bfloat16, which has the same range."


def sample_texts(
    text_inputs: Sequence[str], list_inputs: Sequence[str], count: int, blank: str = "", words: int | None = None
) -> dict[str, list]:
    """Returns the texts of some examples.

    Args:
        text_inputs: names of the texts of an example.
        list_inputs: those that are lists of texts.
        count: number of examples.
        blank: the start of each text, such as a mask.
        words: words per text, by repetition; None: one sentence.

    Returns:
        {name: `count` texts}, or lists of texts for `list_inputs`. The texts of an example differ.
    """

    def text(number):
        sentence = _SENTENCES[number % len(_SENTENCES)]
        if words is not None:
            sentence = " ".join(itertools.islice(itertools.cycle(sentence.split()), words))
        return f"{blank} {sentence}" if blank else sentence

    return {
        name: [
            [text(i + n + choice) for choice in range(_CHOICES)] if name in list_inputs else text(i + n)
            for i in range(count)
        ]
        for n, name in enumerate(text_inputs)
    }


# === Requests ===
# Requests for every signature of a served model, as TensorFlow Serving logs them: in PredictionLogs.


def signature_inputs(served: ServingModule, texts: Mapping[str, list]) -> dict[str, dict[str, tf.Tensor]]:
    """Returns {signature: {input: tensor}}, inputs in the signature's order: the same examples for each of them.

    Args:
        served: the model.
        texts: {name: texts of the examples}, for `served.text_inputs`.
    """
    tensors = {name: tf.constant(texts[name]) for name in served.text_inputs}
    features, _ = served.task.read(served.tokenizer, list(tensors.values()), served.max_seq_length)
    inputs = {"serving_default": tensors, "ids": {name: features[name] for name in served.task.features}}
    if served.task.example_method:
        columns = zip(*(texts[name] for name in served.text_inputs), strict=True)
        examples = [_example(dict(zip(served.text_inputs, each, strict=True))) for each in columns]
        inputs[served.task.example_method] = {"inputs": tf.constant(examples)}
    return inputs


def explanation_inputs(served: ServingModule, texts: Mapping[str, list]) -> dict[str, dict[str, tf.Tensor]]:
    """Returns the same for explanation signatures: the last layer, and the model's own prediction.

    Args:
        served, texts: as in `signature_inputs`.
    """
    count = len(texts[served.text_inputs[0]])
    more = {ATTENTION: {"layers": tf.fill([count, 1], -1)}, ATTRIBUTIONS: {"target": tf.fill([count], "")}}
    tensors = {name: tf.constant(texts[name]) for name in served.text_inputs}
    return {name: tensors | more[name] for name in served.explanation_signatures()}


def prediction_log(signature: str, inputs: Mapping[str, tf.Tensor], outputs: Mapping[str, tf.Tensor] | None = None):
    """Returns a PredictionLog of one request; with `outputs`, {output: tensor}, also of the response.

    Classify and Regress have their own request types; their responses have one row per example.
    """
    from tensorflow_serving.apis import prediction_log_pb2

    log = prediction_log_pb2.PredictionLog()
    if signature not in _FILLERS:
        _fill_predict(log.predict_log, inputs, outputs)
        request = log.predict_log.request
    else:
        part = getattr(log, f"{signature}_log")
        request = part.request
        request.input.example_list.examples.extend(map(tf.train.Example.FromString, inputs["inputs"].numpy()))
        if outputs is not None:
            _FILLERS[signature](part.response, outputs)
    request.model_spec.name = "default"  # a server inserts the model's name here
    request.model_spec.signature_name = signature
    return log


def _example(texts):
    values = {name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
              for name, text in texts.items()}  # fmt: skip
    return tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString(deterministic=True)


def _fill_predict(log, inputs, outputs):
    for name, tensor in inputs.items():
        log.request.inputs[name].CopyFrom(tf.make_tensor_proto(tensor))
    for name, tensor in (outputs or {}).items():
        log.response.outputs[name].CopyFrom(tf.make_tensor_proto(tensor))


def _fill_classes(response, outputs):
    for labels, scores in zip(outputs["classes"].numpy(), outputs["scores"].numpy(), strict=True):
        row = response.result.classifications.add()
        for label, score in zip(labels, scores, strict=True):
            row.classes.add(label=label.decode("utf-8", "replace"), score=score)


def _fill_values(response, outputs):
    for value in outputs["outputs"].numpy().ravel():
        response.result.regressions.add(value=value)


_FILLERS = {"classify": _fill_classes, "regress": _fill_values}


# === Warm up ===


WARM_UP = "tf_serving_warmup_requests"
_SEVERAL = 4

Requests = list[tuple[str, dict[str, tf.Tensor]]]  # signature and {input: tensor}


def sample_requests(served: ServingModule) -> Requests:
    """Returns requests for every signature of the model, the shortest first.

    Explanations get only the short example, because one may cost as much as fifty predictions.
    """
    names = served.text_inputs, served.task.list_inputs
    sizes = ((1, None), (_SEVERAL, None), (1, served.max_seq_length))
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
        features, _ = served.task.read(served.tokenizer, tensors, served.max_seq_length)
        return next(each for each in widths if each >= features["input_ids"].shape[-1])

    requests = []
    for rows, wanted in gpu.warm_up_shapes(served.positions, served.max_seq_length):
        several = min(rows, len(_SENTENCES))  # more are repetitions
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
