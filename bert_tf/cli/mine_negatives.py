"""Mine hard negatives from an index, for training embedders and rerankers.

    bert-tf embed --model=demo/weights/minilm --input_file=passages.txt \\
        --index_dir=passages.index
    bert-tf data mine-negatives --index_dir=passages.index \\
        --input_file=pairs.tsv --output_file=train.jsonl

Writes each query with its positives and its hard negatives: the non-matching
texts that the index ranks highest. `train embedder` and `train reranker` can
train on the file. With --queries_file and --qrels_file, the queries and their
positives come from relevance judgments, such as BEIR's.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from bert_tf.inference.settings import ApproximateSettings, MiningOptions, PromptSettings
from bert_tf.tasks.embedding.options import EmbeddingOptions
from bert_tf.utils.settings import UserSettings, flags_of, option, option_as

_COLUMNS = ("header", "separator", "encoding")  # as the embedder has them


@dataclasses.dataclass(frozen=True)
class MineNegativesSettings(MiningOptions, ApproximateSettings, PromptSettings, UserSettings):
    """Index and examples to mine hard negatives from."""

    GROUP: ClassVar[str] = "Data"

    index_dir: str | None = option(
        None,
        "Index of the candidate texts, made with `bert-tf embed --index_dir`.",
        required=True,
    )
    model: str | None = option(
        None,
        "Model that the index was created with. Default: the path stored in the index.",
        group="Model", essential=True, reads_model=True,
    )
    input_file: str | None = option(
        None,
        "Queries and matching texts: pairs in a .tsv, .csv, .jsonl or .parquet file, or query, positives and negatives "
        "per row, as for `train reranker`. Negatives in the file are ignored. Positives that the index has in another "
        "form, such as with a title, are not recognized and may become negatives.",
        essential=True,
    )
    queries_file: str | None = option(
        None,
        "Queries, with --qrels_file and instead of --input_file: a .tsv file without a header, with the columns id and "
        "text, or a .jsonl or .parquet file with id (or _id) and text.",
    )
    qrels_file: str | None = option(
        None,
        "Relevance judgments in TREC or BEIR format for --queries_file. The positives of a query are its relevant "
        "documents; their ids must be those in the index (`bert-tf embed --id_column`).",
    )
    text_column: Sequence[str] = option(
        ["text_a", "text_b"],
        "Columns of the query and of a matching text, by name or by number from 0.",
        essential=True,
    )
    output_file: str | None = option(
        None,
        "Training file to write (.jsonl), with query, positives and negatives per line.",
        required=True, group="Output", essential=True,
    )
    overwrite: bool = option(False, "Replace --output_file if it exists.", group="Output")
    rerank: str | None = option(
        None,
        "Exported or trained reranker, or CrossEncoder directory, that scores the positives and the texts found. Its "
        "logits are written to the file as scores, for `train embedder --loss=margin_mse`.",
        group="Prediction", reads_model=True,
    )
    header: bool = option_as(EmbeddingOptions, "header")
    separator: str | None = option_as(EmbeddingOptions, "separator")
    encoding: str | None = option_as(EmbeddingOptions, "encoding")


SETTINGS = MineNegativesSettings
FLAGS = flags_of(SETTINGS)


def main(settings: MineNegativesSettings):
    """Writes the training file."""
    from bert_tf.inference.hard_negatives import mine_negatives, write_mined
    from bert_tf.inference.reranker import Reranker
    from bert_tf.inference.search import SearchIndex
    from bert_tf.utils.settings import options_of

    path = settings.output_file
    if not path.lower().endswith(".jsonl"):
        raise ValueError(f"`output_file` must be a .jsonl file, which can contain lists; got {path}.")
    if os.path.exists(path) and not settings.overwrite:
        raise ValueError(f"`output_file` exists: {path}. Choose a new path, or pass `overwrite`.")
    _check_queries(settings)
    mining = options_of(MiningOptions, settings)
    index = SearchIndex(settings.index_dir, settings.model, settings.approximate)
    positives = _read_queries(settings, index)
    reranker = Reranker(settings.rerank) if settings.rerank else None
    mined = mine_negatives(index, positives, mining, settings.prompt, settings.prompt_name, reranker)
    queries, negatives = write_mined(path, mined)
    logging.info(
        "Wrote %s: %d of %d queries have negatives, %.1f on average. Queries without negatives are left out.",
        *(path, queries, len(positives), negatives / queries),
    )


def _check_queries(settings):
    """Raises ValueError unless the queries come from either a file of pairs or lists, or from judgments."""
    from bert_tf.inference.retrieval import check_judgment_files

    if settings.queries_file or settings.qrels_file:
        check_judgment_files(settings.queries_file, settings.qrels_file)
    if bool(settings.input_file) == bool(settings.queries_file):
        raise ValueError(
            "Pass either `input_file`, or `queries_file` with `qrels_file`; got "
            f"{'both' if settings.input_file else 'neither'}."
        )
    of_tables = [name for name in (*_COLUMNS, "text_column") if name in settings.given]
    if settings.queries_file and of_tables:
        raise ValueError(f"`{of_tables[0]}` requires `input_file`; got `queries_file`; remove `{of_tables[0]}`.")


def _read_queries(settings, index):
    """Returns the positives of each query."""
    from bert_tf.data.dialect import Dialect
    from bert_tf.inference.hard_negatives import check_recognized, read_judged_positives, read_positives

    if settings.queries_file:
        return read_judged_positives(settings.queries_file, settings.qrels_file, index)
    columns, dialect = settings.where_given("text_column"), Dialect(settings.separator, settings.encoding)
    positives = read_positives(settings.input_file, columns, settings.header, dialect)
    check_recognized(index, positives)
    return positives
