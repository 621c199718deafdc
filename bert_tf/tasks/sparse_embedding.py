"""Sparse embeddings: a SPLADE model, for prediction and export."""

from typing import Any

import keras
import tensorflow as tf

from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.models.config import EncoderConfig
from bert_tf.models.sparse_encoder_files import SpladeConfig, read_sparse_config
from bert_tf.models.splade import SpladeModel
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.foreign_models import limit_length
from bert_tf.tasks.sequences import encode_served_texts
from bert_tf.tasks.servable_task import ServableTask


class SparseEmbeddingTask(ServableTask):
    """Sparse embedding task: encoder, masked-LM head and SPLADE pooling; see `tasks/servable_task.py`.

    Args:
        config: configuration of the encoder.
        pooling, activation: as in `SpladeModel`.
        prompt: text before every text.
    """

    name = "sparse_embedding"
    features = ENCODER_INPUTS
    head = (r"cls[/.]predictions[/.].*",)
    uses_pooler = False
    example_method = None
    reads_whole_texts = False

    def __init__(self, config: EncoderConfig, pooling: str = "max", activation: str = "relu", prompt: str = ""):
        self.config = config
        self.pooling, self.activation, self.prompt = pooling, activation, prompt

    @classmethod
    def from_pretrained(cls, directory: str, model: Any) -> TrainedTask | None:
        """Returns the task of a SparseEncoder's directory, whose `ModelDescription` is `model`; None for any other.

        Raises:
            ValueError: the directory has unsupported settings.
        """
        found = read_sparse_config(directory, "document")
        if found is None:
            return None
        if not isinstance(found, SpladeConfig):
            raise ValueError(
                f"To be exported, a SparseEncoder must embed documents with an encoder. {directory} embeds them with "
                "fixed token weights; use it with `bert_tf.SentenceEncoder` instead."
            )
        if found.lower and not model.tokenizer.do_lower_case:
            raise ValueError(
                "To be exported, a SparseEncoder that lowercases text must have a tokenizer that does so. In "
                f"{directory}, only the Transformer module has do_lower_case; use it with `bert_tf.SentenceEncoder` "
                "instead."
            )
        task = cls(model.config, found.pooling, found.activation, found.prompt_for(None))
        return TrainedTask(task, ("text",), limit_length(found.max_seq_length, model.config))

    def to_dict(self) -> dict[str, Any]:
        """Returns the arguments of the constructor except for `config`, as JSON values."""
        return {"pooling": self.pooling, "activation": self.activation, "prompt": self.prompt}

    def build_model(self) -> keras.Model:
        """Builds a model from `features` to the weights of all tokens in the vocabulary, float32 [B, V]."""
        inputs = keras_inputs(self.features)
        weights = SpladeModel(self.config, self.pooling, self.activation)(inputs)
        return keras.Model(inputs, weights, name="sparse_embedding")

    def preprocess(self, tokenizer, texts, max_seq_length):
        if self.prompt:
            texts = [tf.strings.join([self.prompt, text]) for text in texts]
        return encode_served_texts(tokenizer, texts, max_seq_length), None

    def postprocess(self, outputs, origin=None) -> dict[str, tf.Tensor]:
        """Returns the tokens with a weight, the greatest weight first.

        Returns:
            "indices", int32 [n, K], their ids, and "weights", float32 [n, K]. K is the number of such tokens in the
            text with the most of them, at least 1; the rows of other texts end with weights of 0.
        """
        counts = tf.math.count_nonzero(outputs, -1, dtype=tf.int32)
        weights, indices = tf.math.top_k(outputs, tf.maximum(tf.reduce_max(counts), 1))
        return {"indices": indices, "weights": weights}

    def example_answer(self, outputs, origin=None):
        raise AssertionError(f"{self.name} has no signature on tf.Example")
