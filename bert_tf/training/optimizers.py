"""The optimizers by name, and how one is made for a run."""

import dataclasses

from bert_tf.training.adamw import AdamW
from bert_tf.training.lamb import Lamb
from bert_tf.training.settings import AdamConfig

# Name on the command line -> class, constructed from a learning rate or schedule and the fields of `AdamConfig`.
OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb}
# Field of `AdamConfig` -> Keras's name of the argument; an optimizer takes the other fields by their own names.
_ARGUMENTS = {"adam_beta1": "beta_1", "adam_beta2": "beta_2", "adam_epsilon": "epsilon"}


def make_optimizer(name: str, rate, config: AdamConfig, layer_rules=()) -> AdamW:
    """Returns an optimizer, not yet built.

    Args:
        name: in `OPTIMIZERS`.
        rate: a number or a schedule.
        config: its hyperparameters.
        layer_rules: as `AdamW` takes them.
    """
    fields = [field.name for field in dataclasses.fields(AdamConfig)]
    if always_corrects(name):
        fields.remove("bias_correction")
    arguments = {_ARGUMENTS.get(field, field): getattr(config, field) for field in fields}
    return OPTIMIZERS[name](rate, layer_rules=layer_rules, **arguments)


def always_corrects(name: str) -> bool:
    """Returns whether an optimizer always has bias correction."""
    return issubclass(OPTIMIZERS[name], Lamb)
