"""Options of reranking. Imports no TensorFlow, so that `--help` is quick."""

import dataclasses
from typing import ClassVar

from bert_tf.tasks.options import AS_TRAINED, SEVERAL_FILES, RankingFileOptions, SelectionOptions, TeacherOptions
from bert_tf.utils.settings import SCORES, option

RANKING_LOSSES = ("binary_cross_entropy", "pairwise", "listwise_softmax")
_QUERIES = (
    "a .jsonl or .parquet file with query, positives and negatives, or query, documents and relevances; .tsv or .csv "
    "with query, positive and negative (MS MARCO triples); or a TREC run (.run, .trec), with --queries_file, "
    f"--documents_file and --qrels_file; may be gzipped (.gz). {SEVERAL_FILES}"
)


@dataclasses.dataclass(frozen=True)
class RerankingOptions(SelectionOptions, TeacherOptions, RankingFileOptions):
    """Which documents are ranked for which queries, and what training aims at."""

    GROUP: ClassVar[str] = "Data"

    train_file: str | None = option(
        None,
        f"Training queries: {_QUERIES}",
        essential=True, decides_result="train_examples",
    )
    eval_file: str | None = option(None, f"Evaluation queries, {AS_TRAINED}.", essential=True, decides_result=SCORES)
    predict_file: str | None = option(
        None,
        f"Queries to predict for, {AS_TRAINED}; relevances are ignored.",
        essential=True,
    )
    loss: str = option(
        "binary_cross_entropy",
        "Training objective. binary_cross_entropy: the score of each document is the probability that it is relevant; "
        "pairwise: a more relevant document has a higher score than a less relevant one (RankNet); listwise_softmax: "
        "cross-entropy of the softmax over a query's documents.",
        choices=RANKING_LOSSES, group="Layers, adapters and loss", essential=True, decides_result=True,
    )
