"""Extends the vocabulary of a trained checkpoint with new words.

    before    ste ##nt                          two rows of the embedding table
    after     stent                             one new row at the table's end, the mean of those two

WordPiece uses the longest token that a word begins with. A new word therefore also changes longer words that begin with
it (stenting was ste ##nting and becomes stent ##ing), and nothing else.
"""

import dataclasses
import os
from collections import Counter

import numpy as np
import tensorflow as tf

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.loading import ModelDescription, save_description
from bert_tf.checkpoints.locate import RELEASE
from bert_tf.checkpoints.readers import read_arrays
from bert_tf.tokenization.vocabulary_fit import token_names, tokenize_words
from bert_tf.tokenization.word_counts import WordCounter, most_frequent_first
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.utils.files import read_text, whole_directory

# A row, or a number, for each token.
_BY_TOKEN = ("bert/embeddings/word_embeddings", "cls/predictions/output_weights", "cls/predictions/output_bias")


@dataclasses.dataclass(frozen=True)
class Extension:
    """Words to add to a vocabulary.

    Attributes:
        old: the tokenizer without them.
        words: the words, in the order of their new ids.
        ids: RaggedTensor int32 [words, (tokens)], their old tokens; only [UNK] for unknown words.
    """

    old: WordPieceTokenizer
    words: list
    ids: tf.RaggedTensor

    @classmethod
    def of(cls, old: WordPieceTokenizer, words: list) -> "Extension":
        """Raises ValueError if there is nothing to add, or a line for an added token would change other words."""
        if not words:
            raise ValueError(
                "No words to add: all candidates are tokens already. "
                "Check `words_file`, or lower `min_count`."
            )
        _check_added_tokens(old)
        return cls(old, list(words), tokenize_words(old, words))

    def tokenizer(self) -> WordPieceTokenizer:
        """Returns the extended tokenizer; the new ids follow those of the added tokens, which are kept."""
        old = self.old
        tokens = [*old.vocab, *self.words]
        return WordPieceTokenizer(tokens, template=old.template, **old.settings | {"added_tokens": old.listed_tokens})

    def unknown(self) -> list[str]:
        """Returns those of the words that were [UNK]."""
        was_unknown = tf.reduce_any(self.ids == self.old.unk_id, axis=1).numpy()
        return [word for word, unknown in zip(self.words, was_unknown, strict=True) if unknown]

    def lines(self) -> list[str]:
        """Returns a line per word with its old tokens."""
        return [
            f"  {word}  =  {' '.join(token_names(self.old, ids))}"
            for word, ids in zip(self.words, self.ids, strict=True)
        ]


def check_is_wordpiece(tokenizer):
    """Raises ValueError if the tokenizer is not WordPiece, the only kind that supports adding words."""
    if tokenizer.KIND != WordPieceTokenizer.KIND:
        raise ValueError(
            f"Words can only be added to a WordPiece vocabulary, such as vocab.txt; got {tokenizer.vocab_file}, "
            f"read by {type(tokenizer).__name__}; use a model with such a vocabulary."
        )


def _check_added_tokens(tokenizer):
    """Raises ValueError if an added token would match in words once it is a line of the vocabulary file.

    New words follow the added tokens, so the file gets lines for these. Nearly all of them cannot match in words:
    punctuation splits them, or they are found in the text before tokenization.
    """
    tokens = [token for token in tokenizer.added_tokens if token.id >= tokenizer.file_size]
    found = [t for t in tokens if t.single_word or not t.normalized and tokenizer.do_lower_case]
    words, rows = WordCounter(tokenizer.do_lower_case).split([token.content for token in found])
    numbers = np.bincount(rows, minlength=len(found)) if found else []
    for word, row in zip(words, rows, strict=True):
        if numbers[row] == 1 and word == found[row].content:
            raise ValueError(
                "New words are appended after the added tokens, which then get lines in vocab.txt and must not match "
                f"as words. The added token {word!r} is not matched everywhere, so it would become a token of other "
                "words; add the new words to the model before such tokens are added."
            )


def read_new_words(path: str, tokenizer: WordPieceTokenizer) -> tuple[list[str], list[str]]:
    """Reads words, one per line, and normalizes them like the tokenizer.

    Returns:
        The words to add, each once, and those that are a single token already.

    Raises:
        ValueError: a line contains several words according to the tokenizer, or none; or a word is too long.
    """
    lines = [(number, line) for number, line in enumerate(read_text(path).split("\n"), 1) if line.strip()]
    words, rows = WordCounter(tokenizer.do_lower_case).split([line for _, line in lines])
    for row, count in enumerate(np.bincount(rows, minlength=len(lines))):
        if count != 1:
            number, line = lines[row]
            parts = " ".join(f"[{word}]" for word, of in zip(words, rows, strict=True) if of == row) or "none"
            raise ValueError(
                f"{path}, line {number}: a line must contain one word; got {line.strip()!r}, which the tokenizer "
                f"splits at whitespace and punctuation first: {parts}; list the new parts, each on its own line."
            )
        if len(words[row]) > tokenizer.max_input_chars_per_word:
            raise ValueError(
                f"{path}, line {lines[row][0]}: a word must have at most "
                f"{tokenizer.max_input_chars_per_word} characters; got {len(words[row])}: the tokenizer would "
                "treat it as [UNK]; remove it."
            )
    words = list(dict.fromkeys(words))
    whole = _whole(tokenizer, tokenize_words(tokenizer, words))
    return [w for w, is_ in zip(words, whole, strict=True) if not is_], [
        w for w, is_ in zip(words, whole, strict=True) if is_
    ]


