"""Columns of a classifier's predictions: what is written of the probabilities of its labels.

    label, probabilities [n, L], labels [n, L]   ->   label, probability, and as the options say
        probabilities: all of them (`Labeled`), or a column for each label, or none
        top_labels, top_probabilities: the most probable labels
        predicted_labels, predicted_probabilities: those that reach their threshold, of a multi-label model
"""

import dataclasses
import os
from typing import Any

import numpy as np

from bert_tf.data.features import Ragged
from bert_tf.inference.batch_prediction.exported_model import ExportedModel
from bert_tf.inference.batch_prediction.output_formats import Labeled, same_labels
from bert_tf.serving.client.results import CHOICE, CLASSES
from bert_tf.utils.json_files import read_object

_TASK = os.path.join("assets.extra", "task.json")
_THRESHOLD = 0.5  # of a label of a multi-label model that has no other


@dataclasses.dataclass(frozen=True)
class LabelOptions:
    """What is written of the probabilities of labels.

    Attributes:
        probabilities: "all" (one column of all of them), "columns" (`probability_LABEL` for each label) or "none".
        top_k: number of the most probable labels to write; None: none.
    """

    probabilities: str = "all"
    top_k: int | None = None


@dataclasses.dataclass(frozen=True)
class LabelColumns:
    """A `table_job.Maker` for an exported model's predictions with the columns that the options ask for.

    The predictions of models without labels are unchanged, except that those of a multiple-choice model get the
    `probability` of the choice.

    Attributes:
        model: the exported model.
        options: what is written of probabilities.
        thresholds: lowest probability of each label that is predicted, of a multi-label model; () for others.
    """

    model: ExportedModel
    options: LabelOptions = LabelOptions()
    thresholds: tuple[float, ...] = ()

    @property
    def identity(self) -> dict[str, Any]:
        """Identity of the model, and the options."""
        return self.model.identity | dataclasses.asdict(self.options)

    def __call__(self):
        answer = self.model()
        return lambda rows: self.shape(answer(rows))

    def shape(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Returns columns with those of `CLASSES` or `CHOICE`, if any, as the options say.

        Raises:
            ValueError: related outputs do not match, or the rows of a file have different labels.
        """
        if set(CLASSES) <= columns.keys():
            label, *replaced = CLASSES
            shaped = self._of_labels(columns["probabilities"], columns["labels"])
        elif set(CHOICE) <= columns.keys():
            label, *replaced = CHOICE
            shaped = self._of_choices(columns["probabilities"])
        else:
            return columns
        head = {name: columns[name] for name in ("id", label)}
        return head | shaped | {name: columns[name] for name in columns if name not in (*head, *replaced)}

    def _of_choices(self, probabilities):
        rows = probabilities.rows() if isinstance(probabilities, Ragged) else probabilities
        of_choice = np.array([max(row) for row in rows])
        return {"probability": of_choice} | ({} if self.options.probabilities == "none"
                                             else {"probabilities": probabilities})  # fmt: skip

    def _of_labels(self, probabilities, labels):
        shapes = {getattr(probabilities, "shape", None), getattr(labels, "shape", None)}
        if len(shapes) > 1 or len(np.shape(probabilities)) != 2:
            raise ValueError("`signature` must return labels and probabilities of one shape, [n, L]. Use another one.")
        columns = {"probability": probabilities.max(-1)}
        if self.thresholds:
            reached = probabilities >= np.array(self.thresholds, np.float32)
            counts = reached.sum(-1)
            columns["predicted_labels"] = Ragged.of_lengths(labels[reached].astype(str), counts)
            columns["predicted_probabilities"] = Ragged.of_lengths(probabilities[reached], counts)
        if self.options.top_k:
            best = np.argsort(-probabilities, -1, "stable")[:, : self.options.top_k]
            columns["top_labels"] = np.take_along_axis(labels, best, -1).astype(str)
            columns["top_probabilities"] = np.take_along_axis(probabilities, best, -1)
        if self.options.probabilities == "none":
            return columns
        names = same_labels(labels.tolist())
        if self.options.probabilities == "all":
            return columns | {"probabilities": Labeled(probabilities, names)}
        return columns | {f"probability_{name}": probabilities[:, n] for n, name in enumerate(names)}


def label_columns(model: ExportedModel, probabilities: str | None = None, top_k: int | None = None) -> LabelColumns:
    """Returns a maker of a model's predictions.

    Args:
        model: the exported model.
        probabilities: as in `LabelOptions`; None: "all", or "none" if there is a `top_k`.
        top_k: as in `LabelOptions`.

    Raises:
        ValueError: an option has no effect, because the model has no labels.
    """
    requested = {"top_k": top_k} | ({"probabilities": probabilities} if probabilities == "columns" else {})
    _check_outputs(model, requested, CLASSES, "a classifier")
    _check_outputs(model, {"probabilities": probabilities}, ("probabilities",), "a model with probabilities")
    options = LabelOptions(probabilities or ("none" if top_k else "all"), top_k)
    return LabelColumns(model, options, _read_thresholds(model.path))


def _check_outputs(model, requested, needed, what):
    for name, value in requested.items():
        if value is not None and not set(needed) <= set(model.outputs):
            raise ValueError(
                f"`{name}={value}` requires {what}, with the outputs {', '.join(needed)}; the signature "
                f"{model.signature!r} of {model.path} has {', '.join(model.outputs)}. Leave out `{name}`."
            )


def _read_thresholds(path):
    """Returns the threshold of each label of a multi-label export of ours; () of any other model."""
    file = os.path.join(path, _TASK)
    task = read_object(file, "the task of an export", "export the model again") if os.path.exists(file) else {}
    if task.get("problem") != "multi_label":
        return ()
    return tuple(task.get("thresholds") or [_THRESHOLD] * len(task["labels"]))
