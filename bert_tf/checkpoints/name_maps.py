"""The names of weights of each family and format, as tables: Hugging Face, KerasHub, TF1; both ways."""

import dataclasses

from bert_tf.checkpoints.name_map import (
    BEHIND_PADDING,
    HEADS_FIRST,
    HEADS_LAST,
    KEEP,
    TRANSPOSE,
    NameMap,
    Twin,
    WeightName,
    block_rows,
    classifier_of_two_layers,
    dense,
    head,
    norm,
    output_layer,
)
from bert_tf.models import families, lora

# === BERT ===
# BERT's names in Hugging Face's files.


BERT_NAMES = NameMap(
    rows=(
        WeightName("bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings.weight"),
        WeightName("bert/embeddings/position_embeddings", "bert.embeddings.position_embeddings.weight"),
        WeightName("bert/embeddings/token_type_embeddings", "bert.embeddings.token_type_embeddings.weight"),
        *norm("bert/embeddings/LayerNorm", "bert.embeddings.LayerNorm"),
        *block_rows("bert.encoder.layer.{n}"),
        *dense("bert/pooler/dense", "bert.pooler.dense"),
        *dense("cls/predictions/transform/dense", "cls.predictions.transform.dense"),
        *norm("cls/predictions/transform/LayerNorm", "cls.predictions.transform.LayerNorm"),
        WeightName("cls/predictions/output_bias", "cls.predictions.bias"),
        *head("cls/seq_relationship", "cls.seq_relationship"),
        *head("cls/squad", "qa_outputs"),
        *head("classifier", "classifier"),
    ),
    left_out=("bert.embeddings.position_ids", "bert.embeddings.token_type_ids"),  # buffers that old versions saved
    twins=(
        output_layer("cls.predictions.decoder.weight"),
        Twin("cls.predictions.decoder.bias", "cls/predictions/output_bias", "cls/predictions/output_bias"),
    ),
    prefix="bert.",  # sentence-transformers and BertModel save without it
    without_prefix=("embeddings.", "encoder.", "pooler."),
    old_spellings=(("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")),
)


# === Roberta ===
# RoBERTa's names in Hugging Face's files: BERT's encoder, and heads of its own.


ROBERTA_NAMES = NameMap(
    rows=(
        *(row for row in BERT_NAMES.renamed("bert.", "roberta.").rows if row.ours.startswith("bert/")),
        *dense("cls/predictions/transform/dense", "lm_head.dense"),
        *norm("cls/predictions/transform/LayerNorm", "lm_head.layer_norm"),
        WeightName("cls/predictions/output_bias", "lm_head.bias"),
        *head("cls/squad", "qa_outputs"),
        *classifier_of_two_layers("classifier"),
    ),
    left_out=("roberta.embeddings.position_ids", "roberta.embeddings.token_type_ids"),
    twins=(
        output_layer("lm_head.decoder.weight"),
        Twin("lm_head.decoder.bias", "cls/predictions/output_bias", "cls/predictions/output_bias"),
    ),
    prefix="roberta.",  # RobertaModel saves without it
    without_prefix=("embeddings.", "encoder.", "pooler."),
)


# === Roberta prelayernorm ===
# RoBERTa's names where its norms come first, in Hugging Face's files: each belongs to the part that it precedes.


_ROBERTA = ROBERTA_NAMES.renamed("roberta.", "roberta_prelayernorm.")

NAMES = dataclasses.replace(
    _ROBERTA,
    rows=(
        *(row for row in _ROBERTA.rows if not row.ours.startswith("bert/encoder/")),
        *block_rows("roberta_prelayernorm.encoder.layer.{n}", norms=("attention", "intermediate")),
        *norm("bert/encoder/LayerNorm", "roberta_prelayernorm.LayerNorm"),
    ),
    without_prefix=(*_ROBERTA.without_prefix, "LayerNorm."),
)


# === Distilbert ===
# DistilBERT's names in Hugging Face's files.


_LAYER, _THEIRS = "bert/encoder/layer_{n}", "distilbert.transformer.layer.{n}"

