"""ALBERT's names in Hugging Face's files."""

from bert_tf.checkpoints.names.table import NameMap, Row, Twin, dense, head, norm, output_layer

_LAYER, _THEIRS = "bert/encoder/layer_{n}", "albert.encoder.albert_layer_groups.{n}.albert_layers.0"

NAMES = NameMap(
    rows=(
        Row("bert/embeddings/word_embeddings", "albert.embeddings.word_embeddings.weight"),
        Row("bert/embeddings/position_embeddings", "albert.embeddings.position_embeddings.weight"),
        Row("bert/embeddings/token_type_embeddings", "albert.embeddings.token_type_embeddings.weight"),
        *norm("bert/embeddings/LayerNorm", "albert.embeddings.LayerNorm"),
        *dense("bert/encoder/embedding_hidden_mapping_in", "albert.encoder.embedding_hidden_mapping_in"),
        *dense(f"{_LAYER}/attention/self/query", f"{_THEIRS}.attention.query"),
        *dense(f"{_LAYER}/attention/self/key", f"{_THEIRS}.attention.key"),
        *dense(f"{_LAYER}/attention/self/value", f"{_THEIRS}.attention.value"),
        *dense(f"{_LAYER}/attention/output/dense", f"{_THEIRS}.attention.dense"),
        *norm(f"{_LAYER}/attention/output/LayerNorm", f"{_THEIRS}.attention.LayerNorm"),
        *dense(f"{_LAYER}/intermediate/dense", f"{_THEIRS}.ffn"),
        *dense(f"{_LAYER}/output/dense", f"{_THEIRS}.ffn_output"),
        *norm(f"{_LAYER}/output/LayerNorm", f"{_THEIRS}.full_layer_layer_norm"),
        *dense("bert/pooler/dense", "albert.pooler"),
        *dense("cls/predictions/transform/dense", "predictions.dense"),
        *norm("cls/predictions/transform/LayerNorm", "predictions.LayerNorm"),
        Row("cls/predictions/output_bias", "predictions.bias"),
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
