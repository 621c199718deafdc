"""Learning rates: schedules, the range test, and factors for layers and word embeddings."""

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from bert_tf.checkpoints.name_map import WORDS
from bert_tf.models.layers import config_of_arguments

# === Schedules ===
# The learning rate over a run.


class _Warmup(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly from 0 to `learning_rate` during warmup; a subclass defines the rest in `decayed`.

    The first step of warmup has learning rate 0, as in google-research/bert's optimization.py.
    """

    def __init__(self, learning_rate, num_train_steps, num_warmup_steps=0):
        self.learning_rate = learning_rate
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        rising = self.learning_rate * step / max(self.num_warmup_steps, 1)
        return tf.where(step < self.num_warmup_steps, rising, self.decayed(step))

    def decayed(self, step):
        """Returns the learning rate, float32 [], at a step after warmup, float32 []."""
        raise NotImplementedError

    def since_warmup(self, step):
        """Returns the completed share of the steps after warmup: float32 [], from 0 to 1."""
        after = max(self.num_train_steps - self.num_warmup_steps, 1)
        return tf.clip_by_value((step - self.num_warmup_steps) / after, 0.0, 1.0)

    def get_config(self):
        return config_of_arguments(self)


@keras.saving.register_keras_serializable("bert_tf")
class WarmupLinearDecay(_Warmup):
    """Rises linearly to `learning_rate` during warmup, then decays linearly to 0.

    As in google-research/bert's optimization.py, the decay is counted from step 0 and the first step of warmup has
    learning rate 0:

        rate(t) = learning_rate * t / num_warmup_steps        for t < num_warmup_steps
        rate(t) = learning_rate * (1 - t / num_train_steps)   from there on

    Args:
        learning_rate: the peak that warmup approaches.
        num_train_steps: the step at which the learning rate reaches 0.
        num_warmup_steps: 0 for no warmup.
    """

    def decayed(self, step):
        return self.learning_rate * (1 - tf.minimum(step / max(self.num_train_steps, 1), 1.0))


@keras.saving.register_keras_serializable("bert_tf")
class WarmupPolynomialDecay(_Warmup):
    """Rises linearly to `learning_rate`, then decays to 0 as a power of the remaining steps.

        rate(t) = learning_rate * ((num_train_steps - t) / (num_train_steps - num_warmup_steps)) ** power

    The decay starts at the peak, without the small drop of `WarmupLinearDecay`. This is the schedule of NVIDIA's
    LAMB recipe for BERT (DeepLearningExamples, optimization.py), and so is the default power.

    Args:
        learning_rate, num_train_steps, num_warmup_steps: as in `WarmupLinearDecay`, except that the peak is reached.
        power: 1 for a straight line; below 1 the learning rate stays high for longer.
    """

    def __init__(self, learning_rate, num_train_steps, num_warmup_steps=0, power=0.5):
        super().__init__(learning_rate, num_train_steps, num_warmup_steps)
        self.power = power

    def decayed(self, step):
        return self.learning_rate * (1 - self.since_warmup(step)) ** self.power


@keras.saving.register_keras_serializable("bert_tf")
class WarmupCosineDecay(_Warmup):
    """Rises linearly to `learning_rate`, then decays to 0 along half a cosine wave.

        rate(t) = learning_rate * (1 + cos(pi * (t - num_warmup_steps) / (num_train_steps - num_warmup_steps))) / 2

    One cycle of Loshchilov and Hutter 2017 (arXiv 1608.03983), equation 5.

    Args:
        learning_rate, num_train_steps, num_warmup_steps: as in `WarmupLinearDecay`, except that the peak is reached.
    """

    def decayed(self, step):
        return self.learning_rate * (1 + tf.cos(math.pi * self.since_warmup(step))) / 2


@keras.saving.register_keras_serializable("bert_tf")
class WarmupTrapezoid(_Warmup):
    """Rises linearly to `learning_rate`, stays there, and decays linearly to 0 over the last steps.

        rate(t) = learning_rate * min(t / num_warmup_steps, 1, (num_train_steps - t) / num_decay_steps)

    A run's checkpoints from the flat part can be trained for longer, because nothing there depends on the last step
    (Hägele et al. 2024, arXiv 2405.18392, section 3).

    Args:
        learning_rate, num_train_steps, num_warmup_steps: as in `WarmupLinearDecay`, except that the peak is reached.
        num_decay_steps: length of the decay; None: a fifth of the run.
    """

    def __init__(self, learning_rate, num_train_steps, num_warmup_steps=0, num_decay_steps=None):
        super().__init__(learning_rate, num_train_steps, num_warmup_steps)
        self.num_decay_steps = num_train_steps // 5 if num_decay_steps is None else num_decay_steps

    def __call__(self, step):  # a decay that starts during warmup cuts the warmup short
        return tf.minimum(super().__call__(step), self.decayed(tf.cast(step, tf.float32)))

    def decayed(self, step):
        left = (self.num_train_steps - step) / max(self.num_decay_steps, 1)
        return self.learning_rate * tf.clip_by_value(left, 0.0, 1.0)


@keras.saving.register_keras_serializable("bert_tf")
class ExponentialRise(keras.optimizers.schedules.LearningRateSchedule):
    """Rises from one learning rate to another by a constant factor per step, for a range test.

        rate(t) = lowest * (highest / lowest) ** (t / (num_steps - 1))

    Args:
        lowest: learning rate at step 0.
        highest: learning rate at step `num_steps` - 1 and later.
        num_steps: at least 2.
    """

    def __init__(self, lowest, highest, num_steps):
        self.lowest = lowest
        self.highest = highest
        self.num_steps = num_steps

    def __call__(self, step):
        share = tf.minimum(tf.cast(step, tf.float32) / (self.num_steps - 1), 1.0)
        return self.lowest * tf.exp(share * math.log(self.highest / self.lowest))

    def get_config(self):
        return config_of_arguments(self)


# Name on the command line -> factory(learning_rate, num_train_steps, num_warmup_steps).
SCHEDULES = {
    "linear": WarmupLinearDecay,
    "polynomial": WarmupPolynomialDecay,
    "cosine": WarmupCosineDecay,
    "trapezoid": WarmupTrapezoid,
}


def run_schedule(run) -> keras.optimizers.schedules.LearningRateSchedule:
    """Returns the learning-rate schedule of a run, a `RunConfig`."""
    return SCHEDULES[run.schedule](run.learning_rate, run.num_train_steps, run.num_warmup_steps)


# === Range test ===
# How `learning_rate=auto` evaluates a range test; `fine_tuning.measure_lr_range` runs the test.


_BELL_WIDTH = 3.0  # steps: standard deviation of the Gaussian that smooths the losses
_FEWEST = 10  # fewest steps for a meaningful curve


@dataclasses.dataclass(frozen=True)
class RangeTest:
    """The loss curve of a learning-rate range test, and the learning rate chosen from it.

    The rule looks for the edge beyond which training becomes unstable, because it is well defined for all tasks: the
    last step whose smoothed loss is at most 1.1 times the lowest one. The run's learning rate is 1/12 of the edge's, to
    two digits. The lowest loss and the steepest descent are less reliable: in so few steps they depend on chance in the
    batches and in the logits of the new head.

    Attributes:
        rates: learning rate of each step, ascending.
        losses: loss of each step's batch before the update; finite.

    Raises:
        ValueError: there are too few steps.
    """

    RISE: ClassVar = 1.1  # a smoothed loss above this many times the lowest is too high
    BELOW: ClassVar = 12  # the learning rate is the edge's divided by this

    rates: Sequence[float]
    losses: Sequence[float]

    def __post_init__(self):
        if len(self.losses) < _FEWEST:
            raise ValueError(
                "`learning_rate=auto` failed: the loss was NaN or infinite after "
                f"{len(self.losses)} steps, at the lowest learning rates. Check the data and the initial weights."
            )

    @property
    def smoothed(self) -> np.ndarray:
        """float64 [steps]: the losses, smoothed with a Gaussian."""
        steps = np.arange(len(self.losses))
        weights = np.exp(-0.5 * ((steps[:, None] - steps) / _BELL_WIDTH) ** 2)
        return weights @ np.asarray(self.losses, np.float64) / weights.sum(1)

    @property
    def edge(self) -> float:
        """The highest learning rate at which the loss was still good."""
        smoothed = self.smoothed
        return float(self.rates[np.flatnonzero(smoothed <= self.RISE * smoothed.min())[-1]])

    @property
    def learning_rate(self) -> float:
        """The learning rate for the run."""
        return float(f"{self.edge / self.BELOW:.1e}")

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON values; the first two suffice to reconstruct the test."""
        return {**dataclasses.asdict(self), "edge": self.edge, "learning_rate": self.learning_rate}


# === Word rate ===
# Learning rate of the word embeddings in pretraining, relative to all other weights.


@dataclasses.dataclass(frozen=True)
class WordRate:
    """Learning-rate factor of the word embeddings; used in `RunConfig.layer_rates` in place of `LayerRates`.

    Attributes:
        embedding_lr_factor: their learning rate divided by that of all other weights, 0 to 1; 0: they are frozen and
            need no gradient and no slots, which makes a step faster.
    """

    embedding_lr_factor: float = 1.0

    def __post_init__(self):
        assert 0 <= self.embedding_lr_factor <= 1

    @property
    def is_default(self) -> bool:
        """Whether they train like all other weights."""
        return self.embedding_lr_factor == 1

    def freeze_in(self, variables: Iterable):
        """Makes them untrainable if they are frozen."""
        for variable in variables:
            if self.embedding_lr_factor == 0 and variable.path == WORDS:
                variable.trainable = False

    def rules(self) -> tuple[tuple[str, float, int], ...]:
        """Returns (pattern of a variable's path, learning-rate factor, first step) for `optimizers.AdamW`."""
        return () if self.is_default else ((WORDS, self.embedding_lr_factor, 0),)

    def describe(self, num_train_steps: int) -> str:
        """Describes how a run trains them, in one line for the log."""
        factor = self.embedding_lr_factor
        return f"Word embeddings: {f'learning rate times {factor:g}' if factor else 'frozen'}."


def word_rate(embedding_lr_factor: float, is_random: bool) -> WordRate | None:
    """Returns the word embeddings' learning-rate factor; None: the same as for all other weights.

    Args:
        embedding_lr_factor: as in `WordRate`.
        is_random: whether they start from random numbers.

    Raises:
        ValueError: they would stay random.
    """
    if not embedding_lr_factor and is_random:
        raise ValueError(
            "`embedding_lr_factor=0` requires `start_embeddings=neighbours` or `init_checkpoint`: without either, "
            "the word embeddings would stay random."
        )
    return None if embedding_lr_factor == 1 else WordRate(embedding_lr_factor)


# === Layer rates ===
# Which layers of an encoder are trained, from which step on, and at which learning rate.
#
# Layers are identified by their variables' paths, google-research/bert's, and by these depths, with L layers:
#
#     bert/embeddings/...         0         (and the map to the width of the layers, if any, as in ELECTRA's code)
#     bert/encoder/layer_N/...    N + 1     (and, with the first, the convolution, if any)
#     all else: pooler, head      L + 1     (and the norm after the last block, if any)


ALL = "all"
_EMBEDDINGS = r"bert/(embeddings|encoder/embedding_hidden_mapping_in)/.*"
_FIRST = r"bert/encoder/(layer_0|conv)/.*"
_LAYER = r"bert/encoder/layer_{}/.*"
_POOLER = r"bert/pooler/.*"
_ENCODER = r"bert/.*"


@dataclasses.dataclass(frozen=True)
class LayerRates:
    """Layer-wise learning rates and gradual unfreezing (ULMFiT, Howard and Ruder 2018, arXiv 1801.06146, 3.2 and 3.3).

    Attributes:
        num_layers: L, the number of encoder layers.
        freeze_layers: number of layers, counted from the bottom, that are frozen along with the embeddings; 0 freezes
            nothing, and "all" freezes the whole encoder with its pooler, so that only the head is trained.
        layerwise_lr_decay: depth j has the learning rate times this ** (L + 1 - j). ELECTRA's (Clark et al. 2020,
            appendix B) counts in the same way, but the topmost layer has this ** 2.
        unfreeze_steps: depth j trains from step unfreeze_steps * (L + 1 - j) on, counted from 0; 0: all
            train from the start.

    Raises:
        ValueError: a value is out of range, or two values contradict each other.
    """

    num_layers: int
    freeze_layers: int | str = 0
    layerwise_lr_decay: float = 1.0
    unfreeze_steps: int = 0

    def __post_init__(self):
        frozen, decay = self.freeze_layers, self.layerwise_lr_decay
        if frozen != ALL and not (isinstance(frozen, int) and 0 <= frozen <= self.num_layers):
            raise ValueError(
                f"`freeze_layers` must be `all` or a number from 0 to {self.num_layers}, the number of layers; "
                f"got {frozen}."
            )
        if not 0 < decay <= 1:
            raise ValueError(
                f"`layerwise_lr_decay` must be above 0 and at most 1; got {decay}. To keep layers unchanged, "
                "pass `freeze_layers`."
            )
        assert self.unfreeze_steps >= 0
        for name, given in (("unfreeze_epochs", self.unfreeze_steps), ("layerwise_lr_decay", decay < 1)):
            if given and frozen in (ALL, self.num_layers):
                raise ValueError(
                    f"`{name}` has no effect with `freeze_layers={frozen}`: no layer is left to train. "
                    "Remove one of the two."
                )

    @property
    def is_default(self) -> bool:
        """Whether all layers train from the start with one learning rate."""
        return self == LayerRates(self.num_layers)

    def is_frozen(self, path: str) -> bool:
        """Returns whether the variable at `path` is frozen."""
        if self.freeze_layers == ALL:
            return bool(re.fullmatch(_ENCODER, path))
        frozen = self._patterns()[: self.freeze_layers + 1] if self.freeze_layers else []
        return any(re.fullmatch(pattern, path) for pattern in frozen)

    def freeze_in(self, variables: Iterable):
        """Makes the frozen variables of a model untrainable: no gradient, no optimizer slots."""
        variables = list(variables)
        assert count_layers(v.path for v in variables) == self.num_layers, "the learning rates belong to another model"
        for variable in variables:
            if self.is_frozen(variable.path):
                variable.trainable = False

    def rules(self) -> tuple[tuple[str, float, int], ...]:
        """Returns (pattern of a variable's path, learning-rate factor, first step) for `optimizers.AdamW`."""
        down, decay = range(self.num_layers + 1, 0, -1), self.layerwise_lr_decay
        return tuple((p, decay**n, self.unfreeze_steps * n) for p, n in zip(self._patterns(), down, strict=True))

    def describe(self, num_train_steps: int) -> str:
        """Describes how a run of this many steps trains each layer, in one line for the log."""
        top, frozen, decay = self.num_layers + 1, self.freeze_layers, self.layerwise_lr_decay
        parts = []
        if frozen:
            whole = frozen == ALL
            parts.append("frozen: the encoder" if whole else f"frozen: the embeddings and {frozen} of the layers")
        if decay < 1:
            parts.append(f"learning rate: times {decay:g} per layer, {decay**top:.3g} at the embeddings")
        if self.unfreeze_steps:
            never = sum(first >= num_train_steps for _, _, first in self.rules()[frozen + bool(frozen) :])
            parts.append(f"unfreezing: one more layer from the top every {self.unfreeze_steps} steps")
            parts += [f"{never} of them, the lowest, NEVER in these {num_train_steps} steps"] if never else []
        return f"Layers: {'; '.join(parts) or 'all train alike'}."

    def _patterns(self):
        """Returns the path pattern of each depth from 0 to L."""
        return [_EMBEDDINGS, *_layer_patterns(self.num_layers)]


def _layer_patterns(num_layers):
    return [_FIRST, *(_LAYER.format(n) for n in range(1, num_layers))]


def layer_rates(config, run, num_layers: int, num_examples: int) -> LayerRates | None:
    """Returns which layers train and at which learning rate; None: all alike.

    Args:
        config: a `FineTuningConfig`.
        run: a `RunConfig` with its batch size and the weights to start from.
        num_layers: number of encoder layers.
        num_examples: number of training examples; 0 if nothing is trained.

    Raises:
        ValueError: a setting is out of range for this model, or two settings contradict each other.
    """
    given, unfreeze_steps = str(config.freeze_layers), 0
    if config.unfreeze_epochs:
        unfreeze_steps = max(1, int(num_examples / run.train_batch_size * config.unfreeze_epochs))
    freeze = int(given) if given.isascii() and given.isdigit() else given
    rates = LayerRates(num_layers, freeze, config.layerwise_lr_decay, unfreeze_steps)
    if config.reinit_layers:
        _check_reinit(config.reinit_layers, run.init_checkpoint, rates)
    if (rates.freeze_layers or rates.unfreeze_steps) and not run.init_checkpoint:
        raise ValueError(
            "`freeze_layers` and `unfreeze_epochs` require `init_checkpoint`: without one, the frozen layers would be "
            "random. Add it, or remove both."
        )
    return None if rates.is_default else rates


def _check_reinit(reinit_layers, init_checkpoint, rates):
    """Raises ValueError if random layers would be frozen, or if all layers are random anyway."""
    if not init_checkpoint:
        raise ValueError(
            f"`reinit_layers={reinit_layers}` requires `init_checkpoint`: without one, all weights are random "
            "anyway. Remove it."
        )
    free = 0 if rates.freeze_layers == ALL else rates.num_layers - rates.freeze_layers
    if reinit_layers > free:
        raise ValueError(
            f"`reinit_layers` must be at most {free}, the number of layers that are not frozen; got "
            f"{reinit_layers}."
        )


def count_layers(paths: Iterable[str]) -> int:
    """Returns the number of encoder layers with variables among `paths`."""
    matches = (re.fullmatch(_LAYER.format(r"(\d+)"), path) for path in paths)
    return len({match[1] for match in matches if match})


def top_layers(paths: Iterable[str], count: int) -> tuple[str, ...]:
    """Returns the path patterns of the top `count` layers and of the pooler.

    Raises:
        ValueError: the encoder has fewer layers.
    """
    total = count_layers(paths)
    if count > total:
        raise ValueError(f"`reinit_layers` must be at most {total}, the number of layers; got {count}.")
    return (*_layer_patterns(total)[total - count :], _POOLER)