DISTILBERT_NAMES = NameMap(
    rows=(
        WeightName("bert/embeddings/word_embeddings", "distilbert.embeddings.word_embeddings.weight"),
        WeightName("bert/embeddings/position_embeddings", "distilbert.embeddings.position_embeddings.weight"),
        *norm("bert/embeddings/LayerNorm", "distilbert.embeddings.LayerNorm"),
        *dense(f"{_LAYER}/attention/self/query", f"{_THEIRS}.attention.q_lin"),
        *dense(f"{_LAYER}/attention/self/key", f"{_THEIRS}.attention.k_lin"),
        *dense(f"{_LAYER}/attention/self/value", f"{_THEIRS}.attention.v_lin"),
        *dense(f"{_LAYER}/attention/output/dense", f"{_THEIRS}.attention.out_lin"),
        *norm(f"{_LAYER}/attention/output/LayerNorm", f"{_THEIRS}.sa_layer_norm"),
        *dense(f"{_LAYER}/intermediate/dense", f"{_THEIRS}.ffn.lin1"),
        *dense(f"{_LAYER}/output/dense", f"{_THEIRS}.ffn.lin2"),
        *norm(f"{_LAYER}/output/LayerNorm", f"{_THEIRS}.output_layer_norm"),
        *dense("cls/predictions/transform/dense", "vocab_transform"),
        *norm("cls/predictions/transform/LayerNorm", "vocab_layer_norm"),
        WeightName("cls/predictions/output_bias", "vocab_projector.bias"),
        *head("cls/squad", "qa_outputs"),
        *dense("classifier/dense", "pre_classifier"),
        *head("classifier", "classifier"),
    ),
    left_out=("distilbert.embeddings.position_ids",),
    twins=(output_layer("vocab_projector.weight"),),
    prefix="distilbert.",  # DistilBertModel saves without it
    without_prefix=("embeddings.", "transformer."),
    old_spellings=(("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")),
)


# === Albert ===
# ALBERT's names in Hugging Face's files.


_ALBERT_LAYER, _ALBERT_THEIRS = "bert/encoder/layer_{n}", "albert.encoder.albert_layer_groups.{n}.albert_layers.0"

ALBERT_NAMES = NameMap(
    rows=(
        WeightName("bert/embeddings/word_embeddings", "albert.embeddings.word_embeddings.weight"),
        WeightName("bert/embeddings/position_embeddings", "albert.embeddings.position_embeddings.weight"),
        WeightName("bert/embeddings/token_type_embeddings", "albert.embeddings.token_type_embeddings.weight"),
        *norm("bert/embeddings/LayerNorm", "albert.embeddings.LayerNorm"),
        *dense("bert/encoder/embedding_hidden_mapping_in", "albert.encoder.embedding_hidden_mapping_in"),
        *dense(f"{_ALBERT_LAYER}/attention/self/query", f"{_ALBERT_THEIRS}.attention.query"),
        *dense(f"{_ALBERT_LAYER}/attention/self/key", f"{_ALBERT_THEIRS}.attention.key"),
        *dense(f"{_ALBERT_LAYER}/attention/self/value", f"{_ALBERT_THEIRS}.attention.value"),
        *dense(f"{_ALBERT_LAYER}/attention/output/dense", f"{_ALBERT_THEIRS}.attention.dense"),
        *norm(f"{_ALBERT_LAYER}/attention/output/LayerNorm", f"{_ALBERT_THEIRS}.attention.LayerNorm"),
        *dense(f"{_ALBERT_LAYER}/intermediate/dense", f"{_ALBERT_THEIRS}.ffn"),
        *dense(f"{_ALBERT_LAYER}/output/dense", f"{_ALBERT_THEIRS}.ffn_output"),
        *norm(f"{_ALBERT_LAYER}/output/LayerNorm", f"{_ALBERT_THEIRS}.full_layer_layer_norm"),
        *dense("bert/pooler/dense", "albert.pooler"),
        *dense("cls/predictions/transform/dense", "predictions.dense"),
        *norm("cls/predictions/transform/LayerNorm", "predictions.LayerNorm"),
        WeightName("cls/predictions/output_bias", "predictions.bias"),
        *head("cls/seq_relationship", "sop_classifier.classifier"),
        *head("cls/squad", "qa_outputs"),
        *head("classifier", "classifier"),
    ),
    left_out=("albert.embeddings.position_ids", "albert.embeddings.token_type_ids"),
    twins=(
        output_layer("predictions.decoder.weight"),
        Twin("predictions.decoder.bias", "cls/predictions/output_bias", "cls/predictions/output_bias"),
    ),
    prefix="albert.",  # AlbertModel saves without it
    without_prefix=("embeddings.", "encoder.", "pooler."),
)


# === Electra ===
# ELECTRA's names in Hugging Face's files: the encoder's, the generator's head and the tasks'.


