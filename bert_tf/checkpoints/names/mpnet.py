"""MPNet's names in Hugging Face's files: RoBERTa's, except for attention and the biases of relative positions."""

import dataclasses

from bert_tf.checkpoints.names.roberta import ROBERTA_NAMES
from bert_tf.checkpoints.names.rows import LAYER, WeightName, dense, norm

_RENAMED = ROBERTA_NAMES.renamed("roberta.", "mpnet.")
_ATTENTION = "mpnet.encoder.layer.{n}.attention"

MPNET_NAMES = dataclasses.replace(
    _RENAMED,
    rows=(
        *(row for row in _RENAMED.rows if "/attention/" not in row.ours),
        WeightName("bert/embeddings/relative_positions/attention_bias", "mpnet.encoder.relative_attention_bias.weight"),
        *dense(f"{LAYER}/attention/self/query", f"{_ATTENTION}.attn.q"),
        *dense(f"{LAYER}/attention/self/key", f"{_ATTENTION}.attn.k"),
        *dense(f"{LAYER}/attention/self/value", f"{_ATTENTION}.attn.v"),
        *dense(f"{LAYER}/attention/output/dense", f"{_ATTENTION}.attn.o"),
        *norm(f"{LAYER}/attention/output/LayerNorm", f"{_ATTENTION}.LayerNorm"),
    ),
)
