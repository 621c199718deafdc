"""A task's scores over batches that are too large to be kept: sums are added up on the way."""

import collections

import tensorflow as tf

from bert_tf.training import distribution


class Evaluator:
    """Scores a task that has `sums` and `scores`, on the current strategy.

    Args:
        task: `sums(outputs, batch)` -> {name: float32 []}, which add up over batches and parts of them;
            `scores({name: float})` -> {metric: float}.
        model: what its `build_model` returned.
        use_xla: compile the forward pass.
    """

    def __init__(self, task, model, use_xla: bool = False):
        self.task = task
        self.model = model
        self._forward = tf.function(self._sums, jit_compile=use_xla or None)
        self._run = distribution.traced_once(self._distributed)

    def scores(self, batches) -> dict[str, float]:
        """Returns the task's scores over all batches (dicts of tensors [B, ...])."""
        totals = collections.Counter()
        for batch in batches:
            totals.update({name: float(value) for name, value in self._run(batch).items()})
        return self.task.scores(totals)

    def _distributed(self, batch):
        strategy = tf.distribute.get_strategy()
        results = strategy.run(self._replica, args=(batch,))
        return {name: strategy.experimental_local_results(value)[0] for name, value in results.items()}

    def _replica(self, batch):
        sums = self._forward(distribution.share(batch))
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, sums)

    def _sums(self, batch):
        outputs = self.model({name: batch[name] for name in self.task.features}, training=False)
        return self.task.sums(outputs, batch)
