"""A job of pretraining data: what determines its records."""

import dataclasses

from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.tokenization.added_tokens import AddedToken


@dataclasses.dataclass(frozen=True)
class CorpusJob:
    """The text files, tokenizer, options and output files of a run.

    Attributes:
        paths, formats: the text files and their formats; see `bert_tf.utils.text_files`.
        output_files: files that the records are randomly distributed over; compressed if they end in .gz.
        vocab_file, do_lower_case: settings of the tokenizer.
        options: how examples are created.
        num_workers: number of processes.
        work_dir: directory for the sorted runs. If None, the directory of the first output file.
        strip_accents: setting of the tokenizer. If None, the same as do_lower_case.
        added_tokens: added tokens of the tokenizer.
    """

    paths: list
    formats: list
    output_files: list
    vocab_file: str
    do_lower_case: bool = True
    options: CorpusOptions = CorpusOptions()
    num_workers: int = 1
    work_dir: str | None = None
    strip_accents: bool | None = None
    added_tokens: tuple[AddedToken, ...] = ()

    @property
    def strips_accents(self) -> bool:
        """True if accents are stripped."""
        return self.do_lower_case if self.strip_accents is None else self.strip_accents

    def without_paths(self) -> "CorpusJob":
        """Returns the job as a task needs it, which may be sent to many processes; there may be millions of paths."""
        return dataclasses.replace(self, paths=[], formats=[])

    def make_tokenizer(self):
        """Returns the WordPiece tokenizer."""
        from bert_tf.tokenization.wordpiece import Tokenizer  # imports TensorFlow, which only worker processes need

        accents = self.strip_accents
        return Tokenizer(self.vocab_file, self.do_lower_case, strip_accents=accents, added_tokens=self.added_tokens)