def choose_words(counts: Counter, tokenizer: WordPieceTokenizer, num_words: int, min_count: int = 5) -> list[str]:
    """Chooses the words of a text that save the most tokens: occurrences x (tokens - 1).

    Single-token words are skipped, as are words without a letter, mostly numbers, and words that are [UNK], which the
    checkpoint has no embedding for; a word list may contain them.

    Args:
        counts: word -> number of occurrences.
        num_words: maximum number of words.
        min_count: minimum number of occurrences of a word.
    """
    frequent = [(w, n) for w, n in most_frequent_first(counts) if n >= min_count and any(map(str.isalpha, w))]
    words, numbers = [w for w, _ in frequent], np.array([n for _, n in frequent], np.int64)
    saved = numbers * (tokenize_words(tokenizer, words).row_lengths().numpy() - 1)
    order = np.argsort(-saved, kind="stable")[:num_words]
    return [words[i] for i in order if saved[i] > 0]


def effect(extension: Extension, counts: Counter) -> str:
    """Describes the effect of the new words on a text, as lines to print.

    Args:
        counts: word -> number of occurrences in the text.
    """
    ranked = most_frequent_first(counts)
    words, numbers = [w for w, _ in ranked], np.array([n for _, n in ranked])
    old, new = extension.old, extension.tokenizer()
    before, after = tokenize_words(old, words), tokenize_words(new, words)
    touched = np.flatnonzero(_differ(before, after) & ~np.isin(words, extension.words))
    lost = [i for i in touched if new.unk_id in after[i].numpy() and old.unk_id not in before[i].numpy()]
    own = sum(counts[word] for word in extension.words)
    mean = [float((numbers * ids.row_lengths().numpy()).sum() / numbers.sum()) for ids in (before, after)]
    lines = [
        f"Added words make up {own:,} of the text's {numbers.sum():,} words; tokens per word change from "
        f"{mean[0]:.3f} to {mean[1]:.3f}.",
        f"Other words that begin with an added one and are now tokenized differently: {len(touched):,} "
        f"({numbers[touched].sum():,} occurrences).",
        *_changes(touched[:10], ranked, extension, before, after, new),
    ]
    if lost:
        lines += [
            f"Of these, words that become [UNK], because the vocabulary lacks a token for the rest: {len(lost):,}.",
            *_changes(lost[:10], ranked, extension, before, after, new),
        ]
    return "\n".join(lines)


def write_extended_model(model: str, output_dir: str, extension: Extension, description: ModelDescription):
    """Writes the checkpoint with the new words to a directory, atomically.

    Args:
        model: the old checkpoint, as for `readers.open_checkpoint`.
        output_dir: must not exist or must be empty.
        extension: extension of the tokenizer of `description`.
        description: the description of `model`, from `load.load_description`.

    Raises:
        ValueError: the checkpoint is damaged or has unknown weights, or output_dir is in use.
        OSError: it cannot be written.
    """
    arrays = extended_arrays(model, extension)
    config = dataclasses.replace(description.config, vocab_size=len(arrays[_BY_TOKEN[0]]))
    with whole_directory(output_dir) as aside:
        save_description(aside, config, extension.tokenizer(), description.labels)
        tf1.write_arrays(os.path.join(aside, RELEASE), arrays)


def extended_arrays(model: str, extension: Extension) -> dict[str, np.ndarray]:
    """Returns the weights with the new words as {our path: array}; only per-token arrays differ from the old."""
    arrays = read_arrays(model)
    for path in _BY_TOKEN:
        if path in arrays:
            arrays[path] = _with_means(arrays[path], extension)
    return arrays


def _with_means(rows, extension):
    """float32 [max(V, first + words), ...]: `rows` with the mean of its old tokens' rows for each new word.

    Some tables have more rows than the vocabulary has tokens, to round the number up: a new word's id is the next
    token's, so the first of these rows, which no id ever meant, are taken.
    """
    first = extension.old.vocab_size
    means = [rows[ids.numpy()].mean(axis=0, dtype=np.float64) for ids in extension.ids]
    new = np.array(means).astype(rows.dtype)
    return np.concatenate([rows[:first], new, rows[first + len(new) :]])


def _whole(tokenizer, ids):
    """bool [words]: whether a word is one token, and known."""
    one = ids.row_lengths() == 1
    return (one & ~tf.reduce_any(ids == tokenizer.unk_id, axis=1)).numpy()


def _differ(before, after):
    """bool [words]: whether two tokenizations (RaggedTensors int32 [words, (tokens)]) of a word differ."""
    width = max(int(before.bounding_shape()[1]), int(after.bounding_shape()[1]))
    one, other = (ids.to_tensor(-1, shape=[None, width]).numpy() for ids in (before, after))
    return (one != other).any(axis=1)


def _changes(indices, ranked, extension, before, after, new):
    """A line for each of these words."""
    return [
        f"  {ranked[i][1]:>9,}  {ranked[i][0]}: {' '.join(token_names(extension.old, before[i]))}  ->  "
        f"{' '.join(token_names(new, after[i]))}"
        for i in indices
    ]
