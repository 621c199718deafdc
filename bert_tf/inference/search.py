"""Semantic search: exact cosine search over an index of embeddings, block by block, in memory-mapped files."""

import dataclasses
import functools
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.data.features import Ragged
from bert_tf.evaluation.metrics import unit
from bert_tf.inference.sentence_encoder import EncodeOptions, SentenceEncoder, identity_of, prompt_of, recipe_of
from bert_tf.utils.files import check_free, whole_directory, write_text
from bert_tf.utils.json_files import read_object

# === Embedding ===
# Creating embeddings for rows of a table, and the index for `search.py`.


COLUMN = "embeddings"
INDEX_FILE = "index.json"
_ROWS = "rows.npz"


@dataclasses.dataclass(frozen=True)
class Embedder:
    """Creates the function from rows of texts to their embeddings; a `table_job.Maker`.

    Attributes:
        path, options: as in `SentenceEncoder`.
    """

    path: str
    options: EncodeOptions = EncodeOptions()

    @functools.cached_property
    def identity(self) -> Mapping[str, Any]:
        prompt = prompt_of(recipe_of(self.path, self.options), self.options)
        return {**identity_of(self.path, self.options), "prompt": prompt}

    def __call__(self) -> Callable:
        encoder = SentenceEncoder(self.path, **dataclasses.asdict(self.options))
        return lambda rows: {COLUMN: encoder(rows.texts[0])}


@dataclasses.dataclass(frozen=True)
class Indexer(Embedder):
    """Creates embeddings of length 1 for an index, and the bytes of their texts."""

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
    """Writes an index atomically.

        embeddings.npy, text.npy, text_splits.npy      the embeddings, and the concatenated texts; memory-mapped
        index.json                                     the model that they are from

    Args:
        directory: output directory; must not exist or must be empty.
        indexer: creates the embeddings.
        write_rows: writes the output of `indexer` for all rows to an .npz file at the given path.

    Raises:
        ValueError: `directory` is not empty, or the model or the rows are invalid.
        OSError: a file cannot be written.
    """
    check_free(directory, parameter="index_dir")
    with whole_directory(directory) as aside:
        rows = os.path.join(aside, _ROWS)
        write_rows(rows)
        with zipfile.ZipFile(rows) as archive:  # an array in an archive cannot be memory-mapped
            for name in archive.namelist():
                with archive.open(name) as source, open(os.path.join(aside, name), "wb") as target:
                    shutil.copyfileobj(source, target)
        os.remove(rows)
        described = {"model": os.path.realpath(indexer.path), "identity": identity_of(indexer.path, indexer.options)}
        described["options"] = {name: value for name, value in dataclasses.asdict(indexer.options).items()
                                if not name.startswith("prompt")}  # fmt: skip
        write_text(os.path.join(aside, INDEX_FILE), json.dumps(described, indent=2, ensure_ascii=False) + "\n")


# === Search ===


_BLOCK, _COSINES = 2**16, 2**22  # embeddings compared at a time with all queries, and maximum number of cosines
_REMEDY = "create the index again with `bert-tf embed`"


class SearchIndex:
    """Semantic search over an index of texts and embeddings, as written by `make_index`.

        index = SearchIndex("news.index")
        encoder = index.encoder()
        scores, rows = index.search(encoder(["floods in spring"]), top_k=5)
        print(index.text(rows[0, 0]))

    Args:
        directory: directory of the index.

    Raises:
        ValueError: there is no index, or it is damaged.
    """

    def __init__(self, directory: str | os.PathLike):
        self.directory = os.fspath(directory)
        path = os.path.join(self.directory, INDEX_FILE)
        described = read_object(path, "the description of an index from `bert-tf embed`", _REMEDY)
        try:
            self._model, self._identity = described["model"], described["identity"]
            self._options = described["options"]
            self._vectors, self._bytes, self._splits = (
                np.load(os.path.join(self.directory, f"{name}.npy"), mmap_mode="r")
                for name in (COLUMN, "text", "text_splits")
            )
            sizes = len(self._vectors), len(self._bytes)
            whole = sizes == (len(self._splits) - 1, self._splits[-1]) and self._vectors.ndim == 2
        except (KeyError, OSError, ValueError, TypeError) as error:
            raise ValueError(
                f"{self.directory} is not a complete index: {error!r:.300}. To fix this, {_REMEDY}."
            ) from error
        if not whole:
            raise ValueError(f"{self.directory} is not a complete index: files of {sizes}. To fix this, {_REMEDY}.")

    def __len__(self) -> int:
        return len(self._vectors)

    def encoder(self, path: str | None = None, prompt: str | None = None, prompt_name: str | None = None):
        """Returns the `SentenceEncoder` for queries.

        Args:
            path: the model; None: its path when the index was created.
            prompt, prompt_name: prompt for queries; None: the model's default prompt.

        Raises:
            ValueError: the model is not that of the index, or pools differently.
        """
        path = self._model if path is None else os.fspath(path)
        if not os.path.exists(path) and not os.path.exists(f"{path}.index"):
            raise ValueError(
                f"Model not found: {path}, the model that {self.directory} was created with. "
                "Pass its current path as `model`."
            )
        options = EncodeOptions(**self._options, prompt=prompt, prompt_name=prompt_name)
        there = identity_of(path, options)
        if differ := [name for name, value in self._identity.items() if there.get(name) != value]:
            raise ValueError(
                f"`model` must be the model that {self.directory} was created with; {path} has different "
                f"{' and '.join(differ)}. Pass that model, or {_REMEDY}."
            )
        return SentenceEncoder(path, **vars(options))

    def search(self, queries: np.ndarray, top_k: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Finds the texts nearest to each query.

        Args:
            queries: query embeddings, float [q, D].
            top_k: number of texts per query; all texts if there are fewer.

        Returns:
            cosines float32 [q, k], the highest first, and the texts' rows, int64 [q, k]. For equal cosines, the first
            row comes first.
        """
        queries = unit(np.asarray(queries, np.float32))
        best = np.full([len(queries), 0], 0, np.float32), np.zeros([len(queries), 0], np.int64)
        size = max(1, min(_BLOCK, _COSINES // max(1, len(queries))))
        for start in range(0, len(self), size):
            block = np.asarray(self._vectors[start : start + size])
            rows = np.broadcast_to(np.arange(start, start + len(block)), [len(queries), len(block)])
            scores, rows = (np.concatenate(pair, 1) for pair in zip(best, (queries @ block.T, rows), strict=True))
            order = np.argsort(-scores, axis=1, kind="stable")[:, :top_k]
            best = np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)
        return best

    def text(self, row: int) -> str:
        """Returns the text of a row."""
        return bytes(self._bytes[self._splits[row] : self._splits[row + 1]]).decode("utf-8")


def read_queries(arguments: Sequence[str]) -> list[str]:
    """Returns the queries from a command line.

    Raises:
        ValueError: there is no query, or an empty one.
    """
    queries = [text.encode("utf-8", "surrogateescape").decode("utf-8", "ignore") for text in arguments]
    if not queries or not all(map(str.strip, queries)):
        raise ValueError(
            f"Pass at least one query as an argument, and no empty ones; got {queries}. Example: "
            '"floods in spring".'
        )
    return queries
