"""MultiInference: several signatures, of Classify and Regress, on the same examples in one run of the graph.

The checks, their order and their messages are those of TensorFlow Serving's `multi_inference.cc`.
"""

import numpy as np

from bert_tf.serving.errors import invalid, unimplemented
from bert_tf.serving.server.classify import (
    check_classification,
    check_regression,
    fill_classes,
    fill_values,
    read_serialized_examples,
)
from bert_tf.serving.server.predict import DEFAULT_SIGNATURE, check_input, run_predict, set_spec
from bert_tf.serving.server.request_context import INTERNAL, RequestContext
from bert_tf.serving.server.signatures import CLASSIFY, REGRESS, Signature
from bert_tf.serving.server.tensorflow_messages import inference_pb2, types_pb2


def multi_inference(
    version, request: inference_pb2.MultiInferenceRequest, call: RequestContext = INTERNAL
) -> inference_pb2.MultiInferenceResponse:
    """Runs each task of a request on the given version, in the order of the tasks.

    Raises:
        ServingError: a task names another model, a signature twice, a missing one, or a method other
            than Classify and Regress; or the examples are invalid.
    """
    tasks = _tasks(version, request)
    examples = read_serialized_examples(request.input, call.limits)
    for signature in tasks.values():
        check_input(signature, "inputs", types_pb2.DT_STRING, examples.shape)
    response = inference_pb2.MultiInferenceResponse()
    outputs = _infer(version, list(tasks.values()), examples, call) if tasks else {}
    for task, (name, signature) in zip(request.tasks, tasks.items(), strict=True):
        result = response.results.add()
        set_spec(result.model_spec, version, name)
        if task.method_name == CLASSIFY:
            keys = check_classification(signature)
            arrays = {key: outputs[signature.outputs[key].tensor] for key in keys}
            fill_classes(result.classification_result, arrays, len(examples))
        else:
            values = outputs[signature.outputs["outputs"].tensor]
            fill_values(result.regression_result, {"outputs": values}, len(examples))
    return response


def _tasks(version, request):
    """Returns {signature name: signature} of the tasks, after checking that they are compatible."""
    found: dict[str, Signature] = {}
    for task in request.tasks:
        spec = task.model_spec
        if not spec.name:
            raise invalid("Found ModelSpec with an empty model name.")
        if spec.name != request.tasks[0].model_spec.name:
            raise invalid("All ModelSpecs in a MultiInferenceRequest must access the same model name.")
        name = spec.signature_name or DEFAULT_SIGNATURE
        if name in found:
            raise invalid(f"Duplicate evaluation of signature: {name}")
        if name not in version.model.signatures:
            raise invalid(f"Requested signature not found in model graph: {name}")
        found[name] = version.model.signatures[name]
        if task.method_name == CLASSIFY:
            check_classification(found[name])
        elif task.method_name == REGRESS:
            check_regression(found[name])
        else:
            raise unimplemented(f"Unsupported signature method_name: {task.method_name}")
    return found


def _infer(version, signatures, examples, call):
    """Returns {tensor name: array} of all outputs, each computed once; every input tensor is fed the same examples.

    Signatures that `tf.saved_model.save` wrote have separate input tensors, even for the same inputs.
    """
    inputs, outputs = (
        {endpoint.tensor: endpoint for each in signatures for endpoint in getattr(each, side).values()}
        for side in ("inputs", "outputs")
    )
    together = Signature(inputs, outputs, {}, signatures[0].definition)
    arrays = run_predict(version, together, dict.fromkeys(inputs, examples), (), call, "MultiInference")
    return {name: np.asarray(array) for name, array in arrays.items()}
