"""Converts output arrays into one prediction per text: dictionaries of JSON values."""

import itertools
from collections.abc import Sequence

import numpy as np

CLASSES = ("label", "probabilities", "labels")  # the outputs of a classifier
PREDICTED = "predicted"  # of a multi-label classifier, bool [n, k]; exports of bert_tf 0.1 may lack it
COUNT = "entity_count"
ENTITIES = ("entity", "type", "start", "end", "score")  # those of an NER model, [n, E] each
CHOICE = ("choice", "probabilities")  # those of a multiple-choice model, [n] and [n, k]
RANKING = ("scores", "order")  # those of a reranker, [n, k] each
SPARSE = ("indices", "weights")  # those of a sparse encoder, [n, K] each
_PER_TEXT = {CHOICE: ("probabilities",), RANKING: RANKING}  # the outputs that have a value for each text of a list
_PART = 2**16  # numbers that are converted to text at a time
_ORDER = ("label", "choice", "probabilities", "answer", "start", "end", "score", "null_score", "token", "probability",
          "predicted", "confident", "scores", "order", *SPARSE)  # fmt: skip


def split_answer(outputs: dict[str, np.ndarray], n: int, counts: Sequence[int] | None = None) -> list[dict]:
    """Splits the outputs for n texts into one prediction per text.

    Args:
        outputs: {output: array [n, ...]}, strings as objects of type bytes.
        n: number of rows in each of them.
        counts: number of choices or documents in each row, if rows differ; if None, as many as there are probabilities
            or scores.

    Returns:
        n dictionaries {output: value}: numbers, str, or lists of them. Those of a classifier have no
        `labels`, but `probabilities` as {label: float}, and `predicted`, if any, as a list of labels; those of an
        NER model have `entities`, a list of {"text", "type", "start", "end", "score"}; those of a multiple-choice
        model have one probability per choice, those of a reranker one score per document, those of a sparse encoder
        as many indices and weights as up to the last weight that is not 0. Outputs have a fixed order, independent of
        that of `outputs`.

    Raises:
        ValueError: an output does not have n rows, or related outputs do not match.
    """
    for name, array in outputs.items():
        if array.shape[:1] != (n,):
            raise ValueError(
                f"Output {name!r} must have one row for each of the {n} texts; got an array of shape "
                f"{list(array.shape)}. Client.predict returns it unchanged."
            )
    _check_fit(outputs, counts)
    columns = {name: to_nested_lists(outputs[name]) for name in sorted(outputs, key=output_order)}
    if set(CLASSES) <= set(columns):
        names = columns.pop("labels")
        pairs = zip(names, columns["probabilities"], strict=True)
        columns["probabilities"] = [dict(zip(*pair, strict=True)) for pair in pairs]
        if PREDICTED in columns:
            pairs = zip(names, columns[PREDICTED], strict=True)
            columns[PREDICTED] = [list(itertools.compress(*pair)) for pair in pairs]
    if {*ENTITIES, COUNT} <= set(columns):
        columns["entities"] = entities(columns.pop(COUNT), [columns.pop(name) for name in ENTITIES])
    if set(SPARSE) == set(columns):
        lengths = [max((n for n, weight in enumerate(row, 1) if weight), default=0) for row in columns["weights"]]
        for name in SPARSE:
            columns[name] = [row[:length] for row, length in zip(columns[name], lengths, strict=True)]
    for name in () if counts is None else _per_text(columns)[1]:
        columns[name] = [row[:count] for row, count in zip(columns[name], counts, strict=True)]
    return [{name: column[i] for name, column in columns.items()} for i in range(n)]


def _per_text(outputs):
    """Returns the outputs of a model that takes lists, and those of them that have a value for each text of a list."""
    return next((pair for pair in _PER_TEXT.items() if set(pair[0]) <= set(outputs)), ((), ()))


def _check_fit(outputs, counts):
    """Raises ValueError if related outputs, n rows each, do not match."""
    if set(CLASSES) <= set(outputs):
        labels, probabilities = outputs["labels"], outputs["probabilities"]
        good = labels.ndim == 2 and labels.shape == probabilities.shape and probabilities.dtype.kind in "fiu"
        _require(good and labels.dtype.kind not in "fiub", outputs, CLASSES, "labels and probabilities [n, k]")
        marks = outputs.get(PREDICTED)
        good = marks is None or marks.shape == labels.shape and marks.dtype == bool
        _require(good, outputs, (*CLASSES, PREDICTED), "labels [n, k] and booleans of that shape")
    elif counts is not None:
        (kind, names), most = _per_text(outputs), max(counts, default=0)
        for name in names:
            array = outputs[name]
            good = array.ndim == 2 and array.shape[1] >= most and array.dtype.kind in "fiu"
            _require(good, outputs, kind, f"{name} [n, {most}]")
    if set(SPARSE) == set(outputs):
        indices, weights = (outputs[name] for name in SPARSE)
        good = indices.ndim == 2 and indices.shape == weights.shape and indices.dtype.kind in "iu"
        _require(good and weights.dtype.kind == "f", outputs, SPARSE, "indices and weights [n, K]")
    if {*ENTITIES, COUNT} <= set(outputs):
        count, shape = outputs[COUNT], outputs["entity"].shape
        good = len(shape) == 2 and {outputs[name].shape for name in ENTITIES} == {shape}
        good = good and count.ndim == 1 and count.dtype.kind in "iu" and ((count >= 0) & (count <= shape[1])).all()
        _require(good, outputs, (COUNT, *ENTITIES), f"{', '.join(ENTITIES)} [n, E], and of these {COUNT} [n]")


def _require(good, outputs, names, wanted):
    if not good:
        there = ", ".join(f"{name} {outputs[name].dtype} {list(outputs[name].shape)}" for name in names)
        raise ValueError(f"The response must have {wanted}; got {there}. Client.predict returns them unchanged.")


def entities(counts, columns) -> list[list[dict]]:
    """Returns the entities of each text.

    Args:
        counts: number of entities in each text.
        columns: for each name in ENTITIES, one list per text, which may be padded.
    """
    keys = ("text", *ENTITIES[1:])
    texts = zip(counts, *columns, strict=True)
    return [[dict(zip(keys, each, strict=True)) for each in list(zip(*parts, strict=True))[:n]] for n, *parts in texts]


def output_order(name: str) -> tuple[int, str]:
    """Returns a sort key for outputs: those of bert_tf's models in the documented order, then the others."""
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def to_nested_lists(array: np.ndarray) -> list:
    """Converts an array, also of bytes or text, to nested lists; bytes are decoded as UTF-8."""
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        # str writes a float32 with as many digits as needed, in 128 bytes; tolist alone would show those of its double.
        flat = array.ravel()
        exact: np.ndarray = np.empty(array.size)
        for start in range(0, array.size, _PART):
            exact[start : start + _PART] = flat[start : start + _PART].astype(str).astype(np.float64)
        return exact.reshape(array.shape).tolist()
    return _decoded(array.tolist()) if array.dtype == object else array.tolist()


def _decoded(value):
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
