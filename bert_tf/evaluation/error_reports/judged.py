"""What a model answered on examples whose right answers are known: what every kind of such answers has."""

import abc
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.utils.files import atomic_open
from bert_tf.utils.report import Page


class Shown(NamedTuple):
    """n examples as a reader is to see them.

    Attributes:
        path: their file.
        ids: a name for each.
        places: where in the file each is, such as its line.
        texts: {name: n texts}, one entry for each text that an example has.
        lengths: int [n], how long each is.
        unit: of the lengths.
        place_name: what a place is called.
    """

    path: str
    ids: Sequence[str]
    places: Sequence[Any]
    texts: Mapping[str, Sequence[str]]
    lengths: np.ndarray
    unit: str = "word pieces"
    place_name: str = "line"

    def __len__(self) -> int:
        return len(self.ids)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judged(abc.ABC):
    """Examples, right answers and a model's answers. A kind of them says how it is shown and written as a table.

    Attributes:
        examples: n of them.
        remarks: {metric: what is to be said beside it, such as how it is averaged}.
    """

    examples: Shown
    remarks: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def warning(self) -> str:
        """What must be known before any score is believed, one sentence; "": nothing."""
        return ""

    def learned_nothing(self, answers: str) -> str:
        """Returns the warning of a model that gives every example the same answer.

        Args:
            answers: what all of them are.
        """
        return (
            f"All {len(self.examples):,} answers on {os.path.basename(self.examples.path)} are {answers}: the model "
            "has learned nothing; train longer, or try another learning rate."
        )

    @property
    @abc.abstractmethod
    def badness(self) -> np.ndarray:
        """float [n], greatest where the model was wrong and most sure of it; of right answers where it was least."""

    @abc.abstractmethod
    def columns(self) -> dict[str, Sequence]:
        """Returns {name: n cells} of what is written beside id and texts."""

    @abc.abstractmethod
    def show(self, page: Page):
        """Adds what is to be seen to a page, each thing in a section of its own."""

    def in_order(self, order: str = "file") -> np.ndarray:
        """Returns int [n]: the examples as the file has them, or "errors": the most confident errors first."""
        return np.argsort(-self.badness, kind="stable") if order == "errors" else np.arange(len(self.examples))

    def worst(self, wrong: np.ndarray, most: int) -> np.ndarray:
        """Returns the `most` worst of those that are `wrong`, bool [n], the worst first."""
        return np.array([i for i in self.in_order("errors") if wrong[i]][:most], int)


def write_table(path: str | os.PathLike, judged: Judged, order: str = "file"):
    """Writes a line for each example, tab separated: `id`, the answers' own columns, and the texts.

    White space that would end a column or line becomes a space.

    Args:
        path: the file.
        judged: what to write.
        order: one of `names.PREDICTION_ORDERS`.

    Raises:
        OSError: the file cannot be written; an older one is unchanged.
    """
    columns = {"id": judged.examples.ids, **judged.columns(), **judged.examples.texts}
    with atomic_open(path) as file:
        file.write("\t".join(columns) + "\n")
        for i in judged.in_order(order):
            file.write("\t".join(_cell(values[i]) for values in columns.values()) + "\n")


def _cell(value):
    return " ".join(str(value).replace("\t", " ").splitlines())
