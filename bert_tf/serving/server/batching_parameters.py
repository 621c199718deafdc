"""What bounds batches and their queue, and the file of TensorFlow Serving's that says so."""

import dataclasses

from absl import logging

from bert_tf.serving.server import text_configs

_OURS = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads", "thread_pool_name")


@dataclasses.dataclass(frozen=True)
class Batching:
    """Bounds of batches.

    Attributes:
        max_batch_size: rows of a batch.
        max_batch_tokens: tokens of a batch with its padding, about: rows times the longest of them.
        batch_timeout_micros: how long a row may wait for others while a thread is free.
        max_enqueued_batches: how many full batches may wait; beyond, a request is refused.
        num_batch_threads: batches that are computed at a time.
        thread_pool_name: of the threads, as debuggers show it.
    """

    max_batch_size: int = 64
    max_batch_tokens: int = 512
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 2
    num_batch_threads: int = 2
    thread_pool_name: str = "batch"

    def __post_init__(self):
        for name in ("max_batch_size", "max_batch_tokens", "max_enqueued_batches", "num_batch_threads"):
            _require(name, getattr(self, name), 1)
        _require("batch_timeout_micros", self.batch_timeout_micros, 0)

    @property
    def max_rows(self) -> int:
        """Rows that may wait."""
        return self.max_batch_size * self.max_enqueued_batches


def read_parameters(path: str, **defaults) -> Batching:
    """Returns what the text file `path`, a BatchingParameters of TensorFlow Serving's, says.

    Args:
        path: of the file.
        defaults: attributes of `Batching` that such a file cannot have.

    Raises:
        ValueError: it cannot be read, or asks for what would give wrong answers.
    """
    flag = "batching_parameters_file"
    return read_batching(text_configs.read(path, "BatchingParameters", flag), path, flag, **defaults)


def read_batching(message, path: str, flag: str, **defaults) -> Batching:
    """Returns what a BatchingParameters says that stands in the file `path`, which the setting `flag` names.

    Raises:
        ValueError: it asks for what would give wrong answers, or for batches of no size.
    """
    if message.pad_variable_length_inputs:
        raise ValueError(
            f"`{flag}` must not pad inputs: the padding would be the first id, with a mask of 1. "
            f"Received: pad_variable_length_inputs in {path}; remove it, rows of one length are put together anyway."
        )
    if message.allowed_batch_sizes:
        logging.warning("%s: allowed_batch_sizes have no effect here; a batch is as large as its texts.", path)
    if message.HasField("enable_large_batch_splitting") and not message.enable_large_batch_splitting.value:
        logging.warning("%s: large requests are cut, whatever enable_large_batch_splitting says.", path)
    given = {name: getattr(message, name).value for name in _OURS if message.HasField(name)}
    try:
        return Batching(**(defaults | given))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _require(name, value, least):
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}. Received: {value}; choose a larger one.")
