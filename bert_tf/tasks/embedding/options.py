"""Options of embedding. Imports no TensorFlow, so that `--help` is quick."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from bert_tf.tasks.options import AS_TRAINED, DROP_EMPTY, TABLE_FILES, RankingFileOptions, SelectionOptions
from bert_tf.utils import names
from bert_tf.utils.names import LAYERS
from bert_tf.utils.settings import SCORES, option

LOSSES = ("in_batch_negatives", "cosine", "contrastive", "triplet", "margin_mse")
EVALUATIONS = ("auto", "spearman", "retrieval", "ranking")


@dataclasses.dataclass(frozen=True)
class EmbeddingOptions(SelectionOptions, RankingFileOptions):
    """Which texts belong together, what training aims at, and how a vector is made."""

    GROUP: ClassVar[str] = "Data"

    train_file: str | None = option(
        None,
        f"Training pairs of texts: {TABLE_FILES} Without --text_column, .jsonl and .parquet files can also contain "
        "query, positives and negatives per row, as for `train reranker`.",
        essential=True, decides_result="train_examples",
    )
    eval_file: str | None = option(
        None,
        f"Evaluation pairs of texts, or lists, {AS_TRAINED}.",
        essential=True, decides_result=SCORES,
    )
    predict_file: str | None = option(None, f"Texts, or pairs of them, to predict for, {AS_TRAINED}.", essential=True)
    header: bool = option(
        True,
        "Read column names from line 1 of a .tsv or .csv file.",
        decides_result="train_examples",
    )
    task_name: str | None = option(
        None,
        "GLUE task with scored pairs to use instead of files: sts-b, from --data_dir.",
        excludes=("train_file", "eval_file", "predict_file", "test_file", "separator", "encoding", "drop_empty"),
        decides_result="train_examples",
    )
    data_dir: str | None = option(None, "Directory of --task_name.", decides_result="train_examples")
    text_column: Sequence[str] = option(
        ["text_a", "text_b"],
        "Columns of the two texts of a pair, by name or by number from 0; a third one contains texts that do not "
        "belong to the first (hard negatives).",
        essential=True, decides_result="train_examples",
    )
    label_column: str = option(
        "label",
        "Column of the pair's score (with --loss=margin_mse: the margin), for losses and evaluations that use one.",
        essential=True, decides_result="train_examples",
    )
    drop_empty: bool = DROP_EMPTY
    highest_score: float | None = option(
        None,
        "Highest possible score, that of two texts with the same meaning; scores, but not the margins of "
        "--loss=margin_mse, are divided by it. "
        "Default: 1, or that of --task_name.",
        low=1e-6, decides_result="train_examples",
    )
    loss: str = option(
        "in_batch_negatives",
        "Training objective. in_batch_negatives: a pair's texts are closer than those of other pairs in the batch; "
        "cosine: the cosine equals the score; contrastive: pairs of score 1 are close, pairs of score 0 far apart; "
        "triplet: the second text is closer than the third; margin_mse: the second text is "
        "closer by the margin given as label, the difference between a reranker's logits (distillation).",
        choices=LOSSES, group="Layers, adapters and loss", essential=True, decides_result=True,
    )
    temperature: float = option(
        0.05,
        "With --loss=in_batch_negatives or --loss=margin_mse: temperature that divides the cosines. For "
        "margin_mse, the default suits differences between logits.",
        low=1e-6, group="Layers, adapters and loss", decides_result="loss_temperature",
    )
    margin: float = option(
        0.5,
        "With --loss=contrastive or --loss=triplet: margin in cosine distance, beyond which dissimilar texts do not "
        "add to the loss.",
        low=0, high=2, group="Layers, adapters and loss", decides_result="loss_margin",
    )
    matryoshka_dims: Sequence[str] | None = option(
        None,
        "Numbers of leading dimensions to train as embeddings of their own, such as 384,256,128,64. The loss is the "
        "mean over them (Matryoshka representation learning). Default: all dimensions only.",
        group="Layers, adapters and loss", decides_result="matryoshka_dims",
    )
    prompts: str | None = option(
        None,
        "Texts to prepend in training, evaluation and searches: a JSON object with query, for first texts, and "
        "document, for all others; or one text for all. If empty, nothing is prepended. Default: those of "
        "--init_checkpoint.",
        group="Embeddings and features", decides_result="prompts",
    )
    eval_metric: str = option(
        "auto",
        "Evaluation. spearman: rank correlation of scores and cosines; retrieval: how often text_a retrieves its own "
        "text_b; ranking: order of each query's documents by MRR@10, nDCG@10 and MAP, of an --eval_file as "
        "for `train reranker`; auto: spearman or retrieval, whichever fits --loss.",
        choices=EVALUATIONS, group="Evaluation", decides_result=SCORES,
        aliases=("eval_by",),
    )
    layers: str | None = option(
        None,
        "Encoder layers to pool, by name. Default: those of --init_checkpoint if it has a pooling, otherwise last.",
        choices=LAYERS, group="Embeddings and features", decides_result="layers",
    )
    pooling: Sequence[str] | None = option(
        None,
        "Pooling of token features into one vector; the vectors of several poolings are concatenated. Default: that of "
        "--init_checkpoint if it has one, otherwise mean.",
        choices=names.POOLINGS, group="Embeddings and features", essential=True, decides_result="poolings",
    )
    normalize: bool | None = option(
        None,
        "Scale each embedding to unit length. Default: the setting of --init_checkpoint if it has one, otherwise "
        "false.",
        group="Embeddings and features", decides_result="normalize",
    )
    freeze_layers: str = "0"
