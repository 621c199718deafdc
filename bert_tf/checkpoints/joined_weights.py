"""Weights that files hold in several arrays and bert_tf in one: a file read with them joined, and their parts again.

The two linear maps of a gated feed-forward layer, for instance, are one kernel in bert_tf and have a name each in some
files.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bert_tf.checkpoints.names.rows import JoinedName


class JoinedWeights:
    """A file of weights in which the parts of a weight are one entry, called as in the rows of the weight mapping.

    Parts of which some are missing, or whose shapes do not fit, are not joined: their names are then unknown ones.

    Args:
        file: of any format in `weight_files`; has `shapes` and `read`, as this class.
        joined: of the file's weight mapping.
    """

    def __init__(self, file: Any, joined: Iterable[JoinedName]):
        self._file, self._parts, self.shapes = file, {}, dict(file.shapes)
        for each in joined:
            for name in file.shapes:
                self._join(each, name)

    def _join(self, joined, first):
        front = first.removesuffix(joined.parts[0])
        if front == first or (front and not front.endswith(".")):
            return
        names = [front + part for part in joined.parts]
        shapes = [self.shapes.get(name, ()) for name in names]
        if not all(shapes) or len({shape[1:] for shape in shapes}) > 1 or front + joined.whole in self.shapes:
            return
        for name in names:
            del self.shapes[name]
        self.shapes[front + joined.whole] = (sum(shape[0] for shape in shapes), *shapes[0][1:])
        self._parts[front + joined.whole] = names

    def read(self, name: str) -> np.ndarray:
        """Returns the array of an entry, in the dtype of the file."""
        if name not in self._parts:
            return self._file.read(name)
        return np.concatenate([self._file.read(part) for part in self._parts[name]])


def split_joined(arrays: Mapping[str, np.ndarray], joined: Iterable[JoinedName]) -> dict[str, np.ndarray]:
    """Returns the arrays, with those of `joined` in the parts in which files are written.

    Args:
        arrays: the format's name -> array in its layout.
        joined: of the weight mapping.
    """
    result = {}
    for name, array in arrays.items():
        owner = next((each for each in joined if each.is_written and name.endswith(f".{each.whole}")), None)
        if owner is None:
            result[name] = array
            continue
        front, parts = name.removesuffix(owner.whole), np.split(array, len(owner.parts))
        result |= {front + part: np.ascontiguousarray(own) for part, own in zip(owner.parts, parts, strict=True)}
    return result
