"""How well a vocabulary fits a text: what the tokenizer makes of each of its words."""

import dataclasses
from collections import Counter

import numpy as np
import tensorflow as tf

from bert_tf.tokenization.learning.counting import in_order
from bert_tf.tokenization.wordpiece import Tokenizer

_BATCH = 1 << 16  # words tokenized at a time
_SHOWN = 20


@dataclasses.dataclass(frozen=True)
class Fit:
    """What a tokenizer makes of counted words; `share_...` are of all occurrences, from 0 to 1.

    Attributes:
        vocab_size: pieces in the vocabulary.
        words, distinct_words: how many there are.
        share_whole: words that are one piece and known ("coverage").
        pieces_per_word: [UNK] counts as one.
        share_unknown: words that are [UNK].
        share_characters_unknown: characters that lie in such words.
        split: the most frequent words of several pieces: (word, count, pieces).
        unknown: the most frequent words that are [UNK]: (word, count).
    """

    vocab_size: int
    words: int
    distinct_words: int
    share_whole: float
    pieces_per_word: float
    share_unknown: float
    share_characters_unknown: float
    split: list
    unknown: list


def measure(tokenizer: Tokenizer, counts: Counter) -> Fit:
    """Tokenizes every word.

    Args:
        tokenizer: of the vocabulary.
        counts: word -> how often it occurs, as `counting.count` makes it with the tokenizer's letter case.

    Raises:
        ValueError: there are no words.
    """
    if not counts:
        raise ValueError("The text of the report must hold words. Received none; look at `held_out_file`.")
    words, numbers = zip(*in_order(counts), strict=True)
    numbers, ids = np.array(numbers), tokenize(tokenizer, words)
    pieces, unknown = ids.row_lengths().numpy(), tf.reduce_any(ids == tokenizer.unk_id, axis=1).numpy()
    characters = np.array([len(word) for word in words]) * numbers
    total = numbers.sum()
    split = np.flatnonzero(pieces > 1)[:_SHOWN]
    return Fit(
        vocab_size=tokenizer.vocab_size,
        words=int(total),
        distinct_words=len(words),
        share_whole=float(numbers[(pieces == 1) & ~unknown].sum() / total),
        pieces_per_word=float((numbers * pieces).sum() / total),
        share_unknown=float(numbers[unknown].sum() / total),
        share_characters_unknown=float(characters[unknown].sum() / characters.sum()),
        split=[(words[i], int(numbers[i]), names(tokenizer, ids[i])) for i in split],
        unknown=[(words[i], int(numbers[i])) for i in np.flatnonzero(unknown)[:_SHOWN]],
    )


def tokenize(tokenizer: Tokenizer, words) -> tf.RaggedTensor:
    """Returns the ids of each word, int32 [words, (pieces)]."""
    parts = [tokenizer.tokenize(list(words[i : i + _BATCH])) for i in range(0, len(words), _BATCH)]
    return tf.concat(parts, axis=0) if parts else tokenizer.tokenize(tf.zeros([0], tf.string))


def names(tokenizer: Tokenizer, ids) -> list[str]:
    """Returns the pieces of some ids."""
    return [tokenizer.vocab[i] for i in ids.numpy()]


def as_text(fits: dict[str, Fit], about: str) -> str:
    """Returns the report: a column for each vocabulary, then the words that each splits or does not know.

    Args:
        fits: the vocabulary's name -> its `Fit`, all of the same text.
        about: one line that says which text.
    """
    rows = [
        ("", lambda fit: None),
        ("pieces in the vocabulary", lambda fit: f"{fit.vocab_size:,}"),
        ("words", lambda fit: f"{fit.words:,}"),
        ("different words", lambda fit: f"{fit.distinct_words:,}"),
        ("words that are one whole piece", lambda fit: f"{fit.share_whole:.2%}"),
        ("pieces per word", lambda fit: f"{fit.pieces_per_word:.3f}"),
        ("words that are [UNK]", lambda fit: f"{fit.share_unknown:.3%}"),
        ("characters lost to [UNK]", lambda fit: f"{fit.share_characters_unknown:.3%}"),
    ]
    wide = max(len(label) for label, _ in rows)
    cells = {name: [show(fit) or name for _, show in rows] for name, fit in fits.items()}
    columns = [[cell.rjust(max(map(len, column))) for cell in column] for column in cells.values()]
    lines = [about, ""]
    lines += ["  ".join([rows[i][0].ljust(wide), *(column[i] for column in columns)]) for i in range(len(rows))]
    for name, fit in fits.items():
        lines += ["", f"Most frequent words that {name} splits:"]
        lines += [f"  {count:>9,}  {word}  =  {' '.join(pieces)}" for word, count, pieces in fit.split] or ["  none"]
        lines += ["", f"Most frequent words that {name} does not know:"]
        lines += [f"  {count:>9,}  {word}" for word, count in fit.unknown] or ["  none"]
    return "\n".join(lines) + "\n"
