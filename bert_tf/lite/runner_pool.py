"""Interpreters of a .tflite file for the threads of a server: each computes one request at a time."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bert_tf.utils.litert_runner import LitertRunner

# LiteRT packs the weights once for each graph of each interpreter: of BERT-base in int8, 85 MB a graph.
_MOST_RUNNERS = 4


class RunnerPool:
    """Lends interpreters to callers: to one who is alone, one that uses all threads, to others those with a share.

    Args:
        make_runner: number of threads -> an interpreter.
        cores: number of cores, each of which has an interpreter, up to `most`; with more cores, each has several.
        threads: the most that compute one request.
        most: the largest number of interpreters; there are at most four.

    Attributes:
        size: number of interpreters.
    """

    def __init__(
        self, make_runner: Callable[[int], LitertRunner], cores: int, threads: int, most: int = _MOST_RUNNERS
    ):
        self.size = min(cores, most, _MOST_RUNNERS)
        self._lock = threading.Lock()
        self._whole = make_runner(threads)
        share = min(threads, cores // self.size)
        self._idle = [make_runner(share) for _ in range(self.size - 1)]
        self._is_whole_idle = True

    @contextlib.contextmanager
    def idle(self) -> Iterator[LitertRunner | None]:
        """Yields an interpreter, or None if all are in use."""
        runner = self._take()
        try:
            yield runner
        finally:
            if runner is not None:
                self._give_back(runner)

    def prepare(self, lengths: Sequence[int] | None = None):
        """Computes a text of each length with each interpreter, before any is lent: each allocates what it needs.

        Args:
            lengths: some of the interpreters' `lengths`; None for all.

        Raises:
            RuntimeError: LiteRT cannot compute with the file.
        """
        for runner in (self._whole, *self._idle):
            for length in runner.lengths if lengths is None else lengths:
                try:
                    runner({name: np.ones([1, length], np.int32) for name in runner.inputs})
                except (ValueError, RuntimeError) as error:
                    reason = " ".join(str(error).split())
                    raise RuntimeError(f"LiteRT cannot run model.tflite: {reason}; export the model again") from error

    def _take(self):
        with self._lock:
            is_alone = len(self._idle) == self.size - 1
            if self._is_whole_idle and (is_alone or not self._idle):
                self._is_whole_idle = False
                return self._whole
            return self._idle.pop() if self._idle else None

    def _give_back(self, runner):
        with self._lock:
            if runner is self._whole:
                self._is_whole_idle = True
            else:
                self._idle.append(runner)
