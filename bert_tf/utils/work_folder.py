"""The work directory of an interruptible job: its manifest and its finished work, from which the same job resumes."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable

from absl import logging

import bert_tf
from bert_tf.utils.files import is_temporary, write_text
from bert_tf.utils.folder_lock import alone_in
from bert_tf.utils.manifest import check_same, read_manifest

_MANIFEST = "manifest.json"


class WorkFolder:
    """A work directory, new or existing; removed at the end of a `with` block, unless an error leaves parts in it.

    Args:
        path: path of the directory.
        manifest: all that determines the bytes of a part; JSON values.
        is_part: returns whether a name in the directory is finished work. Everything else is removed when a job
            resumes.
        remedy: how to discard the parts of another job, for the message.
        overwrite: discard the parts of another manifest.
        is_private: whether only the owner can read the directory.

    Attributes:
        path: the directory.
    """

    def __init__(
        self,
        path: str,
        manifest: dict,
        is_part: Callable[[str], bool],
        remedy: str,
        overwrite: bool = False,
        is_private: bool = False,
    ):
        self.path = os.path.realpath(path)
        self._manifest = json.loads(json.dumps({"version": bert_tf.__version__, **manifest}))
        self._is_part, self._remedy, self._overwrite = is_part, remedy, overwrite
        self._is_private = is_private

    def __enter__(self):
        """Raises ValueError if the directory belongs to another job, is in use, or was not created by bert_tf."""
        os.makedirs(self.path, 0o700 if self._is_private else 0o777, exist_ok=True)
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
        with self._lock:
            if error is None or not self._parts():
                self.discard()
                shutil.rmtree(self.path)
            else:
                logging.warning("Finished parts are kept in %s. Run the same command again to resume.", self.path)

    def discard(self):
        """Removes all parts, and the manifest last: without it, the owner of the other files would be unknown."""
        names = sorted(os.listdir(self.path), key=lambda name: name == _MANIFEST)
        for name in names:
            self._remove(name)

    def _begin(self):
        path = os.path.join(self.path, _MANIFEST)
        if not os.path.exists(path):
            if strangers := self._strangers():
                raise ValueError(
                    f"{self.path} cannot be used for the parts of this job: it contains {min(strangers)} but no "
                    f"{_MANIFEST}. Use another `output_file`."
                )
        else:
            before = read_manifest(path, "use another `output_file`")
            if self._parts() and not self._overwrite:
                check_same(path, before, self._manifest, self._remedy)
            elif before != self._manifest:
                self.discard()
        for name in os.listdir(self.path):
            if name != _MANIFEST and not self._is_part(name):  # incomplete when the last run was killed
                self._remove(name)
        write_text(path, json.dumps(self._manifest, indent=1))

    def _strangers(self):
        """Returns the names that do not come from a run that was killed before it had a manifest."""
        return [name for name in os.listdir(self.path) if not is_temporary(name, _MANIFEST)]

    def _parts(self):
        return [name for name in os.listdir(self.path) if name != _MANIFEST and self._is_part(name)]

    def _remove(self, name):
        path = os.path.join(self.path, name)
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
