"""The optimizers by name, and the numbers that they take."""

import dataclasses

from bert_tf.training.lamb import Lamb
from bert_tf.training.optimizer import AdamW

# Name on the command line -> class, made with a learning rate or schedule and the numbers of `AdamConfig`.
OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb}


@dataclasses.dataclass(frozen=True)
class AdamConfig:
    """The numbers of BERT's Adam, and of LAMB. Each is also the program's flag of that name.

    Attributes:
        weight_decay_rate: decoupled from the gradient; not for LayerNorm and biases.
        adam_beta1, adam_beta2: how much of the two moments stays from step to step.
        adam_epsilon: what keeps the second moment's root from 0.
        bias_correction: whether the moments are corrected for having begun at 0; LAMB's always are.

    Raises:
        ValueError: one is out of range.
    """

    weight_decay_rate: float = 0.01
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-6
    bias_correction: bool = False

    def __post_init__(self):
        for name in ("adam_beta1", "adam_beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"`{name}` must be from 0 to below 1. Received: {getattr(self, name)}; at 1 no step would move."
                )
        if not self.adam_epsilon > 0:
            raise ValueError(
                f"`adam_epsilon` must be above 0. Received: {self.adam_epsilon}; a weight without a gradient would "
                "become 0 / 0."
            )
        if not self.weight_decay_rate >= 0:
            raise ValueError(f"`weight_decay_rate` must not be below 0. Received: {self.weight_decay_rate}.")

    def identity(self) -> dict:
        """Returns those that are not the default, {name: value}: older runs wrote down none."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value != getattr(AdamConfig, name)}


def make_optimizer(name: str, rate, config: AdamConfig, layer_rules=()) -> AdamW:
    """Returns an optimizer that is not built yet.

    Args:
        name: in `OPTIMIZERS`.
        rate: a number or a schedule.
        config: its numbers.
        layer_rules: as `AdamW` takes them.
    """
    numbers = (rate, config.weight_decay_rate, config.adam_beta1, config.adam_beta2, config.adam_epsilon)
    kind = OPTIMIZERS[name]
    choice = {} if always_corrects(name) else {"bias_correction": config.bias_correction}
    return kind(*numbers, layer_rules=layer_rules, **choice)


def always_corrects(name: str) -> bool:
    """Says whether bias correction is part of an optimizer, and no choice."""
    return issubclass(OPTIMIZERS[name], Lamb)
