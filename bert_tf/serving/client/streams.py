"""Streams of many queries in flight: their bounds, failures, and the order of embeddings."""

from collections.abc import Sequence
from typing import Any

import numpy as np

ERRORS = ("raise", "yield")
IN_FLIGHT, BATCH = 64, 32  # concurrent queries; texts per query for embeddings
FAILURES = (ValueError, OSError)  # ConnectionError and TimeoutError are subclasses of OSError


def check_stream_arguments(in_flight: int, batch_size: int, errors: str):
    """Raises ValueError for invalid arguments of a stream."""
    for name, value, default in (("in_flight", in_flight, IN_FLIGHT), ("batch_size", batch_size, BATCH)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1; got {value}; use {default}, the default, if in doubt.")
    if errors not in ERRORS:
        raise ValueError(f"`errors` must be one of {', '.join(ERRORS)}; got {errors!r}.")


def give_back(error: Exception, errors: str, size: int) -> list[Any]:
    """Returns placeholders for the results of a failed query with `size` items, or raises its error."""
    if errors == "raise":
        raise error
    return [error] * size


def restore_order(vectors: Sequence[np.ndarray], order: Sequence[int]) -> np.ndarray:
    """Returns embeddings, the i-th of the text with index order[i], as float32 [n, D] in the texts' order.

    Raises:
        ValueError: their lengths differ.
    """
    if len(sizes := {len(vector) for vector in vectors}) > 1:
        raise ValueError(
            f"Output `embedding` must be vectors of one length; got {min(sizes)} to {max(sizes)} numbers. The "
            "model may have been replaced in the meantime."
        )
    found = np.empty([len(order), *np.shape(vectors[0])], np.float32)
    found[order] = vectors
    return found
