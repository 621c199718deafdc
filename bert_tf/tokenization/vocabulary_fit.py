"""How a vocabulary splits the words of a text: statistics, and a report of them."""

import dataclasses
from collections import Counter

import numpy as np
import tensorflow as tf

from bert_tf.tokenization.word_counts import most_frequent_first
from bert_tf.tokenization.wordpiece import WordPieceTokenizer

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


def measure_vocabulary(tokenizer: WordPieceTokenizer, counts: Counter) -> Fit:
    """Measures how a tokenizer splits the counted words.

    Args:
        tokenizer: the tokenizer of the vocabulary.
        counts: word -> number of occurrences, as from `word_counts.count_words` with the tokenizer's letter case.

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


def tokenize_words(tokenizer: WordPieceTokenizer, words) -> tf.RaggedTensor:
    """Returns the ids of each word, int32 [words, (tokens)]."""
    parts = [tokenizer.tokenize(list(words[i : i + _BATCH])) for i in range(0, len(words), _BATCH)]
    return tf.concat(parts, axis=0) if parts else tokenizer.tokenize(tf.zeros([0], tf.string))


def token_names(tokenizer: WordPieceTokenizer, ids) -> list[str]:
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
