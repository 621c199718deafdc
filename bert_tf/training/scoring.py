"""A model over a whole file of examples: outputs in the order of the file, and scores."""

import numpy as np
import tensorflow as tf

from bert_tf.training import distribution


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

    def outputs(self, batches, order) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns (outputs [n, ...], losses [n] where the batches have targets), in the examples' own order.

        Args:
            batches: dicts of tensors, one for each row of `order`.
            order: int [steps, B], the example in each place or -1, from `scoring_order`.
        """
        rows, results = order.reshape(-1), []
        for batch in batches:
            results.append([distribution.collect(value) for value in self._run(batch)])
        real = rows >= 0
        places = np.argsort(rows[real], kind="stable")
        merged = [np.concatenate(parts)[real][places] for parts in zip(*results, strict=True)]
        return merged[0], merged[1] if len(merged) > 1 else None

    def scores(self, batches, order, targets) -> dict[str, float]:
        """Returns the task's metrics and the mean `loss` over all examples."""
        outputs, losses = self.outputs(batches, order)
        return {**self.task.metrics(outputs, targets), "loss": float(np.mean(losses, dtype=np.float64))}

    def _distributed(self, batch):
        return tf.distribute.get_strategy().run(lambda whole: self._forward(distribution.share(whole)), args=(batch,))

    def _outputs(self, batch):
        outputs = self.model({k: batch[k] for k in self.task.features}, training=False)
        if not batch.keys() - set(self.task.features) - {"is_real_example"}:
            return [outputs]
        return [outputs, self.task.example_losses(outputs, batch)]
