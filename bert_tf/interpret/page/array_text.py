"""Arrays as text in a page: bytes, packed by zlib, in base64; a separate part for all that is visible at a time."""

import base64
import zlib
from typing import NamedTuple

import numpy as np

HALF, ROOT, LINEAR = "half", "root", "linear"  # how a part's bytes become numbers; assets/base.js has the same names

_MANY = 2_000_000  # numbers of an array from which on a byte each has to do
_LEVELS = 255
_STRENGTH = 6  # zlib's, 1 to 9


class Packed(NamedTuple):
    """An array as a page holds it.

    Attributes:
        shape: shape of a part: the array's without its first axis.
        parts: for each, how its bytes become numbers: {"kind", "scales"}. HALF: float16, no scales. ROOT: uint8, a
            scale times the square. LINEAR: int8, times a scale. As many scales as there are equal runs of numbers.
        texts: for each, its bytes as base64 of a zlib stream.
    """

    shape: list[int]
    parts: list[dict]
    texts: list[str]


def pack_array(values: np.ndarray, kind: str = LINEAR, bits: float = 5.0) -> Packed:
    """Returns float [parts, ...] as parts: float16, or where the array is large a byte for each number.

    Args:
        values: the first axis is that of parts, the second of what has a scale of its own, such as heads.
        kind: kind of a large array: ROOT for shares, all of them positive, most of them small; else LINEAR.
        bits: a large array takes about so many for each number: where one scale's bytes hold more, they are rounded to
            fewer levels. Shares that are all alike suffer from that least, as they are small.
    """
    if values.size <= _MANY:
        parts = [({"kind": HALF, "scales": []}, part.astype("<f2")) for part in values]
    else:
        parts, to_bytes = [], _root if kind == ROOT else _linear
        for part in values:
            runs = [to_bytes(run, bits) for run in part.reshape(len(part), -1)]
            scales, data = [scale for scale, _ in runs], [data for _, data in runs]
            parts.append(({"kind": kind, "scales": scales}, np.concatenate(data)))
    texts = [_text(data, about["kind"]) for about, data in parts]
    return Packed(list(values.shape[1:]), [about for about, _ in parts], texts)


def _root(run, bits):
    most = float(run.max())
    levels, data = _round_to_bits(np.sqrt(run / most) if most > 0 else run, _LEVELS, np.uint8, bits)
    return most / levels**2, data


def _linear(run, bits):
    most = float(np.abs(run).max())
    levels, data = _round_to_bits(run / most if most > 0 else run, _LEVELS // 2, np.int8, bits)
    return most / levels, data


def _round_to_bits(shares, levels, dtype, bits):
    """Returns as many levels as fit into the bits, and shares of 1 as such levels."""
    data = np.rint(levels * shares).astype(dtype)
    while (over := _entropy(data.view(np.uint8)) - bits) > 0:
        levels = max(1, int(levels / 2**over))  # half of the levels are a bit less
        data = np.rint(levels * shares).astype(dtype)
    return levels, data


def _entropy(data):
    """Bits that a byte of these takes at least, one by one."""
    counts = np.bincount(data)
    shares = counts[counts > 0] / len(data)
    return float(-(shares * np.log2(shares)).sum())


def _text(data, kind):
    # Of rounded numbers nothing but runs repeats: to look for more takes twice the time and makes them larger.
    strategy = zlib.Z_DEFAULT_STRATEGY if kind == HALF else zlib.Z_RLE
    packer = zlib.compressobj(_STRENGTH, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, strategy)
    return base64.b64encode(packer.compress(data.tobytes()) + packer.flush()).decode("ascii")
