"""Creates embeddings for the rows of a table in batch prediction, or the documents of a search index."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from bert_tf.data.columns import NAME, join_texts
from bert_tf.inference.batch_prediction.answer_parts import CountedAnswers
from bert_tf.inference.index_segments import EMBEDDINGS, document_columns
from bert_tf.inference.sentence_encoder import SentenceEncoder, identity_of, with_prompt
from bert_tf.inference.settings import EncodeOptions
from bert_tf.inference.vector_types import check_vector_dtype, quantize_vectors


@dataclasses.dataclass(frozen=True)
class Embedder:
    """Creates the function from rows of texts to their embeddings; a `table_job.Maker`.

    The prompt is the model's default prompt, if no other is given; for an `Indexer`, the model's for documents.

    Attributes:
        path, options: as in `SentenceEncoder`.
        vector_dtype: type of the embeddings, as in `quantize_vectors`.

    Raises:
        ValueError: the type is unknown.
    """

    path: str
    options: EncodeOptions = EncodeOptions()
    vector_dtype: str = "float32"

    joins_texts: ClassVar[bool] = True
    verb: ClassVar[str] = "Embedding"
    kind_of_texts: ClassVar[str | None] = None

    def __post_init__(self):
        check_vector_dtype(self.vector_dtype)

    @functools.cached_property
    def identity(self) -> Mapping[str, Any]:
        return {**identity_of(self.path, self.options), "prompt": self.prompt, "vector_dtype": self.vector_dtype}

    @property
    def prompt(self) -> str:
        """The prompt that is put before each text."""
        return self.options_with_prompt.prompt or ""

    @property
    def options_with_prompt(self) -> EncodeOptions:
        """The options with the text of that prompt."""
        return with_prompt(self.path, self.options, self.kind_of_texts)

    def encoder(self) -> SentenceEncoder:
        """Loads the model."""
        return SentenceEncoder(self.path, **dataclasses.asdict(self.options_with_prompt))

    def __call__(self) -> Callable:
        encoder = self.encoder()

        def answer(rows):
            return {EMBEDDINGS: quantize_vectors(encoder(_joined_columns(rows)), self.vector_dtype)}

        return CountedAnswers(answer, encoder.token_counts)


@dataclasses.dataclass(frozen=True)
class Indexer(Embedder):
    """Creates the columns of an index's segment: embeddings of length 1, ids, texts, and kept columns as payload."""

    takes_kept = unique_ids = for_index = True
    kind_of_texts = "document"

    @functools.cached_property
    def identity(self):
        return {**super().identity, "texts": True}

    def __call__(self):
        encoder = self.encoder()

        def answer(rows):
            texts = _joined_columns(rows)
            payload = [{name: values[row] for name, values in rows.kept.items()} for row in range(len(texts))]
            return document_columns(encoder(texts), list(map(NAME.read, rows.ids)), texts, payload, self.vector_dtype)

        return CountedAnswers(answer, encoder.token_counts)


def _joined_columns(rows):
    """Returns one text per row, as `read_texts_by_id` joins a title and a text for a reranker."""
    return [join_texts(row) for row in zip(*rows.texts, strict=True)]
