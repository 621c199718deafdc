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
    left_out=("roberta.embeddings.position_ids",),
    twins=(
        # A head of one layer, for every piece: of another shape, so that no file has both.
        Twin("classifier.weight", "classifier/output_weights", "classifier/output_weights"),
        Twin("classifier.bias", "classifier/output_bias", "classifier/output_bias"),
        output_layer("lm_head.decoder.weight"),
        Twin("lm_head.decoder.bias", "cls/predictions/output_bias", "cls/predictions/output_bias"),
    ),
    prefix="roberta.",  # RobertaModel saves without it
    without_prefix=("embeddings.", "encoder.", "pooler."),
)
