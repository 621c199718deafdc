"""Out-of-fold predictions of a training file, and confident learning on them."""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np

from bert_tf.checkpoints.feature_extractor import Extractor
from bert_tf.checkpoints.loading import load
from bert_tf.data.tables import LabeledTexts
from bert_tf.utils.files import atomic_open, read_text
from bert_tf.utils.json_files import json_text
from bert_tf.utils.progress import Countdown

# === Confident ===
# Confident learning: finds labels that are probably wrong from the probabilities of held-out models.
#
# Northcutt, Jiang and Chuang 2021 (JAIR 70). A class j has a threshold t_j, the mean probability of j over the examples
# labeled j, because models are more confident about some classes than others. An example labeled i counts as a j if its
# probability of j is at least t_j, and the highest of those that reach their thresholds. It must also exceed
# that of i, whether or not i reaches its own: models are never confident about a rare class, so its threshold
# is tiny, and with the threshold alone, many of the other examples would count as that class. No TensorFlow.


@dataclasses.dataclass(frozen=True)
class Suspicion:
    """Result of confident learning for n labels.

    Attributes:
        thresholds: float [L], t_j.
        is_error: bool [n], whether the example counts as a class other than its label.
        likely: int [n], the class that such an example counts as; for others, their label.
        margin: float [n]: the label's probability minus that of the most probable other class that reaches its
            threshold; below 0, the label is suspect, and lower is more suspect.
        joint: int [L, L], number of examples labeled i that count as a j, without those that count as no class.
        estimate: estimated number of wrong labels, from the joint scaled to the examples of each label.
    """

    thresholds: np.ndarray
    is_error: np.ndarray
    likely: np.ndarray
    margin: np.ndarray
    joint: np.ndarray
    estimate: float

    @property
    def order(self) -> np.ndarray:
        """int [n], the examples, the most likely error first."""
        return np.argsort(self.margin, kind="stable")


def suspect(probabilities: np.ndarray, labels: np.ndarray) -> Suspicion:
    """Finds probable label errors from held-out probabilities.

    Args:
        probabilities: float [n, L], of models that were not trained on the example; L > 1.
        labels: int [n], the given labels; each class has an example.

    Raises:
        ValueError: arrays that do not match, a class without an example, or probabilities that are not finite.
    """
    probabilities, labels = np.asarray(probabilities, np.float64), np.asarray(labels)
    n, width = probabilities.shape if probabilities.ndim == 2 else (0, 0)
    if width < 2 or labels.shape != (n,) or set(np.unique(labels)) != set(range(width)):
        raise ValueError(
            "Probabilities must have the shape [n, L] with L > 1, and labels the shape [n], in which each of the L "
            f"classes occurs; got the shapes {list(probabilities.shape)} and {list(labels.shape)}."
        )
    if not np.isfinite(probabilities).all():
        raise ValueError("The probabilities contain NaN or infinity: training diverged. Lower the learning rate.")
    thresholds = np.array([probabilities[labels == j, j].mean() for j in range(width)])
    reached = np.where(probabilities >= thresholds, probabilities, 0)
    rows = np.arange(n)
    own, counts_as_own = probabilities[rows, labels], reached[rows, labels] > 0
    reached[rows, labels] = 0
    margin = own - reached.max(1)
    is_error = margin < 0
    likely = np.where(is_error, reached.argmax(1), labels)
    counts = is_error | counts_as_own
    joint = np.bincount(labels[counts] * width + likely[counts], minlength=width**2).reshape(width, width)
    counted = joint.sum(1)
    right = np.divide(joint.diagonal(), counted, out=np.ones(width), where=counted > 0)
    estimate = float((np.bincount(labels, minlength=width) * (1 - right)).sum())
    return Suspicion(thresholds, is_error, likely, margin, joint, estimate)


# === Folds ===
# Cross-validation folds of a training file: the assignment of examples to folds, and the folds' files.


TRAIN_FILE, HELD_OUT_FILE, ANSWERS_FILE = "train.jsonl", "held_out.jsonl", "held_out.npy"


