"""Graphs and vocabularies, which a layer's configuration cannot contain, in the directories that layers read.

Keras rebuilds a layer from its configuration, and adds the files that were saved with it later, if at all: a copy
made in memory, as by `keras.models.clone_model`, gets none. So a configuration has the fingerprint of its files,
with which files that this process has read already are found again.
"""

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable

_KNOWN: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # fingerprint -> what was read


class Files:
    """A snapshot of some files of a directory.

    Attributes:
        folder: its path.
        names: paths in it, sorted.
        fingerprint: hexadecimal; equal for equal names and contents.

    Raises:
        ValueError: one of the names is not a file.
    """

    def __init__(self, folder: str, names: Iterable[str]):
        self.folder, self.names = folder, sorted(names)
        self.fingerprint = self._digest()
        self._temporary = None

    def _digest(self):
        digest = hashlib.sha256()
        for name in self.names:
            path = os.path.join(self.folder, name)
            if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device may have no end
                raise ValueError(
                    f"{path} is not a regular file, so the layer cannot be saved with it. Remove it."
                )
            with open(path, "rb") as file:
                digest.update(f"{name}\n{os.fstat(file.fileno()).st_size}\n".encode())
                digest.update(file.read())
        return digest.hexdigest()

    def unchanged(self) -> bool:
        """Returns whether the files exist and are unchanged."""
        try:
            return self._digest() == self.fingerprint
        except (OSError, ValueError):
            return False

    def copy_to(self, folder: str):
        """Writes the files to a directory."""
        for name in self.names:
            target = os.path.join(folder, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(os.path.join(self.folder, name), target)

    def copy(self) -> "Files":
        """Returns copies in a temporary directory, which is removed when nothing refers to them any longer."""
        temporary = tempfile.TemporaryDirectory(prefix="bert_tf-")
        self.copy_to(temporary.name)
        files = Files(temporary.name, self.names)
        files._temporary = temporary
        return files


def remember(fingerprint: str, value):
    """Makes `find_remembered` find `value` as long as other references to it exist."""
    _KNOWN[fingerprint] = value


def find_remembered(fingerprint: str):
    """Returns the remembered value, or None if it no longer exists."""
    return _KNOWN.get(fingerprint)
