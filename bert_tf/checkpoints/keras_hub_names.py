"""Weight names of each family in the HDF5 files of KerasHub's presets: Keras numbers the layers of each class."""

from bert_tf.checkpoints.names.array_layouts import BEHIND_PADDING, HEADS_FIRST, HEADS_LAST, KEEP, TRANSPOSE
from bert_tf.checkpoints.names.rows import WeightName
from bert_tf.checkpoints.names.weight_mapping import WeightMapping
from bert_tf.models import family_registry

_OURS = "bert/encoder/layer_{n}"
TASK = "task/"  # prefix of the names in the file of a task's head; the backbone's have none


def _pair(ours, theirs, names=("kernel", "bias"), first=KEEP, second=KEEP):
    return [
        WeightName(f"{ours}/{names[0]}", f"{theirs}/vars/0", first),
        WeightName(f"{ours}/{names[1]}", f"{theirs}/vars/1", second),
    ]


def _norm(ours, theirs):
    return _pair(ours, theirs, ("gamma", "beta"))


def _block(ours, theirs, attention="_self_attention_layer/", output=HEADS_FIRST):
    attention = f"{theirs}/{attention}"
    by_heads = [
        row
        for name in ("query", "key", "value")
        for row in _pair(f"{ours}/attention/self/{name}", f"{attention}{name}_dense", first=HEADS_LAST,
                         second=HEADS_LAST)
    ]  # fmt: skip
    return [
        *by_heads,
        *_pair(f"{ours}/attention/output/dense", f"{attention}output_dense", first=output),
        *_norm(f"{ours}/attention/output/LayerNorm", f"{theirs}/_self_attention_layer_norm"),
        *_pair(f"{ours}/intermediate/dense", f"{theirs}/_feedforward_intermediate_dense"),
        *_pair(f"{ours}/output/dense", f"{theirs}/_feedforward_output_dense"),
        *_norm(f"{ours}/output/LayerNorm", f"{theirs}/_feedforward_layer_norm"),
    ]


def _head(theirs):
    return _pair("classifier", f"{TASK}{theirs}", ("output_weights", "output_bias"), TRANSPOSE)


def _blocks(theirs, *own):
    # The first has no number.
    return [*_block("bert/encoder/layer_0", theirs, *own), *_block(_OURS, f"{theirs}_{{n}}", *own)]


_BLOCKS = _blocks("layers/transformer_encoder")
_LEFT_OUT = (f"{TASK}optimizer/{{any}}",)
_MLM_HEAD = f"{TASK}layers/masked_lm_head"
_MASKED_LM_HEAD = [
    *_pair("cls/predictions/transform/dense", f"{_MLM_HEAD}/_intermediate_dense"),
    *_norm("cls/predictions/transform/LayerNorm", f"{_MLM_HEAD}/_intermediate_layer_norm"),
    WeightName("cls/predictions/output_bias", f"{_MLM_HEAD}/vars/0"),
]
_TABLES = [
    WeightName("bert/embeddings/word_embeddings", "layers/reversible_embedding/vars/0"),
    WeightName("bert/embeddings/position_embeddings", "layers/position_embedding/vars/0"),
    WeightName("bert/embeddings/token_type_embeddings", "layers/embedding/vars/0"),
    *_norm("bert/embeddings/LayerNorm", "layers/layer_normalization"),
]
_TWO_LAYERS = [*_pair("classifier/dense", f"{TASK}layers/dense"), *_head("layers/dense_1")]


def _name_map(*rows, blocks=_BLOCKS):
    return WeightMapping(rows=(*rows, *blocks, *_MASKED_LM_HEAD), left_out=_LEFT_OUT, separator="")


def _without_segments(positions):
    both = "layers/token_and_position_embedding"
    return _name_map(
        WeightName("bert/embeddings/word_embeddings", f"{both}/token_embedding/vars/0"),
        WeightName("bert/embeddings/position_embeddings", f"{both}/position_embedding/vars/0", positions),
        *_norm("bert/embeddings/LayerNorm", "layers/layer_normalization"),
        *_TWO_LAYERS,
    )


_BERT = _name_map(*_TABLES, *_pair("bert/pooler/dense", "layers/dense"), *_head("layers/dense"))
_DISTILBERT, _ROBERTA = _without_segments(KEEP), _without_segments(BEHIND_PADDING)
_DEBERTA = _name_map(
    WeightName("bert/embeddings/word_embeddings", "layers/reversible_embedding/vars/0"),
    *_norm("bert/embeddings/LayerNorm", "layers/layer_normalization"),
    WeightName("bert/embeddings/relative_positions/relative_embeddings", "layers/relative_embedding/vars/0"),
    *_norm("bert/embeddings/relative_positions/LayerNorm", "layers/relative_embedding/layer_norm"),
    *_TWO_LAYERS,
    blocks=_blocks("layers/disentangled_attention_encoder", "_self_attention_layer/_", KEEP),
)
# A linear map behind the embeddings is the first dense layer: ALBERT, and ELECTRA where the widths differ.
_PROJECTED = _name_map(
    *_TABLES,
    *_pair("bert/encoder/embedding_hidden_mapping_in", "layers/dense"),
    *_pair("bert/pooler/dense", "layers/dense_1"),
    *_head("layers/dense"),
)
_MAPS: dict[str, WeightMapping] = {
    "albert": _PROJECTED,
    "bert": _BERT,
    "deberta-v2": _DEBERTA,
    "distilbert": _DISTILBERT,
    "electra": _PROJECTED,
    "roberta": _ROBERTA,
}


def keras_hub_name_map(model_type: str, projected: bool = True) -> WeightMapping:
    """Returns the KerasHub weight mapping of a family.

    Args:
        model_type: the family.
        projected: whether a linear map follows the embeddings, in the families that can have one.

    Raises:
        ValueError: bert_tf or KerasHub does not support the family.
    """
    if family_registry.family(model_type).keras_hub is None:
        there = sorted(name for name, row in family_registry.FAMILIES.items() if row.keras_hub)
        raise ValueError(
            f"A KerasHub preset must be of a family that KerasHub implements equivalently: one of {there}; got "
            f"{model_type!r}; use the format bert_tf."
        )
    weight_mapping = _MAPS[family_registry.family(model_type).weight_mapping]
    always = family_registry.family(model_type).fixed.get("maps_embeddings", False)
    return weight_mapping if projected or always or weight_mapping is not _PROJECTED else _BERT
