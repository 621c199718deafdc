"""Requests for every signature of a served model, as TensorFlow Serving logs them: in PredictionLogs."""

from collections.abc import Mapping

import tensorflow as tf

from bert_tf.export.explanation_signatures import ATTENTION, ATTRIBUTIONS
from bert_tf.export.serving_module import ServingModule


def signature_inputs(served: ServingModule, texts: Mapping[str, list]) -> dict[str, dict[str, tf.Tensor]]:
    """Returns {signature: {input: tensor}}, inputs in the signature's order: the same examples for each of them.

    Args:
        served: the model.
        texts: {name: texts of the examples}, for `served.text_inputs`.
    """
    tensors = {name: tf.constant(texts[name]) for name in served.text_inputs}
    features, _ = served.task.preprocess(served.tokenizer, list(tensors.values()), served.max_seq_length)
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
