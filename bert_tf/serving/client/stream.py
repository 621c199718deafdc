"""Many questions in flight: the bounds of a stream, what it gives for one that failed, and vectors in their order."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.serving.client.base import Progress

ERRORS = ("raise", "yield")
IN_FLIGHT, BATCH = 64, 32  # questions at a time; texts of a question for vectors
FAILURES = (ValueError, OSError)  # ConnectionError and TimeoutError are of OSError


def check(in_flight: int, batch_size: int, errors: str):
    """Raises ValueError for arguments of a stream that mean nothing."""
    for name, value in (("in_flight", in_flight), ("batch_size", batch_size)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {value}; 64 questions of one text each do well.")
    if errors not in ERRORS:
        raise ValueError(f"`errors` must be one of {', '.join(ERRORS)}. Received: {errors!r}; choose one.")


def give_back(error: Exception, errors: str, size: int) -> list[Any]:
    """Returns what stands for the answers of a question about `size` items that failed, or raises its error."""
    if errors == "raise":
        raise error
    return [error] * size


def is_done(progress: Progress) -> bool:
    """Returns whether what a question waits for is there."""
    return progress.has_ended or progress.call is not None and progress.call.done()


def by_length(texts: Sequence[str]) -> list[int]:
    """Returns the places of texts from the longest down: a batch of one length has little padding."""
    return sorted(range(len(texts)), key=lambda i: -len(texts[i]))


def in_order(vectors: Sequence[np.ndarray], places: Sequence[int]) -> np.ndarray:
    """Returns vectors, of the texts at `places`, as float32 [n, D] in the order of the texts.

    Raises:
        ValueError: they are not of one length.
    """
    if len(sizes := {len(vector) for vector in vectors}) > 1:
        raise ValueError(
            f"Output `embedding` must be vectors of one length. Received {min(sizes)} to {max(sizes)} numbers; was the "
            "model exchanged meanwhile?"
        )
    found = np.empty([len(places), *np.shape(vectors[0])], np.float32)
    found[places] = vectors
    return found
