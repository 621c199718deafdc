"""Embeddings in 8 bits and in 1 bit per dimension, and back."""

import numpy as np

from bert_tf.evaluation.cosine_similarity import unit
from bert_tf.utils.names import VECTOR_DTYPES

_MOST = 127  # symmetric, so that a vector and its opposite stay opposites


def as_vectors(vectors) -> np.ndarray:
    """Returns vectors as float64, if they are, or else float32: their numbers may not fit into a narrower type."""
    vectors = np.asarray(vectors)
    return vectors if vectors.dtype == np.float64 else vectors.astype(np.float32, copy=False)


def check_vector_dtype(dtype: str):
    """Raises ValueError for an unknown type of stored embeddings."""
    if dtype not in VECTOR_DTYPES:
        raise ValueError(f"`vector_dtype` must be one of {', '.join(VECTOR_DTYPES)}; got {dtype!r}.")


def quantize_vectors(vectors: np.ndarray, dtype: str) -> np.ndarray:
    """Returns embeddings in a smaller type, from which cosine similarities can still be computed.

    Args:
        vectors: float32 [n, D].
        dtype: one of `names.VECTOR_DTYPES`. "int8": each vector is scaled so that its largest magnitude is 127, and
            rounded; cosine similarity does not depend on the scale. "binary": 1 for each dimension above 0, eight
            dimensions in a byte, the first in its highest bit.

    Returns:
        float32 [n, D], int8 [n, D], or uint8 [n, D / 8].

    Raises:
        ValueError: the type is unknown, D is not a multiple of 8 for "binary", or a smaller type is to contain NaN or
            infinite values.
    """
    check_vector_dtype(dtype)
    if dtype != "float32" and not (finite := np.isfinite(vectors).all(-1)).all():
        raise ValueError(
            f"`vector_dtype={dtype}` requires embeddings without NaN or infinite values; got {(~finite).sum()} of "
            f"{len(vectors)} with such values; check whether the model's precision is too narrow."
        )
    if dtype == "int8":
        largest = np.abs(vectors).max(-1, keepdims=True, initial=0)
        return np.rint(vectors / np.where(largest > 0, largest, 1) * _MOST).astype(np.int8)
    if dtype == "binary":
        if vectors.shape[-1] % 8:
            raise ValueError(
                "`vector_dtype=binary` requires a number of dimensions that is a multiple of 8; got "
                f"{vectors.shape[-1]}; choose such a `dim`, or `vector_dtype=int8`."
            )
        return np.packbits(vectors > 0, axis=-1)
    return vectors


def unit_vectors(stored: np.ndarray) -> np.ndarray:
    """Returns embeddings of length 1, float32 [n, D], from the result of `quantize_vectors`; a bit is 1 or -1."""
    if stored.dtype == np.uint8:
        signs = np.unpackbits(stored, axis=-1).astype(np.float32) * 2 - 1
        return signs / np.float32(np.sqrt(max(1, signs.shape[-1])))
    return unit(stored.astype(np.float32)) if stored.dtype == np.int8 else stored


def stored_width(stored: np.ndarray) -> int:
    """Returns D, the number of dimensions, of embeddings from `quantize_vectors`."""
    return stored.shape[-1] * (8 if stored.dtype == np.uint8 else 1)
