"""A model over a whole file of examples: outputs in the order of the file, and scores."""

import numpy as np
import tensorflow as tf

from bert_tf.training import distribution

_NO_TARGETS = {"is_real_example", "context_mask"}  # what a batch may have besides the model's inputs and the targets


class Predictor:
    """Runs a task's model without training it, on the current strategy.

    Args:
        task: see `tasks/task.py`.
        model: what its `build_model` returned.
        use_xla: compile the forward pass.
    """

    def __init__(self, task, model, use_xla: bool = False):
        self.task = task
        self.model = model
        self._forward = tf.function(self._outputs, jit_compile=use_xla or None)
        self._run = distribution.traced_once(self._distributed)

    def outputs(self, batches, order) -> tuple:
        """Returns what the task keeps of its outputs, and losses [n] where the batches have targets, else None.

        The first is what `Task.collected` gives, an array [n, ...] or a dict of them; both are in the examples' own
        order.

        Args:
            batches: dicts of tensors, one for each row of `order`.
            order: int [steps, B], the example in each place or -1, from `scoring_order`.
        """
        rows, results = order.reshape(-1), []
        for batch in batches:
            results.append(tf.nest.map_structure(distribution.collect, self._run(batch)))
        real = rows >= 0
        places = np.argsort(rows[real], kind="stable")
        merged = tf.nest.map_structure(lambda *parts: np.concatenate(parts)[real][places], *results)
        return merged["outputs"], merged.get("losses")

    def scores(self, batches, order, targets) -> dict[str, float]:
        """Returns the task's metrics and the mean `loss` over all examples."""
        outputs, losses = self.outputs(batches, order)
        return {**self.task.metrics(outputs, targets), "loss": float(np.mean(losses, dtype=np.float64))}

    def _distributed(self, batch):
        return tf.distribute.get_strategy().run(lambda whole: self._forward(distribution.share(whole)), args=(batch,))

    def _outputs(self, batch):
        outputs = self.model({k: batch[k] for k in self.task.features}, training=False)
        kept = {"outputs": self.task.collected(outputs, batch)}
        if not batch.keys() - set(self.task.features) - _NO_TARGETS:
            return kept
        return kept | {"losses": self.task.example_losses(outputs, batch)}
