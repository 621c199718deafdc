"""LAMB: Adam with the step of each variable scaled to the variable's norm (You et al. 2020, arXiv 1904.00962)."""


import keras
import tensorflow as tf

from bert_tf.training.adamw import DECAY_RULES, AdamW


@keras.saving.register_keras_serializable("bert_tf")
class Lamb(AdamW):
    """LAMB optimizer (layer-wise adaptive moments), algorithm 2 of the paper with phi(z) = z.

        m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
        u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon) + decay w
        w = w - rate (|w| / |u|) u

    Bias correction and weight decay are inside the trust ratio |w| / |u|, as in the paper; if either norm is 0, the
    ratio is 1. The variables that `decay_rules` exempt from decay, LayerNorm and biases, have no trust ratio either.
    Algorithm 2 does not include this, but the implementations that trained BERT do it: in TensorFlow Addons (and so in
    NVIDIA's TF2 recipe), exclude_from_layer_adaptation defaults to exclude_from_weight_decay.

    Args:
        learning_rate: a number or a schedule.
        weight_decay_rate: `decay` above, for the variables that `decay_rules` name.
        beta_1, beta_2, epsilon: as in the formula.
        decay_rules: pairs (pattern of the whole variable path, whether decayed and scaled by the trust ratio).
        layer_rules: as in `AdamW`; t is counted from a variable's own first step.

    Slots and their names are those of `AdamW`.
    """

    def __init__(
        self,
        learning_rate=1e-3,
        weight_decay_rate=0.01,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        decay_rules=DECAY_RULES,
        name="lamb",
        layer_rules=(),
        **kwargs,
    ):
        numbers = (learning_rate, weight_decay_rate, beta_1, beta_2, epsilon)
        super().__init__(*numbers, decay_rules, name, layer_rules, True, **kwargs)

    def update_step(self, gradient, variable, learning_rate, when=None):
        """Updates a variable with its gradient; arguments as in `AdamW`."""
        index = self._get_variable_index(variable)
        m, v = (moment.value for moment in self._moments[index])
        variable = variable.value if isinstance(variable, keras.Variable) else variable
        gradient = tf.convert_to_tensor(gradient)
        rate, beta_1, beta_2 = self._paced(index, tf.cast(learning_rate, variable.dtype), when)
        m.assign(beta_1 * m + (1 - beta_1) * gradient)
        v.assign(beta_2 * v + (1 - beta_2) * tf.square(gradient))
        first, second = self._correction(self.beta_1, index), self._correction(self.beta_2, index)
        update = m / first / (tf.sqrt(v / second) + self.epsilon)
        if self._decayed[index]:
            update += self.weight_decay_rate * variable
            rate *= _trust_ratio(variable, update)
        variable.assign_sub(rate * update)

    def get_config(self):
        config = super().get_config()
        del config["bias_correction"]  # which cannot be chosen here
        return config


def _trust_ratio(variable, update):
    """Returns |variable| / |update|, or 1 where either is 0."""
    length, step = tf.norm(variable), tf.norm(update)
    return tf.where((length > 0) & (step > 0), tf.math.divide_no_nan(length, step), 1.0)
