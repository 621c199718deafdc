"""Any exported model that takes texts: its signature, and its predictions for the rows of a table."""

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_tf.inference.batch_prediction.table_predictor import TablePredictor
from bert_tf.inference.text_model import TextInput, TextModel
from bert_tf.serving.client.requests import DEFAULT, is_order_known, order_of
from bert_tf.serving.exports import find_export, open_export
from bert_tf.serving.server.regular_files import folder_fingerprint
from bert_tf.serving.server.version_folders import SAVED_MODEL
from bert_tf.utils.json_files import read_object
from bert_tf.utils.names import TASK_FILE
from bert_tf.utils.resources import cores
from bert_tf.utils.token_counts import TokenCountLog

_TASK = os.path.join("assets.extra", TASK_FILE)


@dataclasses.dataclass(frozen=True)
class ExportedModel:
    """A `table_job.Maker` for a SavedModel's predictions.

    Attributes:
        path: directory of one version.
        signature: its name.
        inputs: in the order of `bert-tf client ask`; alphabetical if that is unknown.
        batch_size: rows per batch.
        outputs: names of the signature's outputs.
    """

    path: str
    signature: str
    inputs: tuple[TextInput, ...]
    batch_size: int = 64
    outputs: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """The problem of a classifier, one of `names.PROBLEMS`; None for any other model, and for one not of ours."""
        file = os.path.join(self.path, _TASK)
        task = read_object(file, "the task of an export", "export the model again") if os.path.exists(file) else {}
        return task.get("problem")

    @property
    def identity(self) -> dict[str, Any]:
        """Identity of the model: its files and the signature."""
        path = os.path.realpath(self.path)
        digest = hashlib.sha256("\n".join(sorted(map(str, folder_fingerprint(path)))).encode()).hexdigest()
        return {"model": path, "its files": digest, "signature": self.signature,
                "batch_size": self.batch_size}  # fmt: skip

    def load(self, engine: str = "saved_model") -> TextModel:
        """Loads the model; raises ValueError if its files are not complete.

        Args:
            engine: one of `names.ENGINES`; with "saved_model", LiteRT's model is not loaded.
        """
        model = open_export(self.path)
        model.token_counts = TokenCountLog(self.path)  # unlike that of a server, it warns from the first text on
        signature = model.signatures[self.signature]
        fetches = [output.tensor for output in signature.outputs.values()]

        def compute(texts):
            feeds = {signature.inputs[name].tensor: array for name, array in texts.items()}
            return dict(zip(signature.outputs, model.run(feeds, fetches), strict=True))

        shapes = {name: output.shape for name, output in signature.outputs.items()}
        fixed = frozenset(name for name, shape in shapes.items() if shape is not None and None not in shape[1:])
        fast_path = None
        if engine != "saved_model" and self.signature == DEFAULT:
            from bert_tf.lite.fast_path import open_fast_path

            fast_path = open_fast_path(self.path, cores(), engine=engine)
        return TextModel(self.path, self.inputs, compute, fixed, model.token_counts, fast_path)

    def __call__(self):
        return TablePredictor(self)


def find_model(model: str, signature: str = DEFAULT, batch_size: int = 64) -> ExportedModel:
    """Opens the model in a directory, without its weights.

    Args:
        model: directory of a SavedModel, or of numbered versions, of which the newest is used.
        signature: the signature for predictions.
        batch_size: rows per batch.

    Raises:
        ValueError: there is no SavedModel, or no such signature, or its inputs are not texts.
    """
    path = find_export(model)
    definitions = _read_signatures(path)
    if signature not in definitions:
        raise ValueError(
            f"`signature` must be one of those of {path}: {', '.join(sorted(definitions)) or '(none)'}; got "
            f"{signature!r}."
        )
    definition = definitions[signature]
    inputs, outputs = _read_inputs(path, signature, definition), tuple(sorted(definition.outputs))
    return ExportedModel(path, signature, inputs, batch_size, outputs)


def match_columns(inputs: Sequence[str], columns: Sequence[str]) -> dict[str, str]:
    """Returns {input: its column}, in the order of `inputs`.

    A column with the name of an input belongs to it. The others belong to the other inputs in the order of
    `bert-tf client ask`. `INPUT=COLUMN` for each of them assigns them explicitly.

    Args:
        inputs: names of a signature's inputs.
        columns: columns of a table, by name or index; one per input, in any order.

    Raises:
        ValueError: there are more or fewer columns than inputs, or the assignment of columns to inputs is ambiguous.
    """
    names = ", ".join(inputs)
    if len(columns) != len(inputs):
        raise ValueError(
            f"`text_column` must name one column for each of the model's inputs ({names}); got {','.join(columns)}."
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
                f"`text_column` must assign columns to the model's inputs ({names}), because their order "
                f"is unknown; got {','.join(columns)}. Write INPUT=COLUMN for each, such as {example}."
            )
        found |= dict(zip(left, others, strict=False))
    if len(found) < len(inputs):
        raise ValueError(
            f"`text_column` must name a different column for each of the model's inputs ({names}); got "
            f"{','.join(columns)}. Name each column once."
        )
    return {name: found[name] for name in inputs}


def _read_signatures(path):
    """Returns {name: SignatureDef}, without TensorFlow's own."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    described = SavedModel()
    try:
        with open(os.path.join(path, SAVED_MODEL), "rb") as file:
            described.ParseFromString(file.read())
    except DecodeError as error:
        raise ValueError(f"{path}/{SAVED_MODEL} is not a readable SavedModel: {error}. Export it again.") from error
    graphs = [graph for graph in described.meta_graphs if list(graph.meta_info_def.tags) == ["serve"]]
    if not graphs:
        raise ValueError(f"{path} has no graph with the tag 'serve'. Export the model for serving.")
    return {name: each for name, each in graphs[0].signature_def.items() if not name.startswith("__")}


def _read_inputs(path, name, definition):
    if definition.method_name.endswith(("/classify", "/regress")):
        raise ValueError(
            f"`signature` must take texts, but {name!r} of {path} takes tf.Examples. Choose a signature that takes "
            "texts."
        )
    inputs = []
    for alias in order_of(definition.inputs):
        info = definition.inputs[alias]
        dims = [dim.size for dim in info.tensor_shape.dim]
        if info.dtype != tf.string.as_datatype_enum or len(dims) > 2 or not (dims or info.tensor_shape.unknown_rank):
            raise ValueError(
                f"`signature` must take texts, strings [n] or [n, k]. For {name!r} of {path}, the input {alias!r} is "
                f"{tf.as_dtype(info.dtype).name} {dims}. Choose a signature that takes texts."
            )
        column = dims[1:] == [1]
        inputs.append(TextInput(alias, len(dims) == 2 and not column, column))
    return tuple(inputs)
