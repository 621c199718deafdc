"""MultiInference: several signatures, of Classify and Regress, on the same examples in one run of the graph.

The checks, their order and their words are those of TensorFlow Serving's `multi_inference.cc`.
"""

import numpy as np
from tensorflow_serving.apis import inference_pb2, model_pb2

from bert_tf.serving.errors import invalid, unimplemented
from bert_tf.serving.server import classify
from bert_tf.serving.server.call import INTERNAL, Call
from bert_tf.serving.server.predict import DEFAULT_SIGNATURE, run, set_spec
from bert_tf.serving.server.signatures import CLASSIFY, REGRESS, Signature


def spec_of(request: inference_pb2.MultiInferenceRequest) -> model_pb2.ModelSpec:
    """Returns the ModelSpec that says which model and version are asked: the first task's, or an empty one."""
    return request.tasks[0].model_spec if request.tasks else model_pb2.ModelSpec()


def multi_inference(
    version, request: inference_pb2.MultiInferenceRequest, call: Call = INTERNAL
) -> inference_pb2.MultiInferenceResponse:
    """Answers each task of a request with the given version, in the order of the tasks.

    Raises:
        ServingError: a task names another model, a signature twice, one that the model has not, or a method other
            than Classify and Regress; or the examples are wrong.
    """
    tasks = _tasks(version, request)
    examples = classify.read_examples(request.input, call.limits)
    for signature in tasks.values():
        classify.check_examples(signature, examples)
    response = inference_pb2.MultiInferenceResponse()
    outputs = _run(version, list(tasks.values()), examples, call) if tasks else {}
    for task, (name, signature) in zip(request.tasks, tasks.items(), strict=True):
        result = response.results.add()
        set_spec(result.model_spec, version, name)
        if task.method_name == CLASSIFY:
            keys = classify.check_classification(signature)
            arrays = {key: outputs[signature.outputs[key].tensor] for key in keys}
            classify.fill_classes(result.classification_result, arrays, len(examples))
        else:
            values = outputs[signature.outputs["outputs"].tensor]
            classify.fill_values(result.regression_result, {"outputs": values}, len(examples))
    return response


def _tasks(version, request):
    """Returns {signature name: signature} of the tasks, all of which fit together."""
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
        _check(found[name], task.method_name)
    return found


def _check(signature, method):
    if method == CLASSIFY:
        classify.check_classification(signature)
    elif method == REGRESS:
        classify.check_regression(signature)
    else:
        raise unimplemented(f"Unsupported signature method_name: {method}")


def _run(version, signatures, examples, call):
    """Returns {tensor name: array} of all outputs, each computed once; every input tensor is fed the same examples.

    Signatures that `tf.saved_model.save` wrote have an input tensor each, also where they take the same.
    """
    inputs, outputs = (
        {endpoint.tensor: endpoint for each in signatures for endpoint in getattr(each, side).values()}
        for side in ("inputs", "outputs")
    )
    together = Signature(inputs, outputs, {}, signatures[0].definition)
    arrays = run(version, together, dict.fromkeys(inputs, examples), (), call, "MultiInference")
    return {name: np.asarray(array) for name, array in arrays.items()}
