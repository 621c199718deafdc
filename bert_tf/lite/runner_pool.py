"""Interpreters of a .tflite file for the threads of a server: each computes one request at a time."""

import contextlib
import threading
from collections.abc import Callable, Iterator

import numpy as np

from bert_tf.utils.litert_runner import LitertRunner


class RunnerPool:
    """Lends interpreters to one caller for each core: the first one's uses all cores, the others' one thread each.

    Args:
        make_runner: number of threads -> an interpreter.
        cores: number of cores.
        interpreters: their largest number, at least 1; None: as many as cores.
    """

    def __init__(self, make_runner: Callable[[int], LitertRunner], cores: int, interpreters: int | None = None):
        self._lock = threading.Lock()
        self._whole = make_runner(cores)
        self._idle = [*(make_runner(1) for _ in range(min(cores, interpreters or cores) - 1)), self._whole]

    @contextlib.contextmanager
    def idle(self) -> Iterator[LitertRunner | None]:
        """Yields an interpreter, or None if all are in use."""
        with self._lock:
            runner = self._idle.pop() if self._idle else None
        try:
            yield runner
        finally:
            if runner is not None:
                with self._lock:  # the one that uses all cores is lent first
                    self._idle.insert(len(self._idle) if runner is self._whole else 0, runner)

    def prepare(self):
        """Computes a text of each length with each interpreter, before any is lent: each allocates what it needs."""
        for runner in self._idle:
            for length in runner.lengths:
                runner({name: np.ones([1, length], np.int32) for name in runner.inputs})
