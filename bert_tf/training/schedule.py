"""How the learning rate moves over a run."""

import math

import keras
import tensorflow as tf


class _Warmup(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly from 0 to `learning_rate` over the warm-up; what follows is `decayed` of a subclass.

    The first step of a warm-up has rate 0, as in google-research/bert's optimization.py.
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
        """Returns the rate, float32 [], at a step, float32 [], behind the warm-up."""
        raise NotImplementedError

    def since_warmup(self, step):
        """Returns which share of the steps behind the warm-up is over: float32 [], from 0 to 1."""
        after = max(self.num_train_steps - self.num_warmup_steps, 1)
        return tf.clip_by_value((step - self.num_warmup_steps) / after, 0.0, 1.0)

    def get_config(self):
        return {
            "learning_rate": self.learning_rate,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
        }


@keras.saving.register_keras_serializable("bert_tf")
class WarmupLinearDecay(_Warmup):
    """Rises linearly to `learning_rate` over the warm-up, then falls linearly to 0.

    As in google-research/bert's optimization.py, the decay is counted from step 0 and the first step of a warm-up has
    rate 0:

        rate(t) = learning_rate * t / num_warmup_steps        for t < num_warmup_steps
        rate(t) = learning_rate * (1 - t / num_train_steps)   from there on

    Args:
        learning_rate: the peak that the rising line aims at.
        num_train_steps: the step at which the rate is 0.
        num_warmup_steps: 0 for no warm-up.
    """

    def decayed(self, step):
        return self.learning_rate * (1 - tf.minimum(step / max(self.num_train_steps, 1), 1.0))


@keras.saving.register_keras_serializable("bert_tf")
class WarmupPolynomialDecay(_Warmup):
    """Rises linearly to `learning_rate`, then falls to 0 as a power of the steps that are left.

        rate(t) = learning_rate * ((num_train_steps - t) / (num_train_steps - num_warmup_steps)) ** power

    The decay starts at the peak, without the small drop of `WarmupLinearDecay`. This is the schedule of NVIDIA's
    LAMB recipe for BERT (DeepLearningExamples, optimization.py), and so is the default power.

    Args:
        learning_rate, num_train_steps, num_warmup_steps: as of `WarmupLinearDecay`; here the peak is reached.
        power: 1 for a straight line; below 1 the rate stays high for longer.
    """

    def __init__(self, learning_rate, num_train_steps, num_warmup_steps=0, power=0.5):
        super().__init__(learning_rate, num_train_steps, num_warmup_steps)
        self.power = power

    def decayed(self, step):
        return self.learning_rate * (1 - self.since_warmup(step)) ** self.power

    def get_config(self):
        return super().get_config() | {"power": self.power}


@keras.saving.register_keras_serializable("bert_tf")
class WarmupCosineDecay(_Warmup):
    """Rises linearly to `learning_rate`, then falls to 0 along half a cosine wave.

        rate(t) = learning_rate * (1 + cos(pi * (t - num_warmup_steps) / (num_train_steps - num_warmup_steps))) / 2

    One cycle of Loshchilov and Hutter 2017 (arXiv 1608.03983), equation 5.

    Args:
        learning_rate, num_train_steps, num_warmup_steps: as of `WarmupLinearDecay`; here the peak is reached.
    """

    def decayed(self, step):
        return self.learning_rate * (1 + tf.cos(math.pi * self.since_warmup(step))) / 2


@keras.saving.register_keras_serializable("bert_tf")
class WarmupTrapezoid(_Warmup):
    """Rises linearly to `learning_rate`, stays there, and falls linearly to 0 over the last steps.

        rate(t) = learning_rate * min(t / num_warmup_steps, 1, (num_train_steps - t) / num_decay_steps)

    A run's checkpoints from the flat part can be trained for longer, since nothing there depends on where the end is
    (Hägele et al. 2024, arXiv 2405.18392, section 3).

    Args:
        learning_rate, num_train_steps, num_warmup_steps: as of `WarmupLinearDecay`; here the peak is reached.
        num_decay_steps: length of the fall; None: a fifth of the run.
    """

    def __init__(self, learning_rate, num_train_steps, num_warmup_steps=0, num_decay_steps=None):
        super().__init__(learning_rate, num_train_steps, num_warmup_steps)
        self.num_decay_steps = num_train_steps // 5 if num_decay_steps is None else num_decay_steps

    def __call__(self, step):  # a fall that begins within the warm-up cuts the rise short
        return tf.minimum(super().__call__(step), self.decayed(tf.cast(step, tf.float32)))

    def decayed(self, step):
        left = (self.num_train_steps - step) / max(self.num_decay_steps, 1)
        return self.learning_rate * tf.clip_by_value(left, 0.0, 1.0)

    def get_config(self):
        return super().get_config() | {"num_decay_steps": self.num_decay_steps}


@keras.saving.register_keras_serializable("bert_tf")
class ExponentialRise(keras.optimizers.schedules.LearningRateSchedule):
    """Rises from one rate to another by the same factor from step to step, for a range test.

        rate(t) = lowest * (highest / lowest) ** (t / (num_steps - 1))

    Args:
        lowest: the rate of step 0.
        highest: that of step `num_steps` - 1, and of later ones.
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
        return {"lowest": self.lowest, "highest": self.highest, "num_steps": self.num_steps}


# Name on the command line -> factory(learning_rate, num_train_steps, num_warmup_steps).
SCHEDULES = {
    "linear": WarmupLinearDecay,
    "polynomial": WarmupPolynomialDecay,
    "cosine": WarmupCosineDecay,
    "trapezoid": WarmupTrapezoid,
}
