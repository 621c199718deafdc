"""The encoder: embeddings, a stack of blocks, a pooler; all of `BertModel` in google-research/bert modeling.py."""

import collections
import contextlib

import keras
import tensorflow as tf

from bert_tf.models import fused_int8, row_packing, tensor_parallel
from bert_tf.models.attention import ResidualLayer, SelfAttention, attention_bias
from bert_tf.models.config import EncoderConfig
from bert_tf.models.fused_int8 import note_mask
from bert_tf.models.graph_forms import FLAT_ROWS, ROW_PACKING, is_wanted
from bert_tf.models.layers import ConfiguredLayer, Dropout, LayerNorm, Linear, current_seed, initializer, seed_scope
from bert_tf.models.lora import is_adapter
from bert_tf.models.model_inputs import NamedInputsModel
from bert_tf.models.pooling import pool
from bert_tf.models.row_packing import flatten, with_positions

# === Embeddings ===
# Token + segment + position embeddings (Devlin et al. 2018, section 3.2, figure 2), and ERNIE's of tasks.


@keras.saving.register_keras_serializable("bert_tf")
class Embeddings(ConfiguredLayer):
    """Looks up its tables, adds what it finds, normalizes, drops out.

    Args:
        vocab_size, hidden_size, max_position_embeddings, type_vocab_size, task_type_vocab_size: the tables' shapes; the
            last two tables are not there where their number of rows is 0.
        dropout, initializer_range, epsilon, first_position: as in `EncoderConfig`.

    Inputs: `input_ids`, `segment_ids`, `position_ids`: int32 [B, S], or all three [P]. `segment_ids` None means 0,
    `position_ids` None means 0, 1, 2, ..., which count from `first_position` of the table. Without a table of segments
    their ids mean nothing. The task is always the first. Output: float [B, S, H] or [P, H] in the compute dtype.

    Raises:
        ValueError: the row is longer than the table of positions; outside of graphs also: a segment id lies beyond its
            table, which would be taken for a row of zeros. In a graph of flat rows TensorFlow refuses such ids.
    """

    def __init__(
        self,
        vocab_size,
        hidden_size,
        max_position_embeddings,
        type_vocab_size,
        dropout=0.1,
        initializer_range=0.02,
        epsilon=1e-12,
        first_position=0,
        task_type_vocab_size=0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.max_position_embeddings = max_position_embeddings
        self.type_vocab_size = type_vocab_size
        self.dropout_rate = dropout
        self.initializer_range = initializer_range
        self.epsilon = epsilon
        self.first_position = first_position
        self.task_type_vocab_size = task_type_vocab_size
        self.norm = LayerNorm(epsilon, name="LayerNorm", dtype=self.dtype_policy, trainable=self.trainable)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, input_shape=None):
        # Rows are gathered in float32 and added before anything is rounded: casting the whole table would cost more.
        def table(name, rows):
            shape = (rows, self.hidden_size)
            return self.add_weight(
                name=name, shape=shape, initializer=initializer(self.initializer_range), autocast=False
            )

        self.word_embeddings = table("word_embeddings", self.vocab_size)
        if self.type_vocab_size:
            self.token_type_embeddings = table("token_type_embeddings", self.type_vocab_size)
        self.position_embeddings = table("position_embeddings", self.max_position_embeddings)
        if self.task_type_vocab_size:
            self.task_type_embeddings = table("task_type_embeddings", self.task_type_vocab_size)
        self.norm.build((None, None, self.hidden_size))
        self.dropout.build((None, None, self.hidden_size))

    def call(self, input_ids, segment_ids=None, position_ids=None, training=None):
        self._check_length(input_ids, position_ids)
        x = tf.gather(self.word_embeddings, input_ids)
        if position_ids is None:
            x += self.position_embeddings[self.first_position : self.first_position + tf.shape(input_ids)[1]]
        else:
            x += tf.gather(self.position_embeddings, position_ids + self.first_position)
        if self.type_vocab_size:
            x += self._segments(tf.zeros_like(input_ids) if segment_ids is None else segment_ids)
        if self.task_type_vocab_size:
            x += self.task_type_embeddings[0]
        return self.dropout(self.norm(x), training=training)

    def _check_length(self, input_ids, position_ids):
        if position_ids is not None:
            return
        length, most = input_ids.shape[1], self.max_position_embeddings - self.first_position
        if length is not None and length > most:
            less = f" - first_position = {most}" if self.first_position else ""
            raise ValueError(
                f"A row must have at most max_position_embeddings = {self.max_position_embeddings}{less} tokens. "
                f"Received: {length}; truncate the texts, as `Tokenizer` does at max_seq_length."
            )

    def _check_segments(self, segment_ids):
        """In a graph nothing is checked, lest a step cost more: whoever makes batches looks at what goes in."""
        if not tf.executing_eagerly() or not tf.size(segment_ids):
            return
        if not 0 <= int(tf.reduce_min(segment_ids)) <= int(tf.reduce_max(segment_ids)) < self.type_vocab_size:
            raise ValueError(
                f"segment_ids must be from 0 to {self.type_vocab_size - 1}, for type_vocab_size is "
                f"{self.type_vocab_size}. Received: {int(tf.reduce_min(segment_ids))} to "
                f"{int(tf.reduce_max(segment_ids))}; leave them out where rows have one text."
            )

    def _segments(self, segment_ids):
        self._check_segments(segment_ids)
        if is_wanted(FLAT_ROWS):  # of a graph that is not trained
            return tf.gather(self.token_type_embeddings, segment_ids)
        # A product with one-hot rows: the gradient of a gather into two rows would add every token one after another.
        table = tf.convert_to_tensor(self.token_type_embeddings)
        return tf.einsum("bst,th->bsh", tf.one_hot(segment_ids, self.type_vocab_size, dtype=table.dtype), table)

    def compute_output_shape(self, input_shape, *_):
        return (*input_shape, self.hidden_size)


