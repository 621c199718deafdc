"""Registers the classes that Keras looks up by name in saved models, importing them only when needed.

Keras only finds a custom class after its decorator has run. So that `keras.models.load_model` works after
`import bert_tf`, which imports neither Keras nor TensorFlow, Keras gets stand-ins as soon as both are imported.
"""

import functools
import importlib
import sys

PACKAGE = "bert_tf"
CLASSES = {  # module -> the classes registered in it; tests/utils/keras_names_test.py compares
    "export.hub.layer": ("HubLayer",),
    "export.hub.tokenizer_layer": ("TokenizerLayer",),
    "models.attention": ("SelfAttention",),
    "models.convolution": ("TokenConvolution",),
    "models.disentangled_attention": ("RelativePositions",),
    "models.distillation_model": ("DistillationModel",),
    "models.block": ("TransformerBlock",),
    "models.embeddings": ("Embeddings",),
    "models.encoder": ("Encoder",),
    "models.heads": ("ClassificationHead", "QuestionAnsweringHead"),
    "models.layers": ("Dropout", "LayerNorm", "Linear"),
    "models.pooling": ("LayerSum", "PooledFeatures"),
    "models.pretrainer": ("Pretrainer",),
    "models.pretraining_heads": ("MaskedLMHead", "NextSentenceHead", "ReplacedTokenHead"),
    "models.recurrent": ("BiLSTM", "BiLSTMHead"),
    "models.relative_bias": ("RelativeBias",),
    "models.replaced_tokens": ("ReplacedTokenPretrainer",),
    "models.splade": ("SpladeModel",),
    "models.windows": ("MeanOfWindows", "RowsTogether", "TakeWindows"),
    "training.adamw": ("AdamW",),
    "training.lamb": ("Lamb",),
    "training.schedules": (
        "ExponentialRise", "WarmupCosineDecay", "WarmupLinearDecay", "WarmupPolynomialDecay", "WarmupTrapezoid",
    ),
}


class _StandIn:
    """Creates objects of a class that is imported on first use."""

    def __init__(self, module, name):
        self._module, self._name = f"{PACKAGE}.{module}", name

    def from_config(self, config):
        return getattr(importlib.import_module(self._module), self._name).from_config(config)


class KerasFinder:
    """For `sys.meta_path`: what surrounds the import of Keras, whenever that is.

    Args:
        around: called with the function that executes the module, and the module.
    """

    def __init__(self, around):
        self._around = around

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "keras":
            return None
        import importlib.util  # here, since most of what imports bert_tf first does without Keras

        sys.meta_path.remove(self)  # the other finders are asked now
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = functools.partial(self._around, spec.loader.exec_module)
        return spec


def announce():
    """Gives Keras the stand-ins, now if it is imported, otherwise as soon as it is."""
    if "keras" in sys.modules:
        _register(sys.modules["keras"])
    else:
        sys.meta_path.insert(0, KerasFinder(_execute_and_register))


def _execute_and_register(execute, keras):
    execute(keras)
    _register(keras)


def _register(keras):
    known = keras.saving.get_custom_objects()
    for module, names in CLASSES.items():
        for name in names:
            known.setdefault(f"{PACKAGE}>{name}", _StandIn(module, name))
