"""Batch predictions of a trained model, without an export."""

import dataclasses
import hashlib
import json
import os
from typing import Any, NamedTuple

import tensorflow as tf

from bert_tf.checkpoints.loading import load_description
from bert_tf.inference.batch_prediction.table_predictor import TablePredictor
from bert_tf.inference.text_model import TextInput, TextModel
from bert_tf.inference.trained_text_model import load_served, trace_served
from bert_tf.serving.client.requests import DEFAULT


@dataclasses.dataclass(frozen=True)
class TrainedModelMaker:
    """A `table_job.Maker` for a trained model's predictions, with the attributes of `ExportedModel`.

    Attributes:
        path: directory of the model.
        inputs, outputs: as of its export.
        identity: hashes of its weights, its tokenizer and its task.
        problem: problem of a classifier, one of `names.PROBLEMS`.
        pairs: as in `load_trained_text_model`.
        batch_size: rows per batch.
    """

    path: str
    inputs: tuple[TextInput, ...]
    outputs: tuple[str, ...]
    identity: dict[str, Any]
    problem: str | None = None
    pairs: bool = False
    batch_size: int = 64

    signature = DEFAULT

    def load(self) -> TextModel:
        """Loads the model, unless this process did last; raises ValueError if it is no longer the one described."""
        for loaded in _kept:
            if self._describes(loaded):
                return loaded.model
        loaded = _load_and_keep(self.path, self.pairs)
        if not self._describes(loaded):
            raise ValueError(f"{self.path} has changed since this run began. Run the same command again.")
        return loaded.model

    def _describes(self, loaded):
        known = {name: self.identity[name] for name in loaded.identity}
        return (known, self.pairs) == (loaded.identity, loaded.pairs)

    def __call__(self):
        return TablePredictor(self)


def find_trained_model(path: str, pairs: bool = False, batch_size: int = 64) -> TrainedModelMaker:
    """Loads the trained model in a directory and describes it; arguments and errors as in `load_trained_text_model`."""
    loaded = _load_and_keep(path, pairs)
    inputs, outputs, problem = loaded.model.inputs, tuple(sorted(loaded.shapes)), loaded.identity["task"].get("problem")
    identity = {"model": os.path.realpath(path), **loaded.identity, "batch_size": batch_size}
    return TrainedModelMaker(path, inputs, outputs, identity, problem, pairs, batch_size)


class _Loaded(NamedTuple):
    """A model, {output: shape}, what its answers depend on, and `pairs`, which it was loaded with."""

    model: TextModel
    shapes: dict[str, tf.TensorShape]
    identity: dict[str, Any]
    pairs: bool


# The model that was loaded last, for makers in the same process. It is known by its weights, not by its path: other
# files may be there now, of another training.
_kept: list[_Loaded] = []


def _load_and_keep(path, pairs):
    _kept.clear()  # memory may not suffice for two
    served = load_served(path, pairs)
    digest = hashlib.sha256(load_description([path]).digest().encode())
    for weight in served.weights:
        digest.update(tf.io.serialize_tensor(weight).numpy())
    task = json.loads(json.dumps(getattr(served.task, "to_dict", dict)()))
    loaded = _Loaded(*trace_served(path, served), {"weights": digest.hexdigest(), "task": task}, pairs)
    _kept[:] = [loaded]
    return loaded
