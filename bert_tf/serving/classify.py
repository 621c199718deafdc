"""Classify and Regress: tf.Example in, classes with scores or one number out.

The checks, their order and their words are those of TensorFlow Serving's `classifier.cc` and `regressor.cc`. Like its
releases of today, this one does not insist on the signature's method name.
"""

import numpy as np
from tensorflow_serving.apis import classification_pb2, regression_pb2

from bert_tf.serving.call import INTERNAL, Call
from bert_tf.serving.errors import failed_precondition, invalid
from bert_tf.serving.predict import DEFAULT_SIGNATURE, run, set_spec


def classify(
    version, request: classification_pb2.ClassificationRequest, call: Call = INTERNAL
) -> classification_pb2.ClassificationResponse:
    """Answers with the signature's outputs `classes` (string [batch, n]), `scores` (float32 [batch, n]) or both.

    Raises:
        ServingError: the signature is none for that, the request is empty, or the graph refuses it.
    """
    name, signature = _signature(version, request)
    keys = _class_outputs(signature)
    examples = _examples(request.input, call.limits)
    outputs = _run(version, signature, examples, keys, call)
    for key, array in outputs.items():
        _check_classes(key, array, len(examples))
    response = classification_pb2.ClassificationResponse()
    set_spec(response.model_spec, version, name)
    for i in range(len(examples)):
        row = response.result.classifications.add()
        for j in range(outputs[keys[0]].shape[1]):
            item = row.classes.add()
            if "classes" in outputs:
                item.label = outputs["classes"][i, j].decode("utf-8", "replace")
            if "scores" in outputs:
                item.score = outputs["scores"][i, j]
    return response


def regress(
    version, request: regression_pb2.RegressionRequest, call: Call = INTERNAL
) -> regression_pb2.RegressionResponse:
    """Answers with the signature's output `outputs`, float32 [batch] or [batch, 1].

    Raises:
        ServingError: as `classify`.
    """
    name, signature = _signature(version, request)
    if len(signature.outputs) != 1:
        raise invalid("Expected one output Tensor.")
    _check_input(signature, "regression")
    if "outputs" not in signature.outputs:
        raise failed_precondition(f"No regression outputs found in SignatureDef: {signature.definition}")
    examples = _examples(request.input, call.limits)
    values = _run(version, signature, examples, ["outputs"], call)["outputs"]
    _check_values(values, len(examples))
    response = regression_pb2.RegressionResponse()
    set_spec(response.model_spec, version, name)
    for value in values.ravel():
        response.result.regressions.add(value=value)
    return response


def _signature(version, request):
    """Returns (name, SignatureDef), which has one input."""
    name = request.model_spec.signature_name or DEFAULT_SIGNATURE
    signature = version.model.signatures.get(name)
    if signature is None:
        raise invalid(f"No signature was found with the name: {name}")
    if len(signature.inputs) != 1:
        raise invalid("Expected one input Tensor.")
    return name, signature


def _check_input(signature, kind):
    if "inputs" not in signature.inputs:
        raise failed_precondition(f"No {kind} inputs found in SignatureDef: {signature.definition}")


def _class_outputs(signature):
    if len(signature.outputs) not in (1, 2):
        raise invalid(f"Expected one or two output Tensors, found {len(signature.outputs)}")
    _check_input(signature, "classification")
    keys = [key for key in ("classes", "scores") if key in signature.outputs]
    if not keys:
        raise failed_precondition(
            'Expected classification signature outputs to contain at least one of "classes" or "scores". '
            f"Signature was: {signature.definition}"
        )
    return keys


def _examples(request_input, limits):
    """Returns the serialized tf.Examples, an object array [batch] of bytes."""
    kind = request_input.WhichOneof("kind")
    examples = list(getattr(request_input, kind).examples) if kind else []
    if not examples:
        raise invalid("Input is empty.")
    limits.check_rows(len(examples))
    limits.check_text(max(example.ByteSize() for example in examples))
    context = b""
    if kind == "example_list_with_context":  # protocol buffers merge when concatenated; the example's features win
        context = request_input.example_list_with_context.context.SerializeToString()
        limits.check_text(len(context) * len(examples))  # it is copied to each
    return np.array([context + example.SerializeToString() for example in examples], dtype=object)


def _run(version, signature, examples, keys, call):
    outputs = run(version, signature, {"inputs": examples}, keys, call)
    return {key: np.asarray(array) for key, array in outputs.items()}


def _check_classes(key, array, batch):
    if array.ndim != 2:
        raise invalid(f"Expected Tensor shape: [batch_size num_classes] but got {_shape(array)}")
    wanted, good = ("DT_STRING", array.dtype == object) if key == "classes" else ("DT_FLOAT", array.dtype == np.float32)
    if not good:
        raise invalid(f"Expected {key} Tensor of {wanted}. Got: {array.dtype}")
    if len(array) != batch:
        raise invalid(f"Expected {key} output batch size of {batch}. Got: {len(array)}")


def _check_values(array, batch):
    if array.ndim not in (1, 2) or array.shape[1:] not in ((), (1,)):
        wanted = "[batch_size] or [batch_size, 1]"
        raise invalid(f"Expected output Tensor shape to be either {wanted} but got {_shape(array)}")
    if len(array) != batch:
        raise invalid(f"Input batch size did not match output batch size: {batch} vs. {len(array)}")
    if array.dtype != np.float32:
        raise invalid(f"Expected output Tensor of DT_FLOAT.  Got: {array.dtype}")


def _shape(array):
    return f"[{','.join(map(str, array.shape))}]"
