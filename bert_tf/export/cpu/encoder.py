"""Fast forward pass of an encoder on CPUs: the results of `models/encoder.py` with fewer operations.

From the top: a batch is laid out as one flat list of tokens (`data/packed_rows.py`); embeddings are looked up; each
layer computes attention and feed-forward (`products.py`, `int8_ranges.py`), in parts that run in parallel threads;
the outputs get the shape of the batch again. It is for served graphs and has no gradients.

To share each product among threads, they would have to synchronize at each product. With parts, they do so twice a
layer (Shoeybi et al. 2019, section 3): the result of one part of the heads, or of the feed-forward units, depends
on no other part, and the results are added.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf.data.packed_rows import lay_out
from bert_tf.export.cpu.products import DenseWeights, Floats, FusedLayerNorm, values_of
from bert_tf.models.attention import attention_scores
from bert_tf.models.convolution import neighbors
from bert_tf.models.embeddings import check_static_length
from bert_tf.models.encoder import Encoder
from bert_tf.models.layer_views import layer_views
from bert_tf.models.relative_bias import bias_by_layer


class FastEncoder:
    """Fast forward pass of an encoder, with the encoder's inputs and outputs.

    Args:
        encoder: built, with weights, of any configuration; adapters are merged into the weights.
        arithmetic: `Floats`, `Int8`, `RangedInt8` or `RecordingFloats`.
        parts: number of threads that compute a layer in parallel; fewer if heads or units are not divisible by it.
    """

    def __init__(self, encoder: Encoder, arithmetic: Floats, parts: int = 1):
        self.config, self.arithmetic, self._text_vector = encoder.config, arithmetic, encoder.text_vector
        self.embed = _Embeddings(encoder, arithmetic)
        relative, self.biases = values_of(encoder.relative.table()) if encoder.relative else None, None
        if self.config.relative_attention_num_buckets:
            relative, self.biases = None, arithmetic.weight(relative)
        blocks = {id(block): _Block(block, arithmetic, parts, n, relative) for n, block in enumerate(encoder.blocks)}
        self.layers = [blocks[id(encoder.block_of(n + 1))] for n in range(self.config.num_hidden_layers)]
        self.convolution = _Convolution(encoder.convolution, arithmetic) if encoder.convolution else None
        self.norm = FusedLayerNorm(encoder.norm, arithmetic) if encoder.norm else None
        self.pooler = arithmetic.dense(_dense(encoder.pooler)) if encoder.pooler else None

    def __call__(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor | list[tf.Tensor]]:
        mask = features["input_mask"]
        check_static_length(mask.shape[1], self.config)
        rows = lay_out(features)
        found = rows.features
        seen = (found[name] for name in ("input_mask", "sentence_ids", "position_ids"))
        views = layer_views(self.config, *seen, self.arithmetic.dtype)
        shape = tf.unstack(tf.shape(found["input_mask"]))
        self.arithmetic.begin(tf.reshape(found["input_mask"], [-1]))
        x = self.embed(*(self._flat(found.get(name)) for name in ("input_ids", "segment_ids", "position_ids")))
        states = [x]
        biases = [bias for bias, _ in views]
        if self.biases:
            biases = _summed(biases[0], bias_by_layer(self.config, self.biases(), shape[1]))
        for layer, bias, (_, view) in zip(self.layers, biases, views, strict=True):
            x = layer(x, bias, view, shape)
            if self.convolution and len(states) == 1:
                x = self.convolution(states[0], x, found["input_mask"], found["sentence_ids"])
            states.append(x)
        if self.norm:
            states[-1] = x = self.norm(x)
        states = [rows.to_batch(state) for state in states]
        takes_first = self.config.classifier_pooling != "mean" and not self.config.is_decoder
        vector = rows.first_tokens(x) if takes_first else self._text_vector(states[-1], mask)
        return {
            "sequence_output": states[-1],
            "pooled_output": self.pooler(vector) if self.pooler else vector,
            "embedding_output": states[0],
            "encoder_outputs": states[1:],
        }

    def _flat(self, feature):
        return None if feature is None else self.arithmetic.fill_up(tf.reshape(feature, [-1]))


class _Embeddings:
    """int32 [P] ids, segments (None for 0) and positions -> [P, H]."""

    def __init__(self, encoder, arithmetic):
        layer, c = encoder.embeddings, encoder.config
        self.words = layer.word_embeddings  # which a masked-LM head may share
        positions = np.zeros((1, c.embedding_width), np.float32)
        if layer.has_positions:
            positions = values_of(layer.position_embeddings)[c.first_position :]
        segments = values_of(layer.token_type_embeddings) if c.type_vocab_size else np.zeros((1, 1), np.float32)
        if c.task_type_vocab_size:
            positions = positions + values_of(layer.task_type_embeddings)[0]
        # One table for each position in each segment saves a lookup and a sum per token. Positions count
        # first, so that one beyond the model's is beyond the table, which TensorFlow refuses.
        table = (positions[:, np.newaxis] + segments).reshape(-1, positions.shape[1])
        self.has_positions, self.positions = layer.has_positions, None
        if layer.has_positions or table.any():
            self.positions = arithmetic.weight(table, self.words.dtype)
        self.num_segments = len(segments)
        self.norm = FusedLayerNorm(layer.norm, arithmetic)
        self.projection = arithmetic.dense(_dense(encoder.projection)) if encoder.projection else None

    def __call__(self, input_ids, segment_ids, position_ids):
        if not self.has_positions:
            position_ids = tf.zeros_like(input_ids)
        if self.num_segments > 1:
            position_ids = position_ids * self.num_segments + (0 if segment_ids is None else segment_ids)
        x = tf.gather(self.words, input_ids)
        x = self.norm(x if self.positions is None else x + tf.gather(self.positions(), position_ids))
        return self.projection(x) if self.projection else x


class _Block:
    """A Transformer layer on a flat list of tokens, [P, H] -> [P, H].

    `relative`, [2 k, H], are the embeddings of relative positions, or None. What key and query make of them does not
    depend on the input, so that only the rows of the distances are looked up.
    """

    def __init__(self, block, arithmetic, parts, number, relative=None):
        attention = block.attention
        self.norm_first = block.norm_first
        self.width = attention.width
        self.norm, self.attention_norm = FusedLayerNorm(block.norm, arithmetic), None
        if attention.norm.built:
            self.attention_norm = FusedLayerNorm(attention.norm, arithmetic)
        self.scale = (self.width * (1 + len(attention.pos_att_type))) ** -0.5
        maps = {"c2p": attention.key, "p2c": attention.query}
        of_positions = [_mapped(relative, maps[kind]) if kind in attention.pos_att_type else None for kind in maps]
        self.attention = [
            (
                arithmetic.attention_input(inner, (number, "attention")),
                arithmetic.attention_output(outer, (number, "attention_output")),
                [None if each is None else arithmetic.weight(each[:, outer.columns]) for each in of_positions],
                slice(outer.columns.start // self.width, outer.columns.stop // self.width),
            )
            for inner, outer in _split(
                [_dense(each) for each in (attention.query, attention.key, attention.value)],
                _dense(attention.dense),
                parts,
                self.width,
            )
        ]
        self.feed_forward = [
            arithmetic.feed_forward(inner, outer, (number, "feed_forward"))
            for inner, outer in _split(_inner_maps(block), _dense(block.dense), parts, 1)
        ]
        self.fills_up = arithmetic.fills_up

    def __call__(self, x, bias, view, shape):
        z = self.attention_norm(x) if self.norm_first and self.attention_norm else x
        shares = [
            output(self._attend(z, to_heads, _of_heads(bias, heads), view, shape, tables), x, adds=not n)
            for n, (to_heads, output, tables, heads) in enumerate(self.attention)
        ]
        y = sum(shares[1:], shares[0])
        y = y if self.norm_first else self.attention_norm(y)
        z = self.norm(y) if self.norm_first else y
        shares = [feed_forward(z, y, adds=not n) for n, feed_forward in enumerate(self.feed_forward)]
        y = sum(shares[1:], shares[0])
        return y if self.norm_first else self.norm(y)

    def _attend(self, z, to_heads, bias, view, shape, tables):
        """Returns softmax(q k^T / sqrt(D) + bias) v, [R L, A D]; `tables`: keys and queries of relative positions."""
        R, L = shape
        z = to_heads(z)
        heads = z.shape[1] // (3 * self.width)
        z = tf.reshape(z[: R * L] if self.fills_up else z, [R, L, 3 * heads, self.width])
        query, key, value = view.prepare(*tf.split(tf.transpose(z, [0, 2, 1, 3]), 3, axis=1))  # [R, A, L, D]
        found = None
        if view.rows is not None:
            found = [None if each is None else self._by_head(tf.gather(each(), view.rows), heads) for each in tables]
        # oneDNN computes product, scale and mask in one kernel if they are in this order.
        scores = attention_scores(query, key, self.scale, found) + tf.cast(bias, z.dtype)
        mixed = view.join(tf.matmul(tf.nn.softmax(scores), value))
        return tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, heads * self.width])

    def _by_head(self, rows, heads):
        """Splits [2 L, A D] into heads, [1, A, 2 L, D]."""
        return tf.transpose(tf.reshape(rows, [1, -1, heads, self.width]), [0, 2, 1, 3])


class _Convolution:
    """The convolution parallel to the first layer: its input x and output y, flat [P, H] -> [P, H]."""

    def __init__(self, layer, arithmetic):
        self.size, kernel = layer.kernel_size, values_of(layer.kernel)
        weights = DenseWeights(kernel.reshape(-1, kernel.shape[-1]), values_of(layer.bias), layer.act)
        self.product, self.fill_up = arithmetic.dense(weights), arithmetic.fill_up
        self.norm = FusedLayerNorm(layer.norm, arithmetic)

    def __call__(self, x, y, input_mask, sentence_ids):
        x = tf.reshape(x[: tf.size(input_mask)], [*tf.unstack(tf.shape(input_mask)), x.shape[-1]])
        rows = neighbors(x, self.size, input_mask, sentence_ids)
        return self.norm(self.product(self.fill_up(rows), y))


def _summed(bias, added):
    """Returns the bias [R, 1, L or 1, L] of all layers plus each of `added` [1, A, L, L]; once for all that are one."""
    sums = {id(each): bias + tf.cast(each, bias.dtype) for each in added}
    return [sums[id(each)] for each in added]


def _of_heads(bias, heads):
    """Returns the bias of some heads, `heads` being a slice; the same if there is one for all."""
    return bias if bias.shape[1] == 1 else bias[:, heads]


def _mapped(rows, layer):
    """Returns the rows after a `Linear` layer without activation."""
    weights = _dense(layer)
    return rows @ weights.kernel + weights.bias


def _dense(layer) -> DenseWeights:
    """Returns a `Linear` layer's map, with its adapter merged."""
    kernel = values_of(layer.kernel)
    if layer.lora:
        kernel = kernel + values_of(layer.lora_a) @ values_of(layer.lora_b) * np.float32(layer.lora.scale)
    bias = np.zeros(layer.units, np.float32) if layer.bias is None else values_of(layer.bias)
    return DenseWeights(kernel, bias, layer.activation)


