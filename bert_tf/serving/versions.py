"""One served model: its newest version that can be loaded, exchanged for a newer one without losing a request."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from absl import logging

from bert_tf.serving import warmup
from bert_tf.serving.call import Call
from bert_tf.serving.errors import ServingError, not_found
from bert_tf.serving.saved_model import SavedModel
from bert_tf.serving.signatures import Signature
from bert_tf.serving.version_folders import find_versions, fingerprint

_UNKNOWN, _NOT_FOUND = 2, 5  # canonical code numbers

# (signature, {input alias: array}, output aliases, call) -> {output alias: array}; raises ServingError
Compute = Callable[[Signature, dict[str, np.ndarray], Sequence[str], Call], dict[str, np.ndarray]]


def direct(model: SavedModel) -> Compute:
    """Returns what computes each request by itself, in the thread that asks."""

    def compute(signature, inputs, aliases, call):
        call.check()
        feeds = {signature.inputs[alias].tensor: array for alias, array in inputs.items()}
        arrays = model.run(feeds, [signature.outputs[alias].tensor for alias in aliases])
        return dict(zip(aliases, arrays, strict=True))

    return compute


@dataclasses.dataclass(eq=False)
class Version:
    """A loaded version, as a request sees it.

    Attributes:
        name: of the model.
        number: of the version.
        model: what runs.
        compute: runs it, for itself or in a batch with others.
        running: requests in it now.
        retired: whether a newer version has taken its place.
    """

    name: str
    number: int
    model: SavedModel
    compute: Compute
    running: int = 0
    retired: bool = False


@dataclasses.dataclass(frozen=True)
class State:
    """Where a version is in its life.

    Attributes:
        name: "LOADING", "AVAILABLE", "UNLOADING" or "END", TensorFlow Serving's words.
        code: canonical code number of what ended it; 0 for none.
        message: the error in words.
    """

    name: str
    code: int = 0
    message: str = ""


class ServedModel:
    """The model `name`, whose versions are the numbered folders under `base_path`.

    One thread calls `poll` and `close`; any number of them the other methods.
    """

    def __init__(self, name: str, base_path: str):
        self.name = name
        self.base_path = base_path
        self._lock = threading.Lock()
        self._current: Version | None = None
        self._states: dict[int, State] = {}
        self._refused: dict[int, frozenset] = {}  # fingerprints of versions that cannot be loaded
        self._complaint = ""

    def poll(self):
        """Looks for versions once: goes from the newest down to the first that loads, or to the one served already.

        A version that cannot be loaded is tried again when a file in it changes. Where there is nothing to load, what
        is served stays.
        """
        folders = self._folders()
        for number in sorted(folders, reverse=True):
            if self._current and self._current.number == number:
                return
            if self._load(number, folders[number]):
                return

    @contextlib.contextmanager
    def lease(self, number: int | None = None) -> Iterator[Version]:
        """Yields the version of this number, or the served one; it stays loaded until the block ends.

        Raises:
            ServingError: it is not loaded.
        """
        with self._lock:
            version = self._current
            if version is None and number is None:
                raise not_found(f"Servable not found for request: Latest({self.name})")
            if version is None or number not in (None, version.number):
                raise not_found(f"Servable not found for request: Specific({self.name}, {number})")
            version.running += 1
        try:
            yield version
        finally:
            with self._lock:
                version.running -= 1
                last = version.retired and not version.running
            if last:
                self._unload(version)

    def states(self) -> dict[int, State]:
        """Returns {version: state} of all versions met so far."""
        with self._lock:
            return dict(self._states)

    def close(self):
        """Serves no more; frees the weights as soon as the requests that run have ended."""
        self._exchange(None)

    def _folders(self):
        """Returns {version: folder}, and says once what is wrong where there is none."""
        try:
            folders = find_versions(self.base_path)
            complaint = "" if folders else f"there is no numbered folder in {self.base_path}"
        except OSError as error:
            folders, complaint = {}, str(error)
        if complaint and complaint != self._complaint:
            logging.warning("No version of %s was found: %s. %s", self.name, complaint, self._stays())
        self._complaint = complaint
        return folders

    def _load(self, number, folder):
        """Loads, warms and serves a version; returns whether that went well."""
        files = fingerprint(folder)
        if self._refused.get(number) == files:
            return False
        started = time.monotonic()
        self._set_state(number, State("LOADING"))
        try:
            model = SavedModel(folder)
            version = Version(self.name, number, model, direct(model))
            requests = self._warm(version, folder)
        except Exception as error:  # whatever is wrong with one version, the server and the others live on
            self._refuse(number, files, error)
            return False
        self._refused.pop(number, None)
        self._exchange(version)
        seconds = time.monotonic() - started
        warmed = f"{requests} warm-up requests" if requests else "no warm-up requests"
        logging.info("Serving version %d of %s from %s: %.1f s, %s.", number, self.name, folder, seconds, warmed)
        return True

    @staticmethod
    def _warm(version, folder):
        try:
            return warmup.replay(version, folder)
        except BaseException:
            version.model.close()
            raise

    def _refuse(self, number, files, error):
        self._refused[number] = files
        message = " ".join(str(getattr(error, "message", error)).split("\n")[0].split()) or type(error).__name__
        logging.error("Refused version %d of %s: %s. %s", number, self.name, message.rstrip("."), self._stays())
        self._set_state(number, State("END", _code_number(error), message))

    def _exchange(self, version):
        """Makes `version` the served one in one instant; the one before ends with its last request."""
        with self._lock:
            before, self._current = self._current, version
            if version:
                self._states[version.number] = State("AVAILABLE")
            if before is None:
                return
            before.retired = True
            self._states[before.number] = State("UNLOADING")
            idle = not before.running
        if idle:
            self._unload(before)

    def _unload(self, version):
        version.model.close()
        self._set_state(version.number, State("END"))

    def _set_state(self, number, state):
        with self._lock:
            self._states[number] = state

    def _stays(self):
        return f"Version {self._current.number} stays." if self._current else "Nothing is served."


def _code_number(error):
    """Returns the canonical code number of anything that loading may raise."""
    if isinstance(error, ServingError):
        return error.code.value[0]
    return getattr(error, "error_code", _NOT_FOUND if isinstance(error, OSError) else _UNKNOWN)
