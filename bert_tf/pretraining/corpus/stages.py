"""The tasks that a local run consists of: what one process does at a time, from files on disk to files on disk.

Each task depends on its arguments and on what earlier stages wrote alone, so it does not matter which process does it.
"""

from collections import Counter

from bert_tf.data import records
from bert_tf.pretraining.corpus import duplicates, runs
from bert_tf.pretraining.corpus.context import Context
from bert_tf.pretraining.corpus.description import origin_of
from bert_tf.pretraining.corpus.documents import Documents
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.pretraining.corpus.tokenize import tokenize
from bert_tf.pretraining.corpus.unit import make_records
from bert_tf.pretraining.records.pieces import Pieces
from bert_tf.utils.text.documents import read_documents

_COLUMNS = ["ids", "tokens", "sentences"]  # of `Documents`, beside its keys


class Stages:
    """The tasks of one process, which makes its tokenizer when it is first needed."""

    def __init__(self, context: Context):
        self.context = context
        self._tokenizer = self._pieces = None

    def tokenize(self, number: int, blocks: list) -> Counter:
        """Reads some text and writes its documents, and the hashes of their sentences where these are asked for.

        Args:
            number: of the run to write.
            blocks: list of `bert_tf.utils.text.blocks.Block`.

        Returns:
            What was read: documents, tokens and so on, by name.
        """
        options, counts = self.context.options, Counter(bytes=sum(len(block.data) for block in blocks))
        texts = [text for block in blocks for text in read_documents(block, options.text, counts)]
        documents = tokenize(texts, self.tokenizer, options.random_seed)
        counts["tokens"] = len(documents.tokens.flat)
        columns = {name: getattr(documents, name) for name in _COLUMNS}
        runs.write(self.context.run("documents", number), documents.keys, columns)
        if options.drop_duplicate_lines:
            places = duplicates.places(documents)._asdict()
            runs.write(self.context.run("hashes", number), duplicates.hashes(documents), places)
        return counts

    def find_duplicates(self, number: int, of: int) -> Counter:
        """Writes the places of sentences to drop, found among those whose hashes lie in range `number`; counts them."""
        hashes, places = runs.read(self.context.runs("hashes"), ["part", "sentence"], *runs.bounds(number, of))
        repeats = duplicates.find(hashes, duplicates.Places(**places))
        runs.write(self.context.run("duplicates", number), repeats.part, {"sentence": repeats.sentence})
        return Counter(duplicate_lines=len(repeats.part))

    def read_documents(self, unit: int, of: int) -> Documents:
        """Returns the documents of a unit, without the duplicates that were found."""
        low, high = runs.bounds(unit, of)
        keys, columns = runs.read(self.context.runs("documents"), _COLUMNS, low, high)
        documents = Documents(keys, **columns)
        if not self.context.options.drop_duplicate_lines:
            return documents
        parts, columns = runs.read(self.context.runs("duplicates"), ["sentence"], low, high)
        return duplicates.drop(documents, duplicates.Places(parts, **columns))

    def make_records(self, pass_number: int, unit: int, of: int) -> tuple[Statistics, int]:
        """Makes the records of a unit and writes them as a run. Returns their statistics and bytes."""
        documents = self.read_documents(unit, of)
        keys, rows, statistics = make_records(documents, self.context.options, self.pieces, pass_number, unit)
        runs.write(self.context.run("records", pass_number, unit), keys, {"records": rows})
        return statistics, len(rows.flat)

    def write_part(self, path: str, number: int, of: int, compression: str, first: bool) -> int:
        """Writes the records of range `number` of all keys to a record file, or a part of one; returns how many.

        Where it is the `first` part, its first record says of the file how it was made.
        """
        _, columns, order = runs.read_unsorted(self.context.runs("records"), ["records"], *runs.bounds(number, of))
        stamp = self.origin.stamp() if first else b""
        records.write(path, columns["records"], compression, durable=False, order=order, stamp=stamp)
        return len(order)

    @property
    def pieces(self) -> Pieces:
        """Of the vocabulary, and the phrases that are masked as one."""
        if self._pieces is None:
            self._pieces = Pieces.of_tokenizer(self.tokenizer, self.context.options.phrase_file)
        return self._pieces

    @property
    def origin(self):
        tokenizer = self.tokenizer
        return origin_of(tokenizer.vocab, tokenizer.do_lower_case, tokenizer.strip_accents, self.context.options)

    @property
    def tokenizer(self):
        if self._tokenizer is None:
            from bert_tf.tokenization.wordpiece import Tokenizer

            context = self.context
            settings = {"strip_accents": context.strip_accents, "added_tokens": context.added_tokens}
            self._tokenizer = Tokenizer(context.vocab_file, context.do_lower_case, **settings)
        return self._tokenizer
