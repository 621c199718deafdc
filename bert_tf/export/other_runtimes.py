"""Export of a served model for ONNX Runtime and OpenVINO, by tf2onnx and OpenVINO's own converter."""

import os
import tempfile
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from bert_tf.checkpoints.loading import save_description
from bert_tf.export.cpu.model import MOST_BYTES, size_of
from bert_tf.export.export_options import FILES
from bert_tf.export.quiet_logs import quiet
from bert_tf.export.sample_requests import sample_requests
from bert_tf.utils.tensorflow_internals import convert_variables_to_constants_v2

TOLERANCE = 1e-4  # of outputs of the sample requests, as `difference` measures it
_LARGE = 1024  # bytes of a constant
_OPSET = 17  # ONNX Runtime reads it from 1.12 on

Signatures = Mapping[str, meta_graph_pb2.SignatureDef]
Run = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


def write_onnx(directory: str, served) -> Signatures:
    """Writes `served` to `directory`/model.onnx, with the files of its tokenizer, and returns its one signature.

    Args:
        directory: exists.
        served: a `ServingModule`.

    Raises:
        ValueError: the model is too large for a file, or ONNX Runtime cannot run it or answers differently.
    """
    if size_of(served.weight_specs) > MOST_BYTES:
        raise ValueError(
            f"`export_for=onnx` is limited to {MOST_BYTES / 2**30:.2f} GiB of weights; this model has "
            f"{size_of(served.weight_specs) / 2**30:.2f} GiB. Use `export_for=openvino`."
        )
    path = os.path.join(directory, FILES["onnx"])
    function = _numeric_function(served)
    with quiet(), tempfile.TemporaryDirectory() as folder:
        signatures = _save(folder, served, function)
        model = _call(served, _convert_to_onnx, function.get_concrete_function(), list(served.task.features))
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
    return _finish(directory, served, function, lambda: _load_onnx(path), signatures)


def write_openvino(directory: str, served) -> Signatures:
    """Writes `served` to `directory`/model.xml and model.bin, with the files of its tokenizer; see `write_onnx`."""
    import openvino

    path = os.path.join(directory, FILES["openvino"])
    function = _numeric_function(served)
    with quiet(), tempfile.TemporaryDirectory() as folder:
        signatures = _save(folder, served, function)
        model = _call(served, openvino.convert_model, folder)
        openvino.save_model(model, path, compress_to_fp16=False)
    return _finish(directory, served, function, lambda: _load_openvino(path), signatures)


def _numeric_function(served):
    """Returns a tf.function from the inputs of the signature "ids" to predictions that are numbers.

    Neither runtime has asserts, with which the signature refuses ids outside the vocabulary.
    """

    def answer(*features):
        named = dict(zip(served.task.features, features, strict=True))
        return served.task.postprocess_numbers(served.forward(named))

    return tf.function(answer, input_signature=served.ids_specs, autograph=False)


def _save(folder, served, function):
    """Writes a SavedModel of the function alone and returns {name: SignatureDef}."""
    module = tf.Module()
    module.weights = served.weights  # without the tokenizer, which has operations and tables of TensorFlow alone
    tf.saved_model.save(module, folder, function.get_concrete_function())
    with open(os.path.join(folder, "saved_model.pb"), "rb") as file:
        found = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs[0].signature_def
    return {name: each for name, each in found.items() if not name.startswith("__")}


