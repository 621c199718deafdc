"""BERT's names in Hugging Face's files."""

from bert_tf.checkpoints.names.rows import block_rows, decoder, dense, embedding_rows, head, masked_lm_rows
from bert_tf.checkpoints.names.weight_mapping import WeightMapping

BERT_NAMES = WeightMapping(
    rows=(
        *embedding_rows("bert.embeddings"),
        *block_rows("bert.encoder.layer.{n}"),
        *dense("bert/pooler/dense", "bert.pooler.dense"),
        *masked_lm_rows(
            "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"
        ),
        *head("cls/seq_relationship", "cls.seq_relationship"),
        *head("cls/squad", "qa_outputs"),
        *head("classifier", "classifier"),
    ),
    left_out=("bert.embeddings.position_ids", "bert.embeddings.token_type_ids"),  # buffers that old versions saved
    twins=decoder("cls.predictions.decoder"),
    prefix="bert.",  # sentence-transformers and BertModel save without it
    without_prefix=("embeddings.", "encoder.", "pooler."),
    old_spellings=(("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")),
)
