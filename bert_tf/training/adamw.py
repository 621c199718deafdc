"""AdamW: BERT's own Adam (google-research/bert optimization.py, AdamWeightDecayOptimizer)."""

import math
import re

import keras
import tensorflow as tf

# Pattern of the variable's path -> is it decayed? The first match decides, and one must match: a pattern that matches
# nothing, or a variable that nothing matches, is how weight decay silently goes wrong.
DECAY_RULES = (
    (r".*/LayerNorm/(gamma|beta)", False),
    (r".*/layer_sum/(layer_weights|gamma)", False),
    (r".*(/|_)bias", False),
    (r".*/(kernel|recurrent_kernel|output_weights|\w+_embeddings|lora_[AB])", True),
    (r"head/(.*/)?(gamma|beta)", False),  # of a custom task's head
    (r"head/.*", True),
)


def is_decayed(path, rules=DECAY_RULES) -> bool:
    """Returns whether weight decay applies to the variable at `path`.

    Raises:
        ValueError: no rule covers the path.
    """
    for pattern, decayed in rules:
        if re.fullmatch(pattern, path):
            return decayed
    raise ValueError(
        f"No weight-decay rule covers the trainable variable {path!r}: none of "
        f"{[pattern for pattern, _ in rules]} matches it. Pass decay_rules that cover it."
    )


def pace_of(path, rules) -> tuple[float, int]:
    """Returns (learning-rate factor, first step with updates) of the variable at `path`, from the first matching rule.

    If no rule matches, as for the head, they are 1 and 0.
    """
    return next(((factor, first) for pattern, factor, first in rules if re.fullmatch(pattern, path)), (1.0, 0))


