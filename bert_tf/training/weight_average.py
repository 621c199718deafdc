"""The mean of a model's weights over the last steps, which is a run's result while training goes on from the others."""

import contextlib

import tensorflow as tf


class WeightAverage:
    """A mean in which the weights after a step count the more the later the step is.

        mean += k / (t + k - 1) * (weights - mean)        after step t = 1, 2, ...

    That is polynomial-decay averaging (Shamir and Zhang 2013, arXiv 1212.1824, section 4): the weights after step s
    count as s ** (k - 1), nearly; Karras et al. 2024 (arXiv 2312.02696, section 3.1) describe the same curve. Unlike a
    plain mean over the last steps it need not know where the run ends, so every checkpoint's is good, and unlike an
    exponential mean of fixed length it forgets the random start at any length of the run. On the flat part of a
    trapezoid it gives a part of what the fall will bring (Hägele et al. 2024, arXiv 2405.18392, section 4). To be made
    in the strategy's scope.

    Args:
        variables: Keras variables, float32: those that training moves.
        share: above 0, up to 1: k = 2 / share - 1, with which the mean is as old as a plain one over the last `share`
            of the steps made, share / 2 of them. 1: the plain mean over all.

    Attributes:
        means: a variable for each of the model's.
    """

    def __init__(self, variables, share: float):
        assert 0 < share <= 1
        self.variables = list(variables)
        self.power = 2 / share - 1
        self.means = [tf.Variable(v.numpy(), trainable=False, name="mean") for v in self.variables]

    def begin(self):
        """Lets the means be the weights: of a run that has made no step yet."""
        for variable, mean in zip(self.variables, self.means, strict=True):
            mean.assign(variable.value)

    def update(self, strategy, step, moved):
        """Takes the weights in; to be called outside of the replicas, in the graph of the step.

        Args:
            strategy: the current one.
            step: int [], steps made, this one counted in.
            moved: float32 [], 1; or 0 where this step was skipped, which then does not count.
        """
        share = moved * self.power / (tf.maximum(tf.cast(step, tf.float32), 1.0) + self.power - 1)
        for variable, mean in zip(self.variables, self.means, strict=True):
            strategy.extended.update(mean, _approach, args=(variable.value, share), group=False)

    def exchange(self):
        """Puts the means into the model, and the weights that training goes on from in their place; and back."""
        for variable, mean in zip(self.variables, self.means, strict=True):
            weights = variable.numpy()
            variable.assign(mean.numpy())
            mean.assign(weights)

    @contextlib.contextmanager
    def in_place(self):
        """Inside, the model computes with the means."""
        self.exchange()
        try:
            yield
        finally:
            self.exchange()


def _approach(mean, weights, share):
    mean.assign_add(share * (weights - mean))
