"""Answers without a model: quick, and of every kind that a column can be."""

import dataclasses
import os
import time

import numpy as np

from bert_tf.data.ragged import Ragged


@dataclasses.dataclass(frozen=True)
class FakeMaker:
    """Makes `answers`, and keeps account of it.

    Attributes:
        log: a file that gets a line for each part answered.
        seconds: that a part takes.
        arrays: leave out what no array can hold.
        broken: the maker fails.
    """

    log: str
    seconds: float = 0.0
    arrays: bool = True
    broken: bool = False

    @property
    def identity(self):
        return {"arrays": self.arrays}

    def __call__(self):
        if self.broken:
            raise ValueError("There must be a model; got none.")
        return self._answer

    def _answer(self, rows):
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {rows.ids[0]} {len(rows.ids)}\n")
        time.sleep(self.seconds)
        return answers(rows, self.arrays)


def answers(rows, arrays=True):
    """Returns columns of all kinds, made of the rows' texts alone."""
    texts = ["|".join(each) if isinstance(each, list) else each for each in rows.texts[-1]]
    lengths = np.array([len(text) for text in texts])
    columns = {
        "id": rows.ids,
        "label": [text[:3] for text in texts],
        "vector": np.stack([lengths / 3, lengths / 7], -1).astype(np.float32),
        "grid": np.arange(4).reshape(2, 2)[None] + lengths[:, None, None],
        "codes": Ragged.of_lengths(np.array([ord(c) for text in texts for c in text], np.int32), lengths),
        "pieces": Ragged.of_lengths(np.ones([lengths.sum(), 2], np.float32), lengths),
    }
    return columns if arrays else {**columns, "words": [[{"word": word} for word in text.split()] for text in texts]}
