"""Learns WordPiece vocabularies from text."""

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

from bert_tf.tokenization import characters
from bert_tf.tokenization.flat_ops import rows_of
from bert_tf.tokenization.wordpiece import Tokenizer, WordSplitter
from bert_tf.utils.documents import TextOptions, read_documents
from bert_tf.utils.names import CLS, MASK, PAD, SEP, UNKNOWN, number_of
from bert_tf.utils.progress import Countdown
from bert_tf.utils.string_batches import CHARACTERS, split_by_characters
from bert_tf.utils.text_blocks import read_blocks
from bert_tf.utils.text_files import find_text_files, formats_of

# === Counts ===
# Counts the words of a text, in bounded memory.


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


# === Report ===
# Measures how a vocabulary splits the words of a text.


_BATCH = 1 << 16  # words tokenized at a time
_SHOWN = 20


@dataclasses.dataclass(frozen=True)
class Fit:
    """Statistics of a tokenizer on counted words; each `share_...` is a fraction of all occurrences, from 0 to 1.

    Attributes:
        vocab_size: number of tokens in the vocabulary.
        words, distinct_words: number of words, with and without repetition.
        share_whole: words that are a single known token ("coverage").
        tokens_per_word: [UNK] counts as one.
        share_unknown: words that are [UNK].
        share_characters_unknown: characters in such words.
        split: the most frequent words of several tokens: (word, count, tokens).
        unknown: the most frequent words that are [UNK]: (word, count).
    """

    vocab_size: int
    words: int
    distinct_words: int
    share_whole: float
    tokens_per_word: float
    share_unknown: float
    share_characters_unknown: float
    split: list
    unknown: list


def measure_vocabulary(tokenizer: Tokenizer, counts: Counter) -> Fit:
    """Measures how a tokenizer splits the counted words.

    Args:
        tokenizer: the tokenizer of the vocabulary.
        counts: word -> number of occurrences, as from `counting.count` with the tokenizer's letter case.

    Raises:
        ValueError: there are no words.
    """
    if not counts:
        raise ValueError("The text for the report contains no words. Check `input_file`.")
    words, numbers = zip(*most_frequent_first(counts), strict=True)
    numbers, ids = np.array(numbers), tokenize_words(tokenizer, words)
    tokens, unknown = ids.row_lengths().numpy(), tf.reduce_any(ids == tokenizer.unk_id, axis=1).numpy()
    characters = np.array([len(word) for word in words]) * numbers
    total = numbers.sum()
    split = np.flatnonzero(tokens > 1)[:_SHOWN]
    return Fit(
        vocab_size=tokenizer.vocab_size,
        words=int(total),
        distinct_words=len(words),
        share_whole=float(numbers[(tokens == 1) & ~unknown].sum() / total),
        tokens_per_word=float((numbers * tokens).sum() / total),
        share_unknown=float(numbers[unknown].sum() / total),
        share_characters_unknown=float(characters[unknown].sum() / characters.sum()),
        split=[(words[i], int(numbers[i]), token_names(tokenizer, ids[i])) for i in split],
        unknown=[(words[i], int(numbers[i])) for i in np.flatnonzero(unknown)[:_SHOWN]],
    )


def tokenize_words(tokenizer: Tokenizer, words) -> tf.RaggedTensor:
    """Returns the ids of each word, int32 [words, (tokens)]."""
    parts = [tokenizer.tokenize(list(words[i : i + _BATCH])) for i in range(0, len(words), _BATCH)]
    return tf.concat(parts, axis=0) if parts else tokenizer.tokenize(tf.zeros([0], tf.string))


def token_names(tokenizer: Tokenizer, ids) -> list[str]:
    """Returns the tokens of some ids."""
    return [tokenizer.vocab[i] for i in ids.numpy()]


def format_fit(fit: Fit, about: str) -> str:
    """Formats the report: the statistics, then the most frequent split and unknown words.

    Args:
        fit: statistics of the vocabulary.
        about: one line that names the text it was measured on.
    """
    numbers = {
        "tokens in the vocabulary": f"{fit.vocab_size:,}",
        "words": f"{fit.words:,}",
        "distinct words": f"{fit.distinct_words:,}",
        "words that are a single token": f"{fit.share_whole:.2%}",
        "tokens per word": f"{fit.tokens_per_word:.3f}",
        "words that are [UNK]": f"{fit.share_unknown:.3%}",
        "characters lost to [UNK]": f"{fit.share_characters_unknown:.3%}",
    }
    wide, widest = max(map(len, numbers)), max(map(len, numbers.values()))
    lines = [about, "", *(f"{label:<{wide}}  {number:>{widest}}" for label, number in numbers.items())]
    lines += ["", "Most frequent words split into several tokens:"]
    lines += [f"  {count:>9,}  {word}  =  {' '.join(tokens)}" for word, count, tokens in fit.split] or ["  none"]
    lines += ["", "Most frequent unknown words:"]
    lines += [f"  {count:>9,}  {word}" for word, count in fit.unknown] or ["  none"]
    return "\n".join(lines) + "\n"


# === Learning ===
# Learns a WordPiece vocabulary from counted words, using the learner of tensorflow-text.
#
# The learner (wordpiece_tokenizer_learner_lib, after Schuster & Nakajima 2012) keeps the tokens that reach a count. It
# takes a threshold, not a vocabulary size: its own search ends anywhere within 5 % of the size and tries thresholds by
# bisection, most of them far off. Token counts roughly follow word counts, so the search here begins close to the goal
# and needs three or four tries.


