"""Learning rate of the word embeddings in pretraining, relative to all other weights."""

import dataclasses
from collections.abc import Iterable

from bert_tf.checkpoints.names.rows import WORDS


@dataclasses.dataclass(frozen=True)
class EmbeddingLrFactor:
    """Learning-rate factor of the word embeddings; used in `RunConfig.layer_rates` in place of `LayerRates`.

    Attributes:
        embedding_lr_factor: their learning rate divided by that of all other weights, 0 to 1; if 0, they are frozen and
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
        """Returns (pattern of a variable's path, learning-rate factor, first step) for `adamw.AdamW`."""
        return () if self.is_default else ((WORDS, self.embedding_lr_factor, 0),)

    def describe(self, num_train_steps: int) -> str:
        """Describes how a run trains them, in one line for the log."""
        factor = self.embedding_lr_factor
        return f"Word embeddings: {f'learning rate times {factor:g}' if factor else 'frozen'}."


def word_rate(embedding_lr_factor: float, is_random: bool) -> EmbeddingLrFactor | None:
    """Returns the word embeddings' learning-rate factor; None if it is the same as for all other weights.

    Args:
        embedding_lr_factor: as in `EmbeddingLrFactor`.
        is_random: whether they start from random numbers.

    Raises:
        ValueError: they would stay random.
    """
    if not embedding_lr_factor and is_random:
        raise ValueError(
            "`embedding_lr_factor=0` requires `start_embeddings=neighbors` or `init_checkpoint`: without either, "
            "the word embeddings would stay random."
        )
    return None if embedding_lr_factor == 1 else EmbeddingLrFactor(embedding_lr_factor)
