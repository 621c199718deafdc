"""A SavedModel of TF Hub's API as a layer of Keras 3, which `tensorflow_hub` and its KerasLayer do not know."""

import contextlib
import inspect
import os
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
import tensorflow_text  # noqa: F401  preprocessors hold its operations

from bert_tf.hub import archive, safety

_ASSETS = "assets"


@keras.saving.register_keras_serializable("bert_tf")
class HubLayer(keras.layers.Layer):
    """Runs a SavedModel that can be called: an encoder or preprocessor of TF Hub's text API, ours or Google's.

        text = keras.Input((), dtype="string")
        rows = bert_tf.HubLayer("bert_en_uncased_preprocess_3")(text)
        vector = bert_tf.HubLayer("bert_en_uncased_L-12_H-768_A-12_4", trainable=True)(rows)["pooled_output"]
        model = keras.Model(text, keras.layers.Dense(2)(vector))

    `model.save` writes graph, files and weights into the .keras file, which then needs the folder no more. A layer from
    such a file, or from `from_config`, has no values until weights are loaded or set.

    Inputs and outputs are those of the SavedModel. `training` reaches it where it takes that, and only while the layer
    is `trainable`, as with hub.KerasLayer; so do its regularization losses. Its variables keep their own types under
    mixed precision.

    Args:
        path: folder with saved_model.pb.
        part: the name of a part to run in the whole's place: "mlm", "tokenize", "bert_pack_inputs".
        arguments: more arguments of each call: {"seq_length": 64} for "bert_pack_inputs".
        trainable: whether training changes the variables that the SavedModel calls trainable.

    Raises:
        ValueError: there is no SavedModel of TensorFlow 2, it has no such part, or none that can be called.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        part: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        trainable: bool = False,
        **kwargs,
    ):
        super().__init__(trainable=trainable, autocast=False, **kwargs)
        self.part, self.arguments = part, dict(arguments or {})
        self.supports_jit = False  # neither strings nor what others wrote
        self._files = path  # kept: a temporary folder is there as long as it
        folder, without_values = (path.path, True) if isinstance(path, archive.Unpacked) else (os.fspath(path), False)
        graph = safety.read_graph(folder)
        self._text = path.text if without_values else archive.pack(folder, _files(graph))
        options = tf.saved_model.LoadOptions(experimental_skip_checkpoint=without_values)
        self._loaded = tf.saved_model.load(folder, options=options)
        self._function = _function(self._loaded, part, folder)
        self._takes_training = "training" in inspect.getfullargspec(self._function.__call__).args
        self._hub_variables = self._made_variables(_part(self._loaded, part))
        self.built = True

    def _made_variables(self, source):
        """Returns every variable of the SavedModel as one of Keras's; both are the same memory."""
        trainable = getattr(source, "trainable_variables", None)
        trainable = None if trainable is None else {id(variable) for variable in trainable}
        made = []
        for variable in _variables(self._loaded):
            trains = variable.trainable if trainable is None else id(variable) in trainable
            *scopes, name = variable.name.removesuffix(":0").split("/")
            with contextlib.ExitStack() as stack:
                for scope in (self.name, *filter(None, scopes)):
                    stack.enter_context(keras.name_scope(scope))
                options = {"dtype": variable.dtype.name, "trainable": trains, "autocast": False}
                made.append(keras.Variable(variable, **options, name=name or None))
        return made

    def call(self, inputs, training=None):
        training = {"training": bool(training and self.trainable)} if self._takes_training else {}
        if self.trainable:
            for loss in getattr(_part(self._loaded, self.part), "regularization_losses", ()):
                self.add_loss(loss())
        return self._function(inputs, **training, **self.arguments)

    def get_config(self):
        return {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "saved_model": self._text,
            "part": self.part,
            "arguments": self.arguments,
        }

    @classmethod
    def from_config(cls, config):
        """Makes the layer that `get_config` described; its variables have no values yet.

        Raises:
            ValueError: what it holds is no SavedModel, or one that does more than compute.
        """
        config = dict(config)
        files = archive.Unpacked(config.pop("saved_model"))
        safety.check(files.path)
        return cls(files, **config)


def _files(graph):
    """Returns the paths of a SavedModel's files but its variables."""
    return ["saved_model.pb", *{os.path.join(_ASSETS, asset.filename) for asset in graph.asset_file_def}]


def _part(loaded, part):
    return getattr(loaded, part, None) if part else loaded


def _function(loaded, part, folder):
    function = _part(loaded, part)
    if not callable(function):
        there = sorted(name for name in vars(loaded) if not name.startswith("_") and callable(getattr(loaded, name)))
        what = f"no part {part!r}; it has {there}" if part else f"no function of its own; take a `part` of it, {there}"
        raise ValueError(
            f"A SavedModel of TF Hub's API must be one that can be called, or have the `part` asked for. Received "
            f"{folder} with {what}."
        )
    return function


def _variables(loaded):
    """Returns the variables of an object and of all that belongs to it, each once."""
    found, open_ = {}, [loaded]
    seen = set()
    while open_:
        each = open_.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, tf.Variable):
            found[id(each)] = each
        open_ += reversed(each._trackable_children().values())
    return list(found.values())
