"""As hostile_files.py, for what came with the family: tokenizers' files, KerasHub's presets, adapters, modules."""

import json
import pathlib
import struct

from tests.checkpoints import good_files
from tests.checkpoints.good_files import (
    ADAPTER_CONFIG,
    ADAPTERS,
    BPE_VOCAB,
    MERGES,
    MODULES,
    PIECES,
    PRESET_TOKENIZER,
    PRESET_WEIGHTS,
    WHOLE,
)  # fmt: skip
from tests.checkpoints.tables import number

_CONFIG = "config.json"
_DEEP = b'{"a": ' * 100_000


def _bytes(content):
    def write(path):
        with open(path, "wb") as file:
            file.write(content)

    return write


def _json(value):
    return _bytes(json.dumps(value).encode())


def _good(name, write):
    """Returns a writer that writes the good file anew, and changes the value in it."""

    def of(change):
        def write_changed(path):
            write(pathlib.Path(path.removesuffix(name)))
            with open(path, encoding="utf-8") as file:
                value = json.load(file)
            _json(change(value))(path)

        return write_changed

    return of


_vocab = _good(BPE_VOCAB, good_files.byte_bpe)
_whole = _good(WHOLE, good_files.whole)
_backbone = _good(_CONFIG, good_files.preset)
_adapter = _good(ADAPTER_CONFIG, good_files.adapters)


def _message(*fields):
    """Returns a protobuf message: (number, text or message), or (number, float), or (number, integer)."""
    data = b""
    for key, value in fields:
        if isinstance(value, bytes):
            data += number(key << 3 | 2) + number(len(value)) + value
        elif isinstance(value, float):
            data += number(key << 3 | 5) + struct.pack("<f", value)
        else:
            data += number(key << 3) + number(value % 2**64)
    return data


def _pieces(*more, spec=b""):
    unknown = _message((1, b"<unk>"), (2, 0.0), (3, 2))
    names = [_message((1, name), (2, 0.0), (3, 3)) for name in (b"[CLS]", b"[SEP]", b"<pad>", b"[MASK]")]
    plain = [_message((1, "\u2581".encode()), (2, -1.0)), _message((1, b"a"), (2, -2.0))]
    return _bytes(b"".join(_message((1, piece)) for piece in (unknown, *names, *plain, *more)) + spec)


def _piece(text=b"b", score=-3.0, *more):
    return _pieces(_message((1, text), (2, score), *more))


def _h5(fill):
    """A file that h5py writes."""

    def write(path):
        import h5py

        with h5py.File(path, "w") as file:
            fill(file, h5py)

    return write


def _claim(old, new):
    """A good file of weights in which 8 bytes, that say a size or place, are others wherever they stand."""

    def write(path):
        def fill(file, h5py):
            file["layers/dense/vars/0"] = [[0.5] * 1237]

        _h5(fill)(path)
        with open(path, "rb") as file:
            data = file.read()
        old_bytes = struct.pack("<Q", old)
        assert old_bytes in data
        _bytes(data.replace(old_bytes, struct.pack("<Q", new)))(path)

    return write


def _circle(file, h5py):
    file.create_group("layers/dense/vars")
    file["layers/dense/vars/0"] = file["layers"]


def _soft(file, h5py):
    file["a"], file["b"] = h5py.SoftLink("/b"), h5py.SoftLink("/a")


def _virtual(file, h5py):
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "a", (4,))
    file.create_virtual_dataset("layers/dense/vars/0", layout)


def _long_name(size):
    """A group of 131,070 symbols, no two of them at one place, which share a name of `size` bytes."""
    symbols = [
        b"SNOD" + struct.pack("<HH", 1, 65535) + b"".join(struct.pack("<QQI20x", 0, place, 0) for place in more)
        for more in (range(65535), range(65535, 131070))
    ]
    nodes, head = 2, 96 + 40  # where the superblock and the header of the root end
    tree_size = 24 + 16 * nodes
    heap = head + tree_size
    names = heap + 32
    first = names + size + 1
    places = [first + n * len(symbols[0]) for n in range(nodes)]
    data = b"\x89HDF\r\n\x1a\n" + bytes(5) + b"\x08\x08" + bytes(49) + struct.pack("<Q", 96)
    data = data.ljust(96, b"\0") + struct.pack("<BBHII4xHHB3xQQ", 1, 0, 1, 1, 24, 0x11, 16, 0, head, heap)
    data += b"TREE\0\0" + struct.pack("<H", nodes) + bytes(16) + b"".join(struct.pack("<QQ", 0, at) for at in places)
    data += b"HEAP\0\0\0\0" + struct.pack("<QQQ", size + 1, 0, names) + b"a" * size + b"\0" + b"".join(symbols)
    return _bytes(data)


def _set(file, name, value):
    file[name] = value


