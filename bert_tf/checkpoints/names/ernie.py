"""ERNIE's names in Hugging Face's files: BERT's, and the table of tasks."""

import dataclasses

from bert_tf.checkpoints.names.bert import BERT_NAMES
from bert_tf.checkpoints.names.rows import WeightName

_RENAMED = BERT_NAMES.renamed("bert.", "ernie.")

ERNIE_NAMES = dataclasses.replace(
    _RENAMED,
    rows=(
        *_RENAMED.rows,
        WeightName("bert/embeddings/task_type_embeddings", "ernie.embeddings.task_type_embeddings.weight"),
    ),
)
