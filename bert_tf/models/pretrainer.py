"""The encoder with pretraining's heads on it: all that google-research/bert's run_pretraining.py trains."""

import keras
import tensorflow as tf

from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.model_inputs import ENCODER_FEATURES, NamedInputsModel, encoder_inputs
from bert_tf.models.pretraining_heads import MaskedLMHead, NextSentenceHead


@keras.saving.register_keras_serializable("bert_tf")
class Pretrainer(NamedInputsModel):
    """`Encoder`, `MaskedLMHead`, mostly tied to its word embeddings, and, unless it is left out, `NextSentenceHead`.

    Args:
        config: an `EncoderConfig`, or the dict that `to_dict` made of one.
        next_sentence: with the next-sentence head; without it the pooler has nothing to learn from and is frozen.
        rematerialize: as in `Encoder`.

    Inputs: a dict of what `Encoder` takes and of `masked_lm_positions` int32 [B, M]; for packed rows also
    `next_sentence_positions` int32 [B, K], the places of the examples' first tokens.

    Outputs: a dict of `mlm_logits` float32 [B, M, V] and, with next_sentence, `nsp_logits` float32 [B, K, 2], where K
    is 1 unless rows are packed.
    """

    TAKES = (*ENCODER_FEATURES, "masked_lm_positions", "next_sentence_positions")

    def __init__(self, config, next_sentence=True, rematerialize=False, trainable=True, **kwargs):
        super().__init__(**kwargs)
        self.config = config if isinstance(config, EncoderConfig) else EncoderConfig.from_dict(config)
        self.next_sentence = next_sentence
        self.rematerialize = rematerialize
        c, policy = self.config, {"dtype": self.dtype_policy}
        self.encoder = Encoder(c, rematerialize, **policy)
        numbers = (c.vocab_size, c.hidden_act, c.initializer_range, c.layer_norm_eps, c.embedding_size)
        self.masked_lm = MaskedLMHead(*numbers, c.tie_word_embeddings, **policy)
        self.seq_relationship = NextSentenceHead(c.initializer_range, **policy) if next_sentence else None
        self._build_parts()
        self.trainable = trainable
        if not next_sentence and c.has_pooler:
            self.encoder.pooler.trainable = False

    def _build_parts(self):
        """Creates the weights here, and not in `build`, where the model's own name would stand before Google's."""
        self.encoder.build()
        with keras.name_scope("cls"):
            self.masked_lm.build((None, None, self.config.hidden_size))
            if self.seq_relationship:
                self.seq_relationship.build((None, self.config.hidden_size))

    def call(self, inputs, training=None):
        outputs = self.encoder(encoder_inputs(inputs), training=training)
        x = outputs["sequence_output"]
        table = tf.cast(self.encoder.embeddings.word_embeddings, x.dtype)  # once a step, for both passes
        logits = {"mlm_logits": self.masked_lm(x, table, inputs["masked_lm_positions"], training=training)}
        if not self.next_sentence:
            return logits
        return logits | {"nsp_logits": self.seq_relationship(self._pooled(outputs, inputs, training))}

    def _pooled(self, outputs, inputs, training):
        """Returns [B, K, H]: the pooled output of every example in its row."""
        positions = inputs.get("next_sentence_positions")
        if positions is None:
            return outputs["pooled_output"][:, tf.newaxis]
        first = tf.gather(outputs["sequence_output"], positions, batch_dims=1)
        return self.encoder.pooled(first, training=training)

    def compute_output_spec(self, inputs, training=None):
        B, M = inputs["masked_lm_positions"].shape
        K = inputs["next_sentence_positions"].shape[1] if "next_sentence_positions" in inputs else 1
        logits = {"mlm_logits": keras.KerasTensor((B, M, self.config.vocab_size), "float32")}
        return logits | ({"nsp_logits": keras.KerasTensor((B, K, 2), "float32")} if self.next_sentence else {})

    def get_config(self):
        return {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "config": self.config.to_dict(),
            "next_sentence": self.next_sentence,
            "rematerialize": self.rematerialize,
        }
