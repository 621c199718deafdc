"""DistilBERT's names in Hugging Face's files."""

from bert_tf.checkpoints.names.rows import LAYER, dense, embedding_rows, head, masked_lm_rows, norm, output_layer
from bert_tf.checkpoints.names.weight_mapping import WeightMapping

_DISTILBERT_LAYER = "distilbert.transformer.layer.{n}"

DISTILBERT_NAMES = WeightMapping(
    rows=(
        *embedding_rows("distilbert.embeddings", segments=False),
        *dense(f"{LAYER}/attention/self/query", f"{_DISTILBERT_LAYER}.attention.q_lin"),
        *dense(f"{LAYER}/attention/self/key", f"{_DISTILBERT_LAYER}.attention.k_lin"),
        *dense(f"{LAYER}/attention/self/value", f"{_DISTILBERT_LAYER}.attention.v_lin"),
        *dense(f"{LAYER}/attention/output/dense", f"{_DISTILBERT_LAYER}.attention.out_lin"),
        *norm(f"{LAYER}/attention/output/LayerNorm", f"{_DISTILBERT_LAYER}.sa_layer_norm"),
        *dense(f"{LAYER}/intermediate/dense", f"{_DISTILBERT_LAYER}.ffn.lin1"),
        *dense(f"{LAYER}/output/dense", f"{_DISTILBERT_LAYER}.ffn.lin2"),
        *norm(f"{LAYER}/output/LayerNorm", f"{_DISTILBERT_LAYER}.output_layer_norm"),
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
