"""ELECTRA's two networks, trained together: a generator fills in the masks, a discriminator detects replaced tokens.

Clark et al. 2020, "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators", section 2.
"""

import contextlib

import keras
import tensorflow as tf

from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.model_inputs import ENCODER_FEATURES, NamedInputsModel, encoder_inputs
from bert_tf.models.pretraining_heads import MaskedLMHead, ReplacedTokenHead
from bert_tf.models.replacements import sampled_ids, with_ids_at
from bert_tf.models.training_ops import current_seed, seed_scope

_APART = 1 << 30  # added to the seed, so that the two networks use different dropout masks on the shared embeddings


@keras.saving.register_keras_serializable("bert_tf")
class ReplacedTokenPretrainer(NamedInputsModel):
    """ELECTRA model: a discriminator (`Encoder`, `ReplacedTokenHead`) and a generator (`Encoder`, `MaskedLMHead`).

    The generator uses the discriminator's embeddings, including LayerNorm, as in google-research/electra; a linear map
    projects them to its own width. Its samples have no gradient: it is trained by masked LM only. The discriminator's
    variables are named as in a model of its own, and the generator's have the prefix `generator/`.

    Args:
        config: the discriminator's `EncoderConfig`, or the dict made by its `to_dict`.
        generator: the generator's; its tables have the discriminator's shapes.
        gradient_checkpointing: as in `Encoder`.

    Inputs: a dict of the inputs of `Encoder` with masked `input_ids`; `masked_lm_positions` int32 and
    `masked_lm_weights`, `sampling_draws` float32 [B, M]; `unmasked_ids` int32 [B, S]. See `data/features.py`.

    Outputs: a dict of `mlm_logits` float32 [B, M, V] of the generator; `replaced_logits` float32 [B, S], above 0 if the
    discriminator predicts a replaced token; and `replaced` float32 [B, S], 1 if the generator has sampled a token other
    than the original.
    """

    TAKES = (*ENCODER_FEATURES, "masked_lm_positions", "masked_lm_weights", "sampling_draws", "unmasked_ids")

    def __init__(self, config, generator, gradient_checkpointing=False, trainable=True, **kwargs):
        super().__init__(autocast=False, **kwargs)  # Keras would round the draws, and 1 would come out
        of = EncoderConfig.from_dict
        self.config = config if isinstance(config, EncoderConfig) else of(config)
        self.generator_config = generator if isinstance(generator, EncoderConfig) else of(generator)
        self.gradient_checkpointing = gradient_checkpointing
        c, g, policy = self.config, self.generator_config, {"dtype": self.dtype_policy}
        self.encoder = Encoder(c, gradient_checkpointing, **policy)
        self.generator = Encoder(g, gradient_checkpointing, embeddings=self.encoder.embeddings, **policy)
        self.masked_lm = MaskedLMHead.of(g, **policy)
        self.replaced_tokens = ReplacedTokenHead.of(c, **policy)
        self._build_parts()
        self.trainable = trainable

    def _build_parts(self):
        """Creates the weights in this method, as `Pretrainer` does."""
        self.encoder.build()
        with keras.name_scope("cls"):
            self.replaced_tokens.build((None, None, self.config.hidden_size))
        with keras.name_scope("generator"):
            self.generator.build()
            with keras.name_scope("cls"):
                self.masked_lm.build((None, None, self.generator_config.hidden_size))

    def call(self, inputs, training=None):
        logits = self._generated(inputs, training)
        masked = inputs["masked_lm_positions"], inputs["masked_lm_weights"]
        unmasked = inputs["unmasked_ids"]
        ids = with_ids_at(*masked, sampled_ids(logits, inputs["sampling_draws"]), unmasked)
        x = self.encoder(encoder_inputs({**inputs, "input_ids": ids}), training=training)["sequence_output"]
        return {
            "mlm_logits": logits,
            "replaced_logits": self.replaced_tokens(x, inputs.get("sentence_ids"), training=training),
            "replaced": tf.cast(ids != unmasked, tf.float32),
        }

    def _generated(self, inputs, training):
        """Returns the generator's logits at the masked positions, float32 [B, M, V]."""
        apart = seed_scope(current_seed() + tf.constant([0, _APART])) if training else contextlib.nullcontext()
        with apart:
            inputs_of_encoder = encoder_inputs(inputs)
            outputs = self.generator(inputs_of_encoder, training=training)
            x = self.masked_lm.input_of(self.generator, outputs, inputs_of_encoder, training)
        table = tf.cast(self.encoder.embeddings.word_embeddings, x.dtype)
        return self.masked_lm(x, table, inputs["masked_lm_positions"], training=training)

    def compute_output_spec(self, inputs, training=None):
        masked, tokens = inputs["masked_lm_positions"].shape, inputs["input_ids"].shape
        return {
            "mlm_logits": keras.KerasTensor((*masked, self.config.vocab_size), "float32"),
            "replaced_logits": keras.KerasTensor(tokens, "float32"),
            "replaced": keras.KerasTensor(tokens, "float32"),
        }

    def get_config(self):
        return super().get_config() | {"generator": self.generator_config.to_dict()}
