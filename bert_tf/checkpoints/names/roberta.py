"""RoBERTa's names in Hugging Face's files: BERT's encoder, and heads of its own."""

from bert_tf.checkpoints.names import bert
from bert_tf.checkpoints.names.table import (
    NameMap,
    Row,
    Twin,
    classifier_of_two_layers,
    dense,
    head,
    norm,
    output_layer,
)

NAMES = NameMap(
    rows=(
        *(row for row in bert.NAMES.renamed("bert.", "roberta.").rows if row.ours.startswith("bert/")),
        *dense("cls/predictions/transform/dense", "lm_head.dense"),
        *norm("cls/predictions/transform/LayerNorm", "lm_head.layer_norm"),
        Row("cls/predictions/output_bias", "lm_head.bias"),
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
