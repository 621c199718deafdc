"""Predictions of a SavedModel for the rows of a part of a table."""

import numpy as np

from bert_tf.data.ragged import Ragged
from bert_tf.utils.answers import ENTITIES, entities, output_order, to_nested_lists


class TablePredictor:
    """Predicts `id` and the signature's outputs by name; entities as in `utils.answers`.

    Args:
        exported: an `ExportedModel`.

    Raises:
        ValueError: the model cannot be loaded.
    """

    def __init__(self, exported):
        self._batch_size = exported.batch_size
        self._model = exported.load()
        self.token_counts = self._model.token_counts

    def __call__(self, rows):
        """Returns the columns for `TableRows`."""
        model, texts = self._model, rows.texts
        batches = [(chosen, model.run(texts, chosen, rows.ids)) for chosen in model.batches(texts, self._batch_size)]
        order = np.argsort(np.concatenate([chosen for chosen, _ in batches]), kind="stable")
        columns = {}
        for name in sorted(batches[0][1], key=output_order):
            arrays = [outputs[name] for _, outputs in batches]
            columns[name] = _join_batches(arrays, order, name in model.fixed_outputs)
        if {*ENTITIES, "entity_count"} <= set(columns):
            padded = [_to_lists(columns.pop(name)) for name in ENTITIES]
            columns["entities"] = entities(columns.pop("entity_count").tolist(), padded)
        return {"id": rows.ids, **columns}


def _join_batches(arrays, order, has_one_shape):
    """Returns the rows of all batches in the table's order: an array, or a `Ragged` if rows differ in length."""
    if has_one_shape:
        return np.concatenate(arrays)[order]
    if len({array.shape[2:] for array in arrays}) == 1:
        rows = [row for array in arrays for row in array]
        rows = [rows[n] for n in order]
        return Ragged.of_lengths(np.concatenate(rows), [len(row) for row in rows])
    lists = [row for array in arrays for row in to_nested_lists(array)]
    return [lists[n] for n in order]


def _to_lists(column):
    """Returns the rows of a column as lists."""
    if isinstance(column, Ragged):
        return [to_nested_lists(row) for row in column.rows()]
    return to_nested_lists(column)
