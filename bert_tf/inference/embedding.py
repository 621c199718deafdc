"""Makers of vectors for rows of a table, and the index of vectors that `search.py` asks."""

import dataclasses
import functools
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bert_tf.data.ragged import Ragged
from bert_tf.evaluation.retrieval import unit
from bert_tf.inference.sentence_encoder import Options, SentenceEncoder, identity_of, prompt_of, recipe_of
from bert_tf.utils.files import check_free, whole_directory, write_text

COLUMN = "embeddings"
INDEX_FILE = "index.json"
_ROWS = "rows.npz"


@dataclasses.dataclass(frozen=True)
class Embedder:
    """Makes the function from rows of texts to their vectors; a `jobs.table_job.Maker`.

    Attributes:
        path, options: as of `SentenceEncoder`.
    """

    path: str
    options: Options = Options()

    @functools.cached_property
    def identity(self) -> Mapping[str, Any]:
        prompt = prompt_of(recipe_of(self.path, self.options), self.options)
        return {**identity_of(self.path, self.options), "prompt": prompt}

    def __call__(self) -> Callable:
        encoder = SentenceEncoder(self.path, **dataclasses.asdict(self.options))
        return lambda rows: {COLUMN: encoder(rows.texts[0])}


@dataclasses.dataclass(frozen=True)
class Indexer(Embedder):
    """As `Embedder`, for an index: every vector divided by its length, and the bytes of the texts beside them."""

    @functools.cached_property
    def identity(self):
        return {**super().identity, "texts": True}

    def __call__(self):
        embed = super().__call__()

        def answer(rows):
            texts = [text.encode("utf-8") for text in rows.texts[0]]
            joined = Ragged.of_lengths(np.frombuffer(b"".join(texts), np.uint8), list(map(len, texts)))
            return {COLUMN: unit(embed(rows)[COLUMN]), "text": joined}

        return answer


def make_index(directory: str, indexer: Indexer, write_rows: Callable[[str], Any]):
    """Writes an index: all of it, or nothing.

        embeddings.npy, text.npy, text_splits.npy      the vectors, and the texts end to end; read where they lie
        index.json                                     which model they are of

    Args:
        directory: nothing may be there, or an empty directory.
        indexer: of the vectors.
        write_rows: writes into the .npz file it is told what `indexer` makes of all rows.

    Raises:
        ValueError: something is at `directory`, or the model or the rows are not as they must be.
        OSError: a file cannot be written.
    """
    check_free(directory, parameter="index_dir")
    with whole_directory(directory) as aside:
        rows = os.path.join(aside, _ROWS)
        write_rows(rows)
        with zipfile.ZipFile(rows) as archive:  # an array in an archive cannot be read where it lies
            for name in archive.namelist():
                with archive.open(name) as source, open(os.path.join(aside, name), "wb") as target:
                    shutil.copyfileobj(source, target)
        os.remove(rows)
        described = {"model": os.path.realpath(indexer.path), "identity": identity_of(indexer.path, indexer.options)}
        described["options"] = {name: value for name, value in dataclasses.asdict(indexer.options).items()
                                if not name.startswith("prompt")}  # fmt: skip
        write_text(os.path.join(aside, INDEX_FILE), json.dumps(described, indent=2, ensure_ascii=False) + "\n")
