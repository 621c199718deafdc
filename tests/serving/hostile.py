"""Requests that no well-meaning client sends: random, broken, too large, and those that mean harm. A seed repeats them.

The model is `models.Film`, served as "film".
"""

import dataclasses
import functools
import gzip
import json
import random
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    predict_pb2,
    regression_pb2,
)

from tests.serving.models import example

BIG = 10_000_000  # bytes of a big text
_PREDICTION, _MODEL = "/tensorflow.serving.PredictionService/", "/tensorflow.serving.ModelService/"
_NAMES = ("", "film", "../film", "../../../../etc/passwd", "/etc/passwd", "film\0", "film/versions/3", "%s%n", ".",
          "é" * 300, "film:predict", "film" * 5000, "$(id)", "'; --")  # fmt: skip
_SIGNATURES = ("", "serving_default", "pair", "numbers", "classify", "regress", "echo", "no", "😀" * 1000, "\n",
               "x" * 9999)  # fmt: skip
_INTEGERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 2**16, 60_000_000, 2**31 - 1, 2**31, 2**62, 2**63 - 1)
_DTYPES = (tf.float32, tf.float64, tf.int32, tf.int64, tf.bool, tf.uint8, tf.complex64, tf.bfloat16, tf.half)
_SCALARS = (None, True, -1, 0.5, 1e308, 10**400, "", "a fine film", "\0", "\ud800", "😀", {"b64": "YQ"}, {"b64": "?"},
            {"b64": 1}, {}, [], [[]], float("nan"), float("-inf"))  # fmt: skip
_PATHS = ("/", "/v1", "/v1/", "/v2/models/film", "/v1/models", "/v1/models/", "/v1/models/film", "/v1/models/nobody",
          "/v1/models/film/metadata", "/v1/models/film/versions/3", "/v1/models/film/versions/-1", "*",
          "/v1/models/film/labels/stable", "/v1/models/..%2f..%2f..%2fetc%2fpasswd", "/v1/models/%00", "http://x/v1/",
          "/ui/../../../etc/passwd", "/v1/models/%ff%fe", "//v1//models", "/v1/models/%e2%28%a1", "/v1/models/%ud83d",
          "/v1/models/../../../../../../etc/passwd", "/v1/models/film:predict", "/v1/models/film:explode",
          "/v1/models/film/versions/" + "9" * 5000, "/v1/models/" + "a" * 5000, "/v1/models/film/../film",
          "/monitoring/prometheus/metrics/..", "/healthz/..")  # fmt: skip
_METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "FOO", "get")


@dataclasses.dataclass(frozen=True)
class Hostile:
    """One request.

    Attributes:
        kind: what is wrong with it.
        data: a serialized message for gRPC; all bytes of a connection's next request for REST.
        method: of gRPC with its service; "" for REST.
        may_close: whether a server may hang up without an answer, since the request never ends.
        keep: whether the next request may follow on the same connection of REST.
    """

    kind: str
    data: bytes
    method: str = ""
    may_close: bool = False
    keep: bool = False


Maker = Callable[[random.Random], Hostile]


def messages(seed: int, n: int, big: int = 0, more: tuple[Maker, ...] = ()) -> Iterator[Hostile]:
    """Yields n requests for gRPC, `big` of them with a text of 10 MB; `more` makes others, each as often as it is."""
    makers = (_noise, _mutant, _mutant, _strange_tensor, _strange_tensor, _strange_spec)
    return _mixture(seed, n, big, makers + more, _big_message)


def exchanges(seed: int, n: int, big: int = 0, more: tuple[Maker, ...] = ()) -> Iterator[Hostile]:
    """Yields n requests for REST, `big` of them with a body of megabytes, packed or not; `more` as in `messages`."""
    makers = (_strange_values, _strange_values, _mutant_json, _strange_path, _strange_bytes, _bad_framing)
    return _mixture(seed, n, big, makers + more, _big_exchange)


