"""Files that were made to do harm: name -> (the file's name in a model's folder, what writes it, what refuses it)."""

import json
import os
import pickle
import struct
import zipfile
import zlib

from tests import tiny
from tests.checkpoints import tables

BIN, SAFE = "pytorch_model.bin", "model.safetensors"
SAFE_INDEX, CONFIG = "model.safetensors.index.json", "config.json"
VOCAB, SETTINGS, CKPT = "vocab.txt", "tokenizer_config.json", "bert_model.ckpt"
_MEGABYTES = 700  # that a member of the archive inflates to


def zip_of(content, **members):
    def write(path):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", content)
            for name, data in members.items():
                archive.writestr(f"archive/data/{name.removeprefix('_')}", data)

    return write


def _stream(content, keys=(), data=b""):
    parts = [pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    return _bytes(b"".join(parts) + content + pickle.dumps(list(keys), 2) + data)


def _bytes(content):
    def write(path):
        with open(path, "wb") as file:
            file.write(content)

    return write


def _json(value):
    return _bytes(json.dumps(value).encode())


def _text(text):
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def _int(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def storage(size=4, kind="FloatStorage"):
    label = b"ctorch\n" + kind.encode() + b"\n"
    return b"(" + _text("storage") + label + _text("0") + _text("cpu") + _int(size) + b"tQ"


def tensor(offset, shape, stride, stored=None):
    sizes = b"".join(b"(" + b"".join(map(_int, each)) + b"t" for each in (shape, stride))
    return _REBUILD + b"(" + (stored or storage()) + _int(offset) + sizes + b"\x89)tR"


def state(*values):
    names = ["pooler.dense.bias", *(f"w{i}" for i in range(1, len(values)))]
    return b"\x80\x02}(" + b"".join(_text(name) + value for name, value in zip(names, values, strict=True)) + b"u."


def _often(value, program):
    """A pickle that makes a value, stores it as number 0 of the memo, and runs a program on it 20,000 times."""
    return b"\x80\x02" + value + b"q\0" + program * 20_000 + b"N."


_ORDERED, _REBUILD = b"ccollections\nOrderedDict\n", b"ctorch._utils\n_rebuild_tensor_v2\n"
_SHARED = b"K\x01\x85" + b"q\x00h\x00\x86" * 60  # 2^60 numbers, were it written out
_SIXTEEN = {"_0": bytes(16)}


def _inflating(path):
    """A zip archive whose one storage takes a megabyte, and 1.9 GB once it is inflated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = (packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)) * _MEGABYTES + packer.flush()
    size = _MEGABYTES * 2**20
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", state(tensor(0, [size // 4], [1], storage(size // 4))))
        archive.writestr("archive/data/0", packed)
    with open(path, "rb") as file:
        data = bytearray(file.read())
    for at, fields in ((data.rfind(b"PK\3\4"), (8, 22)), (data.rfind(b"PK\1\2"), (10, 24))):
        struct.pack_into("<H", data, at + fields[0], zipfile.ZIP_DEFLATED)
        struct.pack_into("<I", data, at + fields[1], size)
    _bytes(bytes(data))(path)


def _of_method(method):
    """A zip archive whose storage is packed by another method than Python knows."""

    def write(path):
        zip_of(state(tensor(0, [4], [1])), **_SIXTEEN)(path)
        with open(path, "rb") as file:
            data = bytearray(file.read())
        struct.pack_into("<H", data, data.rfind(b"PK\3\4") + 8, method)
        struct.pack_into("<H", data, data.rfind(b"PK\1\2") + 10, method)
        _bytes(bytes(data))(path)

    return write


def _long_directory(path):
    zip_of(state(tensor(0, [4], [1])), **_SIXTEEN)(path)
    with open(path, "rb") as file:
        data = file.read()
    at = data.index(b"PK\1\2")
    first = data[at : data.index(b"PK\1\2", at + 1)]
    directory = first * (12 * 2**20 // len(first))
    end = data[-22:-10] + struct.pack("<II", len(directory), at) + data[-2:]
    _bytes(data[:at] + directory + end)(path)


def _safe(header, data=b""):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return _bytes(struct.pack("<Q", len(header)) + header + data)


def _one(dtype, shape, start, end, data=None):
    header = {"pooler.dense.bias": {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}}
    return _safe(header, bytes(end if data is None else data))


def _config(text):
    base = json.dumps({"vocab_size": len(tiny.VOCAB), "model_type": "bert", "hidden_size": 12})
    return _bytes((base[:-1] + ", " + text + "}").encode())


def _vocab(*pieces):
    return _bytes("\n".join([*tiny.VOCAB, *pieces]).encode())


def _tf1(**changes):
    fields = {"dtype": 1, "shape": [4], "size": 16, "offset": 0, "crc32c": 0} | changes
    more = {name: fields.pop(name) for name in ("compression", "num_shards") if name in fields}
    return lambda path: tables.write(path, {"bert/pooler/dense/bias": fields}, bytes(16), **more) and None


def _texts(path):
    """A tensor of one text whose length says 2^40."""
    data = tables.number(2**40)
    data += tables.checksum(struct.pack("<Q", 2**40))
    entry = {"dtype": 7, "shape": [1], "size": len(data), "offset": 0, "crc32c": 0}
    tables.write(path, {"bert/pooler/dense/bias": entry}, data)


def _overlapping(path):
    """An index of 20,000 blocks, each of which holds one entry and, in that as a field to skip, all blocks after it."""
    from tensorflow.core.protobuf import tensor_bundle_pb2 as protos

    header = protos.BundleHeaderProto(num_shards=1)
    entry = protos.BundleEntryProto(dtype=1, size=16)
    entry.shape.dim.add(size=4)
    last, count, head = entry.SerializeToString(), 20_000, 14
    step = head + 3
    entries = b"".join(
        b"\0\x08" + _four_bytes(step * (count - i) - head + len(last)) + b"%08d\xa2\x06%c" % (i, head * (i + 1 < count))
        for i in range(count)
    )
    first = tables.block({b"": header.SerializeToString()}) + bytes(5)
    data = entries + last + struct.pack("<II", 0, 1)
    places = {b"": tables.number(0) + tables.number(len(first) - 5)}
    for i in range(count):
        places[b"%08d" % i] = tables.number(len(first) + step * i) + tables.number(len(data) - step * i)
    index = tables.block(places)
    data = first + data + bytes(5)
    footer = tables.number(0) + tables.number(0) + tables.number(len(data)) + tables.number(len(index))
    data += index + bytes(5) + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    _bytes(data)(f"{path}.index")
    _bytes(bytes(16))(f"{path}.data-00000-of-00001")


def _four_bytes(value):
    """An integer of seven bits a byte, in four bytes however small it is."""
    return bytes([value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80, value >> 21])


_NO_NUMBERS = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}

CASES = {
    # Pickles: what is small and asks for much.
    "2^26 places of the memo": (BIN, zip_of(b"\x80\x02Nr\x00\x00\x00\x04."), "a NoneType in place of a dict"),
    "2^31 places of the memo": (BIN, _stream(b"\x80\x02Nr\xff\xff\xff\x7f."), "a NoneType in place of a dict"),
    "a plain pickle of ten bytes": (BIN, _bytes(b"\x80\x02Nr\xff\xff\xff\x7f0."), "which is not needed for tensors"),
    "tuples shared sixty times": (BIN, zip_of(state(_SHARED)), r"not tensors, under the names \['pooler"),
    "the same as a key": (BIN, zip_of(b"\x80\x02}" + _SHARED + b"Ns."), "whose keys are not text or integers"),
    "the same as a storage": (BIN, zip_of(b"\x80\x02" + _SHARED + b"Q."), "not described as torch does"),
    "the same as a shape": (
        BIN,
        zip_of(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage() + b"K\0" + _SHARED + b"K\1\x85tR."),
        "not what torch writes",
    ),
    "a list for each of 20,000 OrderedDicts": (
        BIN,
        zip_of(_often(b"](" + b"K\0K\0\x86" * 40_000 + b"e", _ORDERED + b"h\0\x85R")),
        "given more than 1,000,000 items",
    ),
    "arguments for each of 20,000 OrderedDicts": (
        BIN, zip_of(_often(b"(" + b"N" * 80_000 + b"t", _ORDERED + b"h\0R")), "with 80000 arguments",
    ),
    "a storage described at length 20,000 times": (
        BIN, zip_of(_often(b"(" + _text("storage") + b"ctorch\nFloatStorage\n" + b"N" * 80_000 + b"t", b"h\0Q")),
        "not described as torch does",
    ),
    "a shape of 80,000 axes 20,000 times": (
        BIN,
        zip_of(_often(b"(" + b"K\1" * 80_000 + b"t", _REBUILD + b"(" + storage() + b"K\0h\0h\0tR")),
        "of 80000 axes",
    ),
    "20,000 integers of one hash": (
        BIN, zip_of(b"\x80\x02}(" + b"".join(b"\x8a\x0a" + (i * (2**61 - 1)).to_bytes(10, "little") + b"N"
                                            for i in range(20_000)) + b"u."), "not text or integers of 64 bits",
    ),
    "lists in lists": (BIN, zip_of(b"\x80\x02" + b"]" * 400_000 + b"a" * 399_999 + b"."), "a list in place of a dict"),
    "marks upon marks": (BIN, zip_of(b"\x80\x02" + b"(" * 900_000), "cut short"),
    "a million instructions": (BIN, zip_of(b"\x80\x02" + b"N" * 2_000_000), "more than 1,000,000 instructions"),
    "a text of 4 GB": (BIN, zip_of(b"\x80\x02X\xff\xff\xff\xff."), "cut short"),
    "bytes of 2^60": (BIN, zip_of(b"\x80\x04\x8e" + struct.pack("<Q", 2**60)), "which is not needed for tensors"),
    "an integer of 2 GB": (BIN, zip_of(b"\x80\x02\x8b\xff\xff\xff\x7f."), "which is not needed for tensors"),
    "a pickle of 17 MB": (BIN, zip_of(b"\x80\x02" + b"N" * 17 * 2**20), "a pickle of 17825794 bytes"),
    "a name never to be called": (BIN, zip_of(b"\x80\x02cos\nsystem\n" + _text("true") + b"\x85R."), "run os.system"),
    # Tensors: more numbers than their bytes.
    "a stride of 0": (BIN, zip_of(state(tensor(0, [2**28], [0])), **_SIXTEEN), "more numbers than the 4 of its"),
    "strides that overlap": (
        BIN, zip_of(state(tensor(0, [16000, 16000], [1, 1], storage(2**15))), _0=bytes(2**17)), "more numbers than"
    ),
    "a shape of nothing, and huge": (
        BIN, zip_of(state(tensor(0, [0, 2**47, 2**47], [1, 1, 1])), **_SIXTEEN), "is not a complete torch file"
    ),
    "a negative stride": (BIN, zip_of(state(tensor(3, [4], [-1])), **_SIXTEEN), "not what torch writes"),
    "a negative offset": (BIN, zip_of(state(tensor(-1, [4], [1])), **_SIXTEEN), "not what torch writes"),
    "a negative size": (BIN, zip_of(state(tensor(0, [-4], [1])), **_SIXTEEN), "not what torch writes"),
    "a type that torch has and NumPy has not": (
        BIN, zip_of(state(tensor(0, [4], [1], storage(4, "QInt8Storage"))), **_SIXTEEN), "run torch.QInt8Storage"
    ),
    "one storage under 20,000 names": (
        BIN,
        zip_of(state(tensor(0, [4096], [1], storage(4096) + b"q\1") + b"q\2", *[b"h\2"] * 20_000), _0=bytes(2**14)),
        r"tensors of 327\d+ bytes in a file of",
    ),
    "a storage that is not there": (BIN, zip_of(state(tensor(0, [4], [1]))), "no data for the storage 0"),
    "a stream's storage of -1": (
        BIN, _stream(state(tensor(0, [4], [1])), "0", struct.pack("<q", -1)), "with -4 bytes, of which"
    ),
    "a stream's storage of 2^60": (
        BIN, _stream(state(tensor(0, [4], [1])), "0", struct.pack("<q", 2**60)), r"of which 0 are present"
    ),
    "a member that inflates to 1.9 GB": (BIN, _inflating, "compressed or encrypted, which torch never writes"),
    "a member that is packed by no known method": (BIN, _of_method(99), "compressed or encrypted"),
    "a directory of 100,000 members": (BIN, _long_directory, r"whose directory has \d+ bytes"),
    # safetensors.
    **{
        f"safetensors of {dtype}": (SAFE, _one(dtype, [8], 0, size), message)
        for dtype, size, message in (
            ("F8_E4M3", 8, "numbers of type F8_E4M3, which are not supported"),
            ("F8_E5M2", 8, "numbers of type F8_E5M2"),
            ("F8_E8M0", 8, "numbers of type F8_E8M0"),
            ("F4", 4, "numbers of type F4"),
            ("F6_E2M3", 6, "F6_E2M3"),
            ("C64", 64, "numbers of type C64"),
            ("I8", 8, "of int8; use the checkpoint before quantization"),
            ("F128", 128, "is not a complete safetensors file"),
        )
    },
    "a header of 2^63 bytes": (SAFE, _bytes(struct.pack("<Q", 2**63) + b"{}"), "a header of 9223372036854775808 bytes"),
    "a header of 90 MB": (SAFE, _safe(b"{" + b" " * 90_000_000 + b"}"), "a header of 90000002 bytes"),
    "a header that is nested deeply": (SAFE, _safe(b'{"a":' * 100_000), "is not a complete safetensors file"),
    "offsets that overlap": (
        SAFE,
        _safe({n: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} for n in "ab"}, bytes(16)),
        "is not a complete safetensors file",
    ),
    "offsets beyond the file": (SAFE, _one("F32", [2**40], 0, 2**42, 16), "is not a complete safetensors file"),
    "a shape that overflows": (SAFE, _one("F32", [2**62, 2**62], 0, 16), "is not a complete safetensors file"),
    "a shape of nothing that overflows": (SAFE, _one("F32", [0, 2**62, 2**62], 0, 0), "is not a complete"),
    "60,000 names": (
        SAFE,
        lambda path: _safe({f"w{i}": _NO_NUMBERS for i in range(60_000)})(path),
        "at most 50,000 weights",
    ),
    "a name of a megabyte": (
        SAFE, _safe({"w" * 2**20: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}), "a name of 1,048,576"
    ),
    # Lists of shards.
    "an index nested 100,000 deep": (SAFE_INDEX, _bytes(b'{"weight_map": ' + b"[" * 100_000), "maximum recursion"),
    "an index nested 60 deep": (
        SAFE_INDEX, _bytes(b'{"weight_map": ' + b"[" * 60 + b"]" * 60 + b"}"), "nested more than 50 levels deep"
    ),
    "a list in place of a file": (SAFE_INDEX, _json({"weight_map": {"a": ["b"]}}), "names and files; got {'a'"),
    "a number in place of a file": (SAFE_INDEX, _json({"weight_map": {"a": 5}}), "and files; got {'a': 5}"),
    "a list in place of the map": (SAFE_INDEX, _json({"weight_map": [["a", "b"]]}), r"names and files; got \[\["),
    "no map": (SAFE_INDEX, _json({"metadata": {}}), "of names and files; got None"),
    "a file elsewhere": (SAFE_INDEX, _json({"weight_map": {"a": "../a.safetensors"}}), "is missing next to it"),
    "a file by its whole path": (SAFE_INDEX, _json({"weight_map": {"a": "/etc/passwd"}}), "is missing next to it"),
    "the folder": (SAFE_INDEX, _json({"weight_map": {"a": "."}}), "is missing next to it"),
    "a name that is no name": (SAFE_INDEX, _json({"weight_map": {"a": "\0"}}), "is missing next to it"),
    "an index of itself": (SAFE_INDEX, _json({"weight_map": {"a": SAFE_INDEX}}), "is not a complete safetensors file"),
    "an index of 9 MB": (SAFE_INDEX, _bytes(b"{" + b" " * 9 * 2**20 + b"}"), "9437186 bytes, which is too long"),
    # Configurations.
    "a configuration nested deeply": (CONFIG, _config('"a": ' + "[" * 100_000), "maximum recursion"),
    "a directory in its place": (CONFIG, os.mkdir, "got a directory; correct the file"),
    "no UTF-8": (CONFIG, _bytes(b'{"a": "\xff"}'), "'utf-8' codec can't decode"),
    "1e400": (CONFIG, _config('"layer_norm_eps": 1e400'), "layer_norm_eps must be at most 2,147,483,647"),
    "NaN": (CONFIG, _config('"layer_norm_eps": NaN'), "layer_norm_eps must be a positive number; got nan"),
    "NaN in a fixed place": (CONFIG, _config('"is_decoder": NaN'), "is_decoder must be true or false; got nan"),
    "10^4000": (CONFIG, _config('"vocab_size": 1' + "0" * 4000), "vocab_size must be at most 2,147,483,647"),
    "10^5000": (CONFIG, _config('"vocab_size": 1' + "0" * 5000), "Exceeds the limit"),
    "10^9 layers": (CONFIG, _config('"num_hidden_layers": 1000000000'), "num_hidden_layers must be at most 10,000"),
    "a family that is a list": (CONFIG, _config('"model_type": [[]]'), r"model_type must be one of .*; got \[\[\]\];"),
    "labels that are a number": (CONFIG, _config('"id2label": 5'), r"id2label .* must have .* got 5; write it"),
    "labels with a gap": (CONFIG, _config('"id2label": {"0": "a", "2": "b"}'), "consecutive integers from 0 as keys"),
    "labels that are fractions": (CONFIG, _config('"id2label": {"0": 0.5}'), "consecutive integers from 0 as keys"),
    "a list of labels": (CONFIG, _config('"id2label": ["a", "b"]'), "consecutive integers from 0 as keys"),
    # Vocabularies and what lies beside them.
    "a piece of 258 bytes": (VOCAB, _vocab("好" * 86), "at most 256 bytes.* in line 29 of .*, one of 258"),
    "an empty vocabulary": (VOCAB, _bytes(b""), "0 lines, but lacks"),
    "a vocabulary that is a directory": (VOCAB, os.mkdir, "must be a file"),
    "a vocabulary of two million lines": (VOCAB, _bytes(b"a\n" * 2_000_000 + b"b"), "at most 1,000,000 tokens"),
    "a vocabulary of 40 MB": (VOCAB, _bytes(b"a" * 40_000_000), "at most 33,554,432 bytes"),
    "pieces that have nothing in common": (
        VOCAB,
        lambda path: _vocab(*(format(pow(3, i, 2**521 - 1), "0100x")[:100] for i in range(60_000)))(path),
        "different prefixes, more than the 4,000,000 supported",
    ),
    "settings nested deeply": (SETTINGS, _bytes(b'{"a": ' * 100_000), "maximum recursion"),
    "settings that are a list": (SETTINGS, _bytes(b"[]"), "a list in place of an object"),
    "settings in a directory": (SETTINGS, os.mkdir, "got a directory"),
    "settings that are no UTF-8": (SETTINGS, _bytes(b'{"do_lower_case": "\xe9"}'), "'utf-8' codec can't decode"),
    "a letter case that is 5": (SETTINGS, _bytes(b'{"do_lower_case": 5}'), "do_lower_case must be true or false"),
    # TF1 checkpoints.
    "a negative shape": (CKPT, _tf1(shape=[-4]), r"of type 1 and shape \[-4\]"),
    "a shape of 2^62": (CKPT, _tf1(shape=[2**31, 2**31]), "in 16 bytes"),
    "a huge shape that says so": (CKPT, _tf1(shape=[2**40], size=2**42), "lie outside the data"),
    "bytes that lie before the file": (CKPT, _tf1(offset=-16), "lie outside the data"),
    "a file of data that is not there": (CKPT, _tf1(shard_id=3), "lie outside the data"),
    "more files than there are": (CKPT, _tf1(num_shards=2**30), "an index of 1073741824 data files"),
    "a type that no file has": (CKPT, _tf1(dtype=20), "of type 20"),
    "a tensor in slices": (CKPT, _tf1(slices=2), "of type 1 and shape"),
    "a text of 2^40 bytes": (CKPT, _texts, "bert/pooler/dense/bias with inconsistent string lengths"),
    "blocks in blocks": (CKPT, _overlapping, "whose blocks overlap"),
    "a wrong checksum": (CKPT, _tf1(), "[Cc]hecksum does not match"),
    "an index of Snappy's": (CKPT, _tf1(compression=b"\1"), "an index that is compressed"),
}  # fmt: skip
