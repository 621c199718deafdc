"""Tables of the weight names: of each family in Hugging Face's files, and of all families in TF1 checkpoints."""

import dataclasses
from collections.abc import Iterable

from bert_tf.checkpoints.name_map import (
    WORDS,
    NameMap,
    WeightName,
    block_rows,
    classifier_of_two_layers,
    decoder,
    dense,
    embedding_rows,
    head,
    masked_lm_rows,
    norm,
    output_layer,
    transposed_part,
)
from bert_tf.models import families, lora
from bert_tf.models.config_files import INPUT_POSITIONS

_OURS = "bert/encoder/layer_{n}"

# === BERT ===
# BERT's names in Hugging Face's files.


BERT_NAMES = NameMap(
    rows=(
        *embedding_rows("bert.embeddings"),
        *block_rows("bert.encoder.layer.{n}"),
        *dense("bert/pooler/dense", "bert.pooler.dense"),
        *masked_lm_rows(
            "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"
        ),
        *head("cls/seq_relationship", "cls.seq_relationship"),
        *head("cls/squad", "qa_outputs"),
        *head("classifier", "classifier"),
    ),
    left_out=("bert.embeddings.position_ids", "bert.embeddings.token_type_ids"),  # buffers that old versions saved
    twins=decoder("cls.predictions.decoder"),
    prefix="bert.",  # sentence-transformers and BertModel save without it
    without_prefix=("embeddings.", "encoder.", "pooler."),
    old_spellings=(("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")),
)


# === RoBERTa ===
# RoBERTa's names in Hugging Face's files: BERT's encoder, and heads of its own.


