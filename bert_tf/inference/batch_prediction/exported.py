"""Any exported model that takes texts: what it needs to know of itself, and its answers to the rows of a table."""

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from typing import Any

from bert_tf.serving.client.requests import is_order_known, order_of
from bert_tf.serving.exports import SAVED_MODEL, find_export
from bert_tf.serving.server.regular_files import fingerprint


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
        inputs: in the order in which `ask` takes them; in alphabetical order where that is not known.
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
        from bert_tf.inference.batch_prediction.prediction import Predictor

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


def match_columns(inputs: Sequence[str], columns: Sequence[str]) -> dict[str, str]:
    """Returns {input: its column}, in the order of `inputs`.

    A column that bears the name of an input belongs to it. The others belong to the other inputs in the order in which
    `ask` takes those. `INPUT=COLUMN` for each of them says it outright.

    Args:
        inputs: names of a signature's inputs.
        columns: of a table, by name or index; as many as there are inputs, in any order.

    Raises:
        ValueError: there are more or fewer columns than inputs, or it cannot be known which column is for which input.
    """
    names = ", ".join(inputs)
    if len(columns) != len(inputs):
        raise ValueError(
            f"`text_column` must name a column for each of the model's inputs: {names}. Received: {','.join(columns)}."
        )
    outright = [column.partition("=") for column in columns]
    if all(equals and name in inputs for name, equals, _ in outright):
        found = {name: column for name, _, column in outright}
    else:
        found = {column: column for column in columns if column in inputs}
        others = [column for column in columns if column not in inputs]
        left = [name for name in order_of(inputs) if name not in found]
        if len(left) > 1 and not is_order_known(inputs):
            example = ",".join(f"{name}={column}" for name, column in zip(left, others, strict=False))
            raise ValueError(
                f"`text_column` must say which column is for which of the model's inputs, {names}, which have no order "
                f"that is known. Received: {','.join(columns)}; write INPUT=COLUMN for each, such as {example}."
            )
        found |= dict(zip(left, others, strict=False))
    if len(found) < len(inputs):
        raise ValueError(
            f"`text_column` must name a different column for each of the model's inputs: {names}. Received: "
            f"{','.join(columns)}; name each input's column once."
        )
    return {name: found[name] for name in inputs}


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
    for alias in order_of(definition.inputs):
        info = definition.inputs[alias]
        dims = [dim.size for dim in info.tensor_shape.dim]
        if info.dtype != tf.string.as_datatype_enum or len(dims) > 2 or not (dims or info.tensor_shape.unknown_rank):
            raise ValueError(
                f"`signature` must be one that takes texts: strings [n] or [n, k]. Received {name!r} of {path}, whose "
                f"input {alias!r} is {tf.as_dtype(info.dtype).name} {dims}; name another one."
            )
        column = dims[1:] == [1]
        inputs.append(Input(alias, info.name, len(dims) == 2 and not column, column))
    return tuple(inputs)
