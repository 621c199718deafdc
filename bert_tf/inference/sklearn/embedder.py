"""A frozen encoder as a scikit-learn transformer: texts in, vectors out."""

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
# What a program sets once for its whole process, here for a block: precision, and the seed of new weights.


def precision_of(name: str):
    """Returns `dtype_policy` for one of `names.PRECISIONS`; raises ValueError for any other."""
    if name not in PRECISIONS:
        raise ValueError(f"`precision` must be one of {', '.join(PRECISIONS)}. Received: {name!r}; choose one.")
    return dtype_policy(name)


@contextlib.contextmanager
def seed_of_weights(seed: int):
    """Derives new weights from `seed`, as the commands do; random numbers outside of it are not affected.

    Keras draws the seed of each initializer from Python's generator, so no other need be set.
    """
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


# === Texts ===
# What the estimators take for texts and for labels: lists, one-dimensional arrays, Series.


def as_texts(texts: Iterable[str]) -> list[str]:
    """Returns n texts as a list.

    Raises:
        ValueError: there is none, something is no string, or it is one text, or a table of them.
    """
    texts = text_list(texts, "X")
    if not texts:
        raise ValueError("`X` is empty: 0 sample(s), but at least one text is required.")
    return texts


def as_examples(texts: list[str], labels: list[str] | None = None) -> LabeledTexts:
    """Returns texts, and the names of their labels, as a task reads them."""
    names = [str(n) for n in range(len(texts))]
    return LabeledTexts(names, texts, None, labels, "X", list(range(len(texts))))


def as_labels(labels, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the classes, sorted, [L], and the index of each text's class among them, int [n].

    Args:
        labels: n of them, strings, integers or booleans.
        texts: the n texts.

    Raises:
        ValueError: there are more or fewer labels than texts, they are numbers on a scale, one is no single line, or
            all are the same.
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
            f"`y` must be labels of one line of text each, as they are kept one a line. Received "
            f"{str(classes[broken[0]])!r:.80} for text {first}; write it without line breaks."
        )
    if len(classes) < 2:
        raise ValueError(
            f"`y` must have two classes to tell apart. Received one class, {classes[0]!r}, for all {len(texts)} texts; "
            "add texts of another."
        )
    return classes, label_ids


def as_label_ids(labels, texts: list[str], classes: np.ndarray) -> np.ndarray:
    """Returns the index of each text's label among `classes`, int [n].

    Raises:
        ValueError: there are more or fewer labels than texts, or one is no class.
    """
    labels = column_or_1d(labels, warn=True)
    check_consistent_length(texts, labels)
    index = {name: i for i, name in enumerate(classes.tolist())}
    if strange := [name for name in labels.tolist() if name not in index]:
        raise ValueError(f"`y` must be of the classes {list(index)}. Received: {strange[0]!r}; leave such texts out.")
    return np.array([index[name] for name in labels.tolist()])


# === Embedder ===


@dataclasses.dataclass
class FrozenEncoder:
    """An encoder in a folder, loaded when it is first needed; a pickle holds the folder's path and no weights."""

    path: str
    options: dict
    precision: str

    @functools.cached_property
    def extract(self) -> Extractor:
        """Texts -> float32 [n, D]."""
        with precision_of(self.precision):
            bert = load(self.path)
        return Extractor(bert.encoder, bert.tokenizer, **self.options)

    def __getstate__(self):
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


class BertEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Transforms texts into embeddings with a frozen encoder.

        make_pipeline(BertEmbedder("demo/weights/minilm"), LogisticRegression())

    Args:
        model: a folder that `bert_tf.load` takes.
        layers: one of `names.LAYERS`, or indices of layers from -1, the last, down, put side by side.
        pooling: one of `names.POOLINGS`: what stands for a whole text.
        normalize: divide each vector by its length.
        max_seq_length: longest sequence in tokens; what is longer is cut. None: as many as the model can take.
        precision: what the encoder computes in; vectors are float32 in any case.

    A fitted one pickles as its settings and the folder's path: the folder must be there where it is loaded.
    """

    def __init__(self, model, layers="last", pooling="mean", normalize=False, max_seq_length=None, precision="float32"):
        self.model = model
        self.layers = layers
        self.pooling = pooling
        self.normalize = normalize
        self.max_seq_length = max_seq_length
        self.precision = precision

    def fit(self, X: Sequence[str], y=None):
        """Loads the encoder; the texts are only looked at.

        Args:
            X: n texts.
            y: ignored.

        Raises:
            ValueError: there is no model, no such layer or pooling, or what was given is no list of texts.
        """
        as_texts(X)
        options = {name: getattr(self, name) for name in ("layers", "pooling", "normalize", "max_seq_length")}
        self.encoder_ = FrozenEncoder(os.fspath(self.model), options, self.precision)
        self._n_features_out = self.encoder_.extract.width
        return self

    def transform(self, X: Sequence[str]) -> np.ndarray:
        """Returns a vector for each of n texts, float32 [n, D].

        Raises:
            NotFittedError: `fit` was not called.
            ValueError: what was given is no list of texts.
        """
        check_is_fitted(self)
        return self.encoder_.extract(as_texts(X))

    def __sklearn_tags__(self):
        return with_string_input(super().__sklearn_tags__())


def with_string_input(tags):
    """Returns scikit-learn's tags of an estimator whose samples are strings."""
    tags.input_tags.one_d_array = tags.input_tags.string = True
    tags.input_tags.two_d_array = False
    if tags.transformer_tags:
        tags.transformer_tags.preserves_dtype = []
    return tags
