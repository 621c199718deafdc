"""Columns of a classifier's predictions: what is written of the probabilities of its labels.

    label, probabilities [n, L], labels [n, L]   ->   label, probability, and as requested
        probabilities: all of them (`Labeled`), or a column for each label, or none
        top_labels, top_probabilities: the most probable labels
        predicted, predicted_probabilities: the labels that a multi-label model predicts
"""

import dataclasses
from typing import Any

import numpy as np

from bert_tf.data.ragged import Ragged
from bert_tf.inference.batch_prediction.answer_parts import CountedAnswers
from bert_tf.inference.batch_prediction.column_values import EntityLists, Labeled, same_labels
from bert_tf.inference.batch_prediction.exported_model import ExportedModel
from bert_tf.utils.answers import CHOICE, CLASSES, PREDICTED
from bert_tf.utils.names import HAVE_SEVERAL_LABELS

_THRESHOLD = 0.5  # of the labels of multi-label models whose exports lack PREDICTED


@dataclasses.dataclass(frozen=True)
class LabelColumns:
    """A `table_job.Maker` for a model's predictions, with the requested columns for its labels.

    The predictions of models without labels have the same columns as without it, except that those of a
    multiple-choice model get the `probability` of the choice.

    Attributes:
        model: an `ExportedModel`, or a `TrainedModelMaker`.
        probabilities: "all" (one column of all of them), "columns" (`probability_LABEL` for each label) or "none".
        top_k: number of the most probable labels to write, or None.
        has_several_labels: whether a text may have any number of labels.
    """

    model: ExportedModel
    probabilities: str = "all"
    top_k: int | None = None
    has_several_labels: bool = False

    @property
    def identity(self) -> dict[str, Any]:
        """Identity of the model, and the columns."""
        return self.model.identity | {"probabilities": self.probabilities, "top_k": self.top_k}

    def __call__(self):
        answer = self.model()
        return CountedAnswers(lambda rows: self.shape(answer(rows)), answer.token_counts)

    def shape(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Returns the model's columns, with the requested ones in place of its `CLASSES` or `CHOICE`, if it has them.

        Raises:
            ValueError: related outputs do not match, or the rows of a file have different labels.
        """
        if set(CLASSES) <= columns.keys():
            label, *replaced = *CLASSES, PREDICTED
            shaped = self._of_labels(columns["probabilities"], columns["labels"], columns.get(PREDICTED))
        elif set(CHOICE) <= columns.keys():
            label, *replaced = CHOICE
            shaped = self._of_choices(columns["probabilities"])
        else:
            return {name: EntityLists(each) if name == "entities" else each for name, each in columns.items()}
        head = {name: columns[name] for name in ("id", label)}
        return head | shaped | {name: columns[name] for name in columns if name not in (*head, *replaced)}

    def _of_choices(self, probabilities):
        rows = probabilities.rows() if isinstance(probabilities, Ragged) else probabilities
        columns = {"probability": np.array([max(row) for row in rows])}
        return columns | ({"probabilities": probabilities} if self.probabilities == "all" else {})

    def _of_labels(self, probabilities, labels, predicted):
        shapes = {getattr(probabilities, "shape", None), getattr(labels, "shape", None)}
        if len(shapes) > 1 or len(np.shape(probabilities)) != 2:
            raise ValueError(
                "`signature` must return labels and probabilities of the same shape, [n, L]. Choose such a signature."
            )
        columns = {"probability": probabilities.max(-1)}
        if predicted is None and self.has_several_labels:
            predicted = probabilities > _THRESHOLD
        if predicted is not None:
            counts = predicted.sum(-1)
            columns[PREDICTED] = Ragged.of_lengths(labels[predicted].astype(str), counts)
            columns["predicted_probabilities"] = Ragged.of_lengths(probabilities[predicted], counts)
        if self.top_k:
            best = np.argsort(-probabilities, -1, "stable")[:, : self.top_k]
            columns["top_labels"] = np.take_along_axis(labels, best, -1).astype(str)
            columns["top_probabilities"] = np.take_along_axis(probabilities, best, -1)
        if self.probabilities == "none":
            return columns
        names = same_labels(labels.tolist())
        if self.probabilities == "all":
            return columns | {"probabilities": Labeled(probabilities, names)}
        return columns | {f"probability_{name}": probabilities[:, n] for n, name in enumerate(names)}


def label_columns(model: ExportedModel, probabilities: str | None = None, top_k: int | None = None) -> LabelColumns:
    """Returns the `LabelColumns` of a model.

    Args:
        model: an `ExportedModel`, or a `TrainedModelMaker`.
        probabilities: as in `LabelColumns`; if None, "all", or "none" if there is a `top_k`.
        top_k: as in `LabelColumns`.

    Raises:
        ValueError: one of them has no effect, because the model has no such outputs.
    """
    requested = {"top_k": top_k} | ({"probabilities": probabilities} if probabilities == "columns" else {})
    _check_outputs(model, requested, CLASSES)
    _check_outputs(model, {"probabilities": probabilities}, ("probabilities",))
    probabilities = probabilities or ("none" if top_k else "all")
    return LabelColumns(model, probabilities, top_k, HAVE_SEVERAL_LABELS.get(model.problem, False))


def _check_outputs(model, requested, needed):
    for name, value in requested.items():
        if value is not None and not set(needed) <= set(model.outputs):
            raise ValueError(
                f"`{name}={value}` requires a model with the outputs {', '.join(needed)}; the signature "
                f"{model.signature!r} of {model.path} has {', '.join(model.outputs)}. Remove it."
            )
