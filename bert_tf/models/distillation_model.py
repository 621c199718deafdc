"""An encoder that outputs the quantities compared in distillation (Sanh et al. 2019; Wang et al. 2020 and 2021)."""

import keras
import tensorflow as tf

from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.layers import Linear
from bert_tf.models.model_inputs import ENCODER_FEATURES, NamedInputsModel, encoder_inputs
from bert_tf.models.pretraining_heads import MaskedLMHead

_OF_ATTENTION = ("queries", "keys", "values")


@keras.saving.register_keras_serializable("bert_tf")
class DistillationModel(NamedInputsModel):
    """An `Encoder`, with a `MaskedLMHead` if required, whose outputs are compared in distillation.

    Components on which no output depends are frozen: the pooler and, if no output of the top is shown, everything above
    the last layer's queries, keys and values, and those of them that are not shown.

    Args:
        config: an `EncoderConfig`, or the dict that `to_dict` made of one.
        shown: names of the outputs.
        layer: the layer of the queries, keys and values, 1 being the lowest. If None, the last.
        width: width that the hidden states are mapped to, such as a teacher's. If None, they are not mapped.
        gradient_checkpointing: as in `Encoder`.

    Inputs: a dict of the inputs of `Encoder`, and for "mlm_logits" also `masked_lm_positions` int32 [B, M].

    Outputs: a dict of some of `mlm_logits` float32 [B, M, V]; `hidden`, the last layer's states, [B, S, H] or
    [B, S, width]; `queries`, `keys`, `values` [B, S, A D], heads concatenated. All but the first are in compute dtype.
    """

    TAKES = (*ENCODER_FEATURES, "masked_lm_positions")

    def __init__(self, config, shown, layer=None, width=None, gradient_checkpointing=False, trainable=True, **kwargs):
        super().__init__(**kwargs)
        self.config = config if isinstance(config, EncoderConfig) else EncoderConfig.from_dict(config)
        self.shown = tuple(shown)
        self.layer = layer or self.config.num_hidden_layers
        self.width = width
        self.gradient_checkpointing = gradient_checkpointing
        c, policy = self.config, {"dtype": self.dtype_policy}
        self.encoder, self.masked_lm, self.map = Encoder(c, gradient_checkpointing, **policy), None, None
        if "mlm_logits" in self.shown:
            self.masked_lm = MaskedLMHead.of(c, **policy)
        if width:
            self.map = Linear(width, "linear", c.initializer_range, name="hidden", **policy)
        self._build_parts()
        self.trainable = trainable
        for part in self._idle():
            part.trainable = False

    def _build_parts(self):
        """Creates the weights; `build` would prefix Google's names with the model's name."""
        self.encoder.build()
        with keras.name_scope("cls"):
            if self.masked_lm:
                self.masked_lm.build((None, None, self.config.hidden_size))
            if self.map:
                with keras.name_scope("distillation"):
                    self.map.build((None, None, self.config.hidden_size))

    def _idle(self):
        """Returns the sublayers on which no output depends; a block may be used by several layers."""
        found = [self.encoder.pooler] if self.encoder.pooler else []
        if {"mlm_logits", "hidden"} & set(self.shown):
            return found
        found += [self.encoder.norm] if self.encoder.norm else []
        stack = [self.encoder.block_of(layer) for layer in range(1, self.config.num_hidden_layers + 1)]
        below, own, above = stack[: self.layer - 1], stack[self.layer - 1], stack[self.layer :]
        found += [block for block in above if block not in (*below, own)]
        if own not in below:
            attention = own.attention
            found += [attention.dense, own.intermediate, own.dense, own.norm]
            found += [] if attention.norm_first else [attention.norm]
            found += [] if below else [each for each in (self.encoder.relative, self.encoder.convolution) if each]
            maps = zip(_OF_ATTENTION, (attention.query, attention.key, attention.value), strict=True)
            found += [each for name, each in maps if name not in self.shown]
        return found

    def call(self, inputs, training=None):
        inputs_of_encoder = encoder_inputs(inputs)
        outputs = self.encoder(inputs_of_encoder, training=training)
        x, found = outputs["sequence_output"], {}
        if self.masked_lm:
            table = tf.cast(self.encoder.embeddings.word_embeddings, x.dtype)  # once a step, for both passes
            decoded = self.masked_lm.input_of(self.encoder, outputs, inputs_of_encoder, training)
            found["mlm_logits"] = self.masked_lm(decoded, table, inputs["masked_lm_positions"], training=training)
        found["hidden"] = self.map(x, training=training) if self.map else x
        found |= zip(_OF_ATTENTION, attention_inputs(self.encoder, outputs, self.layer), strict=True)
        return {name: found[name] for name in self.shown}

    def compute_output_spec(self, inputs, training=None):
        B, S = inputs["input_ids"].shape
        c = self.config
        inner = c.heads_of(self.layer - 1) * (c.hidden_size // c.num_attention_heads)
        widths = {"hidden": self.width or c.hidden_size, **dict.fromkeys(_OF_ATTENTION, inner)}
        specs = {name: keras.KerasTensor((B, S, width), self.compute_dtype) for name, width in widths.items()}
        if self.masked_lm:
            M = inputs["masked_lm_positions"].shape[1]
            specs["mlm_logits"] = keras.KerasTensor((B, M, self.config.vocab_size), "float32")
        return {name: specs[name] for name in self.shown}

    def get_config(self):
        return super().get_config() | {"shown": self.shown, "layer": self.layer, "width": self.width}


def attention_inputs(encoder, outputs, layer):
    """Returns the queries, keys and values of a layer, float [B, S, A D] each, heads concatenated.

    Args:
        encoder: an `Encoder`.
        outputs: the encoder's outputs.
        layer: the layer, counted from 1.
    """
    below = outputs["encoder_outputs"][layer - 2] if layer > 1 else outputs["embedding_output"]
    return encoder.block_of(layer).attention.queries_keys_values(below)
