"""Ways to send a body: packed in one or several members, cut, repeated, in chunks, or spliced with another.

A seed repeats them.
"""

import functools
import zlib
from collections.abc import Iterator

from tests.serving import hostile, hostile_configs, hostile_tensors
from tests.serving.hostile import Hostile
from tests.serving.hostile_tensors import Asked

_BY_SIGNATURE = 9  # where six are made as in `hostile`
_RELOADS = 1 / 500
_HEADERS = ("", "", "", "", "Content-Type: application/json\r\n", "Content-Type: text/plain\r\n",
            "Origin: http://elsewhere.example\r\n", "Expect: 100-continue\r\n", "Connection: close\r\n",
            "Accept: " + "x" * 4000 + "\r\n")  # fmt: skip


def messages(seed: int, n: int, big: int, asked: list[Asked], configs: hostile_configs.Configs) -> Iterator[Hostile]:
    """Yields n requests for gRPC, `big` of them with a text of 10 MB."""
    return hostile.messages(seed, n, big, (functools.partial(_message, asked, configs),) * _BY_SIGNATURE)


def exchanges(seed: int, n: int, big: int, asked: list[Asked]) -> Iterator[Hostile]:
    """Yields n requests for REST, `big` of them with a body of megabytes."""
    return hostile.exchanges(seed, n, big, (functools.partial(_exchange, asked),) * _BY_SIGNATURE)


def _message(asked, configs, rng):
    if rng.random() < _RELOADS:
        return configs.request(rng)
    kind, data, method = hostile_tensors.message(rng, asked)
    if rng.random() < 0.05:
        return Hostile("spliced", _spliced(rng, data, hostile_tensors.message(rng, asked)[1]), method)
    return Hostile(kind, data, method)


def _exchange(asked, rng):
    path, body = hostile_tensors.document(rng, asked)
    make = rng.choices((_plain, _gzip, _members, _spliced_bodies, _cut, _repeated, _chunked), (14, 2, 2, 2, 1, 1, 2))[0]
    return make(rng, path, body, asked)


def _plain(rng, path, body, asked):
    header = rng.choice(_HEADERS)
    keep = "Connection" not in header and "Expect" not in header
    return Hostile("document", hostile.post(body, path, header), keep=keep)


def packed(data: bytes, level: int = 1) -> bytes:
    """Returns one gzip member, the same at any time."""
    packer = zlib.compressobj(level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _gzip(rng, path, body, asked):
    data = packed(body)
    change = rng.randrange(6)
    if change == 0:
        data = data[: rng.randrange(len(data))]
    elif change == 1:
        data += rng.choice((b"\0", b"\0" * 1000, b"\x1f\x8b", rng.randbytes(30)))
    elif change == 2:
        data = data[:-8] + rng.randbytes(8)  # checksum and length
    elif change == 3:
        data = packed(data)
    header = rng.choice(("Content-Encoding: gzip\r\n",) * 3 + ("content-encoding: GZIP\r\n",
                        "Content-Encoding: gzip\r\nContent-Encoding: identity\r\n",
                        "Content-Encoding: gzip, gzip\r\n"))  # fmt: skip
    return Hostile("gzip", hostile.post(data, path, header), keep=True)


def _members(rng, path, body, asked):
    """The body in several members, empty ones among them."""
    empty, size = packed(b""), rng.choice((1, 7, 1000))
    parts = [packed(body[i : i + size]) for i in range(0, min(len(body), 50 * size), size)]
    for _ in range(rng.choice((0, 1, 20, 20, 2000))):
        parts.insert(rng.randrange(len(parts) + 1), empty)
    return Hostile("members", hostile.post(b"".join(parts), path, "Content-Encoding: gzip\r\n"), keep=True)


def _spliced_bodies(rng, path, body, asked):
    other = hostile_tensors.document(rng, asked)[1]
    return Hostile("spliced", hostile.post(_spliced(rng, body, other), path), keep=True)


def _spliced(rng, one, other):
    """The beginning of one and the end of another, or one within the other."""
    place, second = rng.randrange(len(one) + 1), rng.randrange(len(other) + 1)
    tail = one[place:] if rng.random() < 0.3 else b""
    return one[:place] + other[second:] + tail


def _cut(rng, path, body, asked):
    data = hostile.post(body, path)
    return Hostile("cut", data[: rng.randrange(1, len(data))], may_close=True)


def _repeated(rng, path, body, asked):
    if rng.random() < 0.5:
        return Hostile("repeated", hostile.post(body * rng.choice((2, 3, 50)), path), keep=True)
    return Hostile("repeated", hostile.post(body, path) * rng.choice((2, 3, 20)))  # pipelined; nobody reads the rest


def _chunked(rng, path, body, asked):
    size = rng.choice((1, 7, 1000, 70_000))
    parts = [body[i : i + size] for i in range(0, min(len(body), 300 * size), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    end = b"0\r\n\r\n" if rng.random() < 0.9 else rng.choice((b"", b"0\r\nX: y\r\n\r\n", b"-1\r\n"))
    return Hostile("chunked", head + chunks + end, may_close=end != b"0\r\n\r\n", keep=end == b"0\r\n\r\n")
