"""Words of a text and how often each occurs, in bounded memory."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.tokenization.words import WordSplitter
from bert_tf.utils.counts import number_of
from bert_tf.utils.progress import Countdown
from bert_tf.utils.text.batching import CHARACTERS, batches
from bert_tf.utils.text.blocks import read_blocks
from bert_tf.utils.text.documents import TextOptions, read_documents
from bert_tf.utils.text.files import find, formats_of

MOST_WORDS = 5_000_000  # distinct ones in memory: about half a gigabyte
MOST_HELD_OUT = 100_000  # sentences; with more, a report's numbers would be the same
_BATCH_CHARACTERS = CHARACTERS  # split at a time
_STRETCH, _EVERY = 50, 100  # every 100th stretch of 50 sentences is held out


class WordCounter:
    """Counts the words of sentences: BERT's words, which word pieces are made of.

        sentence    The cat, the CAT!
        counts      the 2, cat 2, "," 1, ! 1

    Args:
        do_lower_case: whether text is lowercased and loses its accents.
        most_words: see below.
        prepare: strings [n] -> strings, what is counted of sentences; None: all of them.

    Attributes:
        counts: word -> how often it occurred.
        forgotten: how many occurrences were counted and are not in `counts` any more. When there are more than
            `most_words` words, the rarer half goes; one that comes again begins at 1.
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
        for batch in batches(sentences, _BATCH_CHARACTERS):
            words, numbers = self._count(tf.constant(batch, tf.string))
            for word, number in zip(words.numpy().tolist(), numbers.numpy().tolist(), strict=True):
                self.counts[word.decode()] += number
            if len(self.counts) > self._most_words:
                self._forget()

    def split(self, texts: list[str]) -> tuple[list[str], np.ndarray]:
        """Returns the words of all texts, and int64 [words], the text that each is of."""
        words, rows = self._split(tf.constant(texts, tf.string))
        return [word.decode() for word in words.numpy()], rows.numpy()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _split(self, texts):
        with tf.device("CPU:0"):  # a GPU has no string ops
            words = self._splitter(texts)
            return tf.strings.unicode_encode(words.chars, "UTF-8"), words.rows

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _count(self, texts):
        with tf.device("CPU:0"):
            texts = texts if self._prepare is None else self._prepare(texts)
        words = tf.unique_with_counts(self._split(texts)[0], tf.int64)
        return words.y, words.count

    def _forget(self):
        survivors = in_order(self.counts)[: self._most_words // 2]
        logging.warning(
            "%d distinct words are more than memory shall hold: the rarer half, of %d or fewer so far, is forgotten.",
            *(len(self.counts), survivors[-1][1]),
        )
        before = self.counts.total()
        self.counts = Counter(dict(survivors))
        self.forgotten += before - self.counts.total()


def in_order(counts: Counter) -> list[tuple[str, int]]:
    """Returns (word, count), the most frequent first and equally frequent ones by the alphabet."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def read(patterns: list[str], input_format: str | None, options: TextOptions) -> Iterator[list[str]]:
    """Yields the sentences of each document, or of a part of a long one, and logs how far it is.

    Args:
        patterns: files, globs or folders.
        input_format: one of `names.TEXT_FORMATS`; None: guessed for each file.
        options: see there.

    Raises:
        ValueError: there are no such files, they cannot be read, or there is no sentence in them.
    """
    paths = find(patterns)
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
            f"The text must hold a sentence at least. Received {number_of(len(paths), 'file')} without one, such as "
            f"{paths[0]}; look at `input_file` and `input_format`."
        )


def count(
    texts: Iterable[list[str]], do_lower_case: bool, prepare: Callable[[tf.Tensor], tf.Tensor] | None = None
) -> Counter:
    """Returns how often each word occurs in the sentences of all texts; `prepare` as for `WordCounter`."""
    counter = WordCounter(do_lower_case, prepare=prepare)
    for sentences in _gathered(texts):
        counter.add(sentences)
    return counter.counts


def hold_out(texts: Iterable[list[str]], held_out: list[str]) -> Iterator[list[str]]:
    """Yields the sentences of `texts` but every 100th stretch of 50 sentences, and puts these into `held_out`.

    A stretch and not a document, for a corpus may be ten books; not a sentence, for its neighbours hold its words.
    """
    number = 0
    for sentences in texts:
        for i in range(0, len(sentences), _STRETCH):
            number += 1
            if number % _EVERY == 0 and len(held_out) < MOST_HELD_OUT:
                held_out += sentences[i : i + _STRETCH]
            else:
                yield sentences[i : i + _STRETCH]


def _gathered(texts):
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
