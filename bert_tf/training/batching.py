"""Examples that lie tokenized in memory, as the batches that a job trains on and scores."""

import dataclasses
from collections.abc import Callable

from bert_tf.data import dataset
from bert_tf.training import distribution
from bert_tf.training.loop import RunConfig
from bert_tf.training.scoring import Scoring

# XLA compiles a program for every shape: then a few widths are better than many.
_XLA_WIDTHS = 4


@dataclasses.dataclass(frozen=True)
class Batching:
    """How batches are made of examples.

    Attributes:
        max_seq_length: longest row.
        by_length: batches of similar lengths, padded to their longest.
        use_xla: a few widths only.
    """

    max_seq_length: int
    by_length: bool = True
    use_xla: bool = False

    def training(self, examples: dataset.Tokenized, run: RunConfig) -> Callable:
        """Returns the batches of the run from any step on, as `loop.fit` takes them."""
        step = run.train_batch_size, run.num_train_steps, run.step.seed
        order = dataset.training_order(examples.lengths, *step, self.by_length)
        return lambda start: self._batches(examples, order[start:])

    def scoring(self, examples: dataset.Tokenized, batch_size: int) -> Scoring:
        """Returns each example once, `batch_size` at a time."""
        distribution.check_batch_size(batch_size, 1, "The batch size of evaluation and prediction")
        order = dataset.scoring_order(examples.lengths, batch_size, self.by_length)
        return Scoring(lambda: self._batches(examples, order), order, examples)

    def _batches(self, examples, order):
        step = -(-self.max_seq_length // _XLA_WIDTHS) if self.use_xla else dataset.WIDTH_STEP
        return dataset.batches(examples, order, self.max_seq_length, self.by_length, step)
