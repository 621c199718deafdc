"""Requests for a version are computed in the batches of all models, or in its own if its directory has such a file."""

import dataclasses
import os
import threading

from absl import logging

from bert_tf.serving.server import text_configs
from bert_tf.serving.server.batching import Batcher
from bert_tf.serving.server.batching_limits import BatchingLimits, read_batching

FILE = "batching_params.pbtxt"
_OF_THE_POOL = ("num_batch_threads", "thread_pool_name")


class ModelBatching:
    """Finds the batcher of a version.

    Args:
        parameters: parameters of the batches of all models.
        per_model: whether each version has its own parameters in `FILE` in its directory, and no batching without it.
            The number of concurrent batches is limited by `parameters` for all together.
    """

    def __init__(self, parameters: BatchingLimits, per_model: bool = False):
        self._parameters = parameters
        self._turns = threading.Semaphore(parameters.num_batch_threads)
        self._of_all = None if per_model else Batcher(parameters)

    def batcher_of(self, folder: str) -> tuple[Batcher | None, bool]:
        """Returns (the batcher of the version in `folder`, or None; whether it is this version's alone).

        Raises:
            ValueError: its file cannot be read, or has settings that would give wrong results.
        """
        if self._of_all:
            return self._of_all, False
        path = os.path.join(folder, FILE)
        return (Batcher(self._read(path), self._turns) if os.path.exists(path) else None), True

    def close(self):
        """Ends the threads of the batches of all models; those of a version end with it."""
        if self._of_all:
            self._of_all.close()

    def _read(self, path):
        message = text_configs.read_message(path, "BatchingParameters", FILE)
        if given := [name for name in _OF_THE_POOL if message.HasField(name)]:
            logging.warning("%s: %s has no effect; it is the same for all models.", path, " and ".join(given))
            for name in given:
                message.ClearField(name)
        own = read_batching(message, path, FILE, max_batch_tokens=self._parameters.max_batch_tokens)
        common = {name: getattr(self._parameters, name) for name in _OF_THE_POOL}
        return dataclasses.replace(own, **common)
