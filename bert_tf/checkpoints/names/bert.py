"""BERT's names in Hugging Face's files."""

from bert_tf.checkpoints.names.table import NameMap, Row, Twin, dense, head, layers, norm, output_layer

NAMES = NameMap(
    rows=(
        Row("bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings.weight"),
        Row("bert/embeddings/position_embeddings", "bert.embeddings.position_embeddings.weight"),
        Row("bert/embeddings/token_type_embeddings", "bert.embeddings.token_type_embeddings.weight"),
        *norm("bert/embeddings/LayerNorm", "bert.embeddings.LayerNorm"),
        *layers("bert.encoder.layer.{n}"),
        *dense("bert/pooler/dense", "bert.pooler.dense"),
        *dense("cls/predictions/transform/dense", "cls.predictions.transform.dense"),
        *norm("cls/predictions/transform/LayerNorm", "cls.predictions.transform.LayerNorm"),
        Row("cls/predictions/output_bias", "cls.predictions.bias"),
        *head("cls/seq_relationship", "cls.seq_relationship"),
        *head("cls/squad", "qa_outputs"),
        *head("classifier", "classifier"),
    ),
    left_out=("bert.embeddings.position_ids", "bert.embeddings.token_type_ids"),  # buffers that old versions saved
    twins=(
        output_layer("cls.predictions.decoder.weight"),
        Twin("cls.predictions.decoder.bias", "cls/predictions/output_bias", "cls/predictions/output_bias"),
    ),
    prefix="bert.",  # sentence-transformers and BertModel save without it
    without_prefix=("embeddings.", "encoder.", "pooler."),
    old_spellings=(("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")),
)
