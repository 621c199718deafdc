"""A frozen encoder as a scikit-learn transformer: from texts to embeddings."""

import contextlib
import dataclasses
import functools
import os
import random
from collections.abc import Iterable, Sequence

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from bert_tf.checkpoints.feature_extractor import Extractor
from bert_tf.checkpoints.loading import load
from bert_tf.data.tables import LabeledTexts
from bert_tf.export.precision import dtype_policy
from bert_tf.utils.names import PRECISIONS
from bert_tf.utils.text_lists import text_list

# === Process ===
# Settings that commands make once per process, here for a block: precision, and the seed of new weights.


def precision_of(name: str):
    """Returns `dtype_policy` for one of `names.PRECISIONS`; raises ValueError for any other."""
    if name not in PRECISIONS:
        raise ValueError(f"`precision` must be one of {', '.join(PRECISIONS)}. Got {name!r}.")
    return dtype_policy(name)


@contextlib.contextmanager
def seed_of_weights(seed: int):
    """Derives new weights from `seed`, as the commands do; other random numbers are not affected.

    Keras draws the seed of each initializer from Python's generator, so no other seed is needed.
    """
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


# === Texts ===
# Texts and labels that the estimators accept: lists, one-dimensional arrays, Series.


def as_texts(texts: Iterable[str]) -> list[str]:
    """Returns n texts as a list.

    Raises:
        ValueError: there are no texts, an element is not a string, or the input is one text or a table.
    """
    texts = text_list(texts, "X")
    if not texts:
        raise ValueError("`X` is empty: 0 sample(s), but at least one text is required.")
    return texts


def as_examples(texts: list[str], labels: list[str] | None = None) -> LabeledTexts:
    """Returns texts and the names of their labels in the format of a task."""
    names = [str(n) for n in range(len(texts))]
    return LabeledTexts(names, texts, None, labels, "X", list(range(len(texts))))


def as_labels(labels, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the classes, sorted, [L], and the index of each text's class among them, int [n].

    Args:
        labels: n of them, strings, integers or booleans.
        texts: the n texts.

    Raises:
        ValueError: the numbers of labels and texts differ, labels are continuous, one has several lines, or
            all are equal.
    """
    if labels is None:
        raise ValueError("`y` must be a label for each text: requires y to be passed, but the target y is None.")
    labels = column_or_1d(labels, warn=True)
    check_consistent_length(texts, labels)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    classes, label_ids = np.unique(labels, return_inverse=True)
    if broken := [i for i, name in enumerate(classes.tolist()) if isinstance(name, str) and {"\n", "\r"} & set(name)]:
        first = int(np.flatnonzero(label_ids == broken[0])[0])
        raise ValueError(
            f"Each label in `y` must be a single line, because labels are stored one per line; got "
            f"{str(classes[broken[0]])!r:.80} for text {first}. Remove the line breaks."
        )
    if len(classes) < 2:
        raise ValueError(
            f"`y` must have at least two classes; got one class, {classes[0]!r}, for all {len(texts)} texts. "
            "Add texts of another class."
        )
    return classes, label_ids


def as_label_ids(labels, texts: list[str], classes: np.ndarray) -> np.ndarray:
    """Returns the index of each text's label among `classes`, int [n].

    Raises:
        ValueError: the numbers of labels and texts differ, or a label is not a class.
    """
    labels = column_or_1d(labels, warn=True)
    check_consistent_length(texts, labels)
    index = {name: i for i, name in enumerate(classes.tolist())}
    if strange := [name for name in labels.tolist() if name not in index]:
        raise ValueError(f"`y` must only have labels in {list(index)}; got {strange[0]!r}. Remove such texts.")
    return np.array([index[name] for name in labels.tolist()])


# === Embedder ===


@dataclasses.dataclass
class FrozenEncoder:
    """An encoder in a directory, loaded when it is first needed; a pickle holds the path, but no weights."""

    path: str
    options: dict
    precision: str

    @functools.cached_property
    def extract(self) -> Extractor:
        """Returns the embeddings of texts, float32 [n, D]."""
        with precision_of(self.precision):
            bert = load(self.path)
        return Extractor(bert.encoder, bert.tokenizer, **self.options)

    def __getstate__(self):
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


class BertEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Transforms texts into embeddings with a frozen encoder.

        make_pipeline(BertEmbedder("demo/weights/minilm"), LogisticRegression())

    Args:
        model: a model directory, as in `bert_tf.load`.
        layers: one of `names.LAYERS`, or indices of layers from -1, the last, down; several are concatenated.
        pooling: one of `names.POOLINGS`: how a text's token features are pooled.
        normalize: scale each embedding to length 1.
        max_seq_length: longest sequence in tokens; longer texts are truncated. None: the model's maximum.
        precision: precision of the encoder; embeddings are always float32.

    Pickling a fitted embedder stores its settings and the model path only, so the path must exist when it is loaded.
    """

    def __init__(self, model, layers="last", pooling="mean", normalize=False, max_seq_length=None, precision="float32"):
        self.model = model
        self.layers = layers
        self.pooling = pooling
        self.normalize = normalize
        self.max_seq_length = max_seq_length
        self.precision = precision

    def fit(self, X: Sequence[str], y=None):
        """Loads the encoder; the texts are only validated.

        Args:
            X: n texts.
            y: ignored.

        Raises:
            ValueError: there is no model, no such layer or pooling, or the input is not a list of texts.
        """
        as_texts(X)
        options = {name: getattr(self, name) for name in ("layers", "pooling", "normalize", "max_seq_length")}
        self.encoder_ = FrozenEncoder(os.fspath(self.model), options, self.precision)
        self._n_features_out = self.encoder_.extract.width
        return self

    def transform(self, X: Sequence[str]) -> np.ndarray:
        """Returns the embeddings of n texts, float32 [n, D].

        Raises:
            NotFittedError: `fit` was not called.
            ValueError: the input is not a list of texts.
        """
        check_is_fitted(self)
        return self.encoder_.extract(as_texts(X))

    def __sklearn_tags__(self):
        return with_string_input(super().__sklearn_tags__())


def with_string_input(tags):
    """Returns the scikit-learn tags of an estimator that takes strings."""
    tags.input_tags.one_d_array = tags.input_tags.string = True
    tags.input_tags.two_d_array = False
    if tags.transformer_tags:
        tags.transformer_tags.preserves_dtype = []
    return tags
