"""A folder of files as text, so that a Keras layer's configuration, which is JSON, can hold it."""

import base64
import binascii
import io
import os
import tempfile
import zipfile
from collections.abc import Iterable

_LARGEST = 2**31  # bytes of all files: what a SavedModel's graph, a message of protobuf, may have at most
_DATE = (1980, 1, 1, 0, 0, 0)  # the first that a zip file knows: the same files always become the same text


def pack(folder: str | os.PathLike, names: Iterable[str]) -> str:
    """Returns files of a folder as text.

    Args:
        folder: where they lie.
        names: their paths in it.
    """
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(names):
            with open(os.path.join(folder, name), "rb") as file:
                entry = zipfile.ZipInfo(name.replace(os.sep, "/"), _DATE)
                archive.writestr(entry, file.read(), zipfile.ZIP_DEFLATED)
    return base64.b64encode(data.getvalue()).decode("ascii")


class Unpacked:
    """The files of such a text in a temporary folder, which is removed with the object.

    Attributes:
        path: the folder.
        text: what `pack` returned.

    Raises:
        ValueError: the text is none of `pack`'s, or its files are larger than any model's.
    """

    def __init__(self, text: str):
        self.text = text
        self._folder = tempfile.TemporaryDirectory(prefix="bert_tf-")
        self.path = self._folder.name
        try:
            with zipfile.ZipFile(io.BytesIO(base64.b64decode(text, validate=True))) as archive:
                size = sum(entry.file_size for entry in archive.infolist())
                if size > _LARGEST:
                    raise ValueError(f"{size:,} bytes, of which {_LARGEST:,} are allowed")
                archive.extractall(self.path)  # never outside of the folder, whatever the names say
        except (TypeError, ValueError, binascii.Error, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise ValueError(
                f"The files of a saved layer must be those that `get_config` gave. Received: {error}; save the model "
                "again from where it came."
            ) from error
