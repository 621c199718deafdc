"""How the learning rate moves over a run."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("bert_tf")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
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

    def __init__(self, learning_rate, num_train_steps, num_warmup_steps=0):
        self.learning_rate = learning_rate
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        decayed = self.learning_rate * (1 - tf.minimum(step / max(self.num_train_steps, 1), 1.0))
        rising = self.learning_rate * step / max(self.num_warmup_steps, 1)
        return tf.where(step < self.num_warmup_steps, rising, decayed)

    def get_config(self):
        return {
            "learning_rate": self.learning_rate,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
        }
