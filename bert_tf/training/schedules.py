"""Learning-rate schedules: the learning rate over a run, and the schedules by name."""

import math

import keras
import tensorflow as tf

from bert_tf.models.layers import config_of_arguments


class _Warmup(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly from 0 to `learning_rate` during warmup; a subclass defines the rest in `decayed`.

    The first step of warmup has learning rate 0, as in google-research/bert's optimization.py.
    """

    def __init__(self, learning_rate, num_train_steps, num_warmup_steps=0):
        self.learning_rate = learning_rate
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        rising = self.learning_rate * step / max(self.num_warmup_steps, 1)
        return tf.where(step < self.num_warmup_steps, rising, self.decayed(step))

    def decayed(self, step):
        """Returns the learning rate, float32 [], at a step after warmup, float32 []."""
        raise NotImplementedError

    def since_warmup(self, step):
        """Returns the completed fraction of the steps after warmup: float32 [], from 0 to 1."""
        after = max(self.num_train_steps - self.num_warmup_steps, 1)
        return tf.clip_by_value((step - self.num_warmup_steps) / after, 0.0, 1.0)

    def get_config(self):
        return config_of_arguments(self)


@keras.saving.register_keras_serializable("bert_tf")
class WarmupLinearDecay(_Warmup):
    """Rises linearly to `learning_rate` during warmup, then decays linearly to 0.

    As in google-research/bert's optimization.py, the decay is counted from step 0 and the first step of warmup has
    learning rate 0:

        rate(t) = learning_rate * t / num_warmup_steps        for t < num_warmup_steps
        rate(t) = learning_rate * (1 - t / num_train_steps)   from there on

    Args:
        learning_rate: the peak that warmup approaches.
        num_train_steps: the step at which the learning rate reaches 0.
        num_warmup_steps: 0 for no warmup.
    """

    def decayed(self, step):
        return self.learning_rate * (1 - tf.minimum(step / max(self.num_train_steps, 1), 1.0))


@keras.saving.register_keras_serializable("bert_tf")
class WarmupPolynomialDecay(_Warmup):
    """Rises linearly to `learning_rate`, then decays to 0 as a power of the remaining steps.

        rate(t) = learning_rate * ((num_train_steps - t) / (num_train_steps - num_warmup_steps)) ** power

    The decay starts at the peak, without the small drop of `WarmupLinearDecay`. This is the schedule of NVIDIA's
    LAMB recipe for BERT (DeepLearningExamples, optimization.py), and so is the default power.

    Args:
        learning_rate, num_train_steps, num_warmup_steps: as in `WarmupLinearDecay`, except that the peak is reached.
        power: 1 for a straight line; below 1 the learning rate stays high for longer.
    """

    def __init__(self, learning_rate, num_train_steps, num_warmup_steps=0, power=0.5):
        super().__init__(learning_rate, num_train_steps, num_warmup_steps)
        self.power = power

    def decayed(self, step):
        return self.learning_rate * (1 - self.since_warmup(step)) ** self.power


@keras.saving.register_keras_serializable("bert_tf")
class WarmupCosineDecay(_Warmup):
    """Rises linearly to `learning_rate`, then decays to 0 along half a cosine wave.

        rate(t) = learning_rate * (1 + cos(pi * (t - num_warmup_steps) / (num_train_steps - num_warmup_steps))) / 2

    One cycle of Loshchilov and Hutter 2017 (arXiv 1608.03983), equation 5.

    Args:
        learning_rate, num_train_steps, num_warmup_steps: as in `WarmupLinearDecay`, except that the peak is reached.
    """

    def decayed(self, step):
        return self.learning_rate * (1 + tf.cos(math.pi * self.since_warmup(step))) / 2


@keras.saving.register_keras_serializable("bert_tf")
class WarmupTrapezoid(_Warmup):
    """Rises linearly to `learning_rate`, stays there, and decays linearly to 0 over the last steps.

        rate(t) = learning_rate * min(t / num_warmup_steps, 1, (num_train_steps - t) / num_decay_steps)

    A run's checkpoints from the flat part can be trained for longer, because nothing there depends on the last step
    (Hägele et al. 2024, arXiv 2405.18392, section 3).

    Args:
        learning_rate, num_train_steps, num_warmup_steps: as in `WarmupLinearDecay`, except that the peak is reached.
        num_decay_steps: length of the decay; None for a fifth of the run.
    """

    def __init__(self, learning_rate, num_train_steps, num_warmup_steps=0, num_decay_steps=None):
        super().__init__(learning_rate, num_train_steps, num_warmup_steps)
        self.num_decay_steps = num_train_steps // 5 if num_decay_steps is None else num_decay_steps

    def __call__(self, step):  # a decay that starts during warmup cuts the warmup short
        return tf.minimum(super().__call__(step), self.decayed(tf.cast(step, tf.float32)))

    def decayed(self, step):
        left = (self.num_train_steps - step) / max(self.num_decay_steps, 1)
        return self.learning_rate * tf.clip_by_value(left, 0.0, 1.0)


@keras.saving.register_keras_serializable("bert_tf")
class ExponentialRise(keras.optimizers.schedules.LearningRateSchedule):
    """Rises from one learning rate to another by a constant factor per step, for a range test.

        rate(t) = lowest * (highest / lowest) ** (t / (num_steps - 1))

    Args:
        lowest: learning rate at step 0.
        highest: learning rate at step `num_steps` - 1 and later.
        num_steps: at least 2.
    """

    def __init__(self, lowest, highest, num_steps):
        self.lowest = lowest
        self.highest = highest
        self.num_steps = num_steps

    def __call__(self, step):
        share = tf.minimum(tf.cast(step, tf.float32) / (self.num_steps - 1), 1.0)
        return self.lowest * tf.exp(share * math.log(self.highest / self.lowest))

    def get_config(self):
        return config_of_arguments(self)


# Name on the command line -> factory(learning_rate, num_train_steps, num_warmup_steps).
SCHEDULES = {
    "linear": WarmupLinearDecay,
    "polynomial": WarmupPolynomialDecay,
    "cosine": WarmupCosineDecay,
    "trapezoid": WarmupTrapezoid,
}


def run_schedule(run) -> keras.optimizers.schedules.LearningRateSchedule:
    """Returns the learning-rate schedule of a run, a `RunConfig`."""
    return SCHEDULES[run.schedule](run.learning_rate, run.num_train_steps, run.num_warmup_steps)
