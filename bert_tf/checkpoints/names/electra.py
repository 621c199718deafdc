"""ELECTRA's names in Hugging Face's files: the encoder's, the generator's head and the tasks'."""

from bert_tf.checkpoints.names.rows import (
    block_rows,
    classifier_of_two_layers,
    dense,
    embedding_rows,
    head,
    masked_lm_rows,
    output_layer,
)
from bert_tf.checkpoints.names.weight_mapping import WeightMapping

ELECTRA_NAMES = WeightMapping(
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
