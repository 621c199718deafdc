"""Examples that lie tokenized in memory, as the batches that a job trains on and scores."""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from bert_tf.data import dataset
from bert_tf.training import distribution
from bert_tf.training.loop import RunConfig
from bert_tf.training.scoring import Scoring
from bert_tf.utils.settings import Settings

# XLA compiles a program for every shape: then a few widths are better than many.
_XLA_WIDTHS = 4


@dataclasses.dataclass(frozen=True)
class Batching:
    """How batches are made of examples.

    Attributes:
        max_seq_length: longest row.
        by_length: batches of similar lengths, padded to their longest.
        use_xla: a few widths only.
        pool_batches: so many training batches are sorted by length together; None: `dataset.usual_pool`.
    """

    max_seq_length: int
    by_length: bool = True
    use_xla: bool = False
    pool_batches: int | None = None

    def training(self, examples: dataset.Tokenized, run: RunConfig) -> Callable:
        """Returns the batches of the run from any step on, as `loop.fit` takes them."""
        order = self._training_order(examples, run)
        return lambda start: self._batches(examples, order[start:])

    def sizes(self, examples: dataset.Tokenized, run: RunConfig) -> tuple[np.ndarray, np.ndarray]:
        """Returns how large the batches of the run are: int64 [steps] rows of each, and int64 [steps] their widths."""
        order = self._training_order(examples, run)
        rows, longest = examples.row_counts[order].sum(1), examples.longest_rows[order].max(1)
        step = self._width_step
        widths = np.minimum(-(-longest // step) * step, self.max_seq_length)
        return rows, widths if self.by_length else np.full_like(widths, self.max_seq_length)

    def scoring(self, examples: dataset.Tokenized, batch_size: int) -> Scoring:
        """Returns each example once, `batch_size` at a time."""
        distribution.check_batch_size(batch_size, 1, "The batch size of evaluation and prediction")
        order = dataset.scoring_order(examples.lengths, batch_size, self.by_length)
        return Scoring(lambda: self._batches(examples, order), order, examples)

    def sample(self, examples: dataset.Tokenized, most: int, seed: int, batch_size: int) -> tf.data.Dataset:
        """Returns some of the examples, or all where there are no more, in batches of similar lengths.

        Args:
            examples: to be drawn from.
            most: how many at most.
            seed: of the draw.
            batch_size: of a batch; the last one is filled up with the first examples again.
        """
        count = min(most, len(examples))
        drawn = dataset.training_order(examples.lengths, count, 1, seed, by_length=False)[0]
        drawn = drawn[np.argsort(examples.lengths[drawn], kind="stable")]
        return self._batches(examples, np.resize(drawn, (-(-count // batch_size), batch_size)))

    def _training_order(self, examples, run):
        step = run.train_batch_size, run.num_train_steps, run.step.seed
        return dataset.training_order(examples.lengths, *step, self.by_length, self.pool_batches)

    @property
    def _width_step(self):
        return -(-self.max_seq_length // _XLA_WIDTHS) if self.use_xla else dataset.WIDTH_STEP

    def _batches(self, examples, order):
        return dataset.batches(examples, order, self.max_seq_length, self.by_length, self._width_step)


def batching_of(settings: Settings, use_xla: bool) -> Batching:
    """Returns what the settings `max_seq_length`, `bucket_by_length` and `bucket_batches` say.

    Raises:
        ValueError: the number of batches was given, but nothing is sorted.
    """
    by_length = settings.bucket_by_length
    if not by_length and "bucket_batches" in settings.given:
        raise ValueError(
            "`bucket_batches` must come with `bucket_by_length`. Received `bucket_by_length=false` with it; leave one "
            "of them out."
        )
    return Batching(settings.max_seq_length, by_length, use_xla, settings.get("bucket_batches"))
