"""The names of nomic_bert's published files: GPT-2's layers, queries, keys and values in one weight, two gated maps.

The published classes with a head call the encoder `bert`, that of Transformers 5 `nomic_bert`, and those without a head
nothing. Written files have the names of Transformers 5, whose class can be used without code from elsewhere.
"""

from bert_tf.checkpoints.names.array_layouts import transposed_part
from bert_tf.checkpoints.names.rows import (
    LAYER,
    JoinedName,
    WeightName,
    decoder,
    dense,
    head,
    masked_lm_rows,
    norm,
)
from bert_tf.checkpoints.names.weight_mapping import WeightMapping

_NOMIC_LAYER = "bert.encoder.layers.{n}"
_GATED = "mlp.fc12+fc11.weight"

NOMIC_BERT_NAMES = WeightMapping(
    rows=(
        WeightName("bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings.weight"),
        WeightName("bert/embeddings/token_type_embeddings", "bert.embeddings.token_type_embeddings.weight"),
        *norm("bert/embeddings/LayerNorm", "bert.emb_ln"),
        *(
            WeightName(f"{LAYER}/attention/self/{name}/kernel", f"{_NOMIC_LAYER}.attn.Wqkv.weight",
                       transposed_part(part, 3))
            for part, name in enumerate(("query", "key", "value"))
        ),
        *dense(f"{LAYER}/attention/output/dense", f"{_NOMIC_LAYER}.attn.out_proj"),
        *norm(f"{LAYER}/attention/output/LayerNorm", f"{_NOMIC_LAYER}.norm1"),
        dense(f"{LAYER}/intermediate/dense", f"{_NOMIC_LAYER}.{_GATED.removesuffix('.weight')}")[0],
        *dense(f"{LAYER}/output/dense", f"{_NOMIC_LAYER}.mlp.fc2"),
        *norm(f"{LAYER}/output/LayerNorm", f"{_NOMIC_LAYER}.norm2"),
        *dense("bert/pooler/dense", "bert.pooler.dense"),
        *masked_lm_rows(
            "cls.predictions.transform.dense", "cls.predictions.transform.layer_norm", "cls.predictions.bias"
        ),
        *head("cls/squad", "qa_outputs"),
        *head("classifier", "classifier"),
    ),
    twins=decoder("cls.predictions.decoder"),
    prefix="bert.",
    without_prefix=("embeddings.", "emb_ln.", "encoder.", "pooler."),
    joined=(JoinedName(_GATED, ("mlp.fc12.weight", "mlp.fc11.weight")),),
    written_prefixes=("", "nomic_bert."),
)
