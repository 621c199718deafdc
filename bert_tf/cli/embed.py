"""Compute sentence embeddings for a file, or index them for search.

    bert-tf embed --model=demo/weights/minilm --input_file=texts.txt \\
        --output_file=vectors.npz

A sentence-transformers directory needs no further flags: its modules, pooling,
maximum length and prompts are used. --index_dir writes an index for
`bert-tf search`; with --update, it adds to one.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from bert_tf.cli.batch_prediction import BatchPredictionSettings, run_batch_prediction
from bert_tf.inference.settings import EncodeOptions
from bert_tf.utils import names
from bert_tf.utils.settings import UserSettings, flags_of, option, option_as, options_of


@dataclasses.dataclass(frozen=True)
class EmbedSettings(EncodeOptions, BatchPredictionSettings, UserSettings):
    """Texts to embed, and how to embed them."""

    GROUP: ClassVar[str] = "Embeddings and features"

    model: str | None = option(
        None,
        "Embedding model: a sentence-transformers directory, the --output_dir of `train embedder`, or any encoder.",
        required=True, group="Model", essential=True, reads_model=True,
    )
    index_dir: str | None = option(
        None,
        "Write a search index to this directory, instead of writing --output_file. The directory must be new, or with "
        "--update contain an index.",
        group="Output", essential=True,
    )
    update: bool = option(
        False,
        "With --index_dir: add the texts to the existing index, and replace those whose id is already in it.",
        group="Output", essential=True,
        excludes=(*(flag.name for flag in flags_of(EncodeOptions)), "vector_dtype"),  # the index has its own
    )
    id_column: str | None = option(
        None,
        "With --index_dir: column of the texts' ids, by name or by number from 0. Default: texts are numbered from 0.",
        group="Data", essential=True,
    )
    keep_columns: Sequence[str] = option(
        [],
        "With --index_dir: columns of the table to store with each text, by name or by number from 0.",
        group="Data", essential=True,
    )
    vector_dtype: str = option(
        "float32",
        "Data type of the embeddings. int8: each vector is scaled and rounded, 1/4 of the size; binary: one bit per "
        "dimension, 1/32 of the size. Both approximately preserve cosine similarities.",
        choices=names.VECTOR_DTYPES, essential=True,
    )
    output_file: str | None = option_as(BatchPredictionSettings, "output_file", required=False)
    text_column: Sequence[str] = option_as(
        BatchPredictionSettings, "text_column",
        help="Text column of a table, by name or by number from 0. If several columns are named, such as title,text, "
        "their texts are joined with spaces; a null in a column named title counts as an empty text.",
    )


SETTINGS = EmbedSettings
FLAGS = flags_of(SETTINGS)


def main(settings: EmbedSettings):
    """Writes the vectors of all texts, or an index of them."""
    from bert_tf.inference.embedders import Embedder

    if bool(settings.output_file) == bool(settings.index_dir):
        received = "both" if settings.output_file else "neither"
        raise ValueError(f"Pass either `output_file` or `index_dir`; got {received}.")
    if not settings.text_column:
        raise ValueError("`text_column` must name a column; got none. Name one, or remove the flag.")
    if settings.index_dir:
        _index(settings)
        return
    for name in ("update", "id_column", "keep_columns"):
        if name in settings.given:
            raise ValueError(f"`{name}` requires `index_dir`. Remove it, or write an index.")
    run_batch_prediction(
        settings, Embedder(settings.model, options_of(EncodeOptions, settings), settings.vector_dtype)
    )


def _index(settings):
    """Writes a new index, or adds to one."""
    from bert_tf.inference.document_index import INDEX_FILE, make_index
    from bert_tf.inference.embedders import Indexer
    from bert_tf.inference.search import SearchIndex

    if settings.num_shards:
        raise ValueError(f"`num_shards` requires `output_file`. Remove `num_shards={settings.num_shards}`.")
    columns = {"id_column": settings.id_column, "keep_columns": tuple(settings.keep_columns)}

    def write_rows(path):
        run_batch_prediction(settings, indexer, output_file=path, **columns)

    options = options_of(EncodeOptions, settings)
    if not settings.update:
        if os.path.exists(os.path.join(settings.index_dir, INDEX_FILE)):
            raise ValueError(
                f"`index_dir` must not exist yet. {settings.index_dir} is an index; add to it with `update`, or choose "
                "a new directory."
            )
        indexer = Indexer(settings.model, options, settings.vector_dtype)
        make_index(settings.index_dir, indexer, write_rows)
        logging.info("Wrote the index %s.", settings.index_dir)
        return
    if settings.id_column is None:
        raise ValueError("`update` requires `id_column`, which identifies the texts to replace.")
    index = SearchIndex(settings.index_dir, settings.model)
    indexer = index.indexer()
    index.add_rows(write_rows)
    logging.info("Updated the index %s, which has %d texts.", settings.index_dir, len(index))