def _convert_to_onnx(function, features):
    """Returns the ModelProto of a concrete function, whose inputs are the features.

    tf2onnx copies a graph in each of its passes, with the weights in it fifty times over, so they are inputs meanwhile.
    """
    import onnx
    import tf2onnx.convert

    frozen = convert_variables_to_constants_v2(function)
    graph = frozen.graph.as_graph_def()
    weights = _take_weights(graph)
    _replace_erfc(graph)
    _replace_log1p(graph)
    inputs = dict(zip([each.name for each in frozen.inputs], features, strict=True))
    inputs |= {f"{name}:0": name for name in weights}
    outputs = dict(zip([each.name for each in frozen.outputs], sorted(function.structured_outputs), strict=True))
    model, _ = tf2onnx.convert.from_graph_def(
        graph, input_names=[*inputs], output_names=[*outputs], opset=_OPSET, tensors_to_rename=inputs | outputs
    )
    own = [each for each in model.graph.input if each.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(own)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


def _take_weights(graph):
    """Makes placeholders of the large constants of a GraphDef and returns them, {node: array}."""
    weights = {}
    for node in graph.node:
        if node.op == "Const" and node.ByteSize() > _LARGE:
            weights[node.name] = tf.make_ndarray(node.attr["value"].tensor)
            node.op = "Placeholder"
            node.attr["shape"].shape.CopyFrom(node.attr["value"].tensor.tensor_shape)
            del node.attr["value"]
    return weights


def _replace_erfc(graph):
    """Makes 1 - Erf(x) of each Erfc(x) of a GraphDef, which is in the exact GELU, and which ONNX does not have."""
    for node in [node for node in graph.node if node.op == "Erfc"]:
        one = graph.node.add(name=f"{node.name}/one", op="Const")
        one.attr["dtype"].CopyFrom(node.attr["T"])
        one.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1.0, node.attr["T"].type))
        erf = graph.node.add(name=f"{node.name}/erf", op="Erf", input=node.input)
        erf.attr["T"].CopyFrom(node.attr["T"])
        node.op = "Sub"
        node.input[:] = [one.name, erf.name]


def _replace_log1p(graph):
    """Makes Log(1 + x) of each Log1p(x) of a GraphDef, which is in SPLADE, and which ONNX does not have."""
    for node in [node for node in graph.node if node.op == "Log1p"]:
        # The ones are in the loop that `x` may be in, unlike a constant.
        one = graph.node.add(name=f"{node.name}/one", op="OnesLike", input=node.input)
        more = graph.node.add(name=f"{node.name}/more", op="AddV2", input=[*node.input, one.name])
        for each in (one, more):
            each.attr["T"].CopyFrom(node.attr["T"])
        node.op = "Log"
        node.input[:] = [more.name]


def _load_onnx(path) -> Run:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    outputs = [each.name for each in session.get_outputs()]
    return lambda inputs: dict(zip(outputs, session.run(outputs, inputs), strict=True))


def _load_openvino(path) -> Run:
    import openvino

    model = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda inputs: {output.any_name: array for output, array in model(inputs).to_dict().items()}


def _finish(directory, served, function, load, signatures):
    """Checks that the runtime answers the sample requests as TensorFlow does, and adds the files of the tokenizer."""
    from bert_tf.serving.golden_requests import difference  # here, as other exports do without the server's extras

    run, largest = _call(served, load), 0.0
    for inputs in (inputs for name, inputs in sample_requests(served) if name == "ids"):
        expected = {name: values.numpy() for name, values in function(*inputs.values()).items()}
        got = _call(served, run, {name: values.numpy() for name, values in inputs.items()})
        distance, problem = difference(expected, got, TOLERANCE)
        if problem:
            raise _refusal(served, f"an output differs from TensorFlow's: {problem}")
        largest = max(largest, distance)
    logging.info("The converted model answers the sample requests within %.1e.", largest)
    save_description(directory, served.task.config, served.tokenizer, served.task.labels)
    return signatures


def _call(served, function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:  # those of the converters and runtimes have no common class
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise _refusal(served, " ".join(lines[-2:])[:500] or type(error).__name__) from error


def _refusal(served, reason):
    return ValueError(
        f"This model cannot be exported with `export_for={served.options.export_for}`: {reason}. Nothing was kept. "
        "Convert it to a Hugging Face directory (`bert-tf convert`) and use that runtime's own exporter."
    )
