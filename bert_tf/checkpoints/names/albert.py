"""ALBERT's names in Hugging Face's files.

google-research/albert's own TF1 checkpoints are not read: the names of their layers, such as
bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/kernel, are in no table, so `load` rejects them
by name. Hugging Face has the same models.
"""

from bert_tf.checkpoints.names.rows import LAYER, decoder, dense, embedding_rows, head, masked_lm_rows, norm
from bert_tf.checkpoints.names.weight_mapping import WeightMapping

_ALBERT_LAYER = "albert.encoder.albert_layer_groups.{n}.albert_layers.0"

ALBERT_NAMES = WeightMapping(
    rows=(
        *embedding_rows("albert.embeddings"),
        *dense("bert/encoder/embedding_hidden_mapping_in", "albert.encoder.embedding_hidden_mapping_in"),
        *dense(f"{LAYER}/attention/self/query", f"{_ALBERT_LAYER}.attention.query"),
        *dense(f"{LAYER}/attention/self/key", f"{_ALBERT_LAYER}.attention.key"),
        *dense(f"{LAYER}/attention/self/value", f"{_ALBERT_LAYER}.attention.value"),
        *dense(f"{LAYER}/attention/output/dense", f"{_ALBERT_LAYER}.attention.dense"),
        *norm(f"{LAYER}/attention/output/LayerNorm", f"{_ALBERT_LAYER}.attention.LayerNorm"),
        *dense(f"{LAYER}/intermediate/dense", f"{_ALBERT_LAYER}.ffn"),
        *dense(f"{LAYER}/output/dense", f"{_ALBERT_LAYER}.ffn_output"),
        *norm(f"{LAYER}/output/LayerNorm", f"{_ALBERT_LAYER}.full_layer_layer_norm"),
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