ELECTRA_NAMES = NameMap(
    rows=(
        WeightName("bert/embeddings/word_embeddings", "electra.embeddings.word_embeddings.weight"),
        WeightName("bert/embeddings/position_embeddings", "electra.embeddings.position_embeddings.weight"),
        WeightName("bert/embeddings/token_type_embeddings", "electra.embeddings.token_type_embeddings.weight"),
        *norm("bert/embeddings/LayerNorm", "electra.embeddings.LayerNorm"),
        *dense("bert/encoder/embedding_hidden_mapping_in", "electra.embeddings_project"),
        *block_rows("electra.encoder.layer.{n}"),
        *dense("cls/predictions/transform/dense", "generator_predictions.dense"),
        *norm("cls/predictions/transform/LayerNorm", "generator_predictions.LayerNorm"),
        WeightName("cls/predictions/output_bias", "generator_lm_head.bias"),
        *dense("cls/replaced_tokens/dense", "discriminator_predictions.dense"),
        *head("cls/replaced_tokens", "discriminator_predictions.dense_prediction"),
        *head("cls/squad", "qa_outputs"),
        *classifier_of_two_layers("classifier"),
    ),
    left_out=("electra.embeddings.position_ids", "electra.embeddings.token_type_ids"),
    twins=(output_layer("generator_lm_head.weight"),),
    prefix="electra.",  # ElectraModel saves without it
    without_prefix=("embeddings.", "embeddings_project.", "encoder."),
    old_spellings=(("sequence_summary.summary.", "classifier.dense."),),  # of ElectraForMultipleChoice
)


# === Ernie ===
# ERNIE's names in Hugging Face's files: BERT's, and the table of tasks.


_RENAMED = BERT_NAMES.renamed("bert.", "ernie.")

ERNIE_NAMES = dataclasses.replace(
    _RENAMED,
    rows=(
        *_RENAMED.rows,
        WeightName("bert/embeddings/task_type_embeddings", "ernie.embeddings.task_type_embeddings.weight"),
    ),
)


# === Keras hub ===
# KerasHub's names, as they stand in the HDF5 files of its presets: Keras counts the layers of one class.
#
# `task/` stands before the names of the file with a task's head; the backbone's have nothing before them.


TASK = "task/"