def _mixture(seed, n, big, makers, make_big):
    rng = random.Random(seed)
    every = n // big if big else n + 1
    for i in range(1, n + 1):
        yield make_big(rng, i // every - 1) if i % every == 0 else rng.choice(makers)(rng)


@functools.cache
def _valid():
    """Returns [(method, message)] that a server answers, to begin from."""
    predict = predict_pb2.PredictRequest()
    predict.model_spec.name = "film"
    predict.inputs["text"].CopyFrom(tf.make_tensor_proto(["a fine film", "a dull film"]))
    numbers = predict_pb2.PredictRequest()
    numbers.model_spec.name, numbers.model_spec.signature_name = "film", "numbers"
    numbers.inputs["x"].CopyFrom(tf.make_tensor_proto(np.ones([2, 3], np.float32)))
    numbers.inputs["scale"].CopyFrom(tf.make_tensor_proto([1, 2]))
    found = [(f"{_PREDICTION}Predict", predict), (f"{_PREDICTION}Predict", numbers)]
    for name, request in (
        ("Classify", classification_pb2.ClassificationRequest()),
        ("Regress", regression_pb2.RegressionRequest()),
    ):
        request.model_spec.name, request.model_spec.signature_name = "film", name.lower()
        request.input.example_list.examples.append(example("a fine film"))
        found.append((f"{_PREDICTION}{name}", request))
    several = inference_pb2.MultiInferenceRequest()
    task = several.tasks.add(method_name="tensorflow/serving/classify")
    task.model_spec.name, task.model_spec.signature_name = "film", "classify"
    several.input.example_list.examples.append(example("a fine film"))
    metadata = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    status = get_model_status_pb2.GetModelStatusRequest()
    metadata.model_spec.name = status.model_spec.name = "film"
    return [*found, (f"{_PREDICTION}MultiInference", several), (f"{_PREDICTION}GetModelMetadata", metadata),
            (f"{_MODEL}GetModelStatus", status)]  # fmt: skip


def _noise(rng):
    # Not to HandleReloadConfigRequest: what a valid one of those asks for is no abuse.
    return Hostile("noise", rng.randbytes(rng.randrange(200)), rng.choice(_valid())[0])


def _mutant(rng):
    method, message = rng.choice(_valid())
    return Hostile("mutant", _mutated(rng, message.SerializeToString()), method)


def _mutated(rng, data):
    """Changes some bytes, leaves some out, doubles some, or cuts the end off."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        if not data:
            break
        place = rng.randrange(len(data))
        change = rng.randrange(5)
        if change == 0:
            data[place] ^= 1 << rng.randrange(8)
        elif change == 1:
            data[place] = rng.randrange(256)
        elif change == 2:
            del data[place : place + rng.randint(1, 8)]
        elif change == 3:
            data[place:place] = data[place : place + rng.randint(1, 30)]
        else:
            del data[place:]
    return bytes(data)


def _strange_tensor(rng):
    """A Predict whose tensors promise what they do not hold, or hold what the model cannot take."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "film"
    request.model_spec.signature_name = rng.choice(("", "pair", "numbers", "echo", "classify"))
    names = (("text",), ("text_a", "text_b"), ("x", "scale"), ("image_bytes",), ("inputs",), ("q",), ())
    for name in rng.choice(names):
        request.inputs[name].CopyFrom(_tensor(rng))
    request.output_filter.extend(rng.choice(((), (), ("label",), ("label", "label"), ("no",), ("y", "total"), ("\0",))))
    return Hostile("tensor", request.SerializeToString(), f"{_PREDICTION}Predict")


def _tensor(rng):
    if rng.random() < 0.3:  # well made, of any type and shape, with NaN among the numbers
        dtype = rng.choice(_DTYPES)
        values = np.full([rng.randrange(4) for _ in range(rng.randrange(4))], np.nan if dtype.is_floating else 1)
        return tf.make_tensor_proto(values, dtype)
    tensor = tensor_pb2.TensorProto(dtype=rng.choice((7, 7, 7, 1, 3, 9, 0, 20, 21, 23, 101, 107)))
    for _ in range(rng.randrange(5)):
        tensor.tensor_shape.dim.add(size=rng.choice(_INTEGERS), name=rng.choice(("", "é", "x" * 500)))
    if rng.random() < 0.1:
        tensor.tensor_shape.unknown_rank = True
    texts = (b"", b"a fine film", b"\xff\xfe", b"\0", rng.randbytes(40), b"fine " * 3000)
    tensor.string_val.extend(rng.choice(texts) for _ in range(rng.randrange(4)))
    tensor.float_val.extend([float("nan"), float("inf"), 1e-45][: rng.randrange(4)])
    tensor.int_val.extend([1, -(2**31), 2**31 - 1][: rng.randrange(4)])
    if rng.random() < 0.3:
        tensor.tensor_content = rng.randbytes(rng.randrange(40))
    if rng.random() < 0.05:
        tensor.resource_handle_val.add(device="/etc/passwd", container="x", hash_code=2**64 - 1)
    return tensor


def _strange_spec(rng):
    """Any request about a model, a version, a label or a signature that there is not."""
    method, message = rng.choice(_valid())
    message = type(message).FromString(message.SerializeToString())
    spec = message.tasks[0].model_spec if hasattr(message, "tasks") else message.model_spec
    spec.name = rng.choice(_NAMES)
    spec.signature_name = rng.choice(_SIGNATURES)
    choice = rng.randrange(4)
    if choice == 0:
        spec.version.value = rng.choice(_INTEGERS)
    elif choice == 1:
        spec.version_label = rng.choice(_NAMES)
    elif choice == 2:
        message.ClearField("tasks" if hasattr(message, "tasks") else "model_spec")
    return Hostile("spec", message.SerializeToString(), method)


def _big_message(rng, number):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "film"
    text = (b"fine " * (BIG // 5), b"x" * BIG, rng.randbytes(BIG), "😀".encode() * (BIG // 4))[number % 4]
    request.inputs["text"].CopyFrom(tf.make_tensor_proto([text]))
    return Hostile("big", request.SerializeToString(), f"{_PREDICTION}Predict")


def post(body: bytes, path: str = "/v1/models/film:predict", headers: str = "") -> bytes:
    """Returns the bytes of a POST with this body."""
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def _value(rng, depth=0):
    """Returns any JSON value."""
    choice = rng.randrange(6 if depth < 4 else 4)
    if choice < 4:
        return rng.choice(_SCALARS)
    if choice == 4:
        return [_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    keys = ("text", "text_a", "x", "scale", "inputs", "b64", "\ud800", "", "é")
    return {rng.choice(keys): _value(rng, depth + 1) for _ in range(rng.randrange(4))}


def _document(rng):
    keys = ("instances", "inputs", "examples", "context", "signature_name", "\udfff")
    document = {key: _value(rng) for key in rng.sample(keys, rng.randint(1, 3))}
    if rng.random() < 0.6:
        document["signature_name"] = rng.choice((*_SIGNATURES, "\ud800"))
    return document


def _strange_values(rng):
    method = rng.choice(("predict", "predict", "classify", "regress"))
    path = f"/v1/models/film{rng.choice(('', '', '/versions/3'))}:{method}"
    if rng.random() < 0.05:
        depth = rng.choice((20, 66, 500, 20_000))
        body = b'{"instances": ' + b"[" * depth + b"]" * depth + b"}"
    elif rng.random() < 0.05:
        body = b'{"instances": [' + b"9" * rng.choice((400, 5000, 50_000)) + b"]}"
    else:
        body = json.dumps(_document(rng)).encode()  # lone surrogates as escapes, NaN as such
    return Hostile("values", post(body, path), keep=True)


def _mutant_json(rng):
    bodies = (
        b'{"instances": ["a fine film", "a dull one"]}',
        b'{"inputs": {"text": ["a fine film"]}}',
        b'{"signature_name": "numbers", "instances": [{"x": [1.0, 2.0, 3.0], "scale": 2}]}',
    )
    body = rng.choice(bodies)
    return Hostile("mutant", post(_mutated(rng, body)), keep=True)


def _strange_bytes(rng):
    bodies = (rng.randbytes(rng.randrange(300)), b"\xff\xfe{\0}\0", b'{"instances": ["\xc3\x28"]}', b"\xef\xbb\xbf{}",
              b"", b"null", b"[]", b'"', b"{" * 3000, b"[1" * 3000, b'{"instances":["' + b"\\ud83d" * 500 + b'"]}',
              gzip.compress(b"{}", mtime=0))  # fmt: skip
    headers = ("", "", "Content-Encoding: gzip\r\n", "Content-Encoding: br\r\n", "Content-Type: text/html\r\n")
    return Hostile("bytes", post(rng.choice(bodies), headers=rng.choice(headers)))


def _strange_path(rng):
    return Hostile("path", f"{rng.choice(_METHODS)} {rng.choice(_PATHS)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


_BODY = b'{"instances": ["a fine film"]}'
_HEAD = b"POST /v1/models/film:predict HTTP/1.1\r\nHost: localhost\r\n"
_FRAMINGS = (
    (_HEAD + b"Content-Length: 9223372036854775808\r\n\r\n" + _BODY, False),
    (_HEAD + b"Content-Length: 1099511627776\r\n\r\n" + _BODY, False),
    (_HEAD + b"Content-Length: 30\r\nContent-Length: 31\r\n\r\n" + _BODY, False),
    (_HEAD + b"Content-Length: 3_0\r\n\r\n" + _BODY, False),
    (_HEAD + b"Content-Length: -1\r\n\r\n" + _BODY, False),
    (_HEAD + b"Content-Length: +30\r\n\r\n" + _BODY, False),
    (_HEAD + b"Content-Length: 40\r\n\r\n" + _BODY, True),
    (_HEAD + b"Transfer-Encoding: gzip\r\n\r\n" + _BODY, False),
    (_HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 30\r\n\r\n1e\r\n" + _BODY + b"\r\n0\r\n\r\n", False),
    (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n8000000000000000\r\n" + _BODY, True),  # else it waits for the rest
    (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n10000000000\r\n" + _BODY, True),
    (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n" + _BODY, False),
    (_HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + _BODY, False),
    (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n1e;" + b"x" * 90_000 + b"\r\n" + _BODY + b"\r\n0\r\n\r\n", True),
    (_HEAD + b"X: " + b"y" * 200_000 + b"\r\n\r\n", False),
    (_HEAD + b"X: y\r\n" * 20_000 + b"\r\n", False),
    (_HEAD + b": nameless\r\n\r\n", False),
    (_HEAD + b"X y\r\n\r\n", False),
    (b"POST  HTTP/1.1\r\n\r\n", False),
    (b"GET /v1/models/film HTTP/9.9\r\n\r\n", False),
    (b"GET /v1/models/film\r\n\r\n", True),  # HTTP/0.9 has no status to answer with
    (b"GET /v1/models/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", False),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", True),  # begins a TLS connection
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", True),
)


def _bad_framing(rng):
    data, may_close = rng.choice(_FRAMINGS)
    return Hostile("framing", data, may_close=may_close)


@functools.cache
def _bomb():
    return gzip.compress(b" " * 600_000_000, 9, mtime=0)


def _big_exchange(rng, number):
    kind = number % 5
    if kind == 0:
        return Hostile("bomb", post(_bomb(), headers="Content-Encoding: gzip\r\n"))
    if kind == 1:
        return Hostile("lists", post(b'{"instances": [' + b"[]," * 6_000_000 + b"[]]}"))
    if kind == 2:
        return Hostile("objects", post(b'{"instances": [' + b"{}," * (BIG // 3) + b"{}]}"))
    text = (b"fine " * (BIG // 5), "😀".encode() * (BIG // 4))[kind - 3]
    return Hostile("big", post(b'{"instances": ["' + text + b'"]}'))
