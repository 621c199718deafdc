"""Which layers of an encoder move in fine-tuning, from which step on, and how fast.

Layers are told by the paths of their variables, google-research/bert's, and by these depths, L being their number:

    bert/embeddings/...         0
    bert/encoder/layer_N/...    N + 1
    all else: pooler, head      L + 1     (and the norm behind the last block, where there is one)
"""

import dataclasses
import re
from collections.abc import Iterable

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
        freeze_layers: so many blocks, from the bottom, and the embeddings never move; 0: nothing is frozen, and "all":
            the whole encoder with its pooler, so that the head alone is trained.
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
                f"`freeze_layers` must be `all` or a number from 0 to the model's layers, {self.num_layers}. "
                f"Received: {frozen}."
            )
        if not 0 < decay <= 1:
            raise ValueError(
                f"`layerwise_lr_decay` must be above 0 and at most 1. Received: {decay}; to keep layers as they are, "
                "pass `freeze_layers`."
            )
        assert self.unfreeze_steps >= 0
        for name, given in (("unfreeze_epochs", self.unfreeze_steps), ("layerwise_lr_decay", decay < 1)):
            if given and frozen in (ALL, self.num_layers):
                raise ValueError(
                    f"`{name}` must have a layer that is not frozen. Received it with `freeze_layers={frozen}`; "
                    "pass one of the two."
                )

    def identity(self) -> dict:
        """Returns what a run that is continued must have alike, by the names that earlier runs wrote down."""
        names = {"freeze_layers": "freeze", "layerwise_lr_decay": "decay"}
        return {names.get(name, name): value for name, value in dataclasses.asdict(self).items()}

    @property
    def is_default(self) -> bool:
        """Whether all layers move from the start with one rate."""
        return self == LayerRates(self.num_layers)

    def is_frozen(self, path: str) -> bool:
        """Says whether the variable at `path` never moves."""
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
        """Returns (pattern of the variable's path, factor of the rate, first step), as `optimizer.AdamW` takes them."""
        down, decay = range(self.num_layers + 1, 0, -1), self.layerwise_lr_decay
        return tuple((p, decay**n, self.unfreeze_steps * n) for p, n in zip(self._patterns(), down, strict=True))

    def describe(self, num_train_steps: int) -> str:
        """Returns what a run of so many steps does with the layers, in one line for the log."""
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
        raise ValueError(f"`reinit_layers` must be at most the model's layers, {total}. Received: {count}.")
    return (*(_LAYER.format(n) for n in range(total - count, total)), _POOLER)
