"""Limits of batches and of their queue, and TensorFlow Serving's file for them."""

import dataclasses

from absl import logging

from bert_tf.serving.server.settings import RequestBatchingSettings
from bert_tf.serving.server.text_configs import read_message

_OURS = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads", "thread_pool_name")


@dataclasses.dataclass(frozen=True)
class BatchingLimits:
    """Limits of batches.

    Attributes:
        max_batch_size: rows per batch.
        max_batch_tokens: approximate tokens per batch, with padding: rows times the longest.
        batch_timeout_micros: how long a row may wait for others while a thread is free.
        max_enqueued_batches: number of full batches that may wait; beyond that, requests are rejected.
        num_batch_threads: number of concurrent batches.
        thread_pool_name: name of the threads in debuggers.
    """

    max_batch_size: int = 64
    max_batch_tokens: int = RequestBatchingSettings.max_batch_tokens
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 2
    num_batch_threads: int = 2
    thread_pool_name: str = "batch"

    def __post_init__(self):
        least = dict.fromkeys(("max_batch_size", "max_batch_tokens", "max_enqueued_batches", "num_batch_threads"), 1)
        for name, size in (least | {"batch_timeout_micros": 0}).items():
            if getattr(self, name) < size:
                raise ValueError(
                    f"`{name}` must be at least {size}; got {getattr(self, name)}."
                )

    @property
    def max_rows(self) -> int:
        """The number of rows that may wait."""
        return self.max_batch_size * self.max_enqueued_batches


def read_parameters(path: str, **defaults) -> BatchingLimits:
    """Reads the text file `path`, a BatchingParameters of TensorFlow Serving.

    Args:
        path: path of the file.
        defaults: attributes of `BatchingLimits` that such a file cannot set.

    Raises:
        ValueError: it cannot be read, or has settings that would give wrong results.
    """
    flag = "batching_parameters_file"
    return read_batching(read_message(path, "BatchingParameters", flag), path, flag, **defaults)


def read_batching(message, path: str, flag: str, **defaults) -> BatchingLimits:
    """Returns the limits of a BatchingParameters from the file `path`, named by the setting `flag`.

    Raises:
        ValueError: it has settings that would give wrong results, or empty batches.
    """
    if message.pad_variable_length_inputs:
        raise ValueError(
            f"`{flag}` must not pad inputs: the padding would be the first id, with a mask of 1. "
            f"Remove pad_variable_length_inputs from {path}; rows of one length are batched together anyway."
        )
    if message.allowed_batch_sizes:
        logging.warning("%s: allowed_batch_sizes have no effect; a batch is as large as its texts.", path)
    if message.HasField("enable_large_batch_splitting") and not message.enable_large_batch_splitting.value:
        logging.warning("%s: large requests are always split; enable_large_batch_splitting has no effect.", path)
    given = {name: getattr(message, name).value for name in _OURS if message.HasField(name)}
    try:
        return BatchingLimits(**(defaults | given))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
