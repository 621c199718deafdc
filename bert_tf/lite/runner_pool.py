"""Interpreters of a .tflite file for the threads of a server: each computes one request at a time."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from bert_tf.utils.litert_runner import LitertRunner


class RunnerPool:
    """Lends interpreters: one that uses all cores to a caller who is alone, and else one of a single thread to each.

    Args:
        make_runner: number of threads -> an interpreter.
        cores: number of threads, and of interpreters of one thread.
    """

    def __init__(self, make_runner: Callable[[int], LitertRunner], cores: int):
        self._lock, self._running = threading.Lock(), 0
        self._cores = cores
        self._single = [make_runner(1) for _ in range(cores)]
        self._all_cores = [make_runner(cores)] if cores > 1 else []

    @contextlib.contextmanager
    def idle(self) -> Iterator[LitertRunner | None]:
        """Yields an interpreter, or None if as many as there are cores are in use."""
        with self._lock:
            is_alone = not self._running
            there = self._all_cores if is_alone and self._all_cores else self._single
            runner = there.pop() if self._running < self._cores else None
            self._running += runner is not None
        try:
            yield runner
        finally:
            if runner is not None:
                with self._lock:
                    self._running -= 1
                    there.append(runner)

    def all(self) -> list[LitertRunner]:
        """Returns all interpreters, before any is lent."""
        return [*self._all_cores, *self._single]
