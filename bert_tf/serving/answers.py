"""What a model's outputs say of each text: arrays to dictionaries of Python's own values, as JSON has them."""

from collections.abc import Sequence

import numpy as np

CLASSES = ("label", "probabilities", "labels")  # the outputs of a model that classifies
ENTITIES = ("entity", "type", "start", "end", "score")  # those of a model that finds entities, [n, E] each
CHOICE = ("choice", "probabilities")  # those of a model that chooses among texts, [n] and [n, k]
_ORDER = ("label", "choice", "probabilities", "answer", "start", "end", "score", "null_score", "token", "probability",
          "confident")  # fmt: skip


def rows(outputs: dict[str, np.ndarray], n: int, counts: Sequence[int] | None = None) -> list[dict]:
    """Takes the answer to n texts apart.

    Args:
        outputs: {output: array [n, ...]}, strings as objects of type bytes.
        n: how many rows each of them has.
        counts: how many texts there were to choose from in each row, where rows differ; None: as many as there are
            probabilities.

    Returns:
        n dictionaries {output: value}: numbers, str, or lists of them. Those of a model that classifies have no
        `labels`, but `probabilities` as {label: float}; those of one that finds entities have `entities`, a list of
        {"text", "type", "start", "end", "score"}; those of one that chooses have a probability for each of the texts
        to choose from. Outputs come in one order, whatever that of `outputs`.

    Raises:
        ValueError: an output has not n rows.
    """
    for name, array in outputs.items():
        if array.shape[:1] != (n,):
            raise ValueError(
                f"Output {name!r} must have a row for each of the {n} texts. Received an array of shape "
                f"{list(array.shape)}; Client.predict returns it as it is."
            )
    columns = {name: plain(outputs[name]) for name in sorted(outputs, key=place)}
    if set(CLASSES) <= set(columns):
        names = columns.pop("labels")
        pairs = zip(names, columns["probabilities"], strict=True)
        columns["probabilities"] = [dict(zip(*pair, strict=True)) for pair in pairs]
    if {*ENTITIES, "entity_count"} <= set(columns):
        columns["entities"] = entities(columns.pop("entity_count"), [columns.pop(name) for name in ENTITIES])
    if counts is not None and set(CHOICE) <= set(columns):
        columns["probabilities"] = [row[:count] for row, count in zip(columns["probabilities"], counts, strict=True)]
    return [{name: column[i] for name, column in columns.items()} for i in range(n)]


def entities(counts, columns) -> list[list[dict]]:
    """Returns the entities of each text.

    Args:
        counts: how many each text has.
        columns: of each name in ENTITIES a list for each text, which may be padded.
    """
    keys = ("text", *ENTITIES[1:])
    texts = zip(counts, *columns, strict=True)
    return [[dict(zip(keys, each, strict=True)) for each in list(zip(*parts, strict=True))[:n]] for n, *parts in texts]


def place(name: str) -> tuple[int, str]:
    """Returns what outputs are sorted by: those of our own models as their documentation has them, then the others."""
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def plain(array: np.ndarray) -> list:
    """Returns an array, also of bytes or text, as nested lists; bytes are read as UTF-8."""
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        # str gives a float32 as many digits as it needs; tolist alone would show those of its double.
        return array.astype(str).astype(np.float64).tolist()
    return _decoded(array.tolist()) if array.dtype == object else array.tolist()


def _decoded(value):
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
