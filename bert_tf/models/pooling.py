"""Features from encoder layers: layer selection, combination, and pooling into one vector per text.

The six choices of layers are those of the BERT paper's feature-based approach (section 5.3, table 7).
"""

from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

from bert_tf.models.layers import ConfiguredLayer
from bert_tf.utils.counts import number_of
from bert_tf.utils.names import LAYERS, POOLINGS

Layers = str | Sequence[int]  # one of names.LAYERS, or indices of blocks, whose outputs are concatenated
Pooling = str | Sequence[str]  # one of names.POOLINGS, or several, whose vectors are concatenated


def check_layers(layers: Layers, num_layers: int, name: str = "layers"):
    """Raises ValueError if an encoder of `num_layers` blocks does not have these layers.

    Args:
        layers: one of `names.LAYERS`, or indices of blocks, from 0, or negative from -1, the last.
        num_layers: number of the encoder's blocks.
        name: the parameter name for the message.
    """
    if isinstance(layers, str):
        if layers not in LAYERS:
            raise ValueError(
                f"`{name}` must be one of {', '.join(LAYERS)}, or layer indices; got {layers!r}."
            )
        need = 4 if layers.endswith("last_4") else 2 if layers == "second_to_last" else 0
        if num_layers < need:
            raise ValueError(
                f"`{name}={layers}` requires a model with at least {need} layers, but this one has {num_layers}. "
                "Choose other layers."
            )
        return
    wrong = [n for n in layers if not -num_layers <= n < num_layers]
    if wrong or not len(layers):
        raise ValueError(
            f"`{name}` must be layer indices from {-num_layers} to {num_layers - 1}, because the model has "
            f"{number_of(num_layers, 'layer')}; got {wrong[0] if wrong else 'none'}."
        )


def chosen_layers(outputs: Mapping, layers: Layers) -> list[tf.Tensor]:
    """Returns the selected layers, float [B, S, H] each, from the outputs of an `Encoder`."""
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
    """Returns whether the layers are summed; otherwise they are concatenated."""
    return isinstance(layers, str) and layers.startswith("weighted_sum")


def join_layers(outputs: Mapping, layers: Layers) -> tf.Tensor:
    """Returns token features, float [B, S, D], without learned parameters: a sum has equal weights."""
    values = chosen_layers(outputs, layers)
    return tf.add_n(values) / len(values) if is_weighted(layers) else tf.concat(values, -1)


