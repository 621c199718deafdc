"""Requests made from a model's own signatures: many that are right, and many that lie about one thing.

Lies are about ranks, sizes, types, values and how they are encoded. A seed repeats them.
"""

import base64
import dataclasses
import itertools
import json
import math
import os
import pathlib
import random

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    input_pb2,
    predict_pb2,
    regression_pb2,
)

PREDICTION, MODEL = "/tensorflow.serving.PredictionService/", "/tensorflow.serving.ModelService/"
_HEAVY = 1 / 5000  # requests of thousands of rows or tokens: each takes seconds
_MOST_VALUES = 20_000  # of a tensor that is written out; a larger one lies about how many it has
_TEXTS = (b"", b" ", b"a fine film", b"a fine film", b"the film is a story of people and music. see it, good",
          b"[CLS] [SEP] [MASK]", b"\xff\xfe", b"\0", "é😀 ß½".encode(), "a\u0301".encode() * 50, b"fine " * 300,
          b"x" * 20_000, "字".encode() * 700)  # fmt: skip
_RANKS = (0, 1, 2, 3, 4, 5, 8, 31, 32, 33, 34, 48, 63, 64, 65, 100, 255)
_SIZES = (0, -1, -2, -(2**63), 4096, 4097, 16_384, 65_536, 65_537, 2**22, 2**31 - 1, 2**31, 2**32, 2**40, 2**62,
          2**63 - 1)  # fmt: skip
_INTEGERS = (-1, -(2**31), 2**31 - 1, 22, 23, 1_000_000)
_DTYPES = (tf.string, tf.int32, tf.int64, tf.float32, tf.float64, tf.bool, tf.uint8, tf.int16, tf.uint64, tf.half,
           tf.bfloat16, tf.complex64, tf.qint8, tf.resource, tf.variant)  # fmt: skip
_FIELDS = ("string_val", "int_val", "int64_val", "float_val", "double_val", "bool_val", "half_val", "uint32_val",
           "uint64_val")  # fmt: skip
_FIELD_OF = {tf.string: "string_val", tf.int32: "int_val", tf.float32: "float_val", tf.int64: "int64_val"}


@dataclasses.dataclass(frozen=True)
class Asked:
    """A signature of a model that is served.

    Attributes:
        model: its name.
        name: of the signature.
        inputs: {alias: (type, sizes with None where a request decides)}.
        method: "predict", "classify" or "regress".
        features: names of the texts in its tf.Examples.
    """

    model: str
    name: str
    inputs: dict[str, tuple[tf.DType, tuple[int | None, ...]]]
    method: str
    features: tuple[str, ...]


def read_signatures(model: str, folder: os.PathLike) -> list[Asked]:
    """Returns all signatures of the version in `folder` that have inputs."""
    saved = saved_model_pb2.SavedModel.FromString(pathlib.Path(folder, "saved_model.pb").read_bytes())
    definitions = saved.meta_graphs[0].signature_def
    features = tuple(sorted(definitions["serving_default"].inputs))
    found = []
    for name in sorted(definitions):
        inputs = {
            alias: (tf.as_dtype(info.dtype), tuple(d.size if d.size >= 0 else None for d in info.tensor_shape.dim))
            for alias, info in sorted(definitions[name].inputs.items())
        }
        if inputs:
            found.append(Asked(model, name, inputs, definitions[name].method_name.rpartition("/")[2], features))
    return found


def message(rng: random.Random, asked: list[Asked]) -> tuple[str, bytes, str]:
    """Returns (kind, serialized request, method of gRPC with its service)."""
    maker = rng.choices((_predict, _examples, _multi_inference, _about), (8, 3, 1, 1))[0]
    takes_examples = maker in (_examples, _multi_inference) and rng.random() < 0.8
    one = rng.choice([each for each in asked if each.method != "predict"] if takes_examples else asked)
    return maker(rng, one, asked)


def document(rng: random.Random, asked: list[Asked]) -> tuple[str, bytes]:
    """Returns (path, body) of a REST request."""
    one = rng.choice(asked)
    if one.method != "predict" and rng.random() < 0.8:
        return f"/v1/models/{one.model}:{one.method}", _encoded(rng, _example_document(rng, one))
    body = _predict_document(rng, one)
    if one.name != "serving_default" or rng.random() < 0.1:
        body["signature_name"] = one.name
    return f"/v1/models/{one.model}:predict", _encoded(rng, body)


def axes(rng: random.Random) -> tuple[int, ...]:
    """Returns the sizes that a request gives to the unknown axes of its inputs, the first of which are its rows."""
    if rng.random() < _HEAVY:
        return rng.choice(((4096, 1, 1), (4097, 1, 1), (1, 512, 2), (1, 16_384, 1), (2, 3, 2000), (64, 64, 4)))
    if rng.random() < 0.05:
        return rng.choice(((0, 1, 1), (1, 0, 1), (1, 1, 0), (0, 0, 0), (1, 33, 1), (2, 2, 40)))
    return rng.randint(1, 4), rng.choice((1, 2, 3, 16)), rng.choice((1, 2, 8))


