"""A SavedModel's answers to the rows of a part."""

import numpy as np
import tensorflow as tf

from bert_tf.data.ragged import Ragged
from bert_tf.serving.client import answers
from bert_tf.serving.errors import ServingError
from bert_tf.serving.exports import open_export


class Predictor:
    """Answers with `id` and the signature's outputs, by their names; entities as `serving.answers` has them.

    Args:
        exported: an `exported.ExportedModel`.

    Raises:
        ValueError: the model cannot be loaded.
    """

    def __init__(self, exported):
        self._exported = exported
        self._model = open_export(exported.path)
        self._outputs = self._model.signatures[exported.signature].outputs

    def __call__(self, rows):
        """Returns the columns for `table_job.Rows`."""
        batches = [(chosen, self._answer(rows, chosen)) for chosen in self._batches(rows.texts)]
        order = np.argsort(np.concatenate([chosen for chosen, _ in batches]), kind="stable")
        columns = {name: _column([outputs[name] for _, outputs in batches], order, self._is_fixed(name))
                   for name in sorted(self._outputs, key=answers.place)}  # fmt: skip
        if {*answers.ENTITIES, "entity_count"} <= set(columns):
            padded = [_lists(columns.pop(name)) for name in answers.ENTITIES]
            columns["entities"] = answers.entities(columns.pop("entity_count").tolist(), padded)
        return {"id": rows.ids, **columns}

    def _batches(self, texts):
        """Yields indices of rows: with lists of one length, and texts of like lengths; the longest first."""
        several = [column for column, each in zip(texts, self._exported.inputs, strict=True) if each.several]
        counts = [tuple(map(len, each)) for each in zip(*several, strict=True)] or [()] * len(texts[0])
        lengths = [sum(map(_length, each)) for each in zip(*texts, strict=True)]
        order = sorted(range(len(lengths)), key=lambda row: (counts[row], -lengths[row], row))
        start = 0
        while start < len(order):
            batch = order[start : start + self._exported.batch_size]
            batch = [row for row in batch if counts[row] == counts[batch[0]]]
            yield np.array(batch)
            start += len(batch)

    def _answer(self, rows, chosen):
        """Returns {output: array [len(chosen), ...]}."""
        feeds = {each.tensor: _feed([column[row] for row in chosen], each)
                 for column, each in zip(rows.texts, self._exported.inputs, strict=True)}  # fmt: skip
        try:
            arrays = self._model.run(feeds, [output.tensor for output in self._outputs.values()])
        except ServingError as error:
            raise ValueError(
                f"{self._exported.path} must answer every text. Received, for {len(chosen)} rows from "
                f"{rows.ids[chosen[0]]!r} on: {error}"
            ) from error
        outputs = dict(zip(self._outputs, map(_numbers_or_text, arrays), strict=True))
        for name, array in outputs.items():
            if array.shape[:1] != (len(chosen),):
                raise ValueError(
                    f"`signature` must answer with a row for each text. Received for {len(chosen)} texts the output "
                    f"{name!r} of shape {list(array.shape)}; name another one."
                )
        return outputs

    def _is_fixed(self, name):
        """Returns whether every row of an output has the same shape, by the signature's word."""
        shape = self._model.signatures[self._exported.signature].definition.outputs[name].tensor_shape
        return not shape.unknown_rank and all(dim.size >= 0 for dim in shape.dim[1:])


def _length(text):
    return sum(map(len, text)) if isinstance(text, list) else len(text)


def _feed(texts, given):
    """Returns strings [n], [n, 1] or [n, k], as the session takes them."""
    if given.several:
        return np.array([[each.encode() for each in text] for text in texts], object)
    array = np.array([text.encode() for text in texts], object)
    return array[:, None] if given.column else array


def _numbers_or_text(array):
    """Returns an output as numpy and Arrow have it: text in place of bytes, float32 in place of bfloat16."""
    if array.dtype == tf.bfloat16.as_numpy_dtype:
        return array.astype(np.float32)
    if not array.dtype.hasobject:
        return array
    text = np.empty(array.shape, object)
    text.flat = [value.decode("utf-8", "replace") for value in array.flat]
    return text


def _column(arrays, order, fixed):
    """Returns the rows of all batches in the table's order: an array, or a `Ragged` where rows differ in length."""
    if fixed:
        return np.concatenate(arrays)[order]
    if len({array.shape[2:] for array in arrays}) == 1:
        rows = [row for array in arrays for row in array]
        rows = [rows[n] for n in order]
        return Ragged.of_lengths(np.concatenate(rows), [len(row) for row in rows])
    lists = [row for array in arrays for row in answers.plain(array)]
    return [lists[n] for n in order]


def _lists(column):
    """Returns the rows of a column as lists."""
    if isinstance(column, Ragged):
        return [answers.plain(row) for row in column.rows()]
    return answers.plain(column)
