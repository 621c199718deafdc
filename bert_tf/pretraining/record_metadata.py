"""Metadata of a record file, in its first record: what it was made with."""

import dataclasses
import hashlib
import json
import os

from bert_tf.data import record_features
from bert_tf.tokenization.tokenizer_tables import TokenizerTables
from bert_tf.utils.files import brief

_LARGEST = 10_000  # bytes
_TYPES = {
    "vocabulary": str, "tokenizer": str, "do_lower_case": bool, "strip_accents": bool, "sentence_objective": str,
    "masking": (str, type(None)),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class RecordMetadata:
    """The tokenizer, letter case, objective and masking that records were created with.

    Attributes:
        vocabulary: `vocabulary_fingerprint` of the vocabulary of the rows' ids.
        tokenizer: `tokenizer_fingerprint` of the tokenizer.
        do_lower_case, strip_accents: the normalization of the text.
        sentence_objective: "nsp", "sop" or "none": the meaning of label 1 of two texts, if there are two.
        masking: the kind of masking, such as "token", or None if not masked.
    """

    vocabulary: str
    tokenizer: str
    do_lower_case: bool
    strip_accents: bool
    sentence_objective: str
    masking: str | None

    @classmethod
    def of(cls, path: str | os.PathLike) -> "RecordMetadata | None":
        """Reads the metadata of a file, or returns None if it has none, because another program wrote it.

        Raises:
            ValueError: the file is not a record file, or its metadata are not valid.
        """
        data = record_features.read_stamp(path)
        return None if data is None else cls.of_stamp(path, data)

    @classmethod
    def of_stamp(cls, path: str | os.PathLike, data: bytes) -> "RecordMetadata":
        """Parses the metadata in a record's feature MADE_WITH, ignoring unknown fields.

        Raises:
            ValueError: the metadata are not valid.
        """
        try:
            values = json.loads(data) if len(data) <= _LARGEST else None
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict) or any(not isinstance(values.get(name), kind) for name, kind in _TYPES.items()):
            raise ValueError(
                f"{os.fspath(path)} must describe how it was made in {record_features.MADE_WITH}, a feature of its "
                f"first record; got {brief(data[:200])}; create the records again."
            )
        return cls(**{name: values[name] for name in _TYPES})

    def stamp(self) -> bytes:
        """Returns the metadata as the `stamp` for `tfrecords.write_records`."""
        import tensorflow as tf  # imported here, so that programs that only read files next to records need not wait

        data = json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":")).encode()
        feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[data]))
        features = tf.train.Features(feature={record_features.MADE_WITH: feature})
        return tf.train.Example(features=features).SerializeToString(deterministic=True)


def vocabulary_fingerprint(tokens: list[str]) -> str:
    """Returns the hexadecimal SHA-256 of a vocabulary: of its tokens in order, one per line."""
    return hashlib.sha256("\n".join(tokens).encode()).hexdigest()


def tokenizer_fingerprint(tokenizer: TokenizerTables) -> str:
    """Returns the hexadecimal SHA-256 of what decides ids besides the vocabulary, letter case and accents.

    That is the kind of the tokenizer, its merges or scores, and the special tokens around texts.
    """
    values = tokenizer.KIND, tokenizer.template.pieces(2), tokenizer.deciding_values
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
