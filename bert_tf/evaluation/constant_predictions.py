"""Constant predictions: the same label for every example, by a model that has learned nothing. No TensorFlow."""

import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from bert_tf.utils.files import read_lines

PREDICTIONS_FILE = "eval_predictions.tsv"
# Columns of prediction files: true and predicted labels. A cell of tags holds several.
_COLUMNS = (("tags", "predicted_tags"), ("label", "prediction"), ("answer", "prediction"))


def only_answer(columns: Mapping[str, Sequence[str]]) -> str | None:
    """Returns the label predicted for all examples although the true labels differ; otherwise None.

    Args:
        columns: columns of a prediction table, {name: n cells}, as in `eval_predictions.tsv`.
    """
    names = next((names for names in _COLUMNS if set(names) <= columns.keys()), None)
    if names is None:
        return None
    gold, given = (columns[name] for name in names)
    if names[0] == "tags":
        gold, given = _words(gold), _words(given)
    answers = set(given)
    return answers.pop() if len(answers) == 1 and len(set(gold)) > 1 else None


def only_answer_in(folder: str | os.PathLike) -> str | None:
    """Returns `only_answer` for the predictions of a run on its evaluation file; None if there are none."""
    path = pathlib.Path(folder, PREDICTIONS_FILE)
    if not path.exists():
        return None
    header, *rows = [line.rstrip("\r\n").split("\t") for line in read_lines(path)] or [[]]
    cells = {name: [row[index] for row in rows if index < len(row)] for index, name in enumerate(header)}
    return only_answer(cells)


def _words(cells: Iterable[str]) -> set[str]:
    return {word for cell in cells for word in cell.split(" ")}
