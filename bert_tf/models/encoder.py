"""The encoder: embeddings, a stack of blocks, a pooler; `BertModel` of google-research/bert modeling.py."""

import contextlib
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_tf.models.block import TransformerBlock
from bert_tf.models.config import EncoderConfig
from bert_tf.models.convolution import TokenConvolution
from bert_tf.models.disentangled_attention import RelativePositions
from bert_tf.models.embeddings import Embeddings, restarting_positions
from bert_tf.models.layer_views import layer_views
from bert_tf.models.layers import LayerNorm, Linear
from bert_tf.models.lora import freeze_all_but_adapters
from bert_tf.models.model_inputs import NamedInputsModel
from bert_tf.models.pooling import pool
from bert_tf.models.relative_bias import RelativeBias
from bert_tf.models.training_ops import current_seed, recomputed, seed_scope


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(NamedInputsModel):
    """BERT encoder as a Keras model: embeddings, Transformer blocks and an optional pooler.

    Args:
        config: an `EncoderConfig`, or the dict made by its `to_dict`.
        gradient_checkpointing: whether to recompute each block's activations in the backward pass instead of storing
            them.
        embeddings: another built encoder's embeddings, whose weights are shared. If None, the encoder has its own. It
            is not stored in the configuration.

    Inputs: a dict of integers [B, S]: `input_ids`; `input_mask` (1 = token, 0 = padding; default: all ones);
    `segment_ids` (default: zeros); `sentence_ids` for packed sequences (1, 2, ..., one number for all segments of an
    example; 0 = padding; default: one example per sequence): positions then restart with each example, and attention
    stays within it. Other names, such as Hugging Face's `attention_mask`, are rejected.

    A call accepts two more inputs. `head_mask`, a list of float [A] per layer, from the lowest, multiplies the
    attention probabilities of the heads, so that 0 disables a head. `input_vectors`, float [B, S, E], replaces the
    output of the embeddings, so that a gradient with respect to it can be taken.

    If the configuration has `is_decoder`, every token attends only to itself and earlier tokens, and the last token
    rather than the first represents the sequence. If it has adapters (`lora`), only they and the pooler are trainable.
    An encoder that is not `trainable` behaves in training as in inference: no dropout, nothing stored for gradients.

    Outputs: a dict of `sequence_output` [B, S, H]; `pooled_output` [B, H], the vector of the text (that of the first
    token; with `is_decoder`, of the last non-padding token; with `classifier_pooling` "mean", the mean over all
    non-padding tokens), after the pooler's linear map and tanh if it has one (`has_pooler`); `embedding_output`
    [B, S, H], the input of the first block; `encoder_outputs`, the list of all block outputs [B, S, H], the last of
    which is `sequence_output`; with `return_attention_probs=True` also `attention_probs`, a list of [B, A, S, S]. All
    are in the compute dtype. With `norm_first`, only the last block's output is normalized.

    Attributes:
        attends_whole: whether layers with local attention compute the scores of all pairs of tokens, masked beyond the
            window, and not those of blocks; LiteRT sets it, whose interpreter can crash in blocks.
        counts_positions: whether positions are a running count of the tokens if the length is not known before the
            graph runs; LiteRT sets it, whose fast kernels need shapes that follow from those of the inputs.
    """

    attends_whole = False
    counts_positions = False

    def __init__(
        self, config: EncoderConfig | dict, gradient_checkpointing=False, trainable=True, embeddings=None, **kwargs
    ):
        kwargs.setdefault("name", "bert")
        super().__init__(**kwargs)
        if not isinstance(config, EncoderConfig | Mapping):
            raise ValueError(
                "`config` must be an EncoderConfig or a dictionary; got an object of class "
                f"{type(config).__name__}. For the encoder of a checkpoint, use `bert_tf.load(path).encoder`; for one "
                "with random weights, `Encoder(EncoderConfig.load(path))`."
            )
        self.config = config if isinstance(config, EncoderConfig) else EncoderConfig.from_dict(config)
        self.gradient_checkpointing = gradient_checkpointing
        c, policy = self.config, {"dtype": self.dtype_policy}
        linear = {"units": c.hidden_size, "initializer_range": c.initializer_range, **policy}
        self.embeddings = embeddings or Embeddings.of(c, name="embeddings", **policy)
        kind = RelativePositions if c.pos_att_type else RelativeBias if c.relative_attention_num_buckets else None
        self.relative = kind and kind.of(c, **policy)
        self.projection = Linear(name="embedding_hidden_mapping_in", **linear) if c.has_embedding_map else None
        self.convolution = TokenConvolution.of(c, **policy)
        self.blocks = [TransformerBlock.of(c, n, **policy) for n in range(c.num_blocks)]
        self.norm = LayerNorm(c.layer_norm_eps, c.norm_bias, name="LayerNorm", **policy) if c.norm_first else None
        self.pooler = Linear(activation="tanh", name="dense", **linear) if c.has_pooler else None
        self.trainable = trainable  # last, because it is passed on to existing sublayers

    def build(self, input_shape=None):
        tokens = (None, None, self.config.hidden_size)
        if not self.embeddings.built:
            self.embeddings.build((None, None))
        if self.relative:
            with keras.name_scope("embeddings"):
                self.relative.build()
        with keras.name_scope("encoder"):
            if self.projection:
                self.projection.build((None, None, self.config.embedding_width))
            if self.convolution:
                self.convolution.build(tokens)
            for block in self.blocks:
                block.build(tokens)
            if self.norm:
                self.norm.build(tokens)
        if self.pooler:
            with keras.name_scope("pooler"):
                self.pooler.build((None, self.config.hidden_size))
        if self.config.lora:
            self._freeze_all_but_adapters()

    @property
    def trainable(self):
        return self._trainable

    @trainable.setter
    def trainable(self, value):
        keras.Model.trainable.fset(self, value)
        if value and self.built and self.config.lora:  # adapted weights stay frozen when a model is unfrozen
            self._freeze_all_but_adapters()

    def _freeze_all_but_adapters(self):
        """Freezes all but adapters and pooler, which many checkpoints lack: frozen random weights would hurt."""
        parts = self.embeddings, self.relative, self.projection, self.convolution, *self.blocks, self.norm
        for part in filter(None, parts):
            freeze_all_but_adapters(part.variables)

    def call(self, inputs, training=None, return_attention_probs=False, head_mask=None, input_vectors=None):
        training = training and self.trainable
        self._check_head_mask(head_mask)
        mask, positions, views = self._views(inputs, return_attention_probs or self.attends_whole)
        relative = self.relative and self.relative.by_layer(self.config, tf.shape(mask)[1])
        x = input_vectors
        if x is None:
            x = self.embeddings(inputs["input_ids"], inputs.get("segment_ids"), positions, training=training)
        if self.projection:
            x = self.projection(x, training=training)
        states, probs = [x], []
        for n, (block, (bias, view)) in enumerate(zip(self._stack(), views, strict=True)):
            with self._seeds(n, training, reused=self.config.num_blocks < self.config.num_hidden_layers):
                own = {"view": view} if head_mask is None else {"view": view, "head_mask": head_mask[n]}
                tensors = [x, relative[n]] if relative else [x]
                x, p = self._run(block, tensors, bias, training, return_attention_probs, own)
            if self.convolution and n == 0:
                x = self.convolution(states[0], x, mask, inputs.get("sentence_ids"), training=training)
            states.append(x)
            probs.append(p)
        if self.norm:
            x = self.norm(x)
            states[-1] = x  # the last one is `sequence_output`, as in TF Hub
        outputs = {
            "sequence_output": x,
            "pooled_output": self.pooled(self.text_vector(x, mask)),
            "embedding_output": states[0],
            "encoder_outputs": states[1:],
        }
        return outputs | ({"attention_probs": probs} if return_attention_probs else {})

    def _views(self, inputs, whole=False):
        """Returns the mask, the positions (None for 0, 1, 2, ...), and what `layer_views` returns."""
        mask, sentence_ids = inputs.get("input_mask"), inputs.get("sentence_ids")
        mask = tf.ones_like(inputs["input_ids"]) if mask is None else mask
        positions = None if sentence_ids is None else restarting_positions(sentence_ids)
        if positions is None and self.counts_positions and mask.shape[1] is None:
            positions = tf.cumsum(tf.ones_like(mask), 1) - 1
        return mask, positions, layer_views(self.config, mask, sentence_ids, positions, self.compute_dtype, whole)

    def decoded(
        self,
        outputs: Mapping[str, Any],
        inputs: Mapping[str, tf.Tensor],
        table: tf.Tensor,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Returns what the enhanced mask decoder makes of the encoder's outputs, float [B, S, H].

        The last block attends twice more to the output of the block below it. Its queries are that output, to which the
        absolute positions are added, and then its own result (He et al. 2021, arXiv 2006.03654, section 3.2;
        microsoft/DeBERTa, masked_language_model.py).

        Args:
            outputs, inputs: the encoder's.
            table: embeddings of the positions, float [P, H].
            training: as in a call.
        """
        training = training and self.trainable
        _, positions, views = self._views(inputs)
        below = [outputs["embedding_output"], *outputs["encoder_outputs"]][-2]
        positions = tf.range(tf.shape(below)[1])[tf.newaxis] if positions is None else positions
        queries = below + tf.gather(tf.cast(table, below.dtype), positions)
        (bias, view), block, relative = views[-1], self.block_of(len(views)), self.relative.table()
        for n in range(2):
            with self._seeds(len(views) + n, training, reused=True):
                queries, _ = self._run(block, [below, relative, queries], bias, training, False, {"view": view})
        return queries

    def _check_head_mask(self, head_mask):
        if head_mask is not None and len(head_mask) != (layers := self.config.num_hidden_layers):
            raise ValueError(
                f"`head_mask` must have one entry for each of {layers} layers, with one number per head; got "
                f"{len(head_mask)} entries; use ones for layers that keep all heads."
            )

    def text_vector(self, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns the vector of each text, float [B, H]; for a decoder, that of the last token."""
        if self.config.classifier_pooling == "mean":
            return pool("mean", x, mask)
        return pool("last_token", x, mask) if self.config.is_decoder else x[:, 0]

    def _stack(self):
        """Returns the block of each layer, from the lowest; as in ALBERT, consecutive layers may share a block."""
        layers, blocks = self.config.num_hidden_layers, self.config.num_blocks
        return [self.blocks[n * blocks // layers] for n in range(layers)]

    def _seeds(self, n, training, reused):
        """Yields seeds that give use n of a reused block its own dropout masks; seed and path alone would be equal."""
        return seed_scope(current_seed() + tf.constant([0, n])) if training and reused else contextlib.nullcontext()

    def pooled(self, token: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Returns `pooled_output` for vectors that represent texts, float [..., H]: after the pooler, or unchanged."""
        return self.pooler(token, training=training) if self.pooler else token

    def block_of(self, layer: int) -> TransformerBlock:
        """Returns the block of a layer, counted from 1."""
        return self._stack()[layer - 1]

    def _run(self, block, tensors, bias, training, return_probs, options):
        def run(x, relative=None, queries=None):  # arguments, because recomputation has no gradients for other tensors
            own = options if queries is None else options | {"queries": queries}
            return block(x, bias, training=training, return_probs=return_probs, relative=relative, **own)

        if return_probs:
            return run(*tensors)
        return (recomputed(run) if self.gradient_checkpointing and training else run)(*tensors), None

    def compute_output_spec(self, inputs, training=None, return_attention_probs=False, **_):
        def tensor(*shape):
            return keras.KerasTensor(shape, self.compute_dtype)

        (B, S), H, layers = inputs["input_ids"].shape, self.config.hidden_size, range(self.config.num_hidden_layers)
        outputs = {name: tensor(B, S, H) for name in ("sequence_output", "embedding_output")}
        outputs |= {"pooled_output": tensor(B, H), "encoder_outputs": [tensor(B, S, H) for _ in layers]}
        probs = [tensor(B, self.config.heads_of(n), S, S) for n in layers]
        return outputs | ({"attention_probs": probs} if return_attention_probs else {})