def assign(labels: np.ndarray, groups: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Returns int [n]: the fold of each example. Folds have similar label counts.

    Args:
        labels: int [n].
        groups: int [n]; examples of one group share a fold, because a model trained on one would know the others'
            label.
        folds: number of folds, at least 2.
        seed: seed of the order.

    Raises:
        ValueError: there are fewer groups than folds.
    """
    names, first = np.unique(groups, return_index=True)
    if len(names) < folds:
        raise ValueError(
            f"`folds` must be at most {len(names)}, the number of different examples; got {folds}."
        )
    sizes = {name: size for name, size in zip(*np.unique(groups, return_counts=True), strict=True)}
    order = np.random.default_rng(seed).permutation(len(names))
    filled = np.zeros([labels.max() + 1, folds], int)
    fold_of = {}
    for i in order:
        label = labels[first[i]]
        # The fold with the fewest of this label; among those, the one with the fewest examples.
        fold = int(np.lexsort((np.arange(folds), filled.sum(0), filled[label]))[0])
        fold_of[names[i]] = fold
        filled[label, fold] += sizes[names[i]]
    return np.array([fold_of[group] for group in groups])


def write_fold(folder: pathlib.Path, examples: LabeledTexts, is_held_out: np.ndarray):
    """Writes the training and held-out examples of a fold for run_classifier.

    Args:
        folder: directory of the fold, which is created.
        examples: all n examples.
        is_held_out: bool [n].
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, chosen in ((TRAIN_FILE, ~is_held_out), (HELD_OUT_FILE, is_held_out)):
        with atomic_open(folder / name) as file:
            for i in np.flatnonzero(chosen):
                row = dict(zip(text_columns(examples), texts_of(examples, i), strict=True)) | {
                    "label": examples.labels[i]
                }
                file.write(json_text(row, ensure_ascii=False) + "\n")


def text_columns(examples: LabeledTexts) -> tuple[str, ...]:
    """Returns the names of the texts of an example."""
    return ("text",) if examples.text_b is None else ("text_a", "text_b")


def texts_of(examples: LabeledTexts, i: int) -> tuple[str, ...]:
    """Returns the one or two texts of an example."""
    return (examples.text_a[i],) if examples.text_b is None else (examples.text_a[i], examples.text_b[i])


def answers_of(run: pathlib.Path, labels: list[str], count: int) -> np.ndarray:
    """Returns the predictions of a run_classifier run, float64 [count, L] in the order of `labels`.

    A label that is not in the run's training data has probability 0.

    Raises:
        ValueError: the run does not have predictions for this many examples.
    """
    own = read_text(run / "labels.txt").split("\n")[:-1]
    values = np.loadtxt(run / "test_results.tsv", delimiter="\t", ndmin=2)
    if values.shape != (count, len(own)):
        raise ValueError(
            f"{run}/test_results.tsv must hold {count} x {len(own)} probabilities; got {list(values.shape)}. "
            "Remove the directory and run the same command again."
        )
    answers = np.zeros([count, len(labels)])
    answers[:, [labels.index(name) for name in own]] = values
    return answers


# === Frozen ===
# Held-out probabilities without fine-tuning: logistic regressions on a frozen encoder's features and on words.
#
# An encoder's features may miss what a word means for a label, and only the encoder knows what a rare word
# means: the geometric mean of both finds more errors than either.


_CHUNK = 500  # texts
_OF_VECTORS, _OF_WORDS = 0.005, 5.0  # the inverse strength of regularization: for standardized features, and for tf-idf
_POOLING, _LEFT_TO_RIGHT = ("mean", "cls"), ("mean", "last_token")
_ROUNDS = 1000


def vectors(texts: Sequence, settings) -> np.ndarray:
    """Returns each text's features, float32 [n, D]: the mean over tokens concatenated with the first token's.

    For a causal model, the last token's are used instead of the first's.

    Args:
        texts: n texts, or pairs.
        settings: `init_checkpoint`, `features`, `max_seq_length` and the arguments of `bert_tf.load`.
    """
    bert = load(settings.init_checkpoint, settings.do_lower_case, settings.bert_config_file, settings.vocab_file)
    pooling = _LEFT_TO_RIGHT if bert.config.is_decoder else _POOLING
    length = min(settings.max_seq_length, bert.config.max_length)
    extract = Extractor(bert.encoder, bert.tokenizer, settings.features, pooling, max_seq_length=length)
    order = np.argsort([-sum(map(len, [text] if isinstance(text, str) else text)) for text in texts], kind="stable")
    found = np.empty([len(texts), extract.width], np.float32)
    with Countdown("Reading the texts with the frozen encoder", "texts", len(texts)) as countdown:
        for start in range(0, len(texts), _CHUNK):
            chosen = order[start : start + _CHUNK]
            found[chosen] = extract([texts[i] for i in chosen])
            countdown.advance(len(chosen))
    return found


def held_out(features: np.ndarray, texts: Sequence[str], labels: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Returns float64 [n, L]: each example's probabilities from models of the other folds.

    Args:
        features: float [n, D].
        texts: n texts, for word counts.
        labels: int [n], of L classes.
        folds: int [n].
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    texts, probabilities = np.array(texts, object), np.zeros([len(labels), labels.max() + 1])
    for fold in np.unique(folds):
        train, test = folds != fold, folds == fold
        if len(set(labels[train])) < 2:  # one fold may have all examples of a rare label
            probabilities[np.ix_(test, np.unique(labels[train]))] = 1
            continue
        means = 0
        for values, model in (
            (features, make_pipeline(StandardScaler(), LogisticRegression(C=_OF_VECTORS, max_iter=_ROUNDS))),
            (texts, make_pipeline(_make_vectorizer(len(labels)), LogisticRegression(C=_OF_WORDS, max_iter=_ROUNDS))),
        ):
            model.fit(values[train], labels[train])
            means = means + model.predict_log_proba(values[test]) / 2
        means = np.exp(means - means.max(1, keepdims=True))
        probabilities[np.ix_(test, np.unique(labels[train]))] = means / means.sum(1, keepdims=True)
    return probabilities


def _make_vectorizer(n):
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        token_pattern=r"\w+|[^\w\s]", ngram_range=(1, 2), min_df=1 + (n > 1000), max_features=500_000, sublinear_tf=True
    )
