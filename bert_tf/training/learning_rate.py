"""The learning rate of a run: its peak by a range test, its schedule, its factors for layers and word embeddings."""

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
# How the learning rate moves over a run.


class _Warmup(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly from 0 to `learning_rate` over the warm-up; what follows is `decayed` of a subclass.

    The first step of a warm-up has rate 0, as in google-research/bert's optimization.py.
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
        """Returns the rate, float32 [], at a step, float32 [], after the warm-up."""
        raise NotImplementedError

    def since_warmup(self, step):
        """Returns the share of the steps after warmup that is done: float32 [], from 0 to 1."""
        after = max(self.num_train_steps - self.num_warmup_steps, 1)
        return tf.clip_by_value((step - self.num_warmup_steps) / after, 0.0, 1.0)

    def get_config(self):
        return config_of_arguments(self)


@keras.saving.register_keras_serializable("bert_tf")
class WarmupLinearDecay(_Warmup):
    """Rises linearly to `learning_rate` over the warm-up, then falls linearly to 0.

    As in google-research/bert's optimization.py, the decay is counted from step 0 and the first step of a warm-up has
    rate 0:

        rate(t) = learning_rate * t / num_warmup_steps        for t < num_warmup_steps
        rate(t) = learning_rate * (1 - t / num_train_steps)   from there on

    Args:
        learning_rate: the peak that the rising line aims at.
        num_train_steps: the step at which the rate is 0.
        num_warmup_steps: 0 for no warm-up.
    """

    def decayed(self, step):
        return self.learning_rate * (1 - tf.minimum(step / max(self.num_train_steps, 1), 1.0))


@keras.saving.register_keras_serializable("bert_tf")
class WarmupPolynomialDecay(_Warmup):
    """Rises linearly to `learning_rate`, then falls to 0 as a power of the steps that are left.

        rate(t) = learning_rate * ((num_train_steps - t) / (num_train_steps - num_warmup_steps)) ** power

    The decay starts at the peak, without the small drop of `WarmupLinearDecay`. This is the schedule of NVIDIA's
    LAMB recipe for BERT (DeepLearningExamples, optimization.py), and so is the default power.

    Args:
        learning_rate, num_train_steps, num_warmup_steps: as of `WarmupLinearDecay`; here the peak is reached.
        power: 1 for a straight line; below 1 the rate stays high for longer.
    """

    def __init__(self, learning_rate, num_train_steps, num_warmup_steps=0, power=0.5):
        super().__init__(learning_rate, num_train_steps, num_warmup_steps)
        self.power = power

    def decayed(self, step):
        return self.learning_rate * (1 - self.since_warmup(step)) ** self.power


@keras.saving.register_keras_serializable("bert_tf")
class WarmupCosineDecay(_Warmup):
    """Rises linearly to `learning_rate`, then falls to 0 along half a cosine wave.

        rate(t) = learning_rate * (1 + cos(pi * (t - num_warmup_steps) / (num_train_steps - num_warmup_steps))) / 2

    One cycle of Loshchilov and Hutter 2017 (arXiv 1608.03983), equation 5.

    Args:
        learning_rate, num_train_steps, num_warmup_steps: as of `WarmupLinearDecay`; here the peak is reached.
    """

    def decayed(self, step):
        return self.learning_rate * (1 + tf.cos(math.pi * self.since_warmup(step))) / 2


@keras.saving.register_keras_serializable("bert_tf")
class WarmupTrapezoid(_Warmup):
    """Rises linearly to `learning_rate`, stays there, and falls linearly to 0 over the last steps.

        rate(t) = learning_rate * min(t / num_warmup_steps, 1, (num_train_steps - t) / num_decay_steps)

    A run's checkpoints from the flat part can be trained for longer, since nothing there depends on where the end is
    (Hägele et al. 2024, arXiv 2405.18392, section 3).

    Args:
        learning_rate, num_train_steps, num_warmup_steps: as of `WarmupLinearDecay`; here the peak is reached.
        num_decay_steps: length of the fall; None: a fifth of the run.
    """

    def __init__(self, learning_rate, num_train_steps, num_warmup_steps=0, num_decay_steps=None):
        super().__init__(learning_rate, num_train_steps, num_warmup_steps)
        self.num_decay_steps = num_train_steps // 5 if num_decay_steps is None else num_decay_steps

    def __call__(self, step):  # a fall that begins within the warm-up cuts the rise short
        return tf.minimum(super().__call__(step), self.decayed(tf.cast(step, tf.float32)))

    def decayed(self, step):
        left = (self.num_train_steps - step) / max(self.num_decay_steps, 1)
        return self.learning_rate * tf.clip_by_value(left, 0.0, 1.0)


@keras.saving.register_keras_serializable("bert_tf")
class ExponentialRise(keras.optimizers.schedules.LearningRateSchedule):
    """Rises from one rate to another by the same factor from step to step, for a range test.

        rate(t) = lowest * (highest / lowest) ** (t / (num_steps - 1))

    Args:
        lowest: the rate of step 0.
        highest: that of step `num_steps` - 1, and of later ones.
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
    """Returns how the rate moves over a run, a `RunConfig`."""
    return SCHEDULES[run.schedule](run.learning_rate, run.num_train_steps, run.num_warmup_steps)


# === Range test ===
# What `learning_rate=auto` makes of a test at rising rates; `fine_tuning.measure_lr_range` makes the test.


_BELL_WIDTH = 3.0  # steps: standard deviation of the bell curve that the losses are smoothed with
_FEWEST = 10  # steps without which a curve says nothing


@dataclasses.dataclass(frozen=True)
class RangeTest:
    """The curve of a range test, and what is made of it.

    The rule looks for the edge beyond which training comes apart, since that is where curves of all tasks agree: the
    last step whose smoothed loss is at most 1.1 times the least one. The run's rate is a twelfth of the edge's, to
    two digits. Neither the least loss nor the steepest fall says as much: in so few steps they follow the luck of the
    batches, and how large the logits of the new head happen to be.

    Attributes:
        rates: of each step, rising.
        losses: of each step's batch, before it moved the weights; finite.

    Raises:
        ValueError: there are too few steps.
    """

    RISE: ClassVar = 1.1  # so many times the least smoothed loss is too much
    BELOW: ClassVar = 12  # the rate is that of the edge divided by this

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
        """float64 [steps]: the losses, each the mean of its neighbours, weighted by a bell curve."""
        steps = np.arange(len(self.losses))
        weights = np.exp(-0.5 * ((steps[:, None] - steps) / _BELL_WIDTH) ** 2)
        return weights @ np.asarray(self.losses, np.float64) / weights.sum(1)

    @property
    def edge(self) -> float:
        """The highest rate at which the loss was still good."""
        smoothed = self.smoothed
        return float(self.rates[np.flatnonzero(smoothed <= self.RISE * smoothed.min())[-1]])

    @property
    def learning_rate(self) -> float:
        """The rate that the run is to have."""
        return float(f"{self.edge / self.BELOW:.1e}")

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON values, of which the first two make the same test again."""
        return {**dataclasses.asdict(self), "edge": self.edge, "learning_rate": self.learning_rate}


# === Word rate ===
# How fast the word embeddings move in pretraining, compared with all other weights.


@dataclasses.dataclass(frozen=True)
class WordRate:
    """The rate of the word embeddings; stands in `RunConfig.layer_rates` where `LayerRates` may stand.

    Attributes:
        embedding_lr_factor: their rate divided by that of all other weights, 0 to 1; 0: they stay as they began and
            need no gradient and no slots, which makes a step faster.
    """

    embedding_lr_factor: float = 1.0

    def __post_init__(self):
        assert 0 <= self.embedding_lr_factor <= 1

    @property
    def is_default(self) -> bool:
        """Whether they move as all else does."""
        return self.embedding_lr_factor == 1

    def freeze_in(self, variables: Iterable):
        """Makes them untrainable where they stay as they began."""
        for variable in variables:
            if self.embedding_lr_factor == 0 and variable.path == WORDS:
                variable.trainable = False

    def rules(self) -> tuple[tuple[str, float, int], ...]:
        """Returns (pattern of a variable's path, factor of the rate, first step), as `optimizers.AdamW` takes them."""
        return () if self.is_default else ((WORDS, self.embedding_lr_factor, 0),)

    def describe(self, num_train_steps: int) -> str:
        """Returns what a run does with them, in one line for the log."""
        factor = self.embedding_lr_factor
        return f"Word embeddings: {f'rates times {factor:g}' if factor else 'they stay as they begin'}."


def word_rate(embedding_lr_factor: float, is_random: bool) -> WordRate | None:
    """Returns how fast the word embeddings move; None: as all else.

    Args:
        embedding_lr_factor: of `WordRate`.
        is_random: whether they start from random numbers.

    Raises:
        ValueError: they would stay what they are, but are random.
    """
    if not embedding_lr_factor and is_random:
        raise ValueError(
            "`embedding_lr_factor=0` requires `start_embeddings=neighbours` or `init_checkpoint`: without either, "
            "the word embeddings would stay random."
        )
    return None if embedding_lr_factor == 1 else WordRate(embedding_lr_factor)


# === Layer rates ===
# Which layers of an encoder move in fine-tuning, from which step on, and how fast.
#
# Layers are known by the paths of their variables, google-research/bert's, and by these depths, L being their number:
#
#     bert/embeddings/...         0
#     bert/encoder/layer_N/...    N + 1
#     all else: pooler, head      L + 1     (and the norm behind the last block, where there is one)


ALL = "all"
_EMBEDDINGS = r"bert/embeddings/.*"
_LAYER = r"bert/encoder/layer_{}/.*"
_POOLER = r"bert/pooler/.*"
_ENCODER = r"bert/.*"


@dataclasses.dataclass(frozen=True)
class LayerRates:
    """Howard and Ruder 2018 (ULMFiT, arXiv 1801.06146): sections 3.2, discriminative rates, and 3.3, unfreezing.

    Attributes:
        num_layers: L, the encoder's blocks.
        freeze_layers: how many blocks, counted from the bottom, are frozen along with the embeddings; 0 freezes
            nothing, and "all" freezes the whole encoder with its pooler, so that the head alone is trained.
        layerwise_lr_decay: depth j has the rate times this ** (L + 1 - j). ELECTRA's (Clark et al. 2020, appendix B)
            counts so too, but has the topmost block at this ** 2.
        unfreeze_steps: depth j moves from step unfreeze_steps * (L + 1 - j) on, steps being counted from 0; 0: all
            move from the start.

    Raises:
        ValueError: one is out of range, or two of them contradict each other.
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
        """Whether all layers move from the start with one rate."""
        return self == LayerRates(self.num_layers)

    def is_frozen(self, path: str) -> bool:
        """Returns whether the variable at `path` never moves."""
        if self.freeze_layers == ALL:
            return bool(re.fullmatch(_ENCODER, path))
        frozen = self._patterns()[: self.freeze_layers + 1] if self.freeze_layers else []
        return any(re.fullmatch(pattern, path) for pattern in frozen)

    def freeze_in(self, variables: Iterable):
        """Makes the frozen ones of a model's Keras variables untrainable: they get no gradient and no slots."""
        variables = list(variables)
        assert count_layers(v.path for v in variables) == self.num_layers, "these are the rates of another model"
        for variable in variables:
            if self.is_frozen(variable.path):
                variable.trainable = False

    def rules(self) -> tuple[tuple[str, float, int], ...]:
        """Returns (pattern of a variable's path, factor of the rate, first step), as `optimizers.AdamW` takes them."""
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
            parts.append(f"rates: times {decay:g} from layer to layer, {decay**top:.3g} at the embeddings")
        if self.unfreeze_steps:
            never = sum(first >= num_train_steps for _, _, first in self.rules()[frozen + bool(frozen) :])
            parts.append(f"unfreezing: one more layer from the top each {self.unfreeze_steps} steps")
            parts += [f"{never} of them, the lowest, NEVER in these {num_train_steps} steps"] if never else []
        return f"Layers: {'; '.join(parts) or 'all move alike'}."

    def _patterns(self):
        """Returns the pattern of each depth from 0 to L."""
        return [_EMBEDDINGS, *(_LAYER.format(n) for n in range(self.num_layers))]


def layer_rates(config, run, num_layers: int, num_examples: int) -> LayerRates | None:
    """Returns which layers move and how fast; None: all alike.

    Args:
        config: a `FineTuningConfig`.
        run: a `RunConfig` with its batch size and the weights to start from.
        num_layers: the encoder's blocks.
        num_examples: to train on; 0 when nothing is trained.

    Raises:
        ValueError: a setting is out of range for this model, or two of them contradict each other.
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
    """Raises ValueError if layers would start from random weights and stay so, or all of them would anyway."""
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
    """Returns the number of the encoder's blocks that have variables among `paths`."""
    matches = (re.fullmatch(_LAYER.format(r"(\d+)"), path) for path in paths)
    return len({match[1] for match in matches if match})


def top_layers(paths: Iterable[str], count: int) -> tuple[str, ...]:
    """Returns the patterns of the top `count` blocks and of the pooler.

    Raises:
        ValueError: there are not so many blocks.
    """
    total = count_layers(paths)
    if count > total:
        raise ValueError(f"`reinit_layers` must be at most {total}, the number of layers; got {count}.")
    return (*(_LAYER.format(n) for n in range(total - count, total)), _POOLER)