def _pair(ours, theirs, names=("kernel", "bias"), first=KEEP, second=KEEP):
    return [
        WeightName(f"{ours}/{names[0]}", f"{theirs}/vars/0", first),
        WeightName(f"{ours}/{names[1]}", f"{theirs}/vars/1", second),
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


def _keras_hub_map(*rows):
    return NameMap(rows=(*rows, *_BLOCKS, *_MASKED_LM_HEAD), left_out=_LEFT_OUT, separator="")


def _without_segments(positions):
    both = "layers/token_and_position_embedding"
    return _keras_hub_map(
        WeightName("bert/embeddings/word_embeddings", f"{both}/token_embedding/vars/0"),
        WeightName("bert/embeddings/position_embeddings", f"{both}/position_embedding/vars/0", positions),
        *_norm("bert/embeddings/LayerNorm", "layers/layer_normalization"),
        *_pair("classifier/dense", f"{TASK}layers/dense"),
        *_head("layers/dense_1"),
    )


BERT = _keras_hub_map(*_TABLES, *_pair("bert/pooler/dense", "layers/dense"), *_head("layers/dense"))
DISTILBERT, ROBERTA = _without_segments(KEEP), _without_segments(BEHIND_PADDING)
# A linear map behind the embeddings is the first dense layer: ALBERT, and ELECTRA where the widths differ.
PROJECTED = _keras_hub_map(
    *_TABLES,
    *_pair("bert/encoder/embedding_hidden_mapping_in", "layers/dense"),
    *_pair("bert/pooler/dense", "layers/dense_1"),
    *_head("layers/dense"),
)


# === Tf1 ===
# The names in TF1 checkpoints, google-research/bert's and ours: our variable paths, of every family.


# What stands before the names of a generator that was trained beside the discriminator, whose embeddings it shares.
GENERATOR = "generator/"


def _part(path, *names):
    return [f"{path}/{name}" for name in names]


def _dense(path):
    return _part(path, "kernel", "bias")


def _norm_tf1(path):
    return _part(path, "gamma", "beta")


def _head_tf1(path):
    return _part(path, "output_weights", "output_bias")


_TF1_LAYER = "bert/encoder/layer_{n}"
_TF1_BLOCKS = [
    *_dense("bert/encoder/embedding_hidden_mapping_in"),
    *(path for part in ("query", "key", "value") for path in _dense(f"{_TF1_LAYER}/attention/self/{part}")),
    *_dense(f"{_TF1_LAYER}/attention/output/dense"),
    *_norm_tf1(f"{_TF1_LAYER}/attention/output/LayerNorm"),
    *_dense(f"{_TF1_LAYER}/intermediate/dense"),
    *_dense(f"{_TF1_LAYER}/output/dense"),
    *_norm_tf1(f"{_TF1_LAYER}/output/LayerNorm"),
    # `norm_first`: where the norms stand then, so that neither kind of model can be taken for the other; ours alone.
    *_norm_tf1(f"{_TF1_LAYER}/attention/LayerNorm"),
    *_norm_tf1(f"{_TF1_LAYER}/intermediate/LayerNorm"),
    *_norm_tf1("bert/encoder/LayerNorm"),
]
_MASKED_LM = [
    *_dense("cls/predictions/transform/dense"),
    *_norm_tf1("cls/predictions/transform/LayerNorm"),
    *_part("cls/predictions", "output_weights", "output_bias"),  # the first only where it is not tied
]
_PATHS = [
    *_part("bert/embeddings", "word_embeddings", "position_embeddings", "token_type_embeddings",
           "task_type_embeddings"),
    *_norm_tf1("bert/embeddings/LayerNorm"),
    *_TF1_BLOCKS,
    *_dense("bert/pooler/dense"),
    *_MASKED_LM,
    *_head_tf1("cls/seq_relationship"),
    *_head_tf1("cls/squad"),
    *_dense("cls/replaced_tokens/dense"),
    *_head_tf1("cls/replaced_tokens"),
    *(f"{GENERATOR}{path}" for path in (*_TF1_BLOCKS, *_MASKED_LM)),  # ours alone
    *_dense("cls/distillation/hidden"),  # from a student's width to its teacher's; ours alone
    *_dense("classifier/dense"),
    *_part("tagger/layer_sum", "layer_weights", "gamma"),  # on a frozen encoder's features; ours alone
    *_part("tagger/lstm_{n}", "kernel", "recurrent_kernel", "bias"),
    *_head_tf1("tagger/classifier"),
    *_part("recurrent/lstm_{n}", "kernel", "recurrent_kernel", "bias"),  # on an encoder that was trained with it
    *_head_tf1("recurrent/classifier"),
    *(path for part in lora.TARGETS.values() for path in _part(f"{_TF1_LAYER}/{part}", *lora.NAMES)),  # ours alone
]

TF1_NAMES = NameMap(
    rows=(
        *(WeightName(path, path) for path in _PATHS),
        WeightName("classifier/output_weights", "output_weights"),
        WeightName("classifier/output_bias", "output_bias"),
    ),
    # The optimizer's moments and the step, as Google writes them; training/ is where our own runs keep the rest of
    # their state (random seeds, position in the data).
    left_out=("{any}/adam_m", "{any}/adam_v", "global_step", "training/{any}"),
    separator="/",  # a module of TensorFlow Hub, once it was fine-tuned, has all its names under "module/"
)


# === Names ===
# The names of weights in files: of TF1 checkpoints, of each family in Hugging Face's and in KerasHub's.


TF1 = TF1_NAMES  # for every family
NAME_MAPS: dict[str, NameMap] = {
    "albert": ALBERT_NAMES,
    "bert": BERT_NAMES,
    "distilbert": DISTILBERT_NAMES,
    "electra": ELECTRA_NAMES,
    "ernie": ERNIE_NAMES,
    "roberta": ROBERTA_NAMES,
    "roberta-prelayernorm": NAMES,
}
KERAS_HUB_MAPS: dict[str, NameMap] = {
    "albert": PROJECTED,
    "bert": BERT,
    "distilbert": DISTILBERT,
    "electra": PROJECTED,
    "roberta": ROBERTA,
}


def hugging_face(model_type: str = families.DEFAULT, tied: bool = True) -> NameMap:
    """Returns the map of a family, a key of `families.FAMILIES`.

    Args:
        model_type: the family.
        tied: `EncoderConfig.tie_word_embeddings`.

    Raises:
        ValueError: there is no such family.
    """
    name_map = NAME_MAPS[families.family(model_type).name_map]
    return name_map if tied else name_map.without_ties()


def prefixes(but: NameMap) -> set[str]:
    """Returns the prefixes of the encoders' names in Hugging Face's files, without that of one map."""
    return {name_map.prefix for name_map in NAME_MAPS.values()} - {but.prefix, ""}


def of_keras_hub(model_type: str, projected: bool = True) -> NameMap:
    """Returns the map of a family's names in KerasHub.

    Args:
        model_type: the family.
        projected: whether a linear map follows the embeddings, in the families that can have one.

    Raises:
        ValueError: there is no such family, or none of its models can be a preset.
    """
    if families.family(model_type).keras_hub is None:
        there = sorted(name for name, row in families.FAMILIES.items() if row.keras_hub)
        raise ValueError(
            f"A KerasHub preset must be of a family that KerasHub computes as its own code does: one of {there}. "
            f"Received: {model_type!r}; take another format."
        )
    name_map = KERAS_HUB_MAPS[families.family(model_type).name_map]
    always = families.family(model_type).fixed.get("maps_embeddings", False)
    return name_map if projected or always or name_map is not PROJECTED else BERT
