"""SPLADE: an encoder with its masked-LM head, whose logits are pooled into one sparse vector over the vocabulary."""

import keras
import tensorflow as tf

from bert_tf.models.model_inputs import ENCODER_FEATURES, encoder_inputs
from bert_tf.models.pretrainer import Pretrainer
from bert_tf.utils.names import SPLADE_ACTIVATIONS, SPLADE_POOLINGS

_TOKENS = 1024  # whose logits are in memory at a time, 4 V bytes each
_FEWEST = 8  # positions at a time, of however many texts: the encoder needs more memory than their logits


@keras.saving.register_keras_serializable("bert_tf")
class SpladeModel(Pretrainer):
    """SPLADE model (Formal et al. 2021, "SPLADE v2", equations 1 and 6): token logits to a vector of term weights.

    w_j = max_i log(1 + ReLU(logit_ij)) over the tokens i of a text, special tokens included; "sum" is the first
    version's sum over them.

    Args:
        config: an `EncoderConfig`, or the dict made by its `to_dict`.
        pooling: one of `names.SPLADE_POOLINGS`.
        activation: one of `names.SPLADE_ACTIVATIONS`; "log1p_relu" takes the logarithm twice, as OpenSearch's models.
        kwargs: as in `Pretrainer`.

    Inputs: a dict of the inputs of `Encoder`; tokens where `input_mask` is 0 do not count. Output: float32 [B, V], at
    least 0. No more logits than those of some 1,000 tokens are held in memory, or 8 of each text if those are more.
    """

    TAKES = ENCODER_FEATURES

    def __init__(self, config, pooling="max", activation="relu", **kwargs):
        kwargs.pop("next_sentence", None)  # of a configuration
        super().__init__(config, next_sentence=False, **kwargs)
        assert pooling in SPLADE_POOLINGS and activation in SPLADE_ACTIVATIONS, (pooling, activation)
        self.pooling, self.activation = pooling, activation

    def call(self, inputs, training=None, encode=None):
        features = encoder_inputs(inputs)
        outputs = encode(features) if encode else self.encoder(features, training=training)
        x = self.masked_lm.input_of(self.encoder, outputs, features, training)
        table = tf.cast(self.encoder.embeddings.word_embeddings, x.dtype)
        mask = features["input_mask"] if "input_mask" in features else tf.ones_like(features["input_ids"])
        pooled = self._pool(lambda positions: self.masked_lm(x, table, positions, training=training), mask)
        return self._logarithm(pooled) if self.pooling == "max" else pooled

    def _pool(self, logits_at, mask):
        """Returns what is pooled over the positions of `mask`, [B, V], a part of them at a time."""
        if None not in mask.shape and mask.shape.num_elements() <= _TOKENS:  # one part, without a loop
            return self._pool_part(logits_at, mask, tf.range(mask.shape[1]))
        B, S = tf.unstack(tf.shape(mask))
        part = tf.range(tf.minimum(tf.maximum(_TOKENS // tf.maximum(B, 1), _FEWEST), S))

        def add_part(start, pooled):
            found = self._pool_part(logits_at, mask, start + part)
            return start + tf.size(part), tf.maximum(pooled, found) if self.pooling == "max" else pooled + found

        start = 0, tf.zeros([B, self.config.vocab_size])
        return tf.while_loop(lambda start, _: start < S, add_part, start, parallel_iterations=1)[1]

    def _pool_part(self, logits_at, mask, positions):
        """Returns the same of some positions, int32 [C], of which those from S on do not count."""
        S = tf.shape(mask)[1]
        there = tf.minimum(positions, S - 1)
        counts = tf.gather(mask, there, axis=1) * tf.cast(positions < S, mask.dtype)
        places = tf.broadcast_to(there, tf.shape(counts))
        values = tf.nn.relu(logits_at(places) * tf.cast(counts, tf.float32)[:, :, tf.newaxis])
        # A logarithm preserves the order, so one of the maximum is the maximum of theirs.
        return tf.reduce_max(values, 1) if self.pooling == "max" else tf.reduce_sum(self._logarithm(values), 1)

    def _logarithm(self, values):
        values = tf.math.log1p(values)
        return tf.math.log1p(values) if self.activation == "log1p_relu" else values

    def compute_output_spec(self, inputs, training=None, encode=None):
        return keras.KerasTensor((inputs["input_ids"].shape[0], self.config.vocab_size), "float32")

    def get_config(self):
        return super().get_config() | {"pooling": self.pooling, "activation": self.activation}
