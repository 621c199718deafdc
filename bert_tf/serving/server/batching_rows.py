"""Requests cut into rows and put together again: which may share a batch, how long a row is, whose answer is whose."""

from collections.abc import Mapping

import numpy as np

from bert_tf.serving.server.signatures import Signature

BYTES_PER_TOKEN = 4  # of English, with its spaces; too short rather than too long, so that a batch stays in its budget
SPECIAL_TOKENS = 2


def group_of(signature: Signature, inputs: dict[str, np.ndarray]) -> tuple | None:
    """Returns what two requests of one version must have in common to share a batch; None: this one shares none.

    Rows can be put together, and answers taken apart, where every tensor has one entry for each row. An answer whose
    width depends on the texts (names in a text, vectors of its tokens) would come back as wide as a neighbour's: such
    a request is computed alone, unless all inputs are arrays whose widths agree.
    """
    arrays = [inputs[alias] for alias in signature.inputs if alias in inputs]
    if not arrays or any(not array.ndim or len(array) != len(arrays[0]) for array in arrays) or not len(arrays[0]):
        return None
    if not all(endpoint.has_rows for endpoint in (*signature.inputs.values(), *signature.outputs.values())):
        return None
    fixed = all(array.ndim > 1 for array in arrays)
    if not fixed and not all(endpoint.has_fixed_rows for endpoint in signature.outputs.values()):
        return None
    shapes = tuple((alias, inputs[alias].dtype.str, inputs[alias].shape[1:]) for alias in sorted(inputs))
    return signature.key, shapes


def lengths_of(
    inputs: Mapping[str, np.ndarray], most: int = 0, bytes_per_token: int = BYTES_PER_TOKEN
) -> list[int]:
    """Returns the tokens of each row, about: of strings by their bytes, of arrays their width.

    Strings of several inputs, a question and its context, add up; arrays, ids and their mask, stand side by side. Of a
    row of several strings, choices, each is computed, as long as the longest.

    Args:
        inputs: {alias: array}, of equally many rows, at least one.
        most: tokens that are read of a sequence of strings; 0: all.
        bytes_per_token: of strings; with 1 no text has more tokens than that.
    """
    arrays = list(inputs.values())
    rows = len(arrays[0])
    width = max((int(np.prod(array.shape[1:])) for array in arrays if array.dtype != object), default=0)
    texts = [_longest(array.reshape(rows, -1)) for array in arrays if array.dtype == object]
    if not texts:
        return [max(1, width)] * rows
    several = max(1, *(array.size // rows for array in arrays if array.dtype == object))
    lengths = (SPECIAL_TOKENS + sum(each) // bytes_per_token for each in zip(*texts, strict=True))
    return [width + several * (min(length, most) if most else length) for length in lengths]


def joined(rows, aliases) -> dict[str, np.ndarray]:
    """Returns the inputs of a batch: row i of each array is that of rows[i]."""
    return {alias: _stacked([row.task.inputs[alias][row.index] for row in rows]) for alias in aliases}


def scattered(parts, count: int) -> dict[str, np.ndarray]:
    """Returns the answer of one request from parts [(indices of its rows, {alias: array})], which cover all rows."""
    if len(parts) == 1 and parts[0][0] == list(range(count)):
        return parts[0][1]
    answer = {}
    for alias, first in parts[0][1].items():
        whole = np.empty((count, *first.shape[1:]), first.dtype)
        for indices, arrays in parts:
            whole[indices] = arrays[alias]
        answer[alias] = whole
    return answer


def _longest(strings):
    return [max(map(len, row), default=0) for row in strings.tolist()]


def _stacked(items):
    if isinstance(items[0], np.ndarray) or not isinstance(items[0], bytes):
        return np.stack(items)
    array = np.empty(len(items), object)  # np.array would take a list of bytes for one of its own strings
    array[:] = items
    return array
