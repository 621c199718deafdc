"""The folder beside an output file in which the parts of an unfinished job wait."""

import contextlib
import json
import os
import shutil

from absl import logging

import bert_tf
from bert_tf.utils.files import brief, is_temporary, write_text
from bert_tf.utils.folder_lock import alone_in

_MANIFEST = "manifest.json"


class WorkFolder:
    """Made, or found again, for the length of a `with` block; removed at its good end, and kept where parts are in it.

    Args:
        output_file: the folder's name is this with ".parts" at the end.
        manifest: what decides the bytes of a part; JSON values.
        overwrite: throw away the parts of another manifest.

    Attributes:
        path: the folder.
    """

    def __init__(self, output_file: str, manifest: dict, overwrite: bool = False):
        self.path = f"{os.path.realpath(output_file)}.parts"
        self._manifest = json.loads(json.dumps({"version": bert_tf.__version__, **manifest}))
        self._overwrite = overwrite

    def __enter__(self):
        """Raises ValueError where the folder is that of another job, in use, or none of ours."""
        os.makedirs(self.path, exist_ok=True)
        with contextlib.ExitStack() as stack:
            stack.enter_context(alone_in(self.path, "output_file"))
            try:
                self._begin()
            except BaseException:
                if not self._strangers():
                    shutil.rmtree(self.path)
                raise
            self._lock = stack.pop_all()
        return self

    def __exit__(self, error, *more):
        parts = self._parts()
        if error is None or not parts:
            self._clear()
            shutil.rmtree(self.path)
        else:
            logging.warning("%d part(s) of the work are kept in %s: the same command goes on after them.",
                            *(len(parts), self.path))  # fmt: skip
        self._lock.close()

    def _begin(self):
        path = os.path.join(self.path, _MANIFEST)
        if not os.path.exists(path):
            if strangers := self._strangers():
                raise ValueError(
                    f"{self.path} must be free for the parts of this job. Received a folder that holds "
                    f"{min(strangers)} and no {_MANIFEST}; name another `output_file`."
                )
        elif difference := _difference(before := _read(path), self._manifest):
            if self._parts() and not self._overwrite:
                same_rows = before.get("input_file") == self._manifest.get("input_file")
                remedy = "give that command again" if same_rows else "bring the rows of `input_file` back"
                raise ValueError(
                    f"`output_file` must have no unfinished work of another command beside it. Received {self.path}, "
                    f"made with {difference}; {remedy}, or give `overwrite=true` to throw its work away."
                )
            self._clear()
        for name in os.listdir(self.path):
            if is_temporary(name) or name.startswith("shard-"):  # half-made when the last run was killed
                os.remove(os.path.join(self.path, name))
        write_text(path, json.dumps(self._manifest, indent=1))

    def _strangers(self):
        """Returns what is there beside what a run leaves that is killed before it has a manifest."""
        return [name for name in os.listdir(self.path) if not is_temporary(name, _MANIFEST)]

    def _parts(self):
        return [name for name in os.listdir(self.path) if name.startswith("part-")]

    def _clear(self):
        """Takes the manifest away last: without it nobody would know whose the rest is."""
        names = sorted(os.listdir(self.path), key=lambda name: name == _MANIFEST)
        for name in names:
            os.remove(os.path.join(self.path, name))


def _read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _difference(there, ours, name=""):
    """Returns the first thing in which two manifests differ, in words; None where they are the same."""
    if there == ours:
        return None
    if isinstance(there, dict) and isinstance(ours, dict):
        for key in sorted({*there, *ours}):
            if there.get(key) != ours.get(key):
                return _difference(there.get(key), ours.get(key), f"{name} {key}")
    return f"{name.strip()} {brief(there)}, which is now {brief(ours)}"
