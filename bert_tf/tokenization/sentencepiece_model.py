"""Reads and writes SentencePiece models (sentencepiece_model.proto of google/sentencepiece); unigram models only."""

import math
import os
from collections.abc import Iterable

import numpy as np
from absl import logging
from google.protobuf.message import DecodeError

from bert_tf.utils.protobuf_classes import message_classes

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # types of pieces; 0 if missing: NORMAL
UNIGRAM, _BPE = 1, 2  # trainer_spec.model_type
_LARGEST, _MOST_PIECES = 32 * 2**20, 1_000_000  # bytes of a file; the largest models have half a million pieces
_LONGEST_PIECE, _LARGEST_SCORE = 1000, 1e6  # bytes; with scores that are no numbers the op reads beyond its memory
_LONGEST_KEY, _LONGEST_TEXT = 64, 256  # bytes of a key of the character map, and of what replaces it
_MOST_STEPS = 500_000  # nodes of its trie: nmt_nfkc_cf, the largest of SentencePiece's own, has 226,684 keys

# Message -> (number, name, type) of its fields; all others stay unread. SentencePiece's own classes want a newer
# protobuf than TensorFlow's.
_MESSAGES = {
    "Piece": ((1, "piece", "string"), (2, "score", "float"), (3, "type", "int32")),
    "Trainer": ((3, "model_type", "int32"), (35, "byte_fallback", "bool")),
    "Normalizer": (
        (2, "precompiled_charsmap", "bytes"), (3, "add_dummy_prefix", "bool"), (4, "remove_extra_whitespaces", "bool"),
        (5, "escape_whitespaces", "bool"),
    ),
    "SelfTest": (),
    "Model": (
        (1, "pieces", "*Piece"), (2, "trainer_spec", "Trainer"), (3, "normalizer_spec", "Normalizer"),
        (4, "self_test_data", "SelfTest"),
    ),
}  # fmt: skip
_Model = message_classes("bert_tf_sentencepiece", _MESSAGES, syntax="proto2")["Model"]


def read_model(path: str | os.PathLike, data: bytes | None = None):
    """Reads a model file; returns the message, with `pieces`, `trainer_spec` and `normalizer_spec`, and the bytes.

    Args:
        path: path of the file.
        data: the bytes of a model built from the file, read instead of it.

    Raises:
        ValueError: the file is missing, is not a SentencePiece model, or is not a unigram model.
    """
    path = os.fspath(path)
    data = _file_bytes(path) if data is None else data
    model = _Model()
    try:
        if sum(1 for _ in zip(_fields(data), range(_MOST_PIECES + 1), strict=False)) > _MOST_PIECES:
            raise ValueError(f"more than {_MOST_PIECES:,} pieces, including all other fields")
        model.ParseFromString(data)
        _check_pieces([(piece.piece, piece.score, piece.type) for piece in model.pieces])
    except (DecodeError, ValueError) as error:
        raise _refusal(path, error) from error
    spec = model.trainer_spec
    if (spec.model_type or UNIGRAM) != UNIGRAM:
        raise ValueError(
            f"{path} must be a unigram model; got model_type {spec.model_type}, which bert_tf does not support."
        )
    if spec.byte_fallback:
        _make_bytes_ordinary(model, path)
    elif any(piece.type == BYTE for piece in model.pieces):
        raise _refusal(path, "pieces of bytes without byte_fallback")
    return model, data


def _make_bytes_ordinary(model, path):
    """Turns byte_fallback off, as Hugging Face's fast tokenizers do: there, pieces of bytes are pieces like others."""
    logging.info(
        "%s sets byte_fallback, which is ignored: characters that are not in the vocabulary become the unknown token, "
        "as in Transformers' fast tokenizers. SentencePiece would encode them as bytes.",
        path,
    )
    model.trainer_spec.byte_fallback = False
    for piece in model.pieces:
        if piece.type == BYTE:
            piece.type = NORMAL


def _file_bytes(path):
    if not os.path.isfile(path):
        raise ValueError(
            f"Vocabulary file not found: {path}. A SentencePiece vocabulary is a file such as spiece.model; check "
            "`vocab_file`."
        )
    if os.path.getsize(path) > _LARGEST:
        raise _refusal(path, f"{os.path.getsize(path)} bytes")
    with open(path, "rb") as file:
        return file.read()


def model_bytes(pieces: Iterable[tuple[str, float, int]], character_map: bytes) -> bytes:
    """Returns the serialized file of a unigram model.

    Args:
        pieces: text, score and type of each.
        character_map: its `precompiled_charsmap`.
    """
    model = _of_pieces(pieces, UNIGRAM)
    model.normalizer_spec.precompiled_charsmap = character_map
    return model.SerializeToString()


def merging_model(pieces: Iterable[tuple[str, float, int]], byte_fallback: bool = False) -> bytes:
    """Returns a model that merges the characters of a word, as it is, into the pieces with the highest scores first.

    Args:
        pieces: text, score and type of each.
        byte_fallback: whether other characters become their bytes in UTF-8, 256 of the pieces of type BYTE.
    """
    model = _of_pieces(pieces, _BPE)
    model.trainer_spec.byte_fallback = byte_fallback
    _set_normalization_off(model.normalizer_spec)
    return model.SerializeToString()