LONGEST_WORD = 50  # characters; longer ones are URLs or sequences rather than words, and the learner rejects them
_SPARE = 1.05  # surplus of tokens a try may find over the goal: the rarest of them are dropped
_STEEPNESS = 0.7  # the number of tokens is about threshold ** -0.7
_SECONDS_A_WORD = 8e-5  # of a try
_PREFIX = "##"


def list_special_tokens(unused_pieces: int = 0) -> list[str]:
    """Returns the first tokens: [PAD], [unused0] ..., [UNK], [CLS], [SEP], [MASK], as in Google's files."""
    return [PAD, *(f"[unused{i}]" for i in range(unused_pieces)), UNKNOWN, CLS, SEP, MASK]


def learn_vocabulary(
    counts: Counter, vocab_size: int, unused_pieces: int = 0, min_count: int = 2, max_words: int = 500_000,
    max_characters: int = 1000,
) -> list[str]:  # fmt: skip
    """Learns a vocabulary of exactly vocab_size tokens, or fewer if the words do not yield that many.

        [PAD] [UNK] [CLS] [SEP] [MASK]  ! a b c  ##a ##b ##c  the and ##ing ...
        special                         characters            the most frequent first

    Every character is included both as the beginning of a word and as a continuation (punctuation and CJK characters,
    which are words of their own, only as the beginning), so that no word of known characters becomes [UNK]. The most
    frequent tokens follow, up to the size; dropping the rarest ones leaves every word tokenizable.

    Args:
        counts: word -> number of occurrences, words as from `WordCounter`.
        vocab_size: number of tokens, including special ones.
        unused_pieces: number of reserved tokens, [unused0] and up.
        min_count: minimum number of occurrences of a token.
        max_words: only the most frequent words are used; the learner keeps every substring of each in memory, about
            4 kB per word, and takes about 0.1 ms per word and try.
        max_characters: only the most frequent characters become tokens; words with others are skipped.

    Raises:
        ValueError: there are no words, or vocab_size is too small for the special tokens and characters.
    """
    words, alphabet = _find_usable_words(most_frequent_first(counts)[:max_words], max_characters)
    isolated = set(filter(_is_isolated, alphabet))
    basis = [*list_special_tokens(unused_pieces), *alphabet, *(_PREFIX + c for c in alphabet if c not in isolated)]
    room = vocab_size - len(basis)
    if room < 0:
        raise ValueError(
            f"`vocab_size` must be at least {len(basis)}, for {unused_pieces + 5} special tokens and {len(alphabet)} "
            f"characters, most of them twice (a, ##a). Received: {vocab_size}; raise it, or lower `max_characters`."
        )
    known = {*basis, *(_PREFIX + c for c in isolated)}
    tokens = [p for p in _search_threshold(words, room, known, min_count) if p not in known] if room else []
    if len(tokens) < room:
        logging.warning(
            "The text yields only %d tokens that occur %d times or more, fewer than the requested %d: set this number "
            "in the model's bert_config.json, use more text or lower `min_count`.",
            *(len(basis) + len(tokens), min_count, vocab_size),
        )
    return [*basis, *tokens[:room]]


def _find_usable_words(words, max_characters):
    """Returns the words that the learner may see, and their characters in the order of Unicode."""
    usable = [(word, number) for word, number in words if len(word) <= LONGEST_WORD]
    seen = Counter()
    for word, number in usable:
        for char in word:
            seen[char] += number
    if not seen:
        raise ValueError("The text contains no words. Check `input_file`.")
    alphabet = {char for char, _ in most_frequent_first(seen)[:max_characters]}
    if len(alphabet) < len(seen):
        logging.warning(
            "The text has %d distinct characters; the rarest %d will be [UNK]: see `max_characters`.",
            *(len(seen), len(seen) - len(alphabet)),
        )
        usable = [(word, number) for word, number in usable if alphabet.issuperset(word)]
    return usable, sorted(alphabet)


def _is_isolated(char):
    return bool(characters.character_flags()[ord(char)] & characters.ISOLATED)


def _search_threshold(words, room, known, min_count):
    """Returns the learner's tokens for the highest threshold tried that yields `room` tokens beyond the known ones."""
    logging.info(
        "Learning from %d distinct words: three to six tries of about %.0f s each.",
        *(len(words), math.ceil(len(words) * _SECONDS_A_WORD)),
    )
    low = max(min_count, words[-1][1])  # a lower threshold would find the same: a token is the end of some word
    high = max(low, words[0][1])
    threshold, best = max(words[min(room, len(words)) - 1][1], low), []
    while True:
        begin = time.monotonic()
        tokens = learner.learn(words, len(known) + room, [], threshold, threshold, max_unique_chars=len(known))
        size = sum(token not in known for token in tokens)
        logging.info(
            "Tokens that occur %d times or more: %d, goal: %d (%.0f s).",
            *(threshold, size, room, time.monotonic() - begin),
        )
        if size >= room:
            low, best = threshold + 1, tokens
            if size <= room * _SPARE:
                return best
        else:
            high = threshold - 1
        if low > high:
            return best or tokens
        threshold = round(threshold * (max(size, 1) / room) ** (1 / _STEEPNESS))
        if not low <= threshold <= high:  # the middle of the range, on a logarithmic scale
            threshold = min(max(round(math.sqrt(low * high)), low), high)
