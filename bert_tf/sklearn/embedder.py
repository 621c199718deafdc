"""A frozen encoder as a scikit-learn transformer: from texts to embeddings."""

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bert_tf.checkpoints.feature_extractor import Extractor
from bert_tf.checkpoints.hub_models import resolve_model
from bert_tf.checkpoints.loading import load
from bert_tf.export.precision import dtype_policy
from bert_tf.inference.sentence_encoder import count_unpooled, prompt_of, recipe_of
from bert_tf.inference.settings import EncodeOptions
from bert_tf.models.pooling import Layers, Pooling
from bert_tf.sklearn.texts import as_texts, with_string_input
from bert_tf.training.devices import fastest_precision
from bert_tf.utils.names import AUTO, PRECISIONS


@dataclasses.dataclass
class FrozenEncoder:
    """An encoder in a directory, loaded when it is first needed; a pickle contains the path, but no weights."""

    path: str
    options: dict
    precision: str
    prompts: EncodeOptions

    @functools.cached_property
    def prompt(self) -> str:
        """The text put before every text."""
        is_given = self.prompts != EncodeOptions()
        return prompt_of(recipe_of(self.path), self.prompts) if is_given else ""

    @functools.cached_property
    def extract(self) -> Extractor:
        """Returns the embeddings of texts, float32 [n, D]."""
        with dtype_policy(self.precision):
            bert = load(self.path)
        unpooled = count_unpooled(bert.tokenizer, self.prompt, recipe_of(self.path)) if self.prompt else 0
        return Extractor(bert.encoder, bert.tokenizer, **self.options, unpooled=unpooled)

    def __getstate__(self):
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


class BertEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Transforms texts into embeddings with a frozen encoder.

        make_pipeline(BertEmbedder("demo/weights/minilm"), LogisticRegression())

    Args:
        model: a model directory, as in `bert_tf.load`.
        layers: one of `names.LAYERS`, or indices of layers from -1, the last, down; several are concatenated.
        pooling: one of `names.POOLINGS`: how a text's token features are pooled.
        normalize: whether to scale each embedding to length 1.
        max_seq_length: longest sequence in tokens; longer texts are truncated. If None, the model's maximum.
        precision: precision of the encoder, one of `names.PRECISIONS`, or "auto", the fastest of this machine;
            embeddings are always float32.
        prompt: text to prepend to every text, or None.
        prompt_name: the name of a prompt in the model directory, instead of `prompt`.

    Pickling a fitted embedder stores its settings and the model path only, so the path must exist when it is loaded.
    """

    def __init__(
        self,
        model: str | os.PathLike,
        layers: Layers = "last",
        pooling: Pooling = "mean",
        normalize: bool = False,
        max_seq_length: int | None = None,
        precision: str = "float32",
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> None:
        self.model = model
        self.layers = layers
        self.pooling = pooling
        self.normalize = normalize
        self.max_seq_length = max_seq_length
        self.precision = precision
        self.prompt = prompt
        self.prompt_name = prompt_name

    def fit(self, X: Sequence[str], y: Any = None) -> "BertEmbedder":
        """Loads the encoder; the texts are only validated.

        Args:
            X: n texts.
            y: ignored.

        Raises:
            ValueError: there is no model, no such layer, pooling or prompt, or the input is not texts.
        """
        as_texts(X)
        options = {name: getattr(self, name) for name in ("layers", "pooling", "normalize", "max_seq_length")}
        prompts = EncodeOptions(prompt=self.prompt, prompt_name=self.prompt_name)
        self.encoder_ = FrozenEncoder(
            resolve_model(self.model, "model"), options, _find_precision(self.precision), prompts
        )
        self._n_features_out = self.encoder_.extract.width
        return self

    def transform(self, X: Sequence[str]) -> np.ndarray:
        """Returns the embeddings of n texts, float32 [n, D].

        Raises:
            NotFittedError: `fit` was not called.
            ValueError: the input is not texts.
        """
        check_is_fitted(self)
        prompt, texts = self.encoder_.prompt, as_texts(X)
        return self.encoder_.extract([f"{prompt}{text}" for text in texts])

    def __sklearn_tags__(self):
        return with_string_input(super().__sklearn_tags__())


def _find_precision(name):
    """Returns the one of `names.PRECISIONS` that a parameter means: "auto" is the fastest on this machine."""
    if name not in (*PRECISIONS, AUTO):
        raise ValueError(f"`precision` must be one of {', '.join((*PRECISIONS, AUTO))}; got {name!r}.")
    return fastest_precision()[0] if name == AUTO else name
