"""The folders from which layers have what no configuration can hold: graphs and vocabularies.

Keras rebuilds a layer from its configuration, and gives it the files that were saved with it later, if at all: a copy
made in memory, as by `keras.models.clone_model`, gets none. So a configuration names its files by their fingerprint,
and what this process has read already is found again.
"""

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable

_KNOWN: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # fingerprint -> what was read


class Files:
    """Some files of a folder, as they were when this was made.

    Attributes:
        folder: its path.
        names: paths in it, sorted.
        fingerprint: hexadecimal; the same for the same names and contents.

    Raises:
        ValueError: something of that name is no file.
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
                    f"The files of a saved layer must be files. Received {path}, which is none; take it away."
                )
            with open(path, "rb") as file:
                digest.update(f"{name}\n{os.fstat(file.fileno()).st_size}\n".encode())
                digest.update(file.read())
        return digest.hexdigest()

    def unchanged(self) -> bool:
        """Returns whether the files are there and as they were."""
        try:
            return self._digest() == self.fingerprint
        except (OSError, ValueError):
            return False

    def copy_to(self, folder: str):
        """Writes the files into a folder."""
        for name in self.names:
            target = os.path.join(folder, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(os.path.join(self.folder, name), target)

    def copy(self) -> "Files":
        """Returns copies in a temporary folder, which is removed when nothing refers to them any more."""
        temporary = tempfile.TemporaryDirectory(prefix="bert_tf-")
        self.copy_to(temporary.name)
        files = Files(temporary.name, self.names)
        files._temporary = temporary
        return files


def remember(fingerprint: str, value):
    """Has `recall` find `value` as long as somebody else refers to it."""
    _KNOWN[fingerprint] = value


def recall(fingerprint: str):
    """Returns what was remembered, None where it is gone."""
    return _KNOWN.get(fingerprint)
