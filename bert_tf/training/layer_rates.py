"""Layer-wise learning rates: which layers of an encoder are trained, from which step on, and at which learning rate.

Layers are identified by their variables' paths, google-research/bert's, and by these depths, with L layers:

    bert/embeddings/...         0         (and the map to the width of the layers, if any, as in ELECTRA's code)
    bert/encoder/layer_N/...    N + 1     (and, with the first, the convolution, if any)
    all else: pooler, head      L + 1     (and the norm after the last block, if any)
"""

import dataclasses
import re
from collections.abc import Iterable

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
        unfreeze_steps: depth j trains from step unfreeze_steps * (L + 1 - j) on, counted from 0; if 0, all train from
            the start.

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
        if isinstance(self.freeze_layers, str):
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
        """Returns (pattern of a variable's path, learning-rate factor, first step) for `adamw.AdamW`."""
        down, decay = range(self.num_layers + 1, 0, -1), self.layerwise_lr_decay
        return tuple((p, decay**n, self.unfreeze_steps * n) for p, n in zip(self._patterns(), down, strict=True))

    def describe(self, num_train_steps: int) -> str:
        """Describes how a run of this many steps trains each layer, in one line for the log."""
        top, frozen, decay = self.num_layers + 1, self.freeze_layers, self.layerwise_lr_decay
        count = 0 if isinstance(frozen, str) else frozen
        parts = []
        if frozen:
            whole = frozen == ALL
            parts.append("frozen: the encoder" if whole else f"frozen: the embeddings and {frozen} of the layers")
        if decay < 1:
            parts.append(f"learning rate: times {decay:g} per layer, {decay**top:.3g} at the embeddings")
        if self.unfreeze_steps:
            never = sum(first >= num_train_steps for _, _, first in self.rules()[count + bool(count) :])
            parts.append(f"unfreezing: one more layer from the top every {self.unfreeze_steps} steps")
            parts += [f"{never} of them, the lowest, NEVER in these {num_train_steps} steps"] if never else []
        return f"Layers: {'; '.join(parts) or 'all train alike'}."

    def _patterns(self):
        """Returns the path pattern of each depth from 0 to L."""
        return [_EMBEDDINGS, *_layer_patterns(self.num_layers)]


def _layer_patterns(num_layers):
    return [_FIRST, *(_LAYER.format(n) for n in range(1, num_layers))]


def layer_rates(config, run, num_layers: int, num_examples: int) -> LayerRates | None:
    """Returns which layers train and at which learning rate; None if all are alike.

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
