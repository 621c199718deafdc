"""ModernBERT's names in Hugging Face's files.

All classes call the first layers of their heads `head`, and text classification, token classification and question
answering call the last one `classifier`.
"""

from bert_tf.checkpoints.names.array_layouts import transposed_part
from bert_tf.checkpoints.names.rows import LAYER, WeightName, dense, head, norm, output_layer
from bert_tf.checkpoints.names.weight_mapping import WeightMapping

_MODERNBERT_LAYER = "model.layers.{n}"


def _modernbert_head(ours, dense_, norm_, last=()):
    return (*dense(f"{ours}/{dense_}", "head.dense"), *norm(f"{ours}/{norm_}", "head.norm"), *last)


MODERNBERT_NAMES = WeightMapping(
    rows=(
        WeightName("bert/embeddings/word_embeddings", "model.embeddings.tok_embeddings.weight"),
        *norm("bert/embeddings/LayerNorm", "model.embeddings.norm"),
        *norm(f"{LAYER}/attention/LayerNorm", f"{_MODERNBERT_LAYER}.attn_norm"),
        *(
            WeightName(f"{LAYER}/attention/self/{name}/{ours}", f"{_MODERNBERT_LAYER}.attn.Wqkv.{theirs}",
                       transposed_part(part, 3))
            for part, name in enumerate(("query", "key", "value"))
            for ours, theirs in (("kernel", "weight"), ("bias", "bias"))
        ),
        *dense(f"{LAYER}/attention/output/dense", f"{_MODERNBERT_LAYER}.attn.Wo"),
        *norm(f"{LAYER}/intermediate/LayerNorm", f"{_MODERNBERT_LAYER}.mlp_norm"),
        *dense(f"{LAYER}/intermediate/dense", f"{_MODERNBERT_LAYER}.mlp.Wi"),
        *dense(f"{LAYER}/output/dense", f"{_MODERNBERT_LAYER}.mlp.Wo"),
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
