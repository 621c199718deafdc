"""Probing of one model on one data file: accuracy of each layer's probe and of its control."""

import dataclasses
import math
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from bert_tf.checkpoints.feature_extractor import Extractor
from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect
from bert_tf.data.tables import read_table
from bert_tf.interpret.probing import probe
from bert_tf.interpret.probing.probe import Probed, train_probe
from bert_tf.tasks.tagging.columns import read_columns
from bert_tf.utils.files import brief
from bert_tf.utils.progress import Countdown
from bert_tf.utils.resources import free_memory, group_limits

# === Examples ===
# Labeled words or texts from a file for a probe.


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Texts with labels for their words or for the texts themselves.

    Attributes:
        texts: n texts, or pairs of them.
        words: the offsets of each text's words, (start, end) in code points; None if texts have labels.
        types: for each text, the names of the labeled items: its words as written; for a text, its first word.
        labels: for each text, the labels of these; None: no labels were read.
        path: the file.
    """

    texts: list[str] | list[tuple[str, str]]
    words: list[list[tuple[int, int]]] | None
    types: list[list[str]]
    labels: list[list[str]] | None
    path: str

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def count(self) -> int:
        """The number of labeled words or texts."""
        return sum(map(len, self.types))

    def take(self, chosen: Sequence[int]) -> "Labelled":
        """Returns some of the texts."""

        def some(values):
            return None if values is None else [values[i] for i in chosen]

        return Labelled(some(self.texts), some(self.words), some(self.types), some(self.labels), self.path)

    def draw(self, most: int, seed: int) -> "Labelled":
        """Returns texts in random order, up to `most` words or texts."""
        order = np.random.default_rng(seed).permutation(len(self))
        counts = np.cumsum([len(self.types[i]) for i in order])
        return self.take(order[: max(1, int(np.searchsorted(counts, most, "right")))].tolist())

    def sample(self, most: int, seed: int) -> "Labelled":
        """Returns up to this many texts, drawn at random, in their original order."""
        return self.take(sorted(np.random.default_rng(seed).permutation(len(self))[:most].tolist()))

    def halves(self, share: float, seed: int) -> tuple["Labelled", "Labelled"]:
        """Splits the texts in two; the second part has this share of them, at least one text."""
        order = np.random.default_rng(seed).permutation(len(self)).tolist()
        cut = len(order) - max(1, round(share * len(order)))
        return self.take(order[:cut]), self.take(order[cut:])


def read_tagged_words(
    path: str, text_column: int = 0, tag_column: int | None = -1, encoding: str | None = None
) -> Labelled:
    """Reads words with tags of any kind, as `tagging_columns.read_columns` does; tag_column None: without."""
    examples = read_columns(path, text_column, tag_column, None, encoding)
    texts, spans = zip(*map(examples.text_of, range(len(examples))), strict=True)
    return Labelled(list(texts), list(spans), examples.words, examples.tags, path)


def read_labelled_texts(
    path: str,
    text_columns: Sequence[str] = ("text",),
    label_column: str | None = "label",
    header=True,
    dialect: Dialect = DEFAULT_DIALECT,
):
    """Reads texts, or pairs, with labels, as `data.tables.read_table` does: `Labelled`; label_column None: without."""
    columns = {"text_columns": text_columns, "label_column": label_column}
    examples = read_table(path, header=header, dialect=dialect, **columns)
    texts = examples.text_a
    if examples.text_b is not None:
        texts = list(zip(texts, examples.text_b, strict=True))
    types = [[(text.split() or [""])[0]] for text in examples.text_a]
    labels = None if examples.labels is None else [[label] for label in examples.labels]
    return Labelled(texts, None, types, labels, path)


# === Features ===
# The hidden states of labeled words or texts before the first layer and after each, computed once.


_CHUNK = 256  # texts
_SHARE = 0.5  # of the free memory for features; beyond that, they go into a file


class Features(NamedTuple):
    """Features and labels of n words or texts to train probes on.

    Attributes:
        values: float32 [n, L + 1, H]; [:, 0] is the input of the first layer. For a word, the mean over its tokens.
        types: n names, as in `Labelled`.
        labels: n.
    """

    values: np.ndarray
    types: list[str]
    labels: list[str]


class _WithEmbeddings:
    """An encoder whose layers include the input of the first, for `Extractor`."""

    def __init__(self, encoder):
        self._encoder = encoder
        self.config = dataclasses.replace(encoder.config, num_hidden_layers=encoder.config.num_hidden_layers + 1)

    def __call__(self, features, training=False):
        outputs = self._encoder(features, training=training)
        return outputs | {"encoder_outputs": [outputs["embedding_output"], *outputs["encoder_outputs"]]}


def compute(bert: Any, examples: Labelled, max_seq_length: int, folder: str) -> Features:
    """Computes the features of all words or texts; words beyond `max_seq_length` are left out and counted in the log.

    Args:
        bert: a model from `bert_tf.load`.
        examples: with labels.
        max_seq_length: longest sequence in tokens.
        folder: directory of a temporary file for features that do not fit in memory.
    """
    layers = range(bert.config.num_hidden_layers + 1)
    encoder = _WithEmbeddings(bert.encoder)
    extract = Extractor(encoder, bert.tokenizer, tuple(layers), "mean", max_seq_length=max_seq_length)
    values = _allocate((examples.count, len(layers), bert.config.hidden_size), folder)
    count, types, labels = 0, [], []
    with Countdown("Reading with the frozen encoder", "texts", len(examples)) as countdown:
        for start in range(0, len(examples), _CHUNK):
            part = examples.take(range(start, min(start + _CHUNK, len(examples))))
            for i, chosen, vectors in _compute_vectors(extract, part):
                values[count : count + len(chosen)] = vectors.reshape(len(chosen), *values.shape[1:])
                count += len(chosen)
                types += [part.types[i][k] for k in chosen]
                labels += [part.labels[i][k] for k in chosen]
            countdown.advance(len(part))
    if count < examples.count:
        logging.warning(
            "%s: %d of %d words have no token within `max_seq_length=%d` and are left out.",
            *(examples.path, examples.count - count, examples.count, max_seq_length),
        )
    return Features(values[:count], types, labels)


def _allocate(shape, folder):
    """Returns an array for the features: in memory, or in a file that disappears with the process."""
    size = 4 * int(np.prod(shape))
    free = min([free_memory(), *group_limits()])
    if size <= _SHARE * free:
        return np.zeros(shape, np.float32)
    logging.info("The features, %.1f GB, go into a file: %.1f GB of memory are free.", size / 1e9, free / 1e9)
    with tempfile.TemporaryFile(dir=folder) as file:
        return np.memmap(file, np.float32, "w+", shape=shape)


def _compute_vectors(extract, examples: Labelled) -> Iterator[tuple[int, list[int], np.ndarray]]:
    """Yields (number of a text, indices of its words, their features [words, D])."""
    if examples.words is None:
        for i, vector in enumerate(extract(examples.texts)):
            yield i, [0], vector[np.newaxis]
        return
    for i, (spans, tokens) in enumerate(zip(examples.words, extract.tokens(examples.texts), strict=True)):
        own = np.flatnonzero((tokens.of_text == 0) & (tokens.starts < tokens.ends))
        word = np.searchsorted([start for start, _ in spans], tokens.starts[own], "right") - 1
        chosen, of_token = np.unique(word, return_inverse=True)
        sums = np.zeros([len(chosen), tokens.values.shape[1]], np.float32)
        np.add.at(sums, of_token, tokens.values[own])
        yield i, chosen.tolist(), sums / np.bincount(of_token, minlength=len(chosen))[:, np.newaxis]


# === Job ===


_FEW = 2  # distinct labels


@dataclasses.dataclass(frozen=True)
class ProbeOptions:
    """Settings of the features and of the training of probes.

    Attributes:
        max_seq_length: longest sequence in tokens.
        seed: of the control's labels and of the order of training.
        epochs: None: as `probe.probe` chooses.
        folder: directory for features that do not fit in memory.
    """

    max_seq_length: int
    seed: int
    folder: str
    epochs: int | None = None


def run_probing(bert: Any, train: Labelled, test: Labelled, options: ProbeOptions) -> dict:
    """Trains and evaluates probes of a model.

    Args:
        bert: a model from `bert_tf.load`.
        train, test: examples for training and for evaluation.
        options: see `ProbeOptions`.

    Returns:
        The contents of probe.json; see docs/guides/interpretability.md.

    Raises:
        ValueError: there are fewer than two labels.
    """
    labels = sorted({label for each in train.labels for label in each})
    if len(labels) < _FEW:
        raise ValueError(
            f"{train.path}: at least two labels are required; got {brief(labels)}. Choose another column."
        )
    seen, held = (compute(bert, each, options.max_seq_length, options.folder) for each in (train, test))
    held = _keep_known_labels(held, labels, test.path)
    ids = {label: i for i, label in enumerate(labels)}
    targets, held_targets = (np.array([ids[label] for label in each.labels], np.int32) for each in (seen, held))
    random, held_random = (
        probe.control_labels(seen.types, types, targets, options.seed) for types in (seen.types, held.types)
    )
    found = train_probe(
        *(seen.values, np.stack([targets, random], 1), held.values, np.stack([held_targets, held_random], 1)),
        *(len(labels), options.seed, options.epochs),
    )
    counts = {"train": len(seen.labels), "eval": len(held.labels)}
    return _results(found, labels, counts, probe.baselines(seen.types, targets, held.types, held_targets))


def _keep_known_labels(held, labels, path):
    """Returns the features whose label occurs in training: no probe can predict others."""
    there = np.array([label in set(labels) for label in held.labels])
    if there.all():
        return held
    strange = sorted({label for label, known in zip(held.labels, there, strict=True) if not known})
    logging.warning("%s: %d of %d labels do not occur in training and are left out: %s.",
                    *(path, (~there).sum(), len(there), brief(strange)))  # fmt: skip
    if not there.any():
        raise ValueError(
            f"{path} has none of the training labels: {brief(strange)}. Check the column."
        )
    chosen = np.flatnonzero(there)
    return Features(held.values[chosen], *([each[i] for i in chosen] for each in (held.types, held.labels)))


def _results(found: Probed, labels, counts, baselines):
    def scores(right, by_control, count):
        error = math.sqrt(right * (1 - right) / count)
        return {"accuracy": right, "standard_error": error, "control": by_control, "selectivity": right - by_control}

    pairs = zip(*found.layers.tolist(), strict=True)
    layers = [{"layer": n, **scores(*pair, counts["eval"])} for n, pair in enumerate(pairs)]
    mix = scores(*found.mix.tolist(), counts["eval"]) | {"weights": found.mix_weights[0].tolist()}
    return {"examples": counts, "labels": labels, "layers": layers, "mix": mix, "baselines": baselines}
