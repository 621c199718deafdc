"""Classify and Regress: from tf.Examples to classes with scores, or to one number.

The checks, their order and their messages are those of TensorFlow Serving's `classifier.cc` and `regressor.cc`. As in
these, the signature's method name matters only if an option of the server requires it.
"""

import numpy as np

from bert_tf.serving.errors import invalid
from bert_tf.serving.server.dtypes import as_dtype
from bert_tf.serving.server.predict import DEFAULT_SIGNATURE, check_input, run_predict, set_spec
from bert_tf.serving.server.request_context import INTERNAL, RequestContext
from bert_tf.serving.server.signatures import CLASSIFY, REGRESS
from bert_tf.serving.server.tensorflow_messages import classification_pb2, regression_pb2, types_pb2


def classify(
    version, request: classification_pb2.ClassificationRequest, call: RequestContext = INTERNAL
) -> classification_pb2.ClassificationResponse:
    """Runs Classify: returns the outputs `classes` (string [batch, n]), `scores` (float32 [batch, n]) or both.

    Raises:
        ServingError: the signature is not for classification, the request is empty, or the graph rejects it.
    """
    name, signature = _signature(version, request)
    keys = check_classification(signature)
    examples = read_serialized_examples(request.input, call.limits)
    outputs = _run(version, signature, examples, keys, call, "Classify")
    response = classification_pb2.ClassificationResponse()
    set_spec(response.model_spec, version, name)
    fill_classes(response.result, outputs, len(examples))
    return response


def regress(
    version, request: regression_pb2.RegressionRequest, call: RequestContext = INTERNAL
) -> regression_pb2.RegressionResponse:
    """Runs Regress: returns the signature's output `outputs`, float32 [batch] or [batch, 1].

    Raises:
        ServingError: as `classify`.
    """
    name, signature = _signature(version, request)
    check_regression(signature)
    examples = read_serialized_examples(request.input, call.limits)
    outputs = _run(version, signature, examples, ["outputs"], call, "Regress")
    response = regression_pb2.RegressionResponse()
    set_spec(response.model_spec, version, name)
    fill_values(response.result, outputs, len(examples))
    return response


def check_classification(signature) -> list[str]:
    """Returns those of the outputs "classes" and "scores" that the signature has.

    Raises:
        ServingError: it is not a classification signature.
    """
    _check_method(signature, CLASSIFY, "classification")
    if len(signature.outputs) not in (1, 2):
        raise invalid(f"Expected one or two output Tensors, found {len(signature.outputs)}")
    if "inputs" not in signature.inputs:
        raise invalid(f"No classification inputs found in SignatureDef: {signature.definition}")
    keys = [key for key in ("classes", "scores") if key in signature.outputs]
    if not keys:
        raise invalid(
            'Expected classification signature outputs to contain at least one of "classes" or "scores". '
            f"Signature was: {signature.definition}"
        )
    return keys


def check_regression(signature):
    """Raises ServingError for a signature that is not for regression."""
    _check_method(signature, REGRESS, "regression")
    if len(signature.outputs) != 1:
        raise invalid("Expected one output Tensor.")
    if "inputs" not in signature.inputs:
        raise invalid(f"No regression inputs found in SignatureDef: {signature.definition}")
    if "outputs" not in signature.outputs:
        raise invalid(f"No regression outputs found in SignatureDef: {signature.definition}")


def read_serialized_examples(request_input, limits) -> np.ndarray:
    """Returns the serialized tf.Examples of an Input, an object array [batch] of bytes.

    Raises:
        ServingError: there are none, or they exceed `limits`.
    """
    kind = request_input.WhichOneof("kind")
    examples = list(getattr(request_input, kind).examples) if kind else []
    if not examples:
        raise invalid("Input is empty.")
    limits.check_rows(len(examples))
    limits.check_texts([example.ByteSize() for example in examples])
    context = b""
    if kind == "example_list_with_context":  # protocol buffers merge when concatenated; the example's features win
        context = request_input.example_list_with_context.context.SerializeToString()
        limits.check_text(len(context) * len(examples))  # it is copied to each
    return np.array([context + example.SerializeToString() for example in examples], dtype=object)


def fill_classes(result: classification_pb2.ClassificationResult, outputs: dict[str, np.ndarray], batch: int):
    """Writes `classes` and `scores`, either of which may be missing, into an empty result.

    Raises:
        ServingError: they do not fit Classify's result for `batch` examples.
    """
    for key, array in outputs.items():
        _check_classes(key, array, batch)
    widths = [outputs[key].shape[1] for key in ("classes", "scores") if key in outputs]
    if len(set(widths)) > 1:
        raise invalid(f"Tensors class and score should match in dim_size(1). Got {widths[0]} vs. {widths[1]}")
    for i in range(batch):
        row = result.classifications.add()
        for j in range(widths[0]):
            item = row.classes.add()
            if "classes" in outputs:
                item.label = outputs["classes"][i, j].decode("utf-8", "replace")
            if "scores" in outputs:
                item.score = outputs["scores"][i, j]


def fill_values(result: regression_pb2.RegressionResult, outputs: dict[str, np.ndarray], batch: int):
    """Writes `outputs` into an empty result.

    Raises:
        ServingError: they do not fit Regress's result for `batch` examples.
    """
    _check_values(outputs["outputs"], batch)
    for value in outputs["outputs"].ravel():
        result.regressions.add(value=value)


def _signature(version, request):
    """Returns (name, Signature)."""
    name = request.model_spec.signature_name or DEFAULT_SIGNATURE
    signature = version.model.signatures.get(name)
    if signature is None:
        raise invalid(f"No signature was found with the name: {name}")
    return name, signature


def _check_method(signature, method, kind):
    if not signature.has_method(method):
        was = signature.definition.method_name
        raise invalid(f"Expected {kind} signature method_name to be {method}. Was: {was}")
    if len(signature.inputs) != 1:
        raise invalid("Expected one input Tensor.")


def _run(version, signature, examples, keys, call, api):
    check_input(signature, "inputs", types_pb2.DT_STRING, examples.shape)
    outputs = run_predict(version, signature, {"inputs": examples}, keys, call, api)
    return {key: np.asarray(array) for key, array in outputs.items()}


def _check_classes(key, array, batch):
    if array.ndim != 2:
        raise invalid(f"Expected Tensor shape: [batch_size num_classes] but got {_shape(array)}")
    wanted, good = ("DT_STRING", array.dtype == object) if key == "classes" else ("DT_FLOAT", array.dtype == np.float32)
    if not good:
        raise invalid(f"Expected {key} Tensor of {wanted}. Got: {_type_of(array)}")
    if len(array) != batch:
        raise invalid(f"Expected {key} output batch size of {batch}. Got: {len(array)}")


def _check_values(array, batch):
    if array.ndim not in (1, 2) or array.shape[1:] not in ((), (1,)):
        wanted = "[batch_size] or [batch_size, 1]"
        raise invalid(f"Expected output Tensor shape to be either {wanted} but got {_shape(array)}")
    if len(array) != batch:
        raise invalid(f"Input batch size did not match output batch size: {batch} vs. {len(array)}")
    if array.dtype != np.float32:
        raise invalid(f"Expected output Tensor of DT_FLOAT.  Got: {_type_of(array)}")


def _shape(array):
    return f"[{','.join(map(str, array.shape))}]"


def _type_of(array):
    return types_pb2.DataType.Name(as_dtype(array.dtype).as_datatype_enum)
