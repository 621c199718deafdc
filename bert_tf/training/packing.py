"""Packing in a training step: encoders compute rows that contain several short texts."""

import tensorflow as tf

from bert_tf.data.fixed_rows import INDICES, LAYOUT, SOURCES
from bert_tf.data.packed_rows import lay_out, place_tokens
from bert_tf.models.encoder_replacement import replace_encoder
from bert_tf.models.training_ops import gather_tokens


class PackingModel:
    """A task model whose encoders pack the short texts of a batch into shared sequences in training.

    A call takes the model's inputs and, if a program of XLA needs the places of tokens beforehand, the `LAYOUT` of
    `fixed_rows.fixed_layout`. It returns the model's outputs.
    """

    def __init__(self, model):
        self._model = replace_encoder(model, self._packing)
        self._layout = {}

    def __call__(self, inputs, training):
        self._layout = {name: inputs[name] for name in LAYOUT if name in inputs}
        return self._model({name: each for name, each in inputs.items() if name not in LAYOUT}, training=training)

    def _packing(self, encoder):
        """Returns an encoder's training pass in which short texts share sequences."""

        def encode(features):
            rows = self._rows(features)
            packed = {name: values for name, values in rows.features.items() if name != "position_ids"}
            packed["sentence_ids"] += tf.zeros_like(packed["input_ids"])  # for sequences of one text it is [R, 1]
            outputs = encoder(packed, training=True)
            outputs = tf.nest.map_structure(
                lambda x: self._to_batch(rows, tf.reshape(x, [-1, x.shape[-1]])) if x.shape.rank == 3 else x, outputs
            )
            vectors = encoder.text_vector(outputs["sequence_output"], features["input_mask"])
            return outputs | {"pooled_output": encoder.pooled(vectors, training=True)}

        return encode

    def _rows(self, features):
        if not self._layout:
            return lay_out(features)
        return place_tokens(features, self._layout[INDICES], self._layout[SOURCES])

    def _to_batch(self, rows, tokens):
        return gather_tokens(tokens, rows.indices, self._layout[SOURCES]) if self._layout else rows.to_batch(tokens)