# ---- gRPC


def _predict(rng, one, asked):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = one.model
    request.model_spec.signature_name = one.name
    sizes, lies = axes(rng), rng.random() < 0.6
    liar = rng.choice(list(one.inputs)) if lies else None
    for alias, (dtype, shape) in one.inputs.items():
        fill_tensor(rng, request.inputs[alias], dtype, _sizes(shape, sizes), alias == liar)
    if rng.random() < 0.03:
        del request.inputs[rng.choice(list(request.inputs))]
    if rng.random() < 0.03:
        fill_tensor(rng, request.inputs[rng.choice(("more", "", "é" * 900))], tf.string, [1], False)
    if rng.random() < 0.05:
        request.output_filter.extend(rng.choice((["probabilities"], ["label", "label"], ["no"], [""] * 100)))
    return ("lie" if lies else "right"), request.SerializeToString(), f"{PREDICTION}Predict"


def fill_tensor(rng: random.Random, proto: tensor_pb2.TensorProto, dtype: tf.DType, sizes: list[int], lies: bool):
    """Writes a tensor of these sizes, or one that differs in rank, size, type, number of values or encoding."""
    lie = rng.choice(("rank", "size", "sizes", "dtype", "count", "encoding", "unknown")) if lies else ""
    if lie == "rank":
        sizes = _other_rank(rng, sizes)
    elif lie in ("size", "sizes") and sizes:
        sizes = list(sizes)
        for _ in range(1 if lie == "size" else 3):
            sizes[rng.randrange(len(sizes))] = rng.choice(_SIZES)
    elif lie == "dtype":
        dtype = rng.choice(_DTYPES)
    proto.dtype = dtype.as_datatype_enum
    for size in sizes:
        proto.tensor_shape.dim.add(size=size)
    proto.tensor_shape.unknown_rank = lie == "unknown"
    count = math.prod(sizes)
    if not 0 <= count <= _MOST_VALUES:
        count = rng.choice((0, 1, 2, 1000))
    if lie == "count":
        count = rng.choice((0, 1, max(0, count - 1), count + 1, 2 * count))
    _fill_values(rng, proto, dtype, count, lie == "encoding")


def _fill_values(rng, proto, dtype, count, wrongly):
    values = _values(rng, dtype, count)
    if wrongly and rng.random() < 0.5:
        proto.tensor_content = rng.randbytes(rng.choice((0, 1, 3, 4 * count, 4 * count + 1, 8 * count)))
    if wrongly and rng.random() < 0.5:
        field = rng.choice(_FIELDS)
        getattr(proto, field).extend([b"x"] * count if field == "string_val" else [1] * count)
    elif dtype != tf.string and dtype in (tf.int32, tf.int64, tf.float32) and rng.random() < 0.5:
        proto.tensor_content = np.array(values, dtype.as_numpy_dtype).tobytes()
    else:
        getattr(proto, _FIELD_OF.get(dtype, "int_val")).extend(values[:1] if rng.random() < 0.1 else values)


def _other_rank(rng, sizes):
    rank = rng.choice(_RANKS)
    ones = [1] * rank
    if rank and sizes and rng.random() < 0.5:
        ones[rng.choice((0, rank - 1))] = sizes[0]
    return ones


def _sizes(shape, sizes):
    return [sizes[i % len(sizes)] if size is None else size for i, size in enumerate(shape)]


def _values(rng, dtype, count):
    if count > 100:  # a few short ones in turn: drawing and sending others would be most of the work
        few = list(_TEXTS[:4]) if dtype == tf.string else _values(rng, dtype, 7)
        return list(itertools.islice(itertools.cycle(few), count))
    if dtype == tf.string:
        return [rng.choice(_TEXTS) for _ in range(count)]
    if dtype.is_floating and dtype in _FIELD_OF:
        return [rng.choice((0.0, 1.5, -2.0, float("nan"), float("inf"))) for _ in range(count)]
    evil = rng.random() < 0.1
    return [rng.choice(_INTEGERS) if evil and rng.random() < 0.2 else rng.randrange(2) for _ in range(count)]


def _examples(rng, one, asked):
    classifies = one.method == "classify" if rng.random() < 0.8 else rng.random() < 0.5
    kind = classification_pb2.ClassificationRequest if classifies else regression_pb2.RegressionRequest
    request = kind()
    request.model_spec.name = one.model
    request.model_spec.signature_name = one.name if one.method != "predict" or rng.random() < 0.2 else "classify"
    _fill_input(rng, request.input, one)
    return "examples", request.SerializeToString(), PREDICTION + ("Classify" if classifies else "Regress")


