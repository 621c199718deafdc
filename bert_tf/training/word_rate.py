"""How fast the word embeddings move in pretraining, beside all other weights."""

import dataclasses
from collections.abc import Iterable

from bert_tf.checkpoints.names.table import WORDS


@dataclasses.dataclass(frozen=True)
class WordRate:
    """The rate of the word embeddings; stands in `RunConfig.layer_rates` where `LayerRates` may stand.

    Attributes:
        embedding_lr_factor: of the rate of all else, 0 to 1; 0: they stay as they began, have no gradient and no
            slots, and a step is faster by these.
    """

    embedding_lr_factor: float = 1.0

    def __post_init__(self):
        assert 0 <= self.embedding_lr_factor <= 1

    def identity(self) -> dict:
        """Returns what a run that is continued must have alike."""
        return dataclasses.asdict(self)

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
        """Returns (pattern of the variable's path, factor of the rate, first step), as `optimizer.AdamW` takes them."""
        return () if self.is_default else ((WORDS, self.embedding_lr_factor, 0),)

    def describe(self, num_train_steps: int) -> str:
        """Returns what a run does with them, in one line for the log."""
        factor = self.embedding_lr_factor
        return f"Word embeddings: {f'rates times {factor:g}' if factor else 'they stay as they begin'}."
