"""Linear probes of all layers with a control task, and measures of attention heads."""

import collections
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from bert_tf.interpret.attention import Attention, attention_of, kept_heads
from bert_tf.interpret.encoded_text import encode_texts
from bert_tf.utils.progress import Countdown

# === Control ===
# Control labels, and the accuracy without any features: the baselines of a probe.
#
# A probe may be right because the features encode the label, or because it memorized the label of each word. So each
# word (as written) gets a random label, regardless of its text; a probe that learns these
# as well has memorized words (Hewitt and Liang 2019, arXiv 1909.03368).


def control_labels(train_types: Sequence[str], types: Sequence[str], labels: np.ndarray, seed: int) -> np.ndarray:
    """Returns int32 [n]: the control's label of each of n words.

    Args:
        train_types: the words of training.
        types: the n words.
        labels: int [..], the labels of training: the control's are drawn from their distribution, so that both tasks
            have about the same.
        seed: of the draw; a word has the same label everywhere.
    """
    shares = np.bincount(labels) / len(labels)
    known = sorted(set(train_types))
    drawn = dict(zip(known, _draw(shares, len(known), seed), strict=True))
    new = sorted(set(types) - drawn.keys())
    drawn |= dict(zip(new, _draw(shares, len(new), seed + 1), strict=True))
    return np.array([drawn[word] for word in types], np.int32)


def _draw(shares, count, seed):
    return np.random.default_rng(seed).choice(len(shares), count, p=shares).tolist()


def baselines(train_types: Sequence[str], train: np.ndarray, types: Sequence[str], labels: np.ndarray) -> dict:
    """Returns the accuracies that are possible without features.

    Args:
        train_types, train: words and labels of training.
        types, labels: those to predict.

    Returns:
        majority: of the most frequent label; word: of the most frequent label of the word in training, or of all words
        if it did not occur; seen: the share of words that did occur, an upper bound for the control except by
        chance.
    """
    counts = collections.defaultdict(collections.Counter)
    for word, label in zip(train_types, train.tolist(), strict=True):
        counts[word][label] += 1
    majority = int(np.bincount(train).argmax())
    guesses = [counts[word].most_common(1)[0][0] if word in counts else majority for word in types]
    return {
        "majority": float(np.mean(labels == majority)),
        "word": float(np.mean(labels == np.array(guesses))),
        "seen": float(np.mean([word in counts for word in types])),
    }


# === Heads ===
# What each attention head attends to, on average over texts (Clark et al. 2019, arXiv 1906.04341).


MEASURES = {
    "entropy": "in bits: a head of 3 bits is as undecided as one that looks at 8 tokens alike",
    "distance": "tokens from a token to where it looks, on average, special tokens left out",
    "first": "share of the weight on the special token that the row begins with, such as [CLS]",
    "separators": "share on the special tokens that end texts, such as [SEP]",
    "itself": "share on the token itself",
    "previous": "share on the word before",
    "next": "share on the word behind",
}


def measure_heads(bert: Any, texts: Sequence[str] | Sequence[tuple[str, str]]) -> dict[str, np.ndarray]:
    """Returns float64 [L, A] for each of MEASURES: means over the word tokens of all texts; NaN for pruned heads.

    Args:
        bert: a model from `bert_tf.load`.
        texts: n of them, or pairs; each must fit into a sequence.

    Raises:
        ValueError: a text is longer than the model's positions; there are no words.
    """
    encoder, rows = encode_texts(bert, texts)
    kept, sums, count = kept_heads(encoder.config), None, 0
    with Countdown("Reading with all heads", "texts", len(rows)) as countdown:
        for row in rows:
            found, words = _sums(attention_of(encoder, row), len(bert.tokenizer.template.before))
            sums, count = found if sums is None else sums + found, count + words
            countdown.advance()
    if not count:
        raise ValueError(f"No words to measure attention on: the {len(texts)} texts have none.")
    values = dict(zip([*MEASURES, "among_words"], sums / count, strict=True))
    values["distance"] = values["distance"] / np.maximum(values.pop("among_words"), 1e-12)
    return {name: np.where(kept, each, np.nan) for name, each in values.items()}


def _sums(row: Attention, before: int) -> tuple[np.ndarray, int]:
    """Returns float64 [measures + 1, L, A], sums over the tokens of words, and their number."""
    word, special = row.word_of_token, row.of_text < 0
    own = np.flatnonzero(word >= 0)
    weights = row.weights[:, :, own].astype(np.float64)  # [L, A, own, S]
    far = np.abs(own[:, np.newaxis] - np.arange(len(row)))
    step = word - word[own, np.newaxis]
    near = (word >= 0) & (row.of_text == row.of_text[own, np.newaxis])
    ends = special & (np.arange(len(row)) >= before)
    among = ~special
    masks = [special & ~ends, ends, far == 0, near & (step == -1), near & (step == 1)]
    shares = [(weights * mask).sum((-2, -1)) for mask in masks]
    entropy = -(weights * np.log2(np.maximum(weights, 1e-30))).sum((-2, -1))
    distance = (weights * far * among).sum((-2, -1))
    return np.stack([entropy, distance, *shares, (weights * among).sum((-2, -1))]), len(own)


# === Probes ===
# Linear probes of all layers and of a learned mix of them, trained together, each as if it were alone.


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
        seed: of the order of the examples.
        epochs: None: 5, or more if these are fewer than 3,000 steps of 64 examples.
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
