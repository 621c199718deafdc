"""A .tflite file of bert_tf: its graph, and the files within it that define how texts are read and answered."""

import io
import json
import os
import zipfile
from typing import Any

from bert_tf.utils.files import path_text
from bert_tf.utils.names import TASK_FILE as TASK_FILE

MODEL_FILE = "model.tflite"  # of a version


class LitertFile:
    """The contents of a .tflite file that bert_tf exported.

    Attributes:
        path: path of the file.
        data: all bytes of the file, as LiteRT reads them.
        task: {"task": name, "text_inputs": names, "max_seq_length": tokens, option of the task: value, ...}.

    Raises:
        ValueError: bert_tf did not export the file, or an earlier version of it did, without a task.
        OSError: the file cannot be read.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = path_text(path)
        with open(self.path, "rb") as file:
            self.data = file.read()
        try:
            with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
                self._files = {entry.filename: _read(archive, entry) for entry in archive.infolist()}
            self.task: dict[str, Any] = json.loads(self._files[TASK_FILE])
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise ValueError(
                f"{self.path} must be a .tflite file exported by bert_tf with its tokenizer and its {TASK_FILE}; "
                f"reading them failed: {error}. Export the model again."
            ) from error

    def unpack(self, folder: str):
        """Writes the tokenizer's files, the configuration and the labels to a folder."""
        for name, data in self._files.items():
            with open(os.path.join(folder, os.path.basename(name)), "wb") as file:
                file.write(data)


def _read(archive, entry):
    """Returns the bytes of an entry, which bert_tf stores uncompressed: no entry is larger than the file."""
    if entry.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{entry.filename} in it is compressed")
    return archive.read(entry)