@keras.saving.register_keras_serializable("bert_tf")
class LayerSum(keras.layers.Layer):
    """Learned weighted sum of layers (Peters et al. 2018, equation 1).

    Inputs: a list of L tensors float [B, S, H]. Output: float [B, S, H]: gamma times their sum, weighted with a
        softmax.
    Weights: `layer_weights` [L], initially zeros, so that all layers have equal weight; `gamma` [].
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


def pool(pooling: Pooling, values: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
    """Pools token vectors into one vector per sequence; [CLS] and [SEP] are included, as in sentence-transformers.

    Args:
        pooling: one of `names.POOLINGS`: `cls`, the first token; `mean`; `max`; `mean_max`, both concatenated;
            `mean_sqrt_len`, the sum divided by the root of the number of tokens; `weighted_mean`, where the n-th token
            counts n times; `last_token`. Or several of them, concatenated.
        values: float [B, S, D].
        input_mask: int32 [B, S]: 1 for each token to pool; tokens before the first such token keep their positions.

    Returns:
        float [B, D], or [B, P D] for P concatenated vectors, in the dtype of `values`; sums are float32, because those
        of a long text exceed float16.
    """
    dtype, values = values.dtype, tf.cast(values, tf.float32)
    mask = tf.cast(input_mask, tf.float32)[:, :, tf.newaxis]
    return tf.cast(tf.concat([_POOLINGS[name](values, mask) for name in _names(pooling)], -1), dtype)


def check_pooling(pooling: Pooling, is_decoder: bool = False):
    """Raises ValueError for an unknown pooling, or `cls` with a causal model (`EncoderConfig.is_decoder`)."""
    wrong = [name for name in _names(pooling) if name not in POOLINGS]
    if wrong or not len(pooling):
        raise ValueError(
            f"`pooling` must be one or several of {', '.join(POOLINGS)}; got {wrong[0] if wrong else ''!r}; "
            "choose one."
        )
    if is_decoder and "cls" in _names(pooling):
        raise ValueError(
            "`pooling=cls` cannot be used with a causal (left-to-right) model (is_decoder in its configuration), "
            "because its first token sees nothing of the text. Use last_token, which sees all of it, or mean."
        )


@keras.saving.register_keras_serializable("bert_tf")
class PooledFeatures(ConfiguredLayer):
    """Pools the outputs of an `Encoder` into one vector per sequence, in float32.

    Args:
        layers, pooling: as in `join_layers` and `pool`.
        normalize: whether to divide each vector by its length.
        dim: number of leading dimensions to keep, before that. If None, all.

    Inputs: the dict that the encoder returned; `input_mask` int32 [B, S]. Output: float32 [B, D]. No weights.
    """

    def __init__(
        self, layers: Layers = "last", pooling: Pooling = "mean", normalize=False, dim: int | None = None, **kwargs
    ):
        super().__init__(autocast=False, **kwargs)
        self.layers, self.pooling, self.normalize, self.dim = layers, pooling, normalize, dim

    def call(self, outputs, input_mask):
        vectors = pool(self.pooling, tf.cast(join_layers(outputs, self.layers), tf.float32), input_mask)
        vectors = vectors[:, : self.dim]
        return tf.math.l2_normalize(vectors, -1) if self.normalize else vectors

    def compute_output_spec(self, outputs, input_mask):
        width = pooled_width(self.layers, self.pooling, outputs["sequence_output"].shape[-1])
        return keras.KerasTensor((input_mask.shape[0], min(width, self.dim or width)), "float32")


def pooled_width(layers: Layers, pooling: Pooling, hidden_size: int) -> int:
    """Returns the number of dimensions of pooled features; arguments as in `join_layers` and `pool`."""
    parts = (4 if layers == "concat_last_4" else 1) if isinstance(layers, str) else len(layers)
    return parts * sum(1 + (name == "mean_max") for name in _names(pooling)) * hidden_size


def _names(pooling):
    return (pooling,) if isinstance(pooling, str) else pooling


def _places(mask):
    """Returns int32 [1, S, 1]: 1, 2, ..., the number of each position in a row."""
    return tf.range(1, tf.shape(mask)[1] + 1)[tf.newaxis, :, tf.newaxis]


def _first(values, mask):
    return tf.gather(values, tf.argmax(mask[:, :, 0], 1), batch_dims=1)


def _mean(values, mask):
    return tf.math.divide_no_nan(tf.reduce_sum(values * mask, 1), tf.reduce_sum(mask, 1))


def _max(values, mask):
    return tf.reduce_max(tf.where(mask > 0, values, values.dtype.min), 1)


def _last(values, mask):
    last = tf.reduce_max(_places(mask) * tf.cast(mask, tf.int32), 1)[:, 0] - 1
    return tf.gather(values, tf.maximum(last, 0), batch_dims=1)


def _mean_sqrt_len(values, mask):
    return tf.math.divide_no_nan(tf.reduce_sum(values * mask, 1), tf.sqrt(tf.reduce_sum(mask, 1)))


_POOLINGS: dict[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = {
    "cls": _first,
    "mean": _mean,
    "max": _max,
    "mean_max": lambda values, mask: tf.concat([_mean(values, mask), _max(values, mask)], -1),
    "mean_sqrt_len": _mean_sqrt_len,
    "weighted_mean": lambda values, mask: _mean(values, mask * tf.cast(_places(mask), mask.dtype)),
    "last_token": _last,
}
assert tuple(_POOLINGS) == POOLINGS
