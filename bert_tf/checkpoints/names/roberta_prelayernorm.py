"""RoBERTa's names where its norms come first, in Hugging Face's files: each belongs to the part that it precedes."""

import dataclasses

from bert_tf.checkpoints.names.roberta import ROBERTA_NAMES
from bert_tf.checkpoints.names.rows import block_rows, norm

_ROBERTA = ROBERTA_NAMES.renamed("roberta.", "roberta_prelayernorm.")

ROBERTA_PRELAYERNORM_NAMES = dataclasses.replace(
    _ROBERTA,
    rows=(
        *(row for row in _ROBERTA.rows if not row.ours.startswith("bert/encoder/")),
        *block_rows("roberta_prelayernorm.encoder.layer.{n}", norms=("attention", "intermediate")),
        *norm("bert/encoder/LayerNorm", "roberta_prelayernorm.LayerNorm"),
    ),
    without_prefix=(*_ROBERTA.without_prefix, "LayerNorm."),
)
