"""KerasHub's names, as they stand in the HDF5 files of its presets: Keras counts the layers of one class.

`task/` stands before the names of the file with a task's head; the backbone's have nothing before them.
"""

from bert_tf.checkpoints.names.table import NameMap, Row
from bert_tf.checkpoints.names.transforms import HEADS_FIRST, HEADS_LAST, KEEP, TRANSPOSE

TASK = "task/"


def _pair(ours, theirs, names=("kernel", "bias"), first=KEEP, second=KEEP):
    return [
        Row(f"{ours}/{names[0]}", f"{theirs}/vars/0", first),
        Row(f"{ours}/{names[1]}", f"{theirs}/vars/1", second),
    ]


def _norm(ours, theirs):
    return _pair(ours, theirs, ("gamma", "beta"))


def _block(ours, theirs):
    attention = f"{theirs}/_self_attention_layer"
    by_heads = [
        row
        for name in ("query", "key", "value")
        for row in _pair(f"{ours}/attention/self/{name}", f"{attention}/{name}_dense", first=HEADS_LAST,
                         second=HEADS_LAST)
    ]  # fmt: skip
    return [
        *by_heads,
        *_pair(f"{ours}/attention/output/dense", f"{attention}/output_dense", first=HEADS_FIRST),
        *_norm(f"{ours}/attention/output/LayerNorm", f"{theirs}/_self_attention_layer_norm"),
        *_pair(f"{ours}/intermediate/dense", f"{theirs}/_feedforward_intermediate_dense"),
        *_pair(f"{ours}/output/dense", f"{theirs}/_feedforward_output_dense"),
        *_norm(f"{ours}/output/LayerNorm", f"{theirs}/_feedforward_layer_norm"),
    ]


def _head(theirs):
    return _pair("classifier", f"{TASK}{theirs}", ("output_weights", "output_bias"), TRANSPOSE)


_BLOCKS = [
    *_block("bert/encoder/layer_0", "layers/transformer_encoder"),  # the first has no number
    *_block("bert/encoder/layer_{n}", "layers/transformer_encoder_{n}"),
]
_LEFT_OUT = (f"{TASK}optimizer/{{any}}",)

BERT = NameMap(
    rows=(
        Row("bert/embeddings/word_embeddings", "layers/reversible_embedding/vars/0"),
        Row("bert/embeddings/position_embeddings", "layers/position_embedding/vars/0"),
        Row("bert/embeddings/token_type_embeddings", "layers/embedding/vars/0"),
        *_norm("bert/embeddings/LayerNorm", "layers/layer_normalization"),
        *_BLOCKS,
        *_pair("bert/pooler/dense", "layers/dense"),
        *_head("layers/dense"),
    ),
    left_out=_LEFT_OUT,
    separator="",
)

_TABLES = "layers/token_and_position_embedding"

DISTILBERT = NameMap(
    rows=(
        Row("bert/embeddings/word_embeddings", f"{_TABLES}/token_embedding/vars/0"),
        Row("bert/embeddings/position_embeddings", f"{_TABLES}/position_embedding/vars/0"),
        *_norm("bert/embeddings/LayerNorm", "layers/layer_normalization"),
        *_BLOCKS,
        *_pair("classifier/dense", f"{TASK}layers/dense"),
        *_head("layers/dense_1"),
    ),
    left_out=_LEFT_OUT,
    separator="",
)
