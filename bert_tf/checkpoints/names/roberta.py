"""RoBERTa's names in Hugging Face's files: BERT's encoder, with different heads."""

from bert_tf.checkpoints.names.bert import BERT_NAMES
from bert_tf.checkpoints.names.rows import classifier_of_two_layers, decoder, head, masked_lm_rows
from bert_tf.checkpoints.names.weight_mapping import WeightMapping

ROBERTA_NAMES = WeightMapping(
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
