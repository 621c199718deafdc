"""Rows of requests: which requests may share a batch, the length of each row, and the split of the results."""

from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.serving.server.batching_queue import BatchItem
from bert_tf.serving.server.signatures import Signature

BYTES_PER_TOKEN = 4  # of English, with its spaces; a low estimate, so that a batch stays within its budget
NUM_SPECIAL_TOKENS = 2  # of a text: [CLS] and [SEP]


def batching_group(signature: Signature, inputs: dict[str, np.ndarray]) -> tuple | None:
    """Returns the key that requests of one version must share to be batched together; None means never batched.

    Rows can be batched, and results split, if every tensor has one entry per row. A result whose
    width depends on the texts (named entities, hidden states) would become as wide as a neighbor's: such
    a request is computed alone, unless all inputs are arrays whose widths agree. So is one whose shapes are not those
    of the signature, because what the graph makes of them may not be one entry per row.
    """
    arrays = [inputs[alias] for alias in signature.inputs if alias in inputs]
    if not arrays or any(not array.ndim or len(array) != len(arrays[0]) for array in arrays) or not len(arrays[0]):
        return None
    if not all(endpoint.has_rows for endpoint in (*signature.inputs.values(), *signature.outputs.values())):
        return None
    if not all(signature.inputs[alias].fits(array.shape) for alias, array in inputs.items()):
        return None
    fixed = all(array.ndim > 1 for array in arrays)
    if not fixed and not all(endpoint.has_fixed_rows for endpoint in signature.outputs.values()):
        return None
    shapes = tuple((alias, inputs[alias].dtype.str, inputs[alias].shape[1:]) for alias in sorted(inputs))
    return signature.key, shapes


def estimate_lengths(
    inputs: Mapping[str, np.ndarray],
    most: int = 0,
    bytes_per_token: int = BYTES_PER_TOKEN,
    per_text: int = 1,
    added: int = 0,
) -> list[int]:
    """Estimates the tokens of each row: of strings from their bytes, of arrays from their width.

    Strings of several inputs, such as question and context, add up; arrays, such as ids and mask, do not. For a
    row with several strings (choices), each counts as long as the longest.

    Args:
        inputs: {alias: array}, with the same number of rows, at least one.
        most: maximum tokens read per sequence of strings; 0 for all.
        bytes_per_token: bytes per token of strings; with 1, the estimate is an upper bound.
        per_text, added: as in `Sequences`.
    """
    arrays = list(inputs.values())
    rows = len(arrays[0])
    width = max((int(np.prod(array.shape[1:])) for array in arrays if array.dtype != object), default=0)
    texts = [
        [max(map(len, row), default=0) for row in array.reshape(rows, -1).tolist()]
        for array in arrays
        if array.dtype == object
    ]
    if not texts:
        return [max(1, width)] * rows
    several = per_text * max(1, *(array.size // rows for array in arrays if array.dtype == object))
    lengths = (NUM_SPECIAL_TOKENS + added + sum(each) // bytes_per_token for each in zip(*texts, strict=True))
    return [width + several * (min(length, most) if most else length) for length in lengths]


def stack_inputs(rows: Sequence[BatchItem]) -> dict[str, np.ndarray]:
    """Returns the inputs of a batch, {alias: array}: row i of each is that of rows[i]."""
    stacked = {}
    for alias in rows[0].task.inputs:
        items = [row.task.inputs[alias][row.index] for row in rows]
        if isinstance(items[0], bytes):
            stacked[alias] = np.empty(len(items), object)  # np.array would use its own string types
            stacked[alias][:] = items
        else:
            stacked[alias] = np.stack(items)
    return stacked


def combine_answers(parts, count: int) -> dict[str, np.ndarray]:
    """Returns the result of one request from parts [(indices of its rows, {alias: array})], which cover all rows."""
    if len(parts) == 1 and parts[0][0] == list(range(count)):
        return parts[0][1]
    answer = {}
    for alias, first in parts[0][1].items():
        whole = np.empty((count, *first.shape[1:]), first.dtype)
        for indices, arrays in parts:
            whole[indices] = arrays[alias]
        answer[alias] = whole
    return answer
