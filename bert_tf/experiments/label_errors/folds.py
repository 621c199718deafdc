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
# Which labels are likely wrong, by probabilities of models that had not seen them: confident learning.
#
# Northcutt, Jiang and Chuang 2021 (JAIR 70). A class j has a threshold t_j, the mean probability of j over the examples
# labelled j: a model is sure of some classes more easily than of others. An example labelled i counts as a j where its
# probability of j is at least t_j, and the highest of those that reach their thresholds. It must also be higher than
# that of i, whether or not i reaches its own: of a class with few examples models are never sure, so that its threshold
# is next to nothing, and by the threshold alone a large part of the other examples would count as it. No TensorFlow.


@dataclasses.dataclass(frozen=True)
class Suspicion:
    """The verdict on n labels.

    Attributes:
        thresholds: float [L], t_j.
        is_error: bool [n], whether the example counts as another class than that of its label.
        likely: int [n], the class that such an example counts as; for the others their label.
        margin: float [n]: how much more probable the label is than the most probable other class that reaches its
            threshold; under 0 the label is suspect, the more so the lower.
        joint: int [L, L], how many examples labelled i count as a j; those that count as no class are left out.
        estimate: how many labels are wrong, by the joint scaled to the examples of each label.
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
    """Returns what held-out probabilities say of labels.

    Args:
        probabilities: float [n, L], of models that were not trained on the example; L > 1.
        labels: int [n], as they were given; each class has an example.

    Raises:
        ValueError: arrays that do not match, a class without an example, or probabilities that are no numbers.
    """
    probabilities, labels = np.asarray(probabilities, np.float64), np.asarray(labels)
    n, width = probabilities.shape if probabilities.ndim == 2 else (0, 0)
    if width < 2 or labels.shape != (n,) or set(np.unique(labels)) != set(range(width)):
        raise ValueError(
            "Probabilities must be an array of shape [n, L] with L > 1, labels one of shape [n] in which each of the L "
            f"classes occurs. Received the shapes {list(probabilities.shape)} and {list(labels.shape)}."
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
# A training file in k parts, each of which models trained on the others answer: which part a row is in, and files.


TRAIN_FILE, HELD_OUT_FILE, ANSWERS_FILE = "train.jsonl", "held_out.jsonl", "held_out.npy"


def assign(labels: np.ndarray, groups: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Returns int [n]: the fold of each example. Folds hold about as many of each label.

    Args:
        labels: int [n].
        groups: int [n]; those of one group share a fold: a model that has seen one would know the others' answer.
        folds: how many, at least 2.
        seed: of the order.

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
        # The fold with the fewest of this label, of those the one with the fewest of all.
        fold = int(np.lexsort((np.arange(folds), filled.sum(0), filled[label]))[0])
        fold_of[names[i]] = fold
        filled[label, fold] += sizes[names[i]]
    return np.array([fold_of[group] for group in groups])


def write_fold(folder: pathlib.Path, examples: LabeledTexts, is_held_out: np.ndarray):
    """Writes what is trained on and what is held out, as run_classifier reads them.

    Args:
        folder: of the fold; it is made.
        examples: all n.
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
    """Returns what a run of run_classifier answered, float64 [count, L] in the order of `labels`.

    A label that the run's training did not see has probability 0.

    Raises:
        ValueError: the run has not answered for so many examples.
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
# Held-out probabilities without fine-tuning: logistic regressions on a frozen encoder's vectors and on words.
#
# What a word means for a label the encoder may not have in its vectors, and a rare word's meaning only the encoder
# knows: the geometric mean of both finds more than either.


_CHUNK = 500  # texts
_OF_VECTORS, _OF_WORDS = 0.005, 5.0  # the inverse strength of regularization: for standardized vectors, and for tf-idf
_POOLING, _LEFT_TO_RIGHT = ("mean", "cls"), ("mean", "last_token")
_ROUNDS = 1000


def vectors(texts: Sequence, settings) -> np.ndarray:
    """Returns each text's features, their mean and those of its first token side by side, float32 [n, D].

    Of a model that reads from left to right those of its last token are taken instead.

    Args:
        texts: n texts, or pairs.
        settings: `init_checkpoint`, `features`, `max_seq_length` and what `bert_tf.load` takes.
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
    """Returns float64 [n, L]: each example's probabilities by models of the other folds.

    Args:
        features: float [n, D].
        texts: n, whose words are counted.
        labels: int [n], of L classes.
        folds: int [n].
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    texts, probabilities = np.array(texts, object), np.zeros([len(labels), labels.max() + 1])
    for fold in np.unique(folds):
        train, test = folds != fold, folds == fold
        if len(set(labels[train])) < 2:  # of rare labels one fold may hold all
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
