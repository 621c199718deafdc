"""Hostile requests to the paths of other protocols: proper bodies in which something is exchanged, added or broken."""

import copy
import json
import random
import struct
from collections.abc import Iterator
from typing import NamedTuple

_PAIR = {"name": "text", "shape": [2], "datatype": "BYTES", "data": ["a warm film", "dull"]}
_IDS = [
    {"name": name, "shape": [1, 3], "datatype": "INT32", "data": [[2, 9, 3] if name == "input_ids" else [1, 1, 1]]}
    for name in ("input_ids", "input_mask")
] + [{"name": "segment_ids", "shape": [1, 3], "datatype": "INT32", "data": [0, 0, 0]}]
_ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
_JSON, _CSV, _LINES = "application/json", "text/csv", "application/jsonlines"
PROPER = (
    ("POST", "/v1/embeddings", _JSON, {"model": "embedder", "input": ["a", "dull"], "encoding_format": "base64"}),
    ("POST", "/v1/embeddings", _JSON, {"model": "embedder", "input": "a warm film", "dimensions": 8, "user": "me"}),
    ("POST", "/v1/rerank", _JSON, {"query": "a", "documents": ["film", {"text": "b"}], "model": "reranker"}),
    ("POST", "/rerank", _JSON, {"query": "a", "documents": ["film", "b"], "return_documents": True}),
    ("POST", "/rerank", _JSON, {"query": "a", "texts": ["film", "b"], "return_text": True, "truncate": False}),
    ("POST", "/embed", _JSON, {"inputs": ["a", "b"], "normalize": True, "truncate": False, "dimensions": 8}),
    ("POST", "/predict", _JSON, {"inputs": [["a"], ["dull"]], "raw_scores": False}),
    ("POST", "/tokenize", _JSON, {"inputs": ["a film", "zebra"], "add_special_tokens": True}),
    ("GET", "/info", _JSON, {}),
    ("POST", "/invocations", _JSON, {"instances": ["a", "b"], "signature_name": "serving_default"}),
    ("POST", "/invocations", _JSON, {"inputs": {"text": ["a"]}}),
    ("POST", "/invocations", _CSV, b'"a, b"\nfilm\n'),
    ("POST", "/invocations", _LINES, b'"a"\n{"text": "b"}\n'),
    ("POST", "/v2/models/classifier/infer", _JSON, {"id": "1", "inputs": [_PAIR], "outputs": [{"name": "labels"}]}),
    ("POST", "/v2/models/classifier/versions/1/infer", _JSON, {"inputs": [_PAIR]}),
    ("POST", "/v2/models/classifier/infer", _JSON, {"inputs": _IDS, "parameters": {"signature_name": "ids"}}),
    ("GET", "/v2/models/embedder", _JSON, {}),
)
_STRANGE = (
    None, True, False, 0, -1, 8, 2**31, 2**63, 2**64, 10**400, 1.5, 1e308, float("nan"), float("inf"), "", " ", "a",
    "\ud800", "\0", "é" * 50, "embedder", "classifier", "nobody", "a " * 5000, [], {}, [[]], [None], [0], [[1, 2]],
    ["a"], ["a", ["b"]], [["a", "b", "c"]], {"b64": "YQ=="}, {"text": "a"}, {"text": 1}, [{"text": "a"}],
    [{"name": "text"}], ["a"] * 300, [0] * 40, [10**6, 10**6], [-1], "INT64", "FP16", "BYTES", "ids", "base64", "Left",
)  # fmt: skip
_HEADERS = (
    "a", "7", "tfs-model-name=embedder", "tfs-model-name=", "tfs-model-name=\xff", "\xe9", "=", ",,", "text/html",
)  # fmt: skip
_KINDS = (_JSON, _CSV, _LINES, "application/octet-stream", "", "text/csv; charset=latin-1", "a/b/c")


class ProtocolRequest(NamedTuple):
    """A request; `kind` is "proper", "exchanged", "bytes", "method" or "path"."""

    kind: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def requests(seed: int, n: int) -> Iterator[ProtocolRequest]:
    """Yields n requests, the same for the same seed."""
    rng = random.Random(seed)
    for _ in range(n):
        if rng.random() < 0.06:
            yield _in_bytes(rng)
            continue
        method, path, content, body = rng.choice(PROPER)
        kind = rng.choices(("proper", "exchanged", "bytes", "method", "path"), (2, 10, 4, 1, 1))[0]
        headers = {"Content-Type": content, _ATTRIBUTES: "tfs-model-name=classifier"}
        if kind == "exchanged" and not isinstance(body, bytes):
            body = copy.deepcopy(body)
            for _ in range(rng.randint(1, 3)):
                _exchange(rng, body)
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if kind == "bytes":
            body = _break(rng, body)
            headers["Content-Type"] = rng.choice((content, *_KINDS))
        if kind == "method":
            method = rng.choice(("GET", "PUT", "DELETE", "POST", "HEAD"))
        if kind == "path":
            path = rng.choice((path + "/", path + "x", path.upper(), "/v2/models//infer", "/v2/models/%00"))
        if rng.random() < 0.03:
            name = rng.choice(("Accept", "Inference-Header-Content-Length", _ATTRIBUTES))
            headers[name] = rng.choice(_HEADERS)
        yield ProtocolRequest(kind, method, path, headers, body)


def _in_bytes(rng):
    """Returns a request with a tensor in bytes after its JSON, proper or with a wrong number or broken bytes."""
    texts = rng.choice(([b"a warm film", b"dull"], [b""], [b"\xff\xfe", b"a" * 5000]))
    data = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    tensor = {"name": "text", "shape": [len(texts)], "datatype": "BYTES", "parameters": {"binary_data_size": len(data)}}
    body = {"inputs": [tensor], "parameters": {"binary_data_output": rng.random() < 0.5}}
    kind = rng.choice(("proper", "exchanged", "bytes"))
    if kind == "exchanged":
        _exchange(rng, body)
    head = json.dumps(body).encode()
    length = len(head)
    if kind == "bytes":
        data = rng.choice((data[:-1], data + b"\0", _break(rng, data), struct.pack("<I", 2**32 - 1) + data, b""))
        length = rng.choice((length, length, length - 1, 0, len(head + data) + 1, -1, 10**20))
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(length)}
    return ProtocolRequest(kind, "POST", "/v2/models/classifier/infer", headers, head + data)


def _exchange(rng, value):
    """Changes a JSON object or list at any depth in place."""
    if value == []:
        value.append(copy.deepcopy(rng.choice(_STRANGE)))
        return
    at = rng.randrange(len(value)) if isinstance(value, list) else rng.choice([*value, "surplus"])
    if at != "surplus" and isinstance(value[at], (list, dict)) and rng.random() < 0.6:
        _exchange(rng, value[at])
    elif isinstance(value, dict) and at != "surplus" and rng.random() < 0.2:
        del value[at]
    else:
        value[at] = copy.deepcopy(rng.choice(_STRANGE))


def _break(rng, body):
    data = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        what = rng.randrange(4)
        if what == 0:
            data[at : at + rng.randrange(1, 8)] = b""
        elif what == 1:
            data[at:at] = rng.choice((b"\xff", b"\0", b"\n", b'"', b"[" * 40, b"9" * 5000, b"\\ud83d", b"{}", b","))
        elif what == 2 and data:
            data[at % len(data)] = rng.randrange(256)
        else:
            data += rng.choice((b" ", b"{}", b"\n" * 3, bytes(data)))
    return bytes(data)
