"""Learns a WordPiece vocabulary from counted words, using the learner of tensorflow-text.

The learner (wordpiece_tokenizer_learner_lib, after Schuster & Nakajima 2012) keeps the tokens that reach a count. It
takes a threshold, not a vocabulary size: its own search ends anywhere within 5% of the size and tries thresholds by
bisection, most of them far off. Token counts roughly follow word counts, so this search begins close to the goal and
needs three or four tries.
"""

import math
import time
from collections import Counter

from absl import logging
from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

from bert_tf.tokenization import characters
from bert_tf.tokenization.word_counts import most_frequent_first
from bert_tf.utils.names import CLS, MASK, PAD, SEP, UNKNOWN

LONGEST_WORD = 50  # characters; longer ones are URLs or sequences rather than words, and the learner rejects them
_SPARE = 1.05  # surplus of tokens a try may find over the goal: the rarest of them are dropped
_STEEPNESS = 0.7  # the number of tokens is about threshold ** -0.7
_SECONDS_A_WORD = 8e-5  # of a try
_PREFIX = "##"


def list_special_tokens(unused_tokens: int = 0) -> list[str]:
    """Returns the first tokens: [PAD], [unused0] ..., [UNK], [CLS], [SEP], [MASK], as in Google's files."""
    return [PAD, *(f"[unused{i}]" for i in range(unused_tokens)), UNKNOWN, CLS, SEP, MASK]


def learn_vocabulary(
    counts: Counter, vocab_size: int, unused_tokens: int = 0, min_count: int = 2, max_words: int = 500_000,
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
        unused_tokens: number of reserved tokens, [unused0] and up.
        min_count: minimum number of occurrences of a token.
        max_words: only the most frequent words are used; the learner keeps every substring of each in memory, about
            4 kB per word, and takes about 0.1 ms per word and try.
        max_characters: only the most frequent characters become tokens; words with others are skipped.

    Raises:
        ValueError: there are no words, or vocab_size is too small for the special tokens and characters.
    """
    words, alphabet = _find_usable_words(most_frequent_first(counts)[:max_words], max_characters)
    isolated = set(filter(_is_isolated, alphabet))
    basis = [*list_special_tokens(unused_tokens), *alphabet, *(_PREFIX + c for c in alphabet if c not in isolated)]
    room = vocab_size - len(basis)
    if room < 0:
        raise ValueError(
            f"`vocab_size` must be at least {len(basis)}, for {unused_tokens + 5} special tokens and {len(alphabet)} "
            f"characters, most of them twice (a, ##a); got {vocab_size}; raise it, or lower `max_characters`."
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