# === Transformer block ===
# Attention, then a feed-forward layer, each with residual and norm, after it or before it.


@keras.saving.register_keras_serializable("bert_tf")
class TransformerBlock(ResidualLayer):
    """y = SelfAttention(x); LayerNorm(y + dropout(W_2 act(W_1 y + b_1) + b_2)).

    With `norm_first`: y + dropout(W_2 act(W_1 LayerNorm(y) + b_1) + b_2).

    Args:
        num_heads, intermediate_size, hidden_act, attention_dropout, hidden_dropout, initializer_range, epsilon,
            norm_first: as in `EncoderConfig`.
        head_width, lora: as in `SelfAttention`.

    Inputs: float [B, S, H]; bias of `attention_bias`; `head_mask` as in `SelfAttention`. Output: float [B, S, H]; with
    `return_probs=True` a pair whose second is the attention's probabilities [B, A, S, S].
    """

    def __init__(
        self,
        num_heads,
        intermediate_size,
        hidden_act="gelu_tanh",
        attention_dropout=0.1,
        hidden_dropout=0.1,
        initializer_range=0.02,
        epsilon=1e-12,
        head_width=None,
        lora=None,
        norm_first=False,
        **kwargs,
    ):
        numbers = attention_dropout, hidden_dropout, initializer_range, epsilon, head_width, lora, norm_first
        super().__init__(num_heads, *numbers, **kwargs)
        self.intermediate_size = intermediate_size
        self.hidden_act = hidden_act
        policy = {"dtype": self.dtype_policy, "trainable": self.trainable}
        self.attention = SelfAttention(num_heads, *numbers, name="attention", **policy)
        self.dropout = Dropout(hidden_dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, input_shape):
        inner_shape = (*input_shape[:-1], self.intermediate_size)
        self.attention.build(input_shape)
        with keras.name_scope("intermediate"):
            self.intermediate = self.build_linear("dense", self.intermediate_size, input_shape, self.hidden_act)
            if self.norm_first:
                self.norm.build(input_shape)
        with keras.name_scope("output"):
            self.dense = self.build_linear("dense", input_shape[-1], inner_shape)
            self.dropout.build(input_shape)
            if not self.norm_first:
                self.norm.build(input_shape)

    def call(self, x, bias, training=None, return_probs=False, head_mask=None):
        y = self.attention(x, bias, training=training, return_probs=return_probs, head_mask=head_mask)
        y, probs = y if return_probs else (y, None)
        z, shares = self.norm(y) if self.norm_first else y, []
        for (inner,), outer in tensor_parallel.split_layers([self.intermediate], self.dense):
            shares.append(self._share(z, inner, outer, y, training, adds=not shares))
        z = sum(shares[1:], shares[0])
        z = z if self.norm_first else self.norm(z)
        return (z, probs) if return_probs else z

    def _share(self, z, inner, outer, residual, training, adds):
        """Returns [residual +] W_2 act(W_1 z + b_1) + b_2."""
        if fused_int8.can_feed_forward(inner, outer):
            return fused_int8.feed_forward(z, inner, outer, residual, adds)
        share = self.dropout(outer(inner(z, training=training)), training=training)
        return residual + share if adds else share


