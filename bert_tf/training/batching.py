"""Batches of tokenized examples in memory, for training and evaluation."""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from bert_tf.data import batch_order, dataset
from bert_tf.data.fixed_rows import usual_shares
from bert_tf.training.run_config import RunConfig
from bert_tf.training.scoring import EvalBatches
from bert_tf.training.strategies import check_batch_size

# XLA compiles a program for every shape: a few widths are then better than many.
_XLA_WIDTHS = 4
_SAMPLE = 256  # batches that decide the numbers of packed rows; each takes some milliseconds


@dataclasses.dataclass(frozen=True)
class BatchSettings:
    """How tokenized examples are batched: their order and widths.

    Attributes:
        max_seq_length: longest sequence.
        by_length: group sequences of similar lengths, and pad each batch to its longest.
        use_xla: a few widths only.
        pool_batches: this many training batches are sorted by length together; None for `batch_order.usual_pool`.
        packs: the training step packs examples. With `use_xla`, training batches then all have the width of the longest
            example: the number of packed rows is what differs.
    """

    max_seq_length: int
    by_length: bool = True
    use_xla: bool = False
    pool_batches: int | None = None
    packs: bool = False

    def training(self, examples: dataset.EncodedDataset, run: RunConfig) -> Callable:
        """Returns the batches of the run from any step on, for `Trainer.fit`."""
        order, batching = self._training_order(examples, run), self._for_training(examples)
        return lambda start: batching._batches(examples, order[start:])

    def sizes(self, examples: dataset.EncodedDataset, run: RunConfig) -> tuple[np.ndarray, np.ndarray]:
        """Returns the sizes of the run's batches: int64 [steps] rows, and int64 [steps] widths."""
        order, batching = self._training_order(examples, run), self._for_training(examples)
        rows, longest = examples.row_counts[order].sum(1), examples.longest_rows[order].max(1)
        step, most = batching._width_step, batching.max_seq_length
        return rows, np.minimum(-(-longest // step) * step, most) if batching.by_length else np.full_like(longest, most)

    def packed_shares(self, examples: dataset.EncodedDataset, run: RunConfig) -> tuple[float, ...]:
        """Returns `StepConfig.packed_shares` that suit a sample of the run's batches; a strategy's scope matters."""
        order, width = self._training_order(examples, run), self._for_training(examples).max_seq_length
        some = order[:: -(-len(order) // _SAMPLE)]
        masks = (examples.inputs(rows, lambda lengths: width)["input_mask"] for rows in some)
        return usual_shares(masks, tf.distribute.get_strategy().num_replicas_in_sync * run.step.accumulation)

    def scoring(self, examples: dataset.EncodedDataset, batch_size: int) -> EvalBatches:
        """Returns each example once, `batch_size` at a time."""
        check_batch_size(batch_size, 1, "The batch size of evaluation and prediction")
        order = batch_order.scoring_order(examples.lengths, batch_size, self.by_length)
        return EvalBatches(lambda: self._batches(examples, order), order, examples)

    def sample(self, examples: dataset.EncodedDataset, most: int, seed: int, batch_size: int) -> tf.data.Dataset:
        """Returns up to `most` examples, drawn at random, in batches of similar lengths.

        Args:
            examples: to draw from.
            most: the maximum number.
            seed: random seed of the draw.
            batch_size: the last batch is filled up with the first examples.
        """
        count = min(most, len(examples))
        drawn = batch_order.training_order(examples.lengths, count, 1, seed, by_length=False)[0]
        drawn = drawn[np.argsort(examples.lengths[drawn], kind="stable")]
        return self._batches(examples, np.resize(drawn, (-(-count // batch_size), batch_size)))

    def _for_training(self, examples):
        if not (self.packs and self.use_xla):
            return self
        width = dataset.width_of(examples.longest_rows, self.max_seq_length)
        return dataclasses.replace(self, max_seq_length=width, by_length=False)

    def _training_order(self, examples, run):
        step = run.train_batch_size, run.num_train_steps, run.step.seed
        return batch_order.training_order(examples.lengths, *step, self.by_length, self.pool_batches)

    @property
    def _width_step(self):
        return -(-self.max_seq_length // _XLA_WIDTHS) if self.use_xla else dataset.WIDTH_STEP

    def _batches(self, examples, order):
        return dataset.build_batches(examples, order, self.max_seq_length, self.by_length, self._width_step)
