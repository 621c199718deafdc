"""The mean of a model's weights over the last steps: the result of a run, while training continues from the weights."""

import contextlib

import tensorflow as tf


class WeightAverage:
    """Running mean of the weights in which later steps count more.

        mean += k / (t + k - 1) * (weights - mean)        after step t = 1, 2, ...

    That is polynomial-decay averaging (Shamir and Zhang 2013, arXiv 1212.1824, section 4): the weights after step s
    count approximately as s ** (k - 1); Karras et al. 2024 (arXiv 2312.02696, section 3.1) describe the same curve.
    Unlike a plain mean over the last steps, it does not depend on where the run ends, so the mean in every checkpoint
    is usable; unlike an exponential mean of fixed length, it phases out the random start in runs of any length. On the
    flat part of a trapezoid schedule it brings part of the gain of the later decay (Hägele et al. 2024, arXiv
    2405.18392, section 4). Create it in the strategy's scope.

    Args:
        variables: the trainable Keras variables, float32.
        share: above 0, up to 1. It sets k = 2 / share - 1, which makes the mean as old on average as a plain mean over
            the last `share` of the steps made, that is, share / 2 of them. 1: the plain mean over all steps.

    Attributes:
        means: one variable for each of the model's.
    """

    def __init__(self, variables, share: float):
        assert 0 < share <= 1
        self.variables = list(variables)
        self.power = 2 / share - 1
        self.means = [tf.Variable(v.numpy(), trainable=False, name="mean") for v in self.variables]

    def begin(self):
        """Sets the means to the weights, before the first step of a run."""
        for variable, mean in zip(self.variables, self.means, strict=True):
            mean.assign(variable.value)

    def update(self, strategy, step, moved):
        """Adds the current weights to the means; call it in the graph of the step, outside the replicas.

        Args:
            strategy: the current one.
            step: int [], number of steps, including this one.
            moved: float32 [], 1, or 0 if this step was skipped and so does not count.
        """
        share = moved * self.power / (tf.maximum(tf.cast(step, tf.float32), 1.0) + self.power - 1)
        for variable, mean in zip(self.variables, self.means, strict=True):
            strategy.extended.update(mean, _approach, args=(variable.value, share), group=False)

    def exchange(self):
        """Swaps the means with the model's weights, from which training continues; a second call swaps them back."""
        for variable, mean in zip(self.variables, self.means, strict=True):
            weights = variable.numpy()
            variable.assign(mean.numpy())
            mean.assign(weights)

    @contextlib.contextmanager
    def in_place(self):
        """Context manager in which the model has the mean weights."""
        self.exchange()
        try:
            yield
        finally:
            self.exchange()


def _approach(mean, weights, share):
    mean.assign_add(share * (weights - mean))
