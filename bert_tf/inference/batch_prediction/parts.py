"""The answers for one part of a table, as a file of the work folder."""

import dataclasses
import os
import re
from typing import Any

import numpy as np
from absl import logging

from bert_tf.data.ragged import Ragged
from bert_tf.inference.batch_prediction.formats import Format, Partial
from bert_tf.inference.batch_prediction.table import Rows
from bert_tf.utils.counts import number_of

_NAMES = ("id", "linex_index")  # columns that say which row it is, also where it has no answer
_NAME = re.compile(r"part-(\d{8})")


@dataclasses.dataclass
class PartWriter:
    """Answers and writes; can be pickled until it is `ready`.

    Attributes:
        maker: of the function that answers.
        form: of the files.
        folder: where they go.
    """

    maker: Any
    form: Format
    folder: str

    def ready(self) -> "PartWriter":
        """Has the function made that answers, and returns itself."""
        self._answer = self.maker()
        return self

    def path(self, number: int) -> str:
        """Returns the path of a part."""
        return os.path.join(self.folder, f"part-{number:08d}")

    def there(self) -> set[int]:
        """Returns the numbers of the parts that are written."""
        return {int(match[1]) for match in map(_NAME.fullmatch, os.listdir(self.folder)) if match}

    def write(self, number: int, rows: Rows) -> int:
        """Answers for the rows of a part, writes what came, and returns how many there are."""
        answers = self._answer(rows)
        _warn_of_not_finite(number, answers)
        columns = _beside(rows.kept, answers)
        for name, values in columns.items():
            found = len(values.lengths) if isinstance(values, Ragged) else len(values)
            assert found == len(rows.ids), (name, found, len(rows.ids))
        if rows.missing:
            missing = np.array(rows.missing)
            answers = columns.keys() - {*_NAMES, *rows.kept}
            columns |= {name: Partial(columns[name], missing) for name in answers}
        self.form.write(self.path(number), columns)
        return len(rows.ids)


def _warn_of_not_finite(number, answers):
    """Says how many numbers of a part are none, which files of text have no word for."""
    for name, values in answers.items():
        array = values.flat if isinstance(values, Ragged) else values
        if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
            logging.warning(
                "Part %d: %s of %s of %r are NaN or infinite; is the precision that the model computes in too narrow?",
                *(number, f"{np.count_nonzero(~finite):,}", number_of(array.size, "number"), name),
            )


def _beside(kept, answers):
    """Returns the answers with what is passed on between the ids, where there are some, and the rest."""
    twice = sorted(kept.keys() & answers.keys())
    if twice:
        raise ValueError(
            f"`keep_columns` must name other columns than the answers, which are {', '.join(answers)}. Received "
            f"{', '.join(twice)}; name such a column by its number."
        )
    ids = {name: answers[name] for name in ("id",) if name in answers}
    return ids | kept | answers