def _multi_inference(rng, one, asked):
    request = inference_pb2.MultiInferenceRequest()
    there = [each for each in asked if each.model == one.model and (each.method != "predict" or rng.random() < 0.1)]
    there = there or [one]
    for _ in range(rng.choice((0, 1, 1, 2, 2, 5, 200))):
        each = rng.choice(there)
        method = each.method if rng.random() < 0.9 else rng.choice(("predict", "classify", "regress", ""))
        task = request.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name, task.model_spec.signature_name = each.model, each.name
    _fill_input(rng, request.input, one)
    return "tasks", request.SerializeToString(), f"{PREDICTION}MultiInference"


def _fill_input(rng, target: input_pb2.Input, one):
    examples = target.example_list
    if rng.random() < 0.1:
        examples = target.example_list_with_context
        _fill_example(rng, examples.context, one)
    for _ in range(axes(rng)[0]):
        _fill_example(rng, examples.examples.add(), one)


def _fill_example(rng, example, one):
    lies = rng.random() < 0.2
    for name in one.features:
        feature = example.features.feature[name if not lies or rng.random() < 0.5 else rng.choice(("", "no", "\0"))]
        choice = rng.randrange(4) if lies else 0
        if choice == 0:
            feature.bytes_list.value.extend(rng.choice(_TEXTS) for _ in range(rng.randrange(4) if lies else 1))
        elif choice == 1:
            feature.int64_list.value.extend(_INTEGERS)
        elif choice == 2:
            feature.float_list.value.extend([float("nan")] * rng.randrange(5))


def _about(rng, one, asked):
    if rng.random() < 0.5:
        request = get_model_status_pb2.GetModelStatusRequest()
        method = f"{MODEL}GetModelStatus"
    else:
        fields = rng.choice((["signature_def"], ["signature_def"] * 1000, [], ["no"], [""]))
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
        method = f"{PREDICTION}GetModelMetadata"
    request.model_spec.name = one.model
    if rng.random() < 0.3:
        request.model_spec.version.value = rng.choice(_SIZES)
    return "about", request.SerializeToString(), method


# ---- REST


def _predict_document(rng, one):
    sizes, lies = axes(rng), rng.random() < 0.5
    liar = rng.choice(list(one.inputs)) if lies else None
    columns = {}
    for alias, (dtype, shape) in one.inputs.items():
        given = _sizes(shape, sizes)
        if math.prod(given) > _MOST_VALUES:
            given = [1] * len(given)
        columns[alias] = _nested([_json_value(value) for value in _values(rng, dtype, math.prod(given))], given)
        if alias == liar:
            columns[alias] = _lie_in_json(rng, columns[alias])
    if rng.random() < 0.03:
        columns[rng.choice(("more", "", "b64"))] = rng.choice(([1], "x", {}))
    if rng.random() < 0.3:
        return {"inputs": next(iter(columns.values())) if len(columns) == 1 and rng.random() < 0.5 else columns}
    rows = min((len(each) for each in columns.values() if isinstance(each, list)), default=0)
    instances = [{alias: each[i] for alias, each in columns.items() if isinstance(each, list)} for i in range(rows)]
    if len(columns) == 1 and rng.random() < 0.5:
        return {"instances": next(iter(columns.values()))}
    return {"instances": instances}


def _nested(values, sizes):
    for size in reversed(sizes[1:]):
        values = [values[i : i + size] for i in range(0, len(values), size)] if size else [[] for _ in values]
    return values


def _json_value(value):
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}


def _lie_in_json(rng, value):
    choice = rng.randrange(6)
    if choice == 0:
        for _ in range(rng.choice(_RANKS)):
            value = [value]
    elif choice == 1:
        value = value[0] if value else None
    elif choice == 2 and value:  # ragged
        value = [*value, [value[0]], value[0]]
    elif choice == 3:
        value = [rng.choice((None, True, -1, 0.5, 10**400, "x", "\ud800", {"b64": "?"}, {}, [])), *value]
    elif choice == 4:
        value = value * rng.choice((0, 2, 10, 4097 if len(str(value)) < 100 else 1))
    else:
        value = rng.choice(("", 0, {}, {"b64": "YQ=="}, [[[]]], [[], []]))
    return value


def _example_document(rng, one):
    examples = []
    for _ in range(min(axes(rng)[0], 300)):
        examples.append({name: _json_value(rng.choice(_TEXTS)) for name in one.features})
    if rng.random() < 0.3:
        examples.append({rng.choice(("no", "", *one.features)): rng.choice((1, [1, 0.5], [[]], None, 2**64, {}))})
    found = {"signature_name": one.name, "examples": examples}
    if rng.random() < 0.1:
        found["context"] = rng.choice(({}, {"text": "x" * 1000}, [], None))
    return found


def _encoded(rng, found):
    return json.dumps(found, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
