"""ELECTRA's names in Hugging Face's files: the encoder's, the generator's head and the tasks'."""

from bert_tf.checkpoints.names.table import (
    NameMap,
    Row,
    classifier_of_two_layers,
    dense,
    head,
    layers,
    norm,
    output_layer,
)

NAMES = NameMap(
    rows=(
        Row("bert/embeddings/word_embeddings", "electra.embeddings.word_embeddings.weight"),
        Row("bert/embeddings/position_embeddings", "electra.embeddings.position_embeddings.weight"),
        Row("bert/embeddings/token_type_embeddings", "electra.embeddings.token_type_embeddings.weight"),
        *norm("bert/embeddings/LayerNorm", "electra.embeddings.LayerNorm"),
        *dense("bert/encoder/embedding_hidden_mapping_in", "electra.embeddings_project"),
        *layers("electra.encoder.layer.{n}"),
        *dense("cls/predictions/transform/dense", "generator_predictions.dense"),
        *norm("cls/predictions/transform/LayerNorm", "generator_predictions.LayerNorm"),
        Row("cls/predictions/output_bias", "generator_lm_head.bias"),
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