# === Encoder ===


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(NamedInputsModel):
    """BERT's encoder as a Keras model.

    Args:
        config: an `EncoderConfig`, or the dict that `to_dict` made of one.
        rematerialize: compute each block's activations again in the backward pass instead of keeping them.
        embeddings: another encoder's, built, whose weights this one shares; None: its own. No configuration holds them.

    Inputs: a dict of integers [B, S]: `input_ids`; `input_mask` (1 = token, 0 = padding; absent: all ones);
    `segment_ids` (absent: zeros); `sentence_ids` for packed rows (1, 2, ... for each sentence in the row, 0 = padding;
    absent: one sentence a row): then positions start again with each sentence and attention stays inside it. Other
    names, such as Hugging Face's `attention_mask`, are refused: see `model_inputs.named_inputs`.

    A call may give two things more. `head_mask`, a list with float [A] for each layer, the lowest first: what the
    probabilities of that layer's heads are multiplied by, so that 0 turns a head off. `input_vectors`, float [B, S, E]:
    what stands instead of the embeddings' output, so that a gradient can be taken there.

    Where the configuration says `is_decoder`, every token attends to itself and to those before it only; then the last
    token, and not the first, stands for the row. Where it has adapters (`lora`), they and the pooler can be trained and
    all else cannot. An encoder that is not `trainable` gives in training what it gives elsewhere: it drops nothing, and
    keeps nothing for a gradient.

    Outputs: a dict of `sequence_output` [B, S, H]; `pooled_output` [B, H], tanh of a linear map of the first token
    (with `is_decoder` the last that is not padding; with `classifier_pooling` "mean" of the mean of those that are
    not), or without a pooler (`has_pooler`) that token as it is; `embedding_output` [B, S, H], what the first block
    reads; `encoder_outputs`, the list of every block's [B, S, H], of which the last is `sequence_output`; with
    `return_attention_probs=True` also `attention_probs`, a list of [B, A, S, S]. All in the compute dtype. With
    `norm_first` a block's output is a sum that nothing has normalized, but for the last one's, behind the final norm.
    """

    def __init__(self, config, rematerialize=False, trainable=True, embeddings=None, **kwargs):
        kwargs.setdefault("name", "bert")
        super().__init__(**kwargs)
        self.config = config if isinstance(config, EncoderConfig) else EncoderConfig.from_dict(config)
        self.rematerialize = rematerialize
        c, numbers = self.config, {"initializer_range": self.config.initializer_range, "dtype": self.dtype_policy}
        self.embeddings = embeddings or Embeddings(
            c.vocab_size,
            c.embedding_width,
            c.max_position_embeddings,
            c.type_vocab_size,
            dropout=c.hidden_dropout_prob,
            epsilon=c.layer_norm_eps,
            first_position=c.first_position,
            task_type_vocab_size=c.task_type_vocab_size,
            name="embeddings",
            **numbers,
        )
        self.projection = None
        if c.has_embedding_map:
            self.projection = Linear(c.hidden_size, "linear", name="embedding_hidden_mapping_in", **numbers)
        self.blocks = [
            TransformerBlock(
                c.heads_of(n),
                c.intermediate_size,
                c.hidden_act,
                attention_dropout=c.attention_probs_dropout_prob,
                hidden_dropout=c.hidden_dropout_prob,
                epsilon=c.layer_norm_eps,
                head_width=c.hidden_size // c.num_attention_heads,
                lora=c.lora,
                norm_first=c.norm_first,
                name=f"layer_{n}",
                **numbers,
            )
            for n in range(c.num_blocks)
        ]
        self.norm = LayerNorm(c.layer_norm_eps, name="LayerNorm", dtype=self.dtype_policy) if c.norm_first else None
        self.pooler = Linear(c.hidden_size, "tanh", name="dense", **numbers) if c.has_pooler else None
        self.trainable = trainable  # last: it is handed on to the parts that are there

    def build(self, input_shape=None):
        tokens = (None, None, self.config.hidden_size)
        if not self.embeddings.built:
            self.embeddings.build((None, None))
        with keras.name_scope("encoder"):
            if self.projection:
                self.projection.build((None, None, self.config.embedding_width))
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
        if value and self.built and self.config.lora:  # what adapters stand for stays frozen, whoever unfreezes a model
            self._freeze_all_but_adapters()

    def _freeze_all_but_adapters(self):
        """The pooler stays free: many checkpoints lack it, and a frozen one of random weights would do harm."""
        for part in filter(None, (self.embeddings, self.projection, *self.blocks, self.norm)):
            for variable in part.variables:
                variable.trainable = variable.trainable and is_adapter(variable.path)

    def call(self, inputs, training=None, return_attention_probs=False, head_mask=None, input_vectors=None):
        training = training and self.trainable
        self._check_head_mask(head_mask)
        inputs = dict(inputs)
        if "input_mask" not in inputs:
            inputs["input_mask"] = tf.ones_like(inputs["input_ids"])
        mask = inputs["input_mask"]
        rows = _rows(inputs, may_pack=input_vectors is None and not return_attention_probs)
        inputs = rows.features
        note_mask(inputs["input_mask"])
        bias = attention_bias(
            inputs["input_mask"], inputs.get("sentence_ids"), self.compute_dtype, self.config.is_decoder
        )
        x = input_vectors
        assert x is None or not is_wanted(FLAT_ROWS), "vectors are not flat"
        if x is None:
            texts = [inputs.get(name) for name in ("input_ids", "segment_ids", "position_ids")]
            x = self.embeddings(*flatten(inputs["input_mask"], texts), training=training)
        if self.projection:
            x = self.projection(x, training=training)
        embedded, layers, probs = x, [], []
        for n, block in enumerate(self._stack()):
            with self._seeds(n, training):
                own = {} if head_mask is None else {"head_mask": head_mask[n]}
                x, p = self._run(block, x, bias, training, return_attention_probs, own)
            layers.append(x)
            probs.append(p)
        if self.norm:
            x = self.norm(x)
            layers[-1:] = [x][: len(layers)]  # TF Hub's contract: the last one is `sequence_output`
        embedded, *layers = map(rows.batch, (embedded, *layers))
        outputs = {"sequence_output": rows.batch(x), "pooled_output": self.pooled(self._whole(x, rows, mask))}
        outputs |= {"embedding_output": embedded, "encoder_outputs": layers}
        return outputs | ({"attention_probs": probs} if return_attention_probs else {})

    def _check_head_mask(self, head_mask):
        layers = self.config.num_hidden_layers
        if head_mask is not None and len(head_mask) != layers:
            raise ValueError(
                f"`head_mask` must be a list with the heads of each of {layers} layers. Received: {len(head_mask)}; "
                "give one for every layer, ones where all heads stay."
            )

    def _whole(self, x, rows, mask):
        """Returns what stands for each text, float [B, H], of what the rows have."""
        if self.config.classifier_pooling == "mean":
            return pool("mean", rows.batch(x), mask)
        # Of a decoder, the token that has seen the row.
        return pool("last_token", rows.batch(x), mask) if self.config.is_decoder else rows.first(x)

    def _stack(self):
        """Returns the block of each layer, from the lowest on: the same several times in a row, where layers share."""
        layers, blocks = self.config.num_hidden_layers, self.config.num_blocks
        times = collections.Counter(n * blocks // layers for n in range(layers))
        return [block for n, block in enumerate(self.blocks) for _ in range(times[n])]

    def _seeds(self, n, training):
        """Layers that share a block must not share its masks, which a seed and the block's path decide."""
        if not training or self.config.num_blocks == self.config.num_hidden_layers:
            return contextlib.nullcontext()
        return seed_scope(current_seed() + tf.constant([0, n]))

    def pooled(self, token, training=None):
        """Returns `pooled_output` for tokens that stand for rows, float [..., H]: the pooler's, or themselves."""
        return self.pooler(token, training=training) if self.pooler else token

    def block_of(self, layer):
        """Returns the block of a layer, 1 being the lowest; layers may share one."""
        return self._stack()[layer - 1]

    def queries_keys_values(self, outputs, layer):
        """Returns what the attention of a layer is made of, float [B, S, A D] each, the heads side by side.

        Args:
            outputs: of this encoder.
            layer: 1 is the lowest.
        """
        below = outputs["encoder_outputs"][layer - 2] if layer > 1 else outputs["embedding_output"]
        return self.block_of(layer).attention.queries_keys_values(below)

    def _run(self, block, x, bias, training, return_probs, options):
        if return_probs:
            return block(x, bias, training=training, return_probs=True, **options)
        if not (self.rematerialize and training):
            return block(x, bias, training=training, **options), None
        seed = current_seed()  # drawn once: the second pass must drop what the first one dropped

        @tf.recompute_grad
        def again(x):
            with seed_scope(seed):
                return block(x, bias, training=True, **options)

        return again(x), None

    def compute_output_spec(
        self, inputs, training=None, return_attention_probs=False, head_mask=None, input_vectors=None
    ):
        B, S = inputs["input_ids"].shape
        H, layers = self.config.hidden_size, range(len(self._stack()))

        def tensor(*shape):
            return keras.KerasTensor(shape, self.compute_dtype)

        outputs = {
            "sequence_output": tensor(B, S, H),
            "pooled_output": tensor(B, H),
            "embedding_output": tensor(B, S, H),
            "encoder_outputs": [tensor(B, S, H) for _ in layers],
        }
        probs = [tensor(B, self.config.heads_of(n), S, S) for n in layers]
        return outputs | ({"attention_probs": probs} if return_attention_probs else {})


def _rows(inputs, may_pack):
    """Returns the rows that are computed."""
    if "sentence_ids" in inputs:
        return row_packing.Whole(inputs | {"position_ids": restarting_positions(inputs["sentence_ids"])})
    if may_pack and is_wanted(ROW_PACKING):
        return row_packing.pack_batch(inputs)
    return row_packing.Whole(with_positions(inputs))


def restarting_positions(sentence_ids):
    """Returns positions that start again with every packed sentence.

        sentence_ids   1 1 1 2 2 0 0
        positions      0 1 2 0 1 0 1

    Args and returns: int32 [B, S].
    """
    same = tf.cast(sentence_ids[:, :, tf.newaxis] == sentence_ids[:, tf.newaxis, :], tf.int32)
    return tf.reduce_sum(tf.linalg.band_part(same, -1, 0), axis=2) - 1  # earlier tokens of the same sentence