@keras.saving.register_keras_serializable("bert_tf")
class AdamW(keras.optimizers.Optimizer):
    """Adam with decoupled weight decay, by default without bias correction.

        m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  w = w - rate (m / (sqrt(v) + epsilon) + decay w)

    Args:
        learning_rate: a number or a schedule.
        weight_decay_rate: `decay` above, for the variables that `decay_rules` name.
        beta_1, beta_2, epsilon: as in the formula.
        decay_rules: pairs (pattern of the whole variable path, whether decayed); see `DECAY_RULES`.
        layer_rules: triples (pattern of the whole variable path, factor of `rate` above, first step in
            which weight and moments are updated); see `layer_rates.LayerRates`. Without a match: 1 and 0.
        bias_correction: in step t = 1, 2, ... of a variable, use m / (1 - b1^t) and v / (1 - b2^t) instead, as
            Kingma and Ba 2015 do (arXiv 1412.6980, section 3): the decoupled form of Loshchilov and Hutter 2019.

    It works in `compile` like any Keras optimizer; the training loop calls `apply_reduced`.
    """

    def __init__(
        self,
        learning_rate=5e-5,
        weight_decay_rate=0.01,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        decay_rules=DECAY_RULES,
        name="adamw",
        layer_rules=(),
        bias_correction=False,
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.decay_rules = tuple(tuple(rule) for rule in decay_rules)
        self.layer_rules = tuple(tuple(rule) for rule in layer_rules)
        self.bias_correction = bias_correction

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._decayed = [is_decayed(v.path, self.decay_rules) for v in variables]
        self._paces = [pace_of(v.path, self.layer_rules) for v in variables]
        self._moments = [
            tuple(self.add_variable_from_reference(v, name, initializer="zeros") for name in ("adam_m", "adam_v"))
            for v in variables
        ]

    def update_step(self, gradient, variable, learning_rate, when=None):
        """Updates a variable with its gradient, float [same shape], where `when`, bool [], is None or true.

        `variable` is a Keras or a TensorFlow variable.
        """
        index = self._get_variable_index(variable)
        m, v = (moment.value for moment in self._moments[index])
        variable = variable.value if isinstance(variable, keras.Variable) else variable
        rate, beta_1, beta_2 = self._paced(index, tf.cast(learning_rate, variable.dtype), when)
        if self._decayed[index]:
            variable.assign(variable * (1 - rate * self.weight_decay_rate))
        epsilon = tf.constant(self.epsilon, variable.dtype)
        if self.bias_correction:  # rate m / c1 / (sqrt(v / c2) + epsilon), with c2 out of the fraction
            first, second = self._correction(self.beta_1, index), tf.sqrt(self._correction(self.beta_2, index))
            rate, epsilon = rate * second / first, epsilon * second
        # TensorFlow's fused kernel, one pass over memory. Its own bias correction counts the steps of all variables
        # alike, and is disabled by passing 0 for both powers.
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=m.handle,
            v=v.handle,
            beta1_power=tf.zeros([], variable.dtype),
            beta2_power=tf.zeros([], variable.dtype),
            lr=rate,
            beta1=tf.cast(beta_1, variable.dtype),
            beta2=tf.cast(beta_2, variable.dtype),
            epsilon=epsilon,
            grad=tf.convert_to_tensor(gradient),
        )

    def _paced(self, index, rate, when=None):
        """Returns (rate, beta_1, beta_2) of a variable in this step.

        They are 0, 1 and 1, which changes nothing, before the variable's first step and where `when`, bool [], is
        false: a graph with a branch around each update would be slow to build and to run.
        """
        factor, first = self._paces[index]
        rate = rate if factor == 1 else rate * factor
        if not first and when is None:
            return rate, self.beta_1, self.beta_2
        started = self.iterations.value >= first
        moves = started if when is None else started & when
        return tf.where(moves, rate, 0.0), tf.where(moves, self.beta_1, 1.0), tf.where(moves, self.beta_2, 1.0)

    def _correction(self, beta, index):
        """Returns 1 - beta^t, float32 [], of step t = 1, 2, ...: with expm1, because 1 - 0.999 has only four digits."""
        if beta == 0:
            return tf.ones([])
        step = tf.cast(self.iterations.value, tf.float32) + 1
        if first := self._paces[index][1]:
            step = tf.maximum(step - first, 1.0)  # before that nothing is updated, but 0 / 0 would be NaN
        return -tf.math.expm1(step * math.log(beta))

    def mask_frozen_gradients(self, gradients, variables):
        """Returns the gradients [same shapes] with zeros for variables that are not unfrozen yet."""
        firsts = [self._paces[self._get_variable_index(v)][1] for v in variables]
        step = self.iterations.value
        masked = zip(gradients, firsts, strict=True)
        return [tf.where(step >= first, g, tf.zeros_like(g)) if first else g for g, first in masked]

    def apply_reduced(self, gradients, variables, when=None, use_xla=False):
        """Applies gradients that are already summed over the replicas; call it in a replica, outside XLA.

        Args:
            gradients: one dense tensor per variable.
            variables: the Keras variables passed to `build`.
            when: bool [], the same on every replica; if False, nothing is updated. None means True.
            use_xla: compile the update of each replica as one program.
        """

        def update(strategy, gradients, when):
            if use_xla:
                # The update of one variable stands for that of all: it is called once on each replica.
                args = (gradients, when)
                strategy.extended.update(variables[0].value, compiled_update, args=args, group=False)
            elif when is None:
                self._update_each(strategy, gradients, variables)
            else:
                is_true = strategy.experimental_local_results(when)[0]
                tf.cond(is_true, lambda: self._update_each(strategy, gradients, variables), lambda: None)

        def compiled_update(_, gradients, when):
            def program(gradients, when):
                self.apply_in_program(gradients, variables, when)

            tf.function(program, jit_compile=True, autograph=False)(gradients, when)

        tf.distribute.get_replica_context().merge_call(update, args=(gradients, when))

    def _update_each(self, strategy, gradients, variables):
        rate = self._get_current_learning_rate()
        for gradient, variable in zip(gradients, variables, strict=True):
            strategy.extended.update(
                variable.value, lambda var, grad: self.update_step(grad, var, rate), args=(gradient,), group=False
            )
        self.iterations.assign_add(1)

    def apply_in_program(self, gradients, variables, when=None):
        """Applies gradients in a program that XLA compiles for one device; arguments as in `apply_reduced`.

        A skipped update consists of numbers that change nothing, because a GPU would wait for the host at a branch.
        """
        rate = self._get_current_learning_rate()
        if when is not None:  # 0 times a gradient that is not finite would be NaN
            gradients = [tf.where(when, gradient, tf.zeros_like(gradient)) for gradient in gradients]
        for gradient, variable in zip(gradients, variables, strict=True):
            self.update_step(gradient, variable.value, rate, when)
        self.iterations.assign_add(1 if when is None else tf.cast(when, self.iterations.dtype))

    def slots(self, variables):
        """Returns {"<path>/adam_m" and "<path>/adam_v": variable}, google-research/bert's names in a checkpoint."""
        return {
            f"{v.path}/{name}": moment
            for v in variables
            for name, moment in zip(("adam_m", "adam_v"), self._moments[self._get_variable_index(v)], strict=True)
        }

    def get_config(self):
        return super().get_config() | {
            "weight_decay_rate": self.weight_decay_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "decay_rules": self.decay_rules,
            "layer_rules": self.layer_rules,
            "bias_correction": self.bias_correction,
        }