def _of_pieces(pieces, kind):
    model = _Model()
    for text, score, piece_type in pieces:
        model.pieces.add(piece=text, score=score, type=piece_type)
    model.trainer_spec.model_type = kind
    return model


def _set_normalization_off(spec):
    spec.precompiled_charsmap, spec.add_dummy_prefix, spec.remove_extra_whitespaces = b"", False, False
    spec.escape_whitespaces = True


def _refusal(path, why):
    return ValueError(
        f"{path} is not a valid SentencePiece model: {str(why):.300}. The file may be incomplete; download it again."
    )


def _fields(data):
    """Yields the offset of each field.

    Nearly all are pieces, which are counted so that no message of 50 bytes or more is created for too many of them.
    """
    at, end = 0, len(data)
    while at < end:
        yield at
        key, at = _varint(data, at)
        if key & 7 == 2:
            size, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(key & 7, 0)
            at = at if size else _varint(data, at)[1]
        at += size


def _varint(data, at):
    """Returns (number, end); truncated data is left to protobuf's own reader."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return value, at
        value, at = value | (data[at] & 0x7F) << shift, at + 1
        if data[at - 1] < 0x80:
            return value, at
    raise ValueError("a number of more than 10 bytes")


def _check_pieces(pieces):
    """Raises ValueError for pieces with which the C++ reader would crash or fail."""
    unknown = [kind for _, _, kind in pieces].count(UNKNOWN)
    if unknown != 1:
        raise ValueError(f"{len(pieces)} pieces, {unknown} of them of type UNKNOWN instead of one")
    for index, (text, score, kind) in enumerate(pieces):
        # protobuf gives bytes for what is no UTF-8
        if not isinstance(text, str) or not text or "\0" in text or len(text) > _LONGEST_PIECE:
            raise ValueError(f"piece {index} with the text {text!r:.80}")
        if kind not in (0, NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE):
            raise ValueError(f"piece {index} of type {kind}")
        if not (math.isfinite(score) and abs(score) <= _LARGEST_SCORE):
            raise ValueError(f"piece {index} with the score {score}")
    texts = {text for text, _, _ in pieces}
    if len(texts) < len(pieces):
        raise ValueError(f"{len(pieces) - len(texts)} pieces that occur twice")


def without_normalization(model):
    """Returns a copy without normalization: its input words are normalized and start with the space marker.

    It contains only the fields of `_MESSAGES`, so that nothing unchecked reaches TensorFlow.
    """
    copy = type(model)()
    copy.CopyFrom(model)
    _set_normalization_off(copy.normalizer_spec)
    copy.ClearField("self_test_data")  # it was made with the normalization
    copy.DiscardUnknownFields()
    return copy


def first_ordinary(model) -> int:
    """Returns the index of the first piece that represents text."""
    kinds = [piece.type for piece in model.pieces]
    return next((i for i, kind in enumerate(kinds) if kind not in (UNKNOWN, CONTROL)), len(kinds))


def character_map(blob: bytes, path: str) -> dict[str, str]:
    """Returns the replacements of a model's `precompiled_charsmap`: characters -> replacement (may be empty).

    The blob is the length of a double-array trie (darts-clone) in bytes, the trie, and strings that end in NUL, into
    which the trie's values point.

    Raises:
        ValueError: the blob is malformed.
    """
    if not blob:
        return {}
    size = int.from_bytes(blob[:4], "little")
    if len(blob) < 4 or size % 4 or not 0 < size <= len(blob) - 4:
        raise ValueError(
            f"{path}: precompiled_charsmap does not contain a valid trie ({len(blob)} bytes). The file may be "
            "incomplete; download it again."
        )
    units = np.frombuffer(blob, "<u4", size // 4, 4).astype(np.int64)
    texts, pairs = blob[4 + size :], {}
    try:
        for key, at in _keys(units):
            pairs[key.decode("utf-8")] = texts[at : texts.index(b"\0", at, at + _LONGEST_TEXT)].decode("utf-8")
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"{path}: precompiled_charsmap does not contain a valid UTF-8 trie: {error}. The file may be incomplete; "
            "download it again."
        ) from error
    return pairs


def _keys(units):
    """Yields (key, value) of a trie; raises IndexError or ValueError if it is damaged."""
    labels, leaf = units & (1 << 31 | 0xFF), units >> 8 & 1
    offsets = units >> 10 << ((units & 1 << 9) >> 6)
    letters, left = np.arange(1, 256), _MOST_STEPS  # ends that are alike are shared, so there are more keys than units
    stack = [(b"", int(offsets[0]))]
    while stack:
        key, base = stack.pop()
        children = base ^ letters
        children = children[children < len(units)]
        for at in children[labels[children] == children ^ base].tolist():
            left -= 1
            if left < 0 or len(key) == _LONGEST_KEY:
                raise ValueError("a cyclic trie")
            child, longer = at ^ int(offsets[at]), key + bytes([at ^ base])
            if leaf[at]:
                yield longer, int(units[child]) & (1 << 31) - 1
            stack.append((longer, child))
