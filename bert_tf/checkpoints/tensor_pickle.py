"""The pickle inside a torch file, read with an interpreter that can only build descriptions of tensors.

A pickle is a program. Python's own reader runs it: it calls what the program names, and allocates what it asks for.
This interpreter only supports the instructions that torch.save writes for dicts of tensors, never imports a name,
and takes time and memory in proportion to the length of the program, which is bounded: no instruction scans the
results of others unless they are short, or add up to no more than a program of that length can need. Written from
the description of the instructions in Python's `pickletools`.
"""

import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

LONGEST = 16 * 2**20  # bytes of a pickle; that of BERT-large has 60,000
_MOST_INSTRUCTIONS = 1_000_000  # BERT-large: 12,000
_MOST_AXES = 32
_MOST_ARGUMENTS = 8  # of a call; torch's have up to 7
_MOST_DIGITS = 16  # bytes of an integer
_KEYS = range(-(2**63), 2**63)  # integers that may be keys: of larger ones any number can have the same hash
_DTYPES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}


class Storage(NamedTuple):
    """A run of `size` elements of `dtype`, called `key` in the file."""

    key: str
    dtype: np.dtype
    size: int


class Tensor(NamedTuple):
    """A tensor still in its file; `offset` and `stride` count elements of the storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


class Loaded(NamedTuple):
    """The result of reading a pickle: its content, its storages by key, and the end position in the data."""

    content: Any
    storages: dict[str, Storage]
    end: int


class _Name(NamedTuple):
    """A global that the pickle names; never imported."""

    module: str
    name: str


def load_pickle(data: bytes, start: int = 0) -> Loaded:
    """Reads the pickle at `start`: dicts, lists, tuples, numbers, text and `Tensor`s.

    Raises:
        ValueError: it is truncated, longer than weights need, or contains anything else.
    """
    machine = _Machine(data, start)
    for _ in range(_MOST_INSTRUCTIONS):
        code = machine.take(1)
        if code == b".":
            return Loaded(machine.pop(), machine.storages, machine.at)
        if code not in _INSTRUCTIONS:
            raise ValueError(f"the instruction {code!r}, which is not needed for tensors")
        _INSTRUCTIONS[code](machine)
    raise ValueError(f"a pickle of more than {_MOST_INSTRUCTIONS:,} instructions")


class _Machine:
    """The state of the interpreter: a stack, the stacks below the marks, the memo, and the size of call arguments."""

    def __init__(self, data, start):
        self.data, self.at = data, start
        self.stack, self.below, self.memo, self.storages = [], [], {}, {}
        self.given = 0  # items of the lists and tuples that calls were given

    def take(self, size):
        """Returns the next bytes of the program."""
        if not 0 <= size <= len(self.data) - self.at:
            raise ValueError("a pickle that is cut short")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, layout):
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def push(self, value):
        self.stack.append(value)

    def pop(self, kind=object):
        """Returns the top of the stack, which must be of a kind."""
        if not self.stack:
            raise ValueError("a pickle that takes more from its stack than is on it")
        return _of(self.stack.pop(), kind)

    def mark(self):
        self.below.append(self.stack)
        self.stack = []

    def since_mark(self):
        """Returns what was pushed since the last mark, and goes back to what was below it."""
        if not self.below:
            raise ValueError("a pickle without a mark where one must be")
        items, self.stack = self.stack, self.below.pop()
        return items

    def last(self, count):
        return [self.pop() for _ in range(count)][::-1]

    def text(self, layout):
        self.push(self.take(self.number(layout)).decode("utf-8"))

    def integer(self):
        size = self.number("<B")
        if size > _MOST_DIGITS:
            raise ValueError(f"an integer of {size} bytes")
        self.push(int.from_bytes(self.take(size), "little", signed=True))

    def line(self):
        end = self.data.find(b"\n", self.at, self.at + 1000)
        text = self.take(end - self.at).decode("utf-8")
        self.take(1)
        return text

    def name(self, module, name):
        if (module, name) not in _CALLS and (module not in ("torch", "torch.storage") or name not in _DTYPES):
            raise ValueError(f"a file that tries to run {module:.80}.{name:.80}, which is not allowed")
        self.push(_Name(module, name))

    def named_on_stack(self):
        module, name = self.last(2)
        self.name(_of(module, str), _of(name, str))

    def put(self, index):
        self.memo[index] = self.pop()
        self.push(self.memo[index])

    def get(self, index):
        if index not in self.memo:
            raise ValueError(f"a pickle that reads an undefined memo entry, number {index}")
        self.push(self.memo[index])

    def extend(self, items):
        target = self.pop(list)
        target.extend(items)
        self.push(target)

    def update(self, items):
        target = self.pop(dict)
        target.update(_dict(items))
        self.push(target)

    def call(self):
        args, name = self.pop(tuple), self.pop(_Name)
        if name not in _CALLS:
            raise ValueError(f"a file that tries to call {name.name}")
        if len(args) > _MOST_ARGUMENTS:
            raise ValueError(f"a call of {name.name} with {len(args)} arguments")
        self.given += sum(len(each) for each in args if isinstance(each, (list, tuple)))
        if self.given > _MOST_INSTRUCTIONS:  # each item takes an instruction, unless one list is given to many calls
            raise ValueError(f"calls that are given more than {_MOST_INSTRUCTIONS:,} items together")
        self.push(_CALLS[name](*args))

    def build(self):
        """Drops the attributes that a file sets on a dict, `_metadata` of a state dict; on nothing else may it."""
        self.pop()
        self.push(self.pop(dict))

    def storage(self):
        pid = self.pop(tuple)
        described = len(pid) == 5 or len(pid) == 6 and pid[5] is None  # the sixth: a part of another storage
        if not described or not isinstance(pid[1], _Name) or pid[1].name not in _DTYPES:
            raise ValueError("a storage that is not described as torch does")
        kind, label, key, _location, size = pid[:5]
        if kind != "storage" or not isinstance(key, str) or not _is_size(size):
            raise ValueError("a storage that is not described as torch does")
        found = Storage(key, np.dtype(_DTYPES[label.name]), size)
        if self.storages.setdefault(key, found) != found:
            raise ValueError(f"the storage {key:.80}, described in two ways")
        self.push(found)


def _of(value, kind):
    if not isinstance(value, kind):
        raise ValueError(f"a pickle with a {type(value).__name__} in place of a {kind.__name__}")
    return value


def _dict(items):
    """Returns a dict of keys and values in turn; other keys than text and integers can take for ever to hash."""
    if len(items) % 2 or not all(isinstance(key, str) or isinstance(key, int) and key in _KEYS for key in items[::2]):
        raise ValueError("a dict whose keys are not text or integers of 64 bits")
    return dict(zip(items[::2], items[1::2], strict=True))


def _is_size(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**48


def _rebuild_tensor(*args):
    if len(args) < 4 or not isinstance(args[0], Storage) or not all(isinstance(a, (tuple, list)) for a in args[2:4]):
        raise ValueError("a tensor's storage, offset, shape or strides, which are not what torch writes")
    if max(map(len, args[2:4])) > _MOST_AXES:
        raise ValueError(f"a tensor of {max(map(len, args[2:4]))} axes")
    storage, offset, shape, stride = args[0], args[1], tuple(args[2]), tuple(args[3])
    if not all(map(_is_size, (offset, *shape, *stride))):
        raise ValueError("a tensor's storage, offset, shape or strides, which are not what torch writes")
    if len(shape) != len(stride):
        raise ValueError(f"a tensor of shape {shape}, which has {len(stride)} strides")
    last = offset + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
    if math.prod(shape) and last >= storage.size:
        raise ValueError(f"a tensor of shape {shape}, which reaches beyond its storage of {storage.size} elements")
    if math.prod(shape) > storage.size:  # steps of 0, or smaller than a row: much would come out of little
        raise ValueError(f"a tensor of shape {shape}, more numbers than the {storage.size} of its storage")
    return Tensor(storage, offset, shape, stride)


def _rebuild_parameter(*args):
    return _of(args[0] if args else None, Tensor)


def _ordered_dict(*args):
    pairs = _of(args[0], list) if args else []  # filled: as Python 2 writes it
    if len(args) > 1 or not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise ValueError("an OrderedDict whose items are not pairs")
    return _dict([item for pair in pairs for item in pair])


_CALLS: dict[_Name, Callable] = {
    _Name("collections", "OrderedDict"): _ordered_dict,
    _Name("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    _Name("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    _Name("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
}
_INSTRUCTIONS: dict[bytes, Callable[[_Machine], Any]] = {
    b"\x80": lambda m: m.take(1),  # the protocol
    b"\x95": lambda m: m.take(8),  # a frame
    b"N": lambda m: m.push(None),
    b"\x88": lambda m: m.push(True),
    b"\x89": lambda m: m.push(False),
    b"K": lambda m: m.push(m.number("<B")),
    b"M": lambda m: m.push(m.number("<H")),
    b"J": lambda m: m.push(m.number("<i")),
    b"G": lambda m: m.push(m.number(">d")),
    b"\x8a": _Machine.integer,
    b"X": lambda m: m.text("<I"),
    b"\x8c": lambda m: m.text("<B"),
    b"T": lambda m: m.text("<i"),
    b"U": lambda m: m.text("<B"),
    b"(": _Machine.mark,
    b")": lambda m: m.push(()),
    b"t": lambda m: m.push(tuple(m.since_mark())),
    b"\x85": lambda m: m.push(tuple(m.last(1))),
    b"\x86": lambda m: m.push(tuple(m.last(2))),
    b"\x87": lambda m: m.push(tuple(m.last(3))),
    b"]": lambda m: m.push([]),
    b"l": lambda m: m.push(m.since_mark()),
    b"a": lambda m: m.extend(m.last(1)),
    b"e": lambda m: m.extend(m.since_mark()),
    b"}": lambda m: m.push({}),
    b"d": lambda m: m.push(_dict(m.since_mark())),
    b"s": lambda m: m.update(m.last(2)),
    b"u": lambda m: m.update(m.since_mark()),
    b"q": lambda m: m.put(m.number("<B")),
    b"r": lambda m: m.put(m.number("<I")),
    b"\x94": lambda m: m.put(len(m.memo)),
    b"h": lambda m: m.get(m.number("<B")),
    b"j": lambda m: m.get(m.number("<I")),
    b"c": lambda m: m.name(m.line(), m.line()),
    b"\x93": _Machine.named_on_stack,
    b"R": _Machine.call,
    b"b": _Machine.build,
    b"Q": _Machine.storage,
}