FAMILY_CASES = {
    # Byte-level BPE.
    "a vocabulary of bytes nested deeply": (BPE_VOCAB, _bytes(_DEEP), "maximum recursion"),
    "a list of bytes": (BPE_VOCAB, _json(["a", "b"]), "a list in place of an object"),
    "an id of 10^12": (BPE_VOCAB, _vocab(lambda v: v | {"a": 10**12}), "ids must be 0, 1, 2 .* without gaps"),
    "an id of -1": (BPE_VOCAB, _vocab(lambda v: v | {"a": -1}), "each token to an id of 0 or more"),
    "an id of 1.0": (BPE_VOCAB, _vocab(lambda v: v | {"a": 1.0}), "each token to an id of 0 or more"),
    "an id that is true": (BPE_VOCAB, _vocab(lambda v: {k: i == 1 or i for k, i in v.items()}), "an id of 0 or more"),
    "an id twice": (BPE_VOCAB, _vocab(lambda v: v | {"a": v["b"]}), "ids must be 0, 1, 2 .* without gaps"),
    "half a character": (BPE_VOCAB, _vocab(lambda v: v | {"\ud800": len(v)}), "half of a surrogate pair in .*ud800"),
    "a vocabulary of 17 MB": (BPE_VOCAB, _bytes(b" " * 17 * 2**20), "17825792 bytes, which is too long"),
    "16 MB of lists": (BPE_VOCAB, _bytes(b'{"a": [' + b"[]," * 5_590_000 + b"1]}"), "more than 1,000,000 lists"),
    "merges of one endless line": (MERGES, _bytes(b"a" * 15_000_000), "line 1: a merge must be two tokens"),
    "merges of 17 MB": (MERGES, _bytes(b"a" * 17 * 2**20), "at most 16,777,216 bytes; got .* of 17,825,792"),
    "a merge of long pieces": (MERGES, _bytes(b"a" * 7_000_000 + b" b"), "line 1: the two tokens of a merge"),
    "merges of spaces": (MERGES, _bytes(b" " * 1_000_000), "line 1: a merge must be two tokens"),
    "a tokenizer nested deeply": (WHOLE, _bytes(_DEEP), "maximum recursion"),
    "a tokenizer that is a list": (WHOLE, _json([]), "a list in place of an object"),
    "added tokens that are a number": (WHOLE, _whole(lambda v: v | {"added_tokens": 5}), "added_tokens must be a list"),
    "an added token that is a list": (
        WHOLE, _whole(lambda v: v | {"added_tokens": [{"content": ["a"], "id": 0}]}), "added_tokens must be a list"
    ),
    "an added token without id": (WHOLE, _whole(lambda v: v | {"added_tokens": [{"content": "a"}]}), "an id of 0 or"),
    "merges that are numbers": (WHOLE, _whole(lambda v: v | {"model": v["model"] | {"merges": [5]}}), "merge 1: a me"),
    # SentencePiece.
    "a piece that claims 2^31 bytes": (PIECES, _bytes(b"\x0a" + number(2**31) + b"a"), "Error parsing"),
    "16 million pieces": (PIECES, _bytes(b"\x0a\x00" * 16_000_000), "more than 1,000,000 pieces"),
    "16 million fields that are no pieces": (PIECES, _bytes(b"\x10\x00" * 16_000_000), "more than 1,000,000 pieces"),
    "a number without end": (PIECES, _bytes(b"\xff" * 30_000_000), "a number of more than 10 bytes"),
    "a model of 33 MB": (PIECES, _bytes(bytes(33 * 2**20)), "34603008 bytes"),
    "messages in messages": (PIECES, _bytes(b"\x1b" * 1_000_000), "Error parsing"),
    "a piece of no known type": (PIECES, _piece(b"b", -3.0, (3, -1)), "piece 7 of type -1"),
    "a byte as a piece": (PIECES, _piece(b"<0x41>", 0.0, (3, 6)), "pieces of bytes without byte_fallback"),
    "a piece twice": (PIECES, _piece(b"a"), "1 pieces that occur twice"),
    "a piece of nothing": (PIECES, _piece(b""), "piece 7 with the text ''"),
    "a piece with NUL": (PIECES, _piece(b"\0b"), r"piece 7 with the text '\\x00b'"),
    "a piece that is no UTF-8": (PIECES, _piece(b"\xff"), "piece 7 with the text b'"),
    "a piece of a megabyte": (PIECES, _piece(b"b" * 2**20), "piece 7 with the text"),
    "a score that is no number": (PIECES, _piece(b"b", float("nan")), "piece 7 with the score nan"),
    "a score without end": (PIECES, _piece(b"b", float("-inf")), "piece 7 with the score -inf"),
    "a character map that claims 4 GB": (
        PIECES,
        _pieces(spec=_message((3, _message((2, b"\xfc\xff\xff\xff" + bytes(8)))))),
        "does not contain a valid trie",
    ),
    # KerasHub's presets.
    "a preset nested deeply": (_CONFIG, _bytes(_DEEP), "maximum recursion"),
    "a backbone that is a list": (_CONFIG, _backbone(lambda v: v | {"class_name": []}), "must be one of .*Backbone"),
    "a backbone whose values are a list": (_CONFIG, _backbone(lambda v: v | {"config": []}), "must be one of"),
    "a backbone of 10^12 words": (
        _CONFIG, _backbone(lambda v: v | {"config": v["config"] | {"vocabulary_size": 10**12}}), "vocab_size must be at"
    ),
    "a preset's tokenizer nested deeply": (PRESET_TOKENIZER, _bytes(_DEEP), "maximum recursion"),
    "a letter case in words": (PRESET_TOKENIZER, _json({"config": {"lowercase": "no"}}), "lowercase true or false"),
    "numbers 2^40": (PRESET_WEIGHTS, _claim(1237, 2**40), "truncated at"),
    "bytes 2^40": (PRESET_WEIGHTS, _claim(1237 * 8, 2**40), "truncated at"),
    "a link to another file": (
        PRESET_WEIGHTS, _h5(lambda f, h: _set(f, "layers", h.ExternalLink("/etc/passwd", "/"))), "a link to another"
    ),
    "links in a circle": (PRESET_WEIGHTS, _h5(_soft), "a link to another name"),
    "cyclic groups": (PRESET_WEIGHTS, _h5(_circle), "cyclic groups"),
    "an array of another file": (PRESET_WEIGHTS, _h5(_virtual), "in chunks, which Keras does not write"),
    "an array in another file": (
        PRESET_WEIGHTS,
        _h5(lambda f, h: f.create_dataset("a", (4,), "f4", external=[("/etc/passwd", 0, 16)])),
        "in another file",
    ),
    "zeros of a gigabyte, compressed": (
        PRESET_WEIGHTS,
        _h5(lambda f, h: f.create_dataset("a", (2**28,), "f4", chunks=(2**28,), compression="gzip")),
        "compressed or in chunks",
    ),
    "an array that was never written": (
        PRESET_WEIGHTS, _h5(lambda f, h: f.create_dataset("a", (2**38,), "f4")), "truncated at"
    ),
    "a name of a thousand parts": (
        PRESET_WEIGHTS, _h5(lambda f, h: _set(f, "a/" * 999 + "a", 1.0)), "a name of more than 1,000 characters"
    ),
    "a name with ../": (PRESET_WEIGHTS, _h5(lambda f, h: _set(f, "layers/../../x/0", 1.0)), r"the name '\.\.'"),
    "130,000 symbols of one name of 8 MB": (PRESET_WEIGHTS, _long_name(8_000_000), "a name of more than 1,000 bytes"),
    "130,000 symbols of one name": (PRESET_WEIGHTS, _long_name(900), "more than 100,000 arrays"),
    "texts in place of numbers": (PRESET_WEIGHTS, _h5(lambda f, h: _set(f, "layers/dense/vars/0", "abc")), "HDF5's cl"),
    "a file of nothing": (PRESET_WEIGHTS, _bytes(b""), "truncated"),
    # Adapters and modules.
    "an adapter nested deeply": (ADAPTER_CONFIG, _bytes(_DEEP), "maximum recursion"),
    "an adapter of rank 10^9": (ADAPTER_CONFIG, _adapter(lambda v: v | {"r": 10**9}), "whole number above 0"),
    "an adapter of rank 10^5": (ADAPTER_CONFIG, _adapter(lambda v: v | {"r": 10**5}), "an incomplete one"),
    "an adapter whose rank is a text": (ADAPTER_CONFIG, _adapter(lambda v: v | {"r": "2"}), "got '2' and 4.0"),
    "an adapter of strength 10^400": (ADAPTER_CONFIG, _adapter(lambda v: v | {"lora_alpha": 10**400}), "at most 1,"),
    "an adapter of endless strength": (ADAPTER_CONFIG, _adapter(lambda v: v | {"lora_alpha": 1e999}), "and inf"),
    "no adapters": (ADAPTERS, _bytes(struct.pack("<Q", 2) + b"{}"), "must contain only adapters and heads"),
    "modules nested deeply": (MODULES, _bytes(b"[" * 100_000), "maximum recursion"),
    "modules in an object": (MODULES, _json({"path": ""}), "a dict in place of a list"),
    "modules that are numbers": (MODULES, _json([5]), "each have a `path`"),
    "a module elsewhere": (MODULES, _json([{"path": "../run"}]), "`path` next to it; got the path '../run'"),
    "a module that is the folder above": (MODULES, _json([{"path": ".."}]), "`path` next to it"),
    "a module whose path is a list": (MODULES, _json([{"path": []}]), "`path` next to it"),
}  # fmt: skip
