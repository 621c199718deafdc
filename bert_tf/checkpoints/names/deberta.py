"""DeBERTa's names in Hugging Face's files, of versions 2 and 3: key and query map positions, too.

The masked-LM head has two names: that of Transformers' class, which is written, and that of the releases and of the
class with `legacy` false.
"""

from bert_tf.checkpoints.names.rows import (
    LAYER,
    WeightName,
    block_rows,
    decoder,
    dense,
    embedding_rows,
    head,
    masked_lm_rows,
    norm,
)
from bert_tf.checkpoints.names.weight_mapping import WeightMapping

_DEBERTA_LAYER = "deberta.encoder.layer.{n}"

DEBERTA_NAMES = WeightMapping(
    rows=(
        *embedding_rows("deberta.embeddings"),
        WeightName("bert/embeddings/relative_positions/relative_embeddings", "deberta.encoder.rel_embeddings.weight"),
        *norm("bert/embeddings/relative_positions/LayerNorm", "deberta.encoder.LayerNorm"),
        *(
            row
            for part in ("query", "key", "value")
            for row in dense(f"{LAYER}/attention/self/{part}", f"{_DEBERTA_LAYER}.attention.self.{part}_proj")
        ),
        *(row for row in block_rows(_DEBERTA_LAYER) if "/self/" not in row.ours),
        *dense("bert/encoder/conv", "deberta.encoder.conv.conv"),
        *norm("bert/encoder/conv/LayerNorm", "deberta.encoder.conv.LayerNorm"),
        *masked_lm_rows(
            "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"
        ),
        *dense("cls/replaced_tokens/dense", "mask_predictions.dense"),
        *norm("cls/replaced_tokens/LayerNorm", "mask_predictions.LayerNorm"),
        *head("cls/replaced_tokens", "mask_predictions.classifier"),
        *head("cls/squad", "qa_outputs"),
        *dense("classifier/dense", "pooler.dense"),
        *head("classifier", "classifier"),
    ),
    left_out=(
        "deberta.embeddings.position_ids",
        # Left in files of version 3 by its pretraining, where the discriminator added them to the generator's tables.
        *(f"deberta.embeddings.{table}_embeddings._weight" for table in ("word", "position")),
    ),
    twins=decoder("cls.predictions.decoder"),
    prefix="deberta.",  # DebertaV2Model saves without it
    without_prefix=("embeddings.", "encoder."),
    old_spellings=(
        ("lm_predictions.lm_head.bias", "cls.predictions.bias"),
        ("lm_predictions.lm_head.", "cls.predictions.transform."),
        ("mask_predictions.classifer.", "mask_predictions.classifier."),  # as microsoft/DeBERTa spells it
    ),
)
