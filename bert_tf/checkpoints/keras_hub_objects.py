"""Live KerasHub backbones and tasks: their weights, and the contents that their presets would have.

KerasHub is imported by the functions that need it.
"""

import os
from collections.abc import Iterable

import numpy as np
from absl import logging

from bert_tf.checkpoints.description_files import write_json
from bert_tf.checkpoints.keras_hub_names import TASK, keras_hub_name_map
from bert_tf.checkpoints.names.weight_mapping import WeightMapping
from bert_tf.models import family_registry
from bert_tf.models.keras_hub_config import from_keras_hub


class LiveWeights:
    """The weights of a backbone or task: `shapes` name -> shape, `read(name)`, `assign(name, array)`.

    Args:
        model: KerasHub model. The names of a task's own weights begin with keras_hub_names.TASK.
    """

    def __init__(self, model):
        backbone = backbone_of(model)
        self._variables = _named(backbone)
        if backbone is not model:
            own = _named(model, known=backbone._flatten_layers())
            self._variables |= {TASK + name: variable for name, variable in own.items()}
        self.shapes = {name: tuple(variable.shape) for name, variable in self._variables.items()}

    def read(self, name: str) -> np.ndarray:
        return np.asarray(self._variables[name])

    def assign(self, name: str, array: np.ndarray):
        self._variables[name].assign(array)


def _named(saveable, known: Iterable = ()):
    """Returns name -> variable, as Keras itself goes through an object when it saves it, without what is known."""
    from keras.src.saving import saving_lib

    class Names(saving_lib.H5IOStore):
        """In place of a file; Keras takes no other kind of store."""

        def __init__(self):
            self.found = {}

        def __bool__(self):
            return True

        def make(self, path, metadata=None):
            return _Entry(self.found, f"{path}/vars" if path else "vars")

    store = Names()
    saving_lib._save_state(saveable, store, None, "", {id(layer) for layer in known})
    return store.found


class _Entry:
    """Where one layer puts its variables, by their numbers."""

    def __init__(self, found, path):
        self._found, self._path = found, path

    def __setitem__(self, number, variable):
        self._found[f"{self._path}/{number}"] = variable


def backbone_of(model):
    """Returns the backbone of a KerasHub task, or the backbone itself.

    Raises:
        ValueError: `model` is neither.
    """
    import keras_hub

    if isinstance(model, keras_hub.models.Task):
        return model.backbone
    if not isinstance(model, keras_hub.models.Backbone):
        raise ValueError(
            "`path` must be the path of a checkpoint, or a KerasHub backbone or task; got an object of class "
            f"{type(model).__name__}; pass the directory of its weights."
        )
    return model


def name_map_of(model) -> WeightMapping:
    """Returns the weight mapping of a live object's weights; warns if its outputs differ from ours.

    Raises:
        ValueError: its family is not supported.
    """
    fields = from_keras_hub(_description(model))
    row = family_registry.family(fields["model_type"]).keras_hub
    activation = getattr(getattr(model, "activation", None), "__name__", "linear")
    if activation != "linear":
        logging.warning("The head returns logits, before the %s of %s.", activation, type(model).__name__)
    computed = {name: fields[name] for name in row.masked_lm or ()}
    if hasattr(model, "masked_lm_head") and computed != row.masked_lm:
        logging.warning(
            "The masked-LM head of %s uses %s, but in bert_tf it uses %s: its logits differ slightly.",
            *(type(model).__name__, dict(row.masked_lm), computed),
        )
    is_projected = fields.get("embedding_size", 0) != fields.get("hidden_size")
    return keras_hub_name_map(fields["model_type"], is_projected)


def _description(model):
    backbone = backbone_of(model)
    name = type(backbone).__name__
    return {"class_name": name, "config": backbone.get_config(), "registered_name": f"keras_hub>{name}"}


def describe(model, directory: str) -> bool:
    """Writes configuration and tokenizer of a live object as in a preset; returns whether it has a tokenizer."""
    values = _description(model)
    config = {name: value for name, value in values["config"].items() if isinstance(value, (int, float, str))}
    write_json(os.path.join(directory, "config.json"), values | {"config": config})
    tokenizer = getattr(getattr(model, "preprocessor", None), "tokenizer", None)
    if tokenizer is None:
        return False
    tokenizer.save_to_preset(directory)
    return True
