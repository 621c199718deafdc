"""The encoder with its pretraining heads, as trained by google-research/bert's run_pretraining.py."""

import keras
import tensorflow as tf

from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.model_inputs import ENCODER_FEATURES, NamedInputsModel, encoder_inputs
from bert_tf.models.pretraining_heads import MaskedLMHead, NextSentenceHead


@keras.saving.register_keras_serializable("bert_tf")
class Pretrainer(NamedInputsModel):
    """Pretraining model: `Encoder`, `MaskedLMHead` (usually tied) and, by default, `NextSentenceHead`.

    Args:
        config: an `EncoderConfig`, or the dict made by its `to_dict`.
        next_sentence: whether to include the next-sentence head; without it, the pooler is frozen, because nothing
            trains it.
        gradient_checkpointing: as in `Encoder`.

    Inputs: a dict of the inputs of `Encoder` and `masked_lm_positions` int32 [B, M]; for packed sequences also
    `next_sentence_positions` int32 [B, K], the positions of the examples' first tokens.

    If `encode`, a function of the encoder's inputs, is given, it computes the encoder's outputs instead.

    Outputs: a dict of `mlm_logits` float32 [B, M, V] and, with next_sentence, `nsp_logits` float32 [B, K, 2], where K
    is 1 unless sequences are packed.
    """

    TAKES = (*ENCODER_FEATURES, "masked_lm_positions", "next_sentence_positions")

    def __init__(self, config, next_sentence=True, gradient_checkpointing=False, trainable=True, **kwargs):
        super().__init__(**kwargs)
        self.config = config if isinstance(config, EncoderConfig) else EncoderConfig.from_dict(config)
        self.next_sentence = next_sentence
        self.gradient_checkpointing = gradient_checkpointing
        c, policy = self.config, {"dtype": self.dtype_policy}
        self.encoder = Encoder(c, gradient_checkpointing, **policy)
        self.masked_lm = MaskedLMHead.of(c, **policy)
        self.seq_relationship = NextSentenceHead(c.initializer_range, **policy) if next_sentence else None
        self._build_parts()
        self.trainable = trainable
        if not next_sentence and c.has_pooler:
            self.encoder.pooler.trainable = False

    def _build_parts(self):
        """Creates the weights; `build` would prefix Google's names with the model's name."""
        self.encoder.build()
        with keras.name_scope("cls"):
            self.masked_lm.build((None, None, self.config.hidden_size))
            if self.seq_relationship:
                self.seq_relationship.build((None, self.config.hidden_size))

    def call(self, inputs, training=None, encode=None):
        inputs_of_encoder = encoder_inputs(inputs)
        outputs = encode(inputs_of_encoder) if encode else self.encoder(inputs_of_encoder, training=training)
        x = self.masked_lm.input_of(self.encoder, outputs, inputs_of_encoder, training)
        table = tf.cast(self.encoder.embeddings.word_embeddings, x.dtype)  # once a step, for both passes
        logits = {"mlm_logits": self.masked_lm(x, table, inputs["masked_lm_positions"], training=training)}
        if not self.next_sentence:
            return logits
        return logits | {"nsp_logits": self.seq_relationship(self._pooled(outputs, inputs, training))}

    def _pooled(self, outputs, inputs, training):
        """Returns the pooled output of every example in a sequence, [B, K, H]."""
        positions = inputs.get("next_sentence_positions")
        if positions is None:
            return outputs["pooled_output"][:, tf.newaxis]
        first = tf.gather(outputs["sequence_output"], positions, batch_dims=1)
        return self.encoder.pooled(first, training=training)

    def compute_output_spec(self, inputs, training=None, encode=None):
        B, M = inputs["masked_lm_positions"].shape
        K = inputs["next_sentence_positions"].shape[1] if "next_sentence_positions" in inputs else 1
        logits = {"mlm_logits": keras.KerasTensor((B, M, self.config.vocab_size), "float32")}
        return logits | ({"nsp_logits": keras.KerasTensor((B, K, 2), "float32")} if self.next_sentence else {})

    def get_config(self):
        return super().get_config() | {"next_sentence": self.next_sentence}
