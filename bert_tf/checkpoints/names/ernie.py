"""ERNIE's names in Hugging Face's files: BERT's, and the table of tasks."""

import dataclasses

from bert_tf.checkpoints.names import bert
from bert_tf.checkpoints.names.table import Row

_RENAMED = bert.NAMES.renamed("bert.", "ernie.")

NAMES = dataclasses.replace(
    _RENAMED,
    rows=(
        *_RENAMED.rows,
        Row("bert/embeddings/task_type_embeddings", "ernie.embeddings.task_type_embeddings.weight"),
    ),
)