def _inner_maps(block) -> list[DenseWeights]:
    """Returns the first map of a block's feed-forward layer, or both of a gated one."""
    whole = _dense(block.intermediate)
    if not block.gated_mlp:
        return [whole]
    halves = zip(np.split(whole.kernel, 2, 1), np.split(whole.bias, 2), strict=True)
    return [DenseWeights(kernel, bias, block.hidden_act, gated=True) for kernel, bias in halves]


def _split(inner, outer, parts, width):
    """Returns [(inner maps side by side as one, outer map), ...] for each part; the outer ones' results are added.

    Args:
        inner: maps of the same input to equal numbers of units.
        outer: reads the activations of each group of `width` units.
        parts: number of parts; fewer if the units are not divisible by it.

    Each part has a portion of the outer bias: without a bias, TensorFlow's product would pack a constant kernel at each
    run.
    """
    units = len(outer.kernel)
    parts = max(n for n in range(1, parts + 1) if units % (n * width) == 0)
    some = [slice(n * units // parts, (n + 1) * units // parts) for n in range(parts)]
    return [
        (
            DenseWeights(
                np.concatenate([each.kernel[:, part] for each in inner], 1),
                np.concatenate([each.bias[part] for each in inner]),
                inner[0].activation,
                inner[0].gated,
            ),
            DenseWeights(outer.kernel[part], outer.bias / np.float32(parts), columns=part),
        )
        for part in some
    ]