ROBERTA_NAMES = NameMap(
    rows=(
        *(row for row in BERT_NAMES.renamed("bert.", "roberta.").rows if row.ours.startswith("bert/")),
        *masked_lm_rows("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
        *head("cls/squad", "qa_outputs"),
        *classifier_of_two_layers("classifier"),
    ),
    left_out=("roberta.embeddings.position_ids", "roberta.embeddings.token_type_ids"),
    twins=decoder("lm_head.decoder"),
    prefix="roberta.",  # RobertaModel saves without it
    without_prefix=("embeddings.", "encoder.", "pooler."),
)


# === RoBERTa-PreLayerNorm ===
# RoBERTa's names where its norms come first, in Hugging Face's files: each belongs to the part that it precedes.


_ROBERTA = ROBERTA_NAMES.renamed("roberta.", "roberta_prelayernorm.")

ROBERTA_PRELAYERNORM_NAMES = dataclasses.replace(
    _ROBERTA,
    rows=(
        *(row for row in _ROBERTA.rows if not row.ours.startswith("bert/encoder/")),
        *block_rows("roberta_prelayernorm.encoder.layer.{n}", norms=("attention", "intermediate")),
        *norm("bert/encoder/LayerNorm", "roberta_prelayernorm.LayerNorm"),
    ),
    without_prefix=(*_ROBERTA.without_prefix, "LayerNorm."),
)


# === DistilBERT ===
# DistilBERT's names in Hugging Face's files.


_DISTILBERT_LAYER = "distilbert.transformer.layer.{n}"

DISTILBERT_NAMES = NameMap(
    rows=(
        *embedding_rows("distilbert.embeddings", segments=False),
        *dense(f"{_OURS}/attention/self/query", f"{_DISTILBERT_LAYER}.attention.q_lin"),
        *dense(f"{_OURS}/attention/self/key", f"{_DISTILBERT_LAYER}.attention.k_lin"),
        *dense(f"{_OURS}/attention/self/value", f"{_DISTILBERT_LAYER}.attention.v_lin"),
        *dense(f"{_OURS}/attention/output/dense", f"{_DISTILBERT_LAYER}.attention.out_lin"),
        *norm(f"{_OURS}/attention/output/LayerNorm", f"{_DISTILBERT_LAYER}.sa_layer_norm"),
        *dense(f"{_OURS}/intermediate/dense", f"{_DISTILBERT_LAYER}.ffn.lin1"),
        *dense(f"{_OURS}/output/dense", f"{_DISTILBERT_LAYER}.ffn.lin2"),
        *norm(f"{_OURS}/output/LayerNorm", f"{_DISTILBERT_LAYER}.output_layer_norm"),
        *masked_lm_rows("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
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


# === ALBERT ===
# ALBERT's names in Hugging Face's files.
#
# google-research/albert's own TF1 checkpoints are not read: the names of their layers, such as
# bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/kernel, are in no table, so `load` rejects
# them by name. Hugging Face has the same models.


_ALBERT_LAYER = "albert.encoder.albert_layer_groups.{n}.albert_layers.0"

ALBERT_NAMES = NameMap(
    rows=(
        *embedding_rows("albert.embeddings"),
        *dense("bert/encoder/embedding_hidden_mapping_in", "albert.encoder.embedding_hidden_mapping_in"),
        *dense(f"{_OURS}/attention/self/query", f"{_ALBERT_LAYER}.attention.query"),
        *dense(f"{_OURS}/attention/self/key", f"{_ALBERT_LAYER}.attention.key"),
        *dense(f"{_OURS}/attention/self/value", f"{_ALBERT_LAYER}.attention.value"),
        *dense(f"{_OURS}/attention/output/dense", f"{_ALBERT_LAYER}.attention.dense"),
        *norm(f"{_OURS}/attention/output/LayerNorm", f"{_ALBERT_LAYER}.attention.LayerNorm"),
        *dense(f"{_OURS}/intermediate/dense", f"{_ALBERT_LAYER}.ffn"),
        *dense(f"{_OURS}/output/dense", f"{_ALBERT_LAYER}.ffn_output"),
        *norm(f"{_OURS}/output/LayerNorm", f"{_ALBERT_LAYER}.full_layer_layer_norm"),
        *dense("bert/pooler/dense", "albert.pooler"),
        *masked_lm_rows("predictions.dense", "predictions.LayerNorm", "predictions.bias"),
        *head("cls/seq_relationship", "sop_classifier.classifier"),
        *head("cls/squad", "qa_outputs"),
        *head("classifier", "classifier"),
    ),
    left_out=("albert.embeddings.position_ids", "albert.embeddings.token_type_ids"),
    twins=decoder("predictions.decoder"),
    prefix="albert.",  # AlbertModel saves without it
    without_prefix=("embeddings.", "encoder.", "pooler."),
)


# === ELECTRA ===
# ELECTRA's names in Hugging Face's files: the encoder's, the generator's head and the tasks'.


ELECTRA_NAMES = NameMap(
    rows=(
        *embedding_rows("electra.embeddings"),
        *dense("bert/encoder/embedding_hidden_mapping_in", "electra.embeddings_project"),
        *block_rows("electra.encoder.layer.{n}"),
        *masked_lm_rows("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias"),
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


# === ERNIE ===
# ERNIE's names in Hugging Face's files: BERT's, and the table of tasks.


_RENAMED = BERT_NAMES.renamed("bert.", "ernie.")

ERNIE_NAMES = dataclasses.replace(
    _RENAMED,
    rows=(
        *_RENAMED.rows,
        WeightName("bert/embeddings/task_type_embeddings", "ernie.embeddings.task_type_embeddings.weight"),
    ),
)


# === ModernBERT ===
# ModernBERT's names in Hugging Face's files. All classes call the first layers of their heads `head`, and text
# classification, token classification and question answering call the last one `classifier`.


_MODERNBERT_LAYER = "model.layers.{n}"


def _modernbert_head(ours, dense_, norm_, last=()):
    return (*dense(f"{ours}/{dense_}", "head.dense"), *norm(f"{ours}/{norm_}", "head.norm"), *last)


MODERNBERT_NAMES = NameMap(
    rows=(
        WeightName("bert/embeddings/word_embeddings", "model.embeddings.tok_embeddings.weight"),
        *norm("bert/embeddings/LayerNorm", "model.embeddings.norm"),
        *norm(f"{_OURS}/attention/LayerNorm", f"{_MODERNBERT_LAYER}.attn_norm"),
        *(
            WeightName(f"{_OURS}/attention/self/{name}/{ours}", f"{_MODERNBERT_LAYER}.attn.Wqkv.{theirs}",
                       transposed_part(part, 3))
            for part, name in enumerate(("query", "key", "value"))
            for ours, theirs in (("kernel", "weight"), ("bias", "bias"))
        ),
        *dense(f"{_OURS}/attention/output/dense", f"{_MODERNBERT_LAYER}.attn.Wo"),
        *norm(f"{_OURS}/intermediate/LayerNorm", f"{_MODERNBERT_LAYER}.mlp_norm"),
        *dense(f"{_OURS}/intermediate/dense", f"{_MODERNBERT_LAYER}.mlp.Wi"),
        *dense(f"{_OURS}/output/dense", f"{_MODERNBERT_LAYER}.mlp.Wo"),
        *norm("bert/encoder/LayerNorm", "model.final_norm"),
        WeightName("cls/predictions/output_bias", "decoder.bias"),
    ),
    twins=(output_layer("decoder.weight"),),
    prefix="model.",  # ModernBertModel saves without it
    without_prefix=("embeddings.", "layers.", "final_norm."),
    of_class={
        "Classification": _modernbert_head("classifier", "dense", "LayerNorm", head("classifier", "classifier")),
        "ForMaskedLM": _modernbert_head("cls/predictions", "transform/dense", "transform/LayerNorm"),
        "ForQuestionAnswering": _modernbert_head("cls/squad", "dense", "LayerNorm", head("cls/squad", "classifier")),
    },
)


# === DeBERTa ===
# Names of versions 2 and 3 in Hugging Face's files: key and query map positions, too. The masked-LM head has two names:
# that of Transformers' class, which is written, and that of the releases and of the class with `legacy` false.


_DEBERTA_LAYER = "deberta.encoder.layer.{n}"

DEBERTA_NAMES = NameMap(
    rows=(
        *embedding_rows("deberta.embeddings"),
        WeightName("bert/embeddings/relative_positions/relative_embeddings", "deberta.encoder.rel_embeddings.weight"),
        *norm("bert/embeddings/relative_positions/LayerNorm", "deberta.encoder.LayerNorm"),
        *(
            row
            for part in ("query", "key", "value")
            for row in dense(f"{_OURS}/attention/self/{part}", f"{_DEBERTA_LAYER}.attention.self.{part}_proj")
        ),
        *(row for row in block_rows(_DEBERTA_LAYER) if "/self/" not in row.ours),
        *dense("bert/encoder/conv", "deberta.encoder.conv.conv"),
        *norm("bert/encoder/conv/LayerNorm", "deberta.encoder.conv.LayerNorm"),
        *masked_lm_rows(
            "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"
        ),
        *dense("cls/replaced_tokens/dense", "mask_predictions.dense"),
        *norm("cls/replaced_tokens/LayerNorm", "mask_predictions.LayerNorm"),
        *head("cls/replaced_tokens", "mask_predictions.classifier"),
        *head("cls/squad", "qa_outputs"),
        *dense("classifier/dense", "pooler.dense"),
        *head("classifier", "classifier"),
    ),
    left_out=(
        "deberta.embeddings.position_ids",
        # Left in files of version 3 by its pretraining, where the discriminator added them to the generator's tables.
        *(f"deberta.embeddings.{table}_embeddings._weight" for table in ("word", "position")),
    ),
    twins=decoder("cls.predictions.decoder"),
    prefix="deberta.",  # DebertaV2Model saves without it
    without_prefix=("embeddings.", "encoder."),
    old_spellings=(
        ("lm_predictions.lm_head.bias", "cls.predictions.bias"),
        ("lm_predictions.lm_head.", "cls.predictions.transform."),
        ("mask_predictions.classifer.", "mask_predictions.classifier."),  # as microsoft/DeBERTa spells it
    ),
)


# === TF1 ===
# The names in TF1 checkpoints, google-research/bert's and ours: our variable paths, of every family.


# Prefix of a generator that was trained with the discriminator, whose embeddings it shares.
GENERATOR = "generator/"


def _tf1(path, *names):
    return [f"{path}/{name}" for name in names]


def _tf1_dense(path):
    return _tf1(path, "kernel", "bias")


def _tf1_norm(path):
    return _tf1(path, "gamma", "beta")


def _tf1_head(path):
    return _tf1(path, "output_weights", "output_bias")


_TF1_BLOCKS = [
    *_tf1_dense("bert/encoder/embedding_hidden_mapping_in"),
    *(path for part in ("query", "key", "value") for path in _tf1_dense(f"{_OURS}/attention/self/{part}")),
    *_tf1_dense(f"{_OURS}/attention/output/dense"),
    *_tf1_norm(f"{_OURS}/attention/output/LayerNorm"),
    *_tf1_dense(f"{_OURS}/intermediate/dense"),
    *_tf1_dense(f"{_OURS}/output/dense"),
    *_tf1_norm(f"{_OURS}/output/LayerNorm"),
    # `norm_first`: where the norms stand then, so that neither kind of model can be taken for the other; ours alone.
    *_tf1_norm(f"{_OURS}/attention/LayerNorm"),
    *_tf1_norm(f"{_OURS}/intermediate/LayerNorm"),
    *_tf1_norm("bert/encoder/LayerNorm"),
]
# Ours alone: disentangled attention's, and the convolution's.
_RELATIVE = [
    *_tf1_dense("bert/encoder/conv"),
    *_tf1_norm("bert/encoder/conv/LayerNorm"),
    *_tf1("bert/embeddings/relative_positions", "relative_embeddings"),
    *_tf1_norm("bert/embeddings/relative_positions/LayerNorm"),
]
_MASKED_LM = [
    *_tf1_dense("cls/predictions/transform/dense"),
    *_tf1_norm("cls/predictions/transform/LayerNorm"),
    *_tf1("cls/predictions", "output_weights", "output_bias"),  # the first only where it is not tied
    *_tf1("cls/predictions", "position_embeddings"),  # of the enhanced mask decoder; ours alone
]
_PATHS = [
    *_tf1("bert/embeddings", "word_embeddings", "position_embeddings", "token_type_embeddings", "task_type_embeddings"),
    *_tf1_norm("bert/embeddings/LayerNorm"),
    *_RELATIVE,
    *_TF1_BLOCKS,
    *_tf1_dense("bert/pooler/dense"),
    *_MASKED_LM,
    *_tf1_head("cls/seq_relationship"),
    *_tf1_head("cls/squad"),
    *_tf1_dense("cls/squad/dense"),  # ours alone, as `head_norm` is
    *_tf1_norm("cls/squad/LayerNorm"),
    *_tf1_dense("cls/replaced_tokens/dense"),
    *_tf1_norm("cls/replaced_tokens/LayerNorm"),
    *_tf1_head("cls/replaced_tokens"),
    *(f"{GENERATOR}{path}" for path in (*_RELATIVE, *_TF1_BLOCKS, *_MASKED_LM)),  # ours alone
    *_tf1_dense("cls/distillation/hidden"),  # from a student's width to its teacher's; ours alone
    *_tf1_dense("classifier/dense"),
    *_tf1_norm("classifier/LayerNorm"),
    *_tf1("tagger/layer_sum", "layer_weights", "gamma"),  # on a frozen encoder's features; ours alone
    *_tf1("tagger/lstm_{n}", "kernel", "recurrent_kernel", "bias"),
    *_tf1_head("tagger/classifier"),
    *_tf1("recurrent/lstm_{n}", "kernel", "recurrent_kernel", "bias"),  # on an encoder that was trained with it
    *_tf1_head("recurrent/classifier"),
    "head/{own}",  # a custom task's
    *(path for part in lora.TARGETS.values() for path in _tf1(f"{_OURS}/{part}", *lora.NAMES)),  # ours alone
]

TF1 = NameMap(
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


# === The map of a family ===


NAME_MAPS: dict[str, NameMap] = {
    "albert": ALBERT_NAMES,
    "bert": BERT_NAMES,
    "deberta-v2": DEBERTA_NAMES,
    "distilbert": DISTILBERT_NAMES,
    "electra": ELECTRA_NAMES,
    "ernie": ERNIE_NAMES,
    "modernbert": MODERNBERT_NAMES,
    "roberta": ROBERTA_NAMES,
    "roberta-prelayernorm": ROBERTA_PRELAYERNORM_NAMES,
}


def hugging_face(
    model_type: str = families.DEFAULT,
    tied: bool = True,
    classes: Iterable[str] = (),
    positions: str | None = INPUT_POSITIONS,
) -> NameMap:
    """Returns the Hugging Face name map of a family, a key of `families.FAMILIES`.

    Args:
        model_type: the family.
        tied: `EncoderConfig.tie_word_embeddings`.
        classes: `architectures` of config.json, or suffixes of class names.
        positions: our path of the table of absolute positions, as from `config_files.positions_in`.

    Raises:
        ValueError: the family is not supported.
    """
    name_map = NAME_MAPS[families.family(model_type).name_map].for_class(classes)
    if positions is None:
        name_map = name_map.leaving_out(INPUT_POSITIONS)
    elif positions != INPUT_POSITIONS:
        name_map = name_map.moving(INPUT_POSITIONS, positions)
    return name_map if tied else name_map.without_ties()


def prefixes(but: NameMap) -> set[str]:
    """Returns the prefixes of other families' encoders in Hugging Face's files whose names are otherwise those of one
    map."""

    def words(name_map):
        return name_map.from_ours(WORDS).removeprefix(name_map.prefix)

    return {each.prefix for each in NAME_MAPS.values() if words(each) == words(but)} - {but.prefix, ""}
