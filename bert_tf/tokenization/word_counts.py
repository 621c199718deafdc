"""Counts of the words of a text, in bounded memory."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.tokenization.flat_ops import rows_of
from bert_tf.tokenization.words import WordSplitter
from bert_tf.utils.counts import number_of
from bert_tf.utils.documents import read_documents
from bert_tf.utils.progress import Countdown
from bert_tf.utils.string_batches import CHARACTERS, split_by_characters
from bert_tf.utils.text_blocks import read_blocks
from bert_tf.utils.text_files import find_text_files, formats_of
from bert_tf.utils.text_options import TextOptions

MOST_WORDS = 5_000_000  # distinct ones in memory: about half a gigabyte
_MOST_HELD_OUT = 100_000  # sentences; with more, a report's numbers would be the same
_BATCH_CHARACTERS = CHARACTERS  # split at a time
_STRETCH, _EVERY = 50, 100  # every 100th stretch of 50 sentences is held out


class WordCounter:
    """Counts the words of sentences as BERT splits them, before WordPiece.

        sentence    The cat, the CAT!
        counts      the 2, cat 2, "," 1, ! 1

    Args:
        do_lower_case: whether text is lowercased and stripped of accents.
        most_words: see below.
        prepare: strings [n] -> strings, the part of the sentences to count. If None, all of it.

    Attributes:
        counts: word -> how often it occurred.
        forgotten: number of counted occurrences that are no longer in `counts`. Above `most_words` words, the rarer
            half is dropped; a dropped word that occurs again starts at 1.
    """

    def __init__(
        self,
        do_lower_case: bool,
        most_words: int = MOST_WORDS,
        prepare: Callable[[tf.Tensor], tf.Tensor] | None = None,
    ):
        self._splitter, self._most_words = WordSplitter(do_lower_case), most_words
        self._prepare = prepare
        self.counts, self.forgotten = Counter(), 0

    def add(self, sentences: list[str]):
        """Counts the words of these sentences."""
        for batch in split_by_characters(sentences, _BATCH_CHARACTERS):
            words, numbers = self._count(tf.constant(batch, tf.string))
            for word, number in zip(words.numpy().tolist(), numbers.numpy().tolist(), strict=True):
                self.counts[word.decode()] += number
            if len(self.counts) > self._most_words:
                self._forget()

    def split(self, texts: list[str]) -> tuple[list[str], np.ndarray]:
        """Returns the words of all texts, and the text index of each, int64 [words]."""
        words, rows = self._split(tf.constant(texts, tf.string))
        return [word.decode() for word in words.numpy()], rows.numpy()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _split(self, texts):
        with tf.device("CPU:0"):  # a GPU has no string ops
            words = self._splitter(texts)
            rows = rows_of(words.splits, words.chars.row_starts())
            return tf.strings.unicode_encode(words.chars, "UTF-8"), rows

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _count(self, texts):
        with tf.device("CPU:0"):
            texts = texts if self._prepare is None else self._prepare(texts)
        words = tf.unique_with_counts(self._split(texts)[0], tf.int64)
        return words.y, words.count

    def _forget(self):
        survivors = most_frequent_first(self.counts)[: self._most_words // 2]
        logging.warning(
            "Dropping the rarer half of %d distinct words, with counts of %d or fewer so far, to limit memory.",
            *(len(self.counts), survivors[-1][1]),
        )
        before = self.counts.total()
        self.counts = Counter(dict(survivors))
        self.forgotten += before - self.counts.total()


def most_frequent_first(counts: Counter) -> list[tuple[str, int]]:
    """Returns (word, count) pairs by descending count, ties in alphabetical order."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def read_sentences(patterns: list[str], input_format: str | None, options: TextOptions) -> Iterator[list[str]]:
    """Yields the sentences of each document, or of a chunk of a long one, and logs the progress.

    Args:
        patterns: files, globs or directories.
        input_format: one of `names.TEXT_FORMATS`. If None, it is guessed for each file.
        options: the options for reading text.

    Raises:
        ValueError: no files match, they cannot be read, or they contain no sentence.
    """
    paths = find_text_files(patterns)
    formats = formats_of(paths, input_format, options.language)
    counts, sentences = Counter(), 0
    with Countdown("Counting words", "MB") as progress:
        for block in read_blocks(paths, formats, options):
            for document in read_documents(block, options, counts):
                sentences += len(document.sentences)
                yield document.sentences
            progress.advance(len(block.data) / 1e6)
    if not sentences:
        raise ValueError(
            f"No sentences found in {number_of(len(paths), 'file')}, such as {paths[0]}. Check `input_file` and "
            "`input_format`."
        )


def count_words(
    texts: Iterable[list[str]], do_lower_case: bool, prepare: Callable[[tf.Tensor], tf.Tensor] | None = None
) -> Counter:
    """Counts each word in the sentences of all texts; `prepare` as for `WordCounter`."""
    counter = WordCounter(do_lower_case, prepare=prepare)
    for sentences in _join_short_lists(texts):
        counter.add(sentences)
    return counter.counts


def hold_out(texts: Iterable[list[str]], held_out: list[str]) -> Iterator[list[str]]:
    """Yields the sentences of `texts` except every 100th stretch of 50 sentences, which it appends to `held_out`.

    Stretches are held out rather than documents, because a corpus may be ten books, and rather than sentences, because
    neighboring sentences share words.
    """
    number = 0
    for sentences in texts:
        for i in range(0, len(sentences), _STRETCH):
            number += 1
            if number % _EVERY == 0 and len(held_out) < _MOST_HELD_OUT:
                held_out += sentences[i : i + _STRETCH]
            else:
                yield sentences[i : i + _STRETCH]


def _join_short_lists(texts):
    """Joins short lists, so that each call into the graph has enough to do."""
    gathered, size = [], 0
    for sentences in texts:
        gathered += sentences
        size += sum(map(len, sentences))
        if size >= _BATCH_CHARACTERS:
            yield gathered
            gathered, size = [], 0
    if gathered:
        yield gathered
