"""What a record file says of how it was made: in its first record, as a feature that readers of rows pass over."""

import dataclasses
import hashlib
import json
import os
from typing import Any

from bert_tf.data import record_features
from bert_tf.utils.files import brief

_LARGEST = 10_000  # bytes
_TYPES = {
    "vocabulary": str, "do_lower_case": bool, "strip_accents": bool, "sentence_objective": str,
    "masking": (str, type(None)),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Origin:
    """What decides whether records fit a model, and each other.

    Attributes:
        vocabulary: `fingerprint` of the pieces whose ids the rows hold.
        do_lower_case, strip_accents: what became of the text before it was cut into pieces.
        sentence_objective: "nsp", "sop" or "none": what the label 1 of two texts means, if there are two.
        masking: how it was masked: "token" and so on; None: it was not.
    """

    vocabulary: str
    do_lower_case: bool
    strip_accents: bool
    sentence_objective: str
    masking: str | None

    @classmethod
    def of(cls, path: str | os.PathLike) -> "Origin | None":
        """Reads what a file says; None where it says nothing, for another program or an earlier version wrote it.

        Raises:
            ValueError: the file is none of records, or what it says cannot be understood.
        """
        data = record_features.made_with(path)
        return None if data is None else cls.of_stamp(path, data)

    @classmethod
    def of_stamp(cls, path: str | os.PathLike, data: bytes) -> "Origin":
        """Reads what a record of a file says in the feature MADE_WITH; it raises what `of` does."""
        return cls(**_read(os.fspath(path), data))

    def stamp(self) -> bytes:
        """Returns what `records.write` takes as `stamp`."""
        import tensorflow as tf  # here, so that a program which only reads what lies beside records need not wait

        data = json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":")).encode()
        feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[data]))
        features = tf.train.Features(feature={record_features.MADE_WITH: feature})
        return tf.train.Example(features=features).SerializeToString(deterministic=True)


def fingerprint(pieces: list[str]) -> str:
    """Returns the SHA-256 of a vocabulary, in hexadecimal: of its pieces in their order, one a line."""
    return hashlib.sha256("\n".join(pieces).encode()).hexdigest()


def _read(path: str, data: bytes) -> dict[str, Any]:
    """Returns the attributes of an `Origin`; what later versions may say besides is passed over."""
    try:
        values = json.loads(data) if len(data) <= _LARGEST else None
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict) or any(not isinstance(values.get(name), kind) for name, kind in _TYPES.items()):
        raise ValueError(
            f"{path} must say in {record_features.MADE_WITH}, a feature of its first record, how it was made. Received "
            f"{brief(data[:200])}; make the records anew."
        )
    return {name: values[name] for name in _TYPES}
