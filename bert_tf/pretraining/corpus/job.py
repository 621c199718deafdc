"""A job of pretraining data: what determines its records."""

import dataclasses
import functools
from typing import TYPE_CHECKING

from bert_tf.checkpoints.model_tokenizer import read_model_tokenizer
from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.pretraining.corpus.word_segmenters import PRETOKENIZED, WordSegmenter
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.table_registry import TABLES
from bert_tf.tokenization.tokenizer_tables import TokenizerTables
from bert_tf.tokenization.wordpiece_tables import WordPieceTables

if TYPE_CHECKING:
    from bert_tf.tokenization.base_tokenizer import BaseTokenizer


@dataclasses.dataclass(frozen=True)
class CorpusJob:
    """The text files, tokenizer, options and output files of a run.

    Attributes:
        paths, formats: the text files and their formats; see `bert_tf.utils.text_files`.
        output_files: files that the records are randomly distributed over; compressed if they end in .gz.
        vocab_file: vocabulary of a WordPiece tokenizer; None with `model_directory`.
        do_lower_case: setting of the tokenizer. With `model_directory`, None means as in the model's files.
        options: how examples are created.
        num_workers: number of processes.
        work_dir: directory for the sorted runs. If None, the directory of the first output file.
        strip_accents: setting of a WordPiece tokenizer. If None, the same as do_lower_case.
        added_tokens: added tokens of a WordPiece tokenizer.
        model_directory: directory of a model whose tokenizer is used instead of `vocab_file`.
    """

    paths: list
    formats: list
    output_files: list
    vocab_file: str | None = None
    do_lower_case: bool | None = True
    options: CorpusOptions = CorpusOptions()
    num_workers: int = 1
    work_dir: str | None = None
    strip_accents: bool | None = None
    added_tokens: tuple[AddedToken, ...] = ()
    model_directory: str | None = None

    def without_paths(self) -> "CorpusJob":
        """Returns the job as a task needs it, which may be sent to many processes; there may be millions of paths."""
        return dataclasses.replace(self, paths=[], formats=[])

    @functools.cached_property
    def tables(self) -> TokenizerTables:
        """The tables of the tokenizer."""
        return self._tokenizer(TABLES)

    def make_tokenizer(self) -> "BaseTokenizer":
        """Returns the tokenizer."""
        from bert_tf.tokenization.registry import TOKENIZERS  # imports TensorFlow, which only worker processes need

        return self._tokenizer(TOKENIZERS)

    def make_segmenter(self) -> WordSegmenter | None:
        """Returns the word segmenter, or None.

        Raises:
            ValueError: it is not available, or not for this tokenizer.
        """
        name = self.options.word_segmenter
        if name == PRETOKENIZED and self.tables.KIND != WordPieceTables.KIND:
            raise ValueError(
                f"`word_segmenter={PRETOKENIZED}` requires a WordPiece tokenizer, because others have tokens for the "
                f"spaces between words; got {self.tables.KIND}. Use another `word_segmenter`, or a BERT vocabulary."
            )
        return WordSegmenter(name) if name else None

    def _tokenizer(self, kinds):
        if self.model_directory:
            return read_model_tokenizer(self.model_directory, self.do_lower_case, kinds=kinds)
        settings = self.do_lower_case, None, self.strip_accents
        return kinds[WordPieceTables.KIND](self.vocab_file, *settings, added_tokens=self.added_tokens)
