"""Runs whose model gives every example the same answer: it has learned nothing, whatever its score."""

import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from bert_tf.utils.files import read_lines

PREDICTIONS_FILE = "eval_predictions.tsv"
# Columns of such a table: right answers and given ones. A cell of tags holds several.
_COLUMNS = (("tags", "predicted_tags"), ("label", "prediction"), ("answer", "prediction"))


def only_answer(columns: Mapping[str, Sequence[str]]) -> str | None:
    """Returns the answer that all examples were given, where they should have been given several; else None.

    Args:
        columns: of a table of answers, {name: n cells}, as `eval_predictions.tsv` has them.
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
    """Returns what `only_answer` says of the answers of a scored run to its evaluation file; None: there are none."""
    path = pathlib.Path(folder, PREDICTIONS_FILE)
    if not path.exists():
        return None
    header, *rows = [line.rstrip("\r\n").split("\t") for line in read_lines(path)] or [[]]
    cells = {name: [row[place] for row in rows if place < len(row)] for place, name in enumerate(header)}
    return only_answer(cells)


def _words(cells: Iterable[str]) -> set[str]:
    return {word for cell in cells for word in cell.split(" ")}
