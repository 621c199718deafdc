"""Any exported model that takes texts: what it needs to know of itself, and its answers to the rows of a table."""

import dataclasses
import hashlib
import os
from typing import Any

from bert_tf.serving.exports import SAVED_MODEL, find_export
from bert_tf.serving.version_folders import fingerprint


@dataclasses.dataclass(frozen=True)
class Input:
    """A text that the model takes.

    Attributes:
        name: in the signature.
        tensor: in the graph.
        several: an example has a list of such texts: strings [n, k].
        column: it has one, as strings [n, 1].
    """

    name: str
    tensor: str
    several: bool
    column: bool


@dataclasses.dataclass(frozen=True)
class ExportedModel:
    """A `table_job.Maker` of a SavedModel's answers.

    Attributes:
        path: the folder of one version.
        signature: its name.
        inputs: in alphabetical order.
        batch_size: rows that are answered at a time.
    """

    path: str
    signature: str
    inputs: tuple[Input, ...]
    batch_size: int = 64

    @property
    def identity(self) -> dict[str, Any]:
        """The model's files and what is asked of them."""
        path = os.path.realpath(self.path)
        digest = hashlib.sha256("\n".join(sorted(map(str, fingerprint(path)))).encode()).hexdigest()
        return {"model": path, "its files": digest, "signature": self.signature,
                "batch_size": self.batch_size}  # fmt: skip

    def __call__(self):
        from bert_tf.jobs.prediction import Predictor

        return Predictor(self)


def find_model(model: str, signature: str = "serving_default", batch_size: int = 64) -> ExportedModel:
    """Returns the model in a folder, without its weights.

    Args:
        model: the folder of a SavedModel, or of numbered ones, of which the newest is taken.
        signature: which of its signatures answers.
        batch_size: rows that are answered at a time.

    Raises:
        ValueError: there is no SavedModel, or no such signature, or it takes anything but texts.
    """
    path = find_export(model)
    definitions = _signatures(path)
    if signature not in definitions:
        raise ValueError(
            f"`signature` must be one of those of {path}: {', '.join(sorted(definitions)) or 'there is none'}. "
            f"Received: {signature!r}; name one of them."
        )
    return ExportedModel(path, signature, _inputs(path, signature, definitions[signature]), batch_size)


def _signatures(path):
    """Returns {name: SignatureDef}, but for those of TensorFlow's own."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    described = SavedModel()
    try:
        with open(os.path.join(path, SAVED_MODEL), "rb") as file:
            described.ParseFromString(file.read())
    except DecodeError as error:
        raise ValueError(f"{path}/{SAVED_MODEL} must be a SavedModel. Received: {error}; export it again.") from error
    graphs = [graph for graph in described.meta_graphs if list(graph.meta_info_def.tags) == ["serve"]]
    if not graphs:
        raise ValueError(f"{path} must hold a graph with the tag 'serve'. Received one without; export it for serving.")
    return {name: each for name, each in graphs[0].signature_def.items() if not name.startswith("__")}


def _inputs(path, name, definition):
    import tensorflow as tf

    if definition.method_name.endswith(("/classify", "/regress")):
        raise ValueError(
            f"`signature` must be one that takes texts. Received {name!r} of {path}, which takes tf.Examples; name "
            "another one."
        )
    inputs = []
    for alias, info in sorted(definition.inputs.items()):
        dims = [dim.size for dim in info.tensor_shape.dim]
        if info.dtype != tf.string.as_datatype_enum or len(dims) > 2 or not (dims or info.tensor_shape.unknown_rank):
            raise ValueError(
                f"`signature` must be one that takes texts: strings [n] or [n, k]. Received {name!r} of {path}, whose "
                f"input {alias!r} is {tf.as_dtype(info.dtype).name} {dims}; name another one."
            )
        column = dims[1:] == [1]
        inputs.append(Input(alias, info.name, len(dims) == 2 and not column, column))
    return tuple(inputs)
