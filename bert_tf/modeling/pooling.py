"""From the encoder's layers to features: which layers, how they are put together, and what stands for a whole text.

The six choices of layers are those of the BERT paper's feature-based approach (section 5.3, table 7).
"""

from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

from bert_tf.names import LAYERS, POOLINGS

Layers = str | Sequence[int]  # one of names.LAYERS, or indices of blocks, whose outputs are put side by side


def check_layers(layers: Layers, num_layers: int, name: str = "layers"):
    """Raises ValueError where an encoder of `num_layers` blocks does not have these layers.

    Args:
        layers: one of `names.LAYERS`, or indices of blocks, from 0 up or from -1, the last, down.
        num_layers: the encoder's blocks.
        name: what the message calls them.
    """
    if isinstance(layers, str):
        if layers not in LAYERS:
            raise ValueError(
                f"`{name}` must be one of {', '.join(LAYERS)}, or indices of layers. Received: {layers!r}; choose one."
            )
        need = 4 if layers.endswith("last_4") else 2 if layers == "second_to_last" else 0
        if num_layers < need:
            raise ValueError(
                f"`{name}={layers}` must come with a model of {need} layers at least. Received a model of {num_layers};"
                " choose other layers."
            )
        return
    wrong = [n for n in layers if not -num_layers <= n < num_layers]
    if wrong or not len(layers):
        raise ValueError(
            f"`{name}` must be indices of the model's {num_layers} layers, from {-num_layers} to {num_layers - 1}. "
            f"Received: {wrong[0] if wrong else 'none'}; choose others."
        )


def chosen_layers(outputs: Mapping, layers: Layers) -> list[tf.Tensor]:
    """Returns the layers, float [B, S, H] each, of what an `Encoder` returned: those that a choice puts together."""
    blocks = outputs["encoder_outputs"]
    if not isinstance(layers, str):
        return [blocks[n] for n in layers]
    return {
        "embeddings": lambda: [outputs["embedding_output"]],
        "second_to_last": lambda: [blocks[-2]],
        "last": lambda: [blocks[-1]],
        "weighted_sum_last_4": lambda: blocks[-4:],
        "concat_last_4": lambda: blocks[-4:],
        "weighted_sum_all": lambda: list(blocks),
    }[layers]()


def is_weighted(layers: Layers) -> bool:
    """Returns whether the layers are summed; otherwise they are put side by side."""
    return isinstance(layers, str) and layers.startswith("weighted_sum")


def joined(outputs: Mapping, layers: Layers) -> tf.Tensor:
    """Returns the features of every piece, float [B, S, D], without anything learned: a sum has equal weights."""
    values = chosen_layers(outputs, layers)
    return tf.add_n(values) / len(values) if is_weighted(layers) else tf.concat(values, -1)


@keras.saving.register_keras_serializable("bert_tf")
class LayerSum(keras.layers.Layer):
    """A weighted sum of layers whose weights are learned (Peters et al. 2018, equation 1).

    Inputs: a list of L tensors float [B, S, H]. Output: float [B, S, H]: gamma times their sum, each weighed by its
    share of a softmax.
    Weights: `layer_weights` [L], zeros at first, so that all weigh the same; `gamma` [].
    """

    def build(self, input_shape):
        self.layer_weights = self.add_weight(name="layer_weights", shape=(len(input_shape),), initializer="zeros")
        self.gamma = self.add_weight(name="gamma", shape=(), initializer="ones")

    def call(self, layers):
        shares = tf.unstack(tf.nn.softmax(self.layer_weights))
        total = tf.add_n([share * layer for share, layer in zip(shares, layers, strict=True)])
        return tf.cast(self.gamma, total.dtype) * total

    def compute_output_shape(self, input_shape):
        return input_shape[0]


def pool(name: str, values: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
    """Returns one vector for each row, [CLS] and [SEP] counted as pieces like all others, as sentence-transformers.

    Args:
        name: one of `names.POOLINGS`: `cls`, the first piece; `mean`; `max`; `mean_max`, both side by side;
            `mean_sqrt_len`, the sum over the root of how many there are; `weighted_mean`, the n-th piece n times;
            `last_token`.
        values: float [B, S, D].
        input_mask: int32 [B, S].

    Returns:
        float [B, D], or [B, 2 D] for mean_max.
    """
    mask = tf.cast(input_mask, values.dtype)[:, :, tf.newaxis]
    return _POOLINGS[name](values, mask)


def check_pooling(name: str):
    """Raises ValueError where there is no such pooling."""
    if name not in POOLINGS:
        raise ValueError(f"`pooling` must be one of {', '.join(POOLINGS)}. Received: {name!r}; choose one.")


def _mean(values, mask):
    return tf.reduce_sum(values * mask, 1) / tf.maximum(tf.reduce_sum(mask, 1), 1)


def _max(values, mask):
    return tf.reduce_max(tf.where(mask > 0, values, values.dtype.min), 1)


def _last(values, mask):
    last = tf.maximum(tf.reduce_sum(tf.cast(mask[:, :, 0], tf.int32), 1) - 1, 0)
    return tf.gather(values, last, batch_dims=1)


def _mean_sqrt_len(values, mask):
    return tf.reduce_sum(values * mask, 1) / tf.sqrt(tf.maximum(tf.reduce_sum(mask, 1), 1))


_POOLINGS: dict[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = {
    "cls": lambda values, mask: values[:, 0],
    "mean": _mean,
    "max": _max,
    "mean_max": lambda values, mask: tf.concat([_mean(values, mask), _max(values, mask)], -1),
    "mean_sqrt_len": _mean_sqrt_len,
    "weighted_mean": lambda values, mask: _mean(values, mask * tf.cumsum(mask, 1)),
    "last_token": _last,
}
assert tuple(_POOLINGS) == POOLINGS
