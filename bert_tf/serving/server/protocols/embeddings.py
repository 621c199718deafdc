"""Embeddings for a list of texts, as the protocols that ask for them state it, with their number of dimensions."""

import numpy as np

from bert_tf.serving.errors import invalid
from bert_tf.serving.server.predict import run_predict
from bert_tf.serving.server.protocols.adapter import AdapterRequest, member


def check_dimensions(version, signature, members) -> int | None:
    """Returns how many leading dimensions a request asks for in its member `dimensions`; None for all.

    Args:
        version: version of a model of embeddings.
        signature: its default signature.
        members: members of the request.

    Raises:
        ServingError: the model was not trained for embeddings of that size.
    """
    dimensions = member(members, "dimensions", int)
    if dimensions is None:
        return None
    shape = signature.outputs["embedding"].shape
    whole = shape[-1] if shape else None
    trained = [size for size in version.model.task.get("matryoshka_dims") or [] if whole is None or size < whole]
    allowed = sorted({*trained, *([] if whole is None else [whole])})
    if dimensions not in allowed:
        raise invalid(
            f"'dimensions' must be {' or '.join(map(str, allowed)) or 'left out'}, since the model {version.name} was "
            f"trained for no other size (`matryoshka_dims`); got {dimensions}"
        )
    return dimensions


def embed(request: AdapterRequest, version, signature, inputs, dimensions: int | None, unit: bool = False):
    """Returns the embeddings of texts, float32 [n, D].

    Args:
        request: the request.
        version: version of a model of embeddings.
        signature: its default signature.
        inputs: {input alias: array} of texts.
        dimensions: from `check_dimensions`.
        unit: whether to scale them to the length 1, also if the model does not.
    """
    vectors = run_predict(version, signature, inputs, ["embedding"], request.call)["embedding"]
    is_shorter = dimensions is not None and dimensions < vectors.shape[-1]
    vectors = vectors[:, :dimensions]
    if unit or (is_shorter and version.model.task.get("normalize")):
        lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
        vectors = vectors / np.where(lengths > 0, lengths, 1)
    return vectors
