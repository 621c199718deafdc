"""A frozen encoder as a scikit-learn transformer: texts in, vectors out."""

import dataclasses
import functools
import os
from collections.abc import Sequence

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bert_tf.checkpoints.extractor import Extractor
from bert_tf.checkpoints.model_files import load
from bert_tf.inference.sklearn.process import precision_of
from bert_tf.inference.sklearn.texts import as_texts


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
    """Turns texts into the vectors that `bert.features` gives; nothing is learned.

        make_pipeline(BertEmbedder("demo/weights/minilm"), LogisticRegression())

    Args:
        model: a folder that `bert_tf.load` takes.
        layers: one of `names.LAYERS`, or indices of layers from -1, the last, down, put side by side.
        pooling: one of `names.POOLINGS`: what stands for a whole text.
        normalize: divide each vector by its length.
        max_seq_length: longest row in pieces; what is longer is cut. None: as many as the model can take.
        precision: what the encoder computes in; vectors are float32 in any case.

    A fitted one pickles as its settings and the folder's path: the folder must be there where it is loaded.
    """

    def __init__(
        self, model, layers="last", pooling="mean", normalize=False, max_seq_length=None, precision="float32"
    ):
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
        return of_texts(super().__sklearn_tags__())


def of_texts(tags):
    """Returns scikit-learn's tags of an estimator whose samples are strings."""
    tags.input_tags.one_d_array = tags.input_tags.string = True
    tags.input_tags.two_d_array = False
    if tags.transformer_tags:
        tags.transformer_tags.preserves_dtype = []
    return tags
