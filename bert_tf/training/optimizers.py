"""The optimizers by name, and how one is made for a run."""

from bert_tf.training.adamw import AdamW
from bert_tf.training.lamb import Lamb
from bert_tf.training.settings import AdamConfig

# Name on the command line -> class, constructed from a learning rate or schedule and the fields of `AdamConfig`.
OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb}


def make_optimizer(name: str, rate, config: AdamConfig, layer_rules=()) -> AdamW:
    """Returns an optimizer, not yet built.

    Args:
        name: in `OPTIMIZERS`.
        rate: a number or a schedule.
        config: its hyperparameters.
        layer_rules: as `AdamW` takes them.
    """
    numbers = (rate, config.weight_decay_rate, config.adam_beta1, config.adam_beta2, config.adam_epsilon)
    kind = OPTIMIZERS[name]
    choice = {} if always_corrects(name) else {"bias_correction": config.bias_correction}
    return kind(*numbers, layer_rules=layer_rules, **choice)


def always_corrects(name: str) -> bool:
    """Returns whether an optimizer always has bias correction."""
    return issubclass(OPTIMIZERS[name], Lamb)
