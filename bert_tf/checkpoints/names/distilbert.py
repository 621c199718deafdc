"""DistilBERT's names in Hugging Face's files."""

from bert_tf.checkpoints.names.table import NameMap, Row, dense, head, norm, output_layer

_LAYER, _THEIRS = "bert/encoder/layer_{n}", "distilbert.transformer.layer.{n}"

NAMES = NameMap(
    rows=(
        Row("bert/embeddings/word_embeddings", "distilbert.embeddings.word_embeddings.weight"),
        Row("bert/embeddings/position_embeddings", "distilbert.embeddings.position_embeddings.weight"),
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
        Row("cls/predictions/output_bias", "vocab_projector.bias"),
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
