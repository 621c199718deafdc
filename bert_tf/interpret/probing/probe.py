"""Linear probes of all layers and of a learned mix of them, trained together, each as if it were alone."""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from bert_tf.utils.progress import Countdown

_BATCH = 64
_STEPS, _EPOCHS = 3000, 5  # minimum of each
_RATE = 1e-3  # Adam's initial learning rate; it decays to 0
_SMALL = 1e-6


class Probed(NamedTuple):
    """Accuracies of K tasks' probes, float64; for the input of the first layer and the output of each of L layers.

    Attributes:
        layers: [K, L + 1].
        mix: [K], of a learned weighted sum of all layers (Peters et al. 2018, equation 1).
        mix_weights: [K, L + 1], the weights of the sum; they sum to 1.
    """

    layers: np.ndarray
    mix: np.ndarray
    mix_weights: np.ndarray


class Probes:
    """Linear probes: for each of K tasks with C labels, one map per layer and one for a mix of layers.

    Args:
        mean, deviation: float32 [L + 1, H], of the features, which are standardized because layers differ in scale.
        tasks: K, the number of tasks.
        labels: C, the number of labels.
    """

    def __init__(self, mean: np.ndarray, deviation: np.ndarray, tasks: int, labels: int):
        layers, width = mean.shape
        self._mean, self._scale = tf.constant(mean), tf.constant(1 / np.maximum(deviation, _SMALL), tf.float32)
        self._shape = layers + 1, tasks, labels
        zeros = {"weights": [layers, width, tasks * labels], "mixed": [tasks, width, labels],
                 "bias": [layers + 1, 1, tasks, labels], "shares": [tasks, layers]}  # fmt: skip
        self.variables = {name: tf.Variable(tf.zeros(shape), name=name) for name, shape in zeros.items()}
        self.scale = tf.Variable(tf.ones([tasks]), name="scale")

    def logits(self, values: tf.Tensor) -> tf.Tensor:
        """Returns the logits, float32 [L + 2, B, K, C], those of the mix last, for features float32 [B, L + 1, H]."""
        x = tf.transpose((values - self._mean) * self._scale, [1, 0, 2])  # [L + 1, B, H]
        own, (rows, tasks, labels) = self.variables, self._shape
        of_layers = tf.reshape(tf.matmul(x, own["weights"]), [rows - 1, -1, tasks, labels])
        mixes = tf.einsum("kl,lbh->kbh", self.mix_weights() * self.scale[:, tf.newaxis], x)
        mixed = tf.transpose(tf.matmul(mixes, own["mixed"]), [1, 0, 2])  # [B, K, C]
        return tf.concat([of_layers, mixed[tf.newaxis]], 0) + own["bias"]

    def mix_weights(self) -> tf.Tensor:
        """Returns float32 [K, L + 1]: the weight of each layer in the mix; they sum to 1."""
        return tf.nn.softmax(self.variables["shares"])

    @property
    def trainable(self) -> list[tf.Variable]:
        return [*self.variables.values(), self.scale]


def train_probe(
    train: np.ndarray,
    targets: np.ndarray,
    test: np.ndarray,
    test_targets: np.ndarray,
    labels: int,
    seed: int,
    epochs: int | None = None,
) -> Probed:
    """Trains probes, and returns their accuracy on test features.

    Args:
        train, test: float32 [n, L + 1, H] and [m, L + 1, H].
        targets, test_targets: int32 [n, K] and [m, K], labels of K tasks, from 0.
        labels: number of labels.
        seed: random seed of the order of the examples.
        epochs: if None, 5, or more if these are fewer than 3,000 steps of 64 examples.
    """
    probes = Probes(*_moments(train), targets.shape[1], labels)
    _train(probes, train, targets, seed, epochs or max(_EPOCHS, -(-_STEPS * _BATCH // len(train))))
    right = np.zeros([test.shape[1] + 1, targets.shape[1]])
    answer = tf.function(
        lambda values: tf.argmax(probes.logits(values), -1, tf.int32), reduce_retracing=True, autograph=False
    )
    for start in range(0, len(test), _BATCH):
        answers = answer(tf.constant(test[start : start + _BATCH])).numpy()  # [L + 2, B, K]
        right += (answers == test_targets[np.newaxis, start : start + _BATCH]).sum(1)
    right = (right / len(test)).T
    return Probed(right[:, :-1], right[:, -1], probes.mix_weights().numpy().astype(np.float64))


def _moments(values):
    """Returns mean and standard deviation, float32 [L + 1, H]; one layer at a time, as features may be in a file."""
    layers = range(values.shape[1])
    means = [values[:, n].mean(0, dtype=np.float64) for n in layers]
    deviations = [values[:, n].std(0, dtype=np.float64) for n in layers]
    return np.stack(means).astype(np.float32), np.stack(deviations).astype(np.float32)


def _train(probes, values, targets, seed, epochs):
    per_epoch = -(-len(values) // _BATCH)
    schedule = keras.optimizers.schedules.PolynomialDecay(_RATE, epochs * per_epoch, 0.0)
    optimizer = keras.optimizers.Adam(schedule)
    optimizer.build(probes.trainable)

    @tf.function(reduce_retracing=True, autograph=False)
    def step(batch, wanted):
        with tf.GradientTape() as tape:
            logits = probes.logits(batch)
            wanted = tf.repeat(wanted[tf.newaxis], logits.shape[0], 0)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, logits)
            total = tf.reduce_sum(tf.reduce_mean(losses, 1))  # the probes' losses are independent
        optimizer.apply(tape.gradient(total, probes.trainable), probes.trainable)

    rng = np.random.default_rng(seed)
    with Countdown("Training the probes", "steps", epochs * per_epoch) as countdown:
        for _ in range(epochs):
            order = rng.permutation(len(values))
            for start in range(0, len(values), _BATCH):
                chosen = np.sort(order[start : start + _BATCH])  # sequential reads are faster in a file
                step(tf.constant(values[chosen]), tf.constant(targets[chosen]))
                countdown.advance()
