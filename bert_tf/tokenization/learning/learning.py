"""Counted words to a WordPiece vocabulary, by the learner of tensorflow-text; here is what lies around it.

The learner (wordpiece_tokenizer_learner_lib, after Schuster & Nakajima 2012) keeps the pieces that occur at least so
often. It is asked for a threshold, not for a size: its own search ends anywhere within 5 % of the size and looks at
thresholds in halves of their range, most of them far off. Pieces come about as frequent words do, so that the search
here begins next to the goal and needs three or four tries.
"""

import math
import time
from collections import Counter

from absl import logging
from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

from bert_tf.tokenization import characters
from bert_tf.tokenization.learning.counting import in_order
from bert_tf.utils.names import CLS, MASK, PAD, SEP, UNKNOWN

LONGEST_WORD = 50  # characters; a longer one is no word but an address or a sequence, and the learner takes none
_SPARE = 1.05  # how many more pieces than wanted a try may find: the rarest of them are left out
_STEEPNESS = 0.7  # the number of pieces is about threshold ** -0.7
_SECONDS_A_WORD = 8e-5  # of a try
_PREFIX = "##"


def special_pieces(unused_pieces: int = 0) -> list[str]:
    """Returns the pieces that come first: [PAD], [unused0] ..., [UNK], [CLS], [SEP], [MASK], as in Google's files."""
    return [PAD, *(f"[unused{i}]" for i in range(unused_pieces)), UNKNOWN, CLS, SEP, MASK]


def learn(
    counts: Counter, vocab_size: int, unused_pieces: int = 0, min_count: int = 2, max_words: int = 500_000,
    max_characters: int = 1000,
) -> list[str]:  # fmt: skip
    """Learns a vocabulary of exactly vocab_size pieces, or of fewer where the words do not give so many.

        [PAD] [UNK] [CLS] [SEP] [MASK]  ! a b c  ##a ##b ##c  the and ##ing ...
        special                         characters            the most frequent first

    Every character is there both as a word's first and as a later one (punctuation and CJK characters, each a word of
    its own, as the first only), so that no word of known characters becomes [UNK]. Then come the most frequent pieces,
    as many as have room: those beyond the size are the rarest, and leaving them out takes no word its last piece.

    Args:
        counts: word -> how often it occurs, words as `WordCounter` makes them.
        vocab_size: how many pieces, special ones included.
        unused_pieces: rows to keep free, [unused0] and on.
        min_count: how often a piece must occur at least.
        max_words: only the most frequent words are looked at; the learner keeps every substring of each in memory, some
            4 kB a word, and takes some 0.1 ms a word and try.
        max_characters: only the most frequent characters become pieces; words with others are left out.

    Raises:
        ValueError: there are no words, or vocab_size has no room for special pieces and characters.
    """
    words, alphabet = _usable(in_order(counts)[:max_words], max_characters)
    isolated = set(filter(_is_isolated, alphabet))
    basis = [*special_pieces(unused_pieces), *alphabet, *(_PREFIX + c for c in alphabet if c not in isolated)]
    room = vocab_size - len(basis)
    if room < 0:
        raise ValueError(
            f"`vocab_size` must have room for {unused_pieces + 5} special pieces and {len(alphabet)} characters, most "
            f"of them twice (a, ##a): {len(basis)} at least. Received: {vocab_size}; raise it, or lower "
            "`max_characters`."
        )
    known = {*basis, *(_PREFIX + c for c in isolated)}
    pieces = [p for p in _search(words, room, known, min_count) if p not in known] if room else []
    if len(pieces) < room:
        logging.warning(
            "The text gives only %d pieces that occur %d times or more, fewer than the %d asked for: put this number "
            "into the model's bert_config.json, give more text or lower `min_count`.",
            *(len(basis) + len(pieces), min_count, vocab_size),
        )
    return [*basis, *pieces[:room]]


def _usable(words, max_characters):
    """Returns the words that the learner may see, and their characters in the order of Unicode."""
    usable = [(word, number) for word, number in words if len(word) <= LONGEST_WORD]
    seen = Counter()
    for word, number in usable:
        for char in word:
            seen[char] += number
    if not seen:
        raise ValueError("The text must hold words. Received none; look at `input_file`.")
    alphabet = {char for char, _ in in_order(seen)[:max_characters]}
    if len(alphabet) < len(seen):
        logging.warning(
            "The text has %d different characters, of which the rarest %d will be [UNK]: see `max_characters`.",
            *(len(seen), len(seen) - len(alphabet)),
        )
        usable = [(word, number) for word, number in usable if alphabet.issuperset(word)]
    return usable, sorted(alphabet)


def _is_isolated(char):
    """Says whether the character is always a word of its own."""
    table, page = characters.character_table(), characters.PAGE
    return bool(table.flags[table.pages[ord(char) // page] * page + ord(char) % page] & characters.ISOLATED)


def _search(words, room, known, min_count):
    """Returns the learner's list for the highest threshold tried that gives `room` pieces beyond the known ones."""
    logging.info(
        "Learning from %d distinct words: three to six tries of about %.0f s each.",
        *(len(words), math.ceil(len(words) * _SECONDS_A_WORD)),
    )
    low = max(min_count, words[-1][1])  # a lower threshold would find the same: a piece is the end of some word
    high = max(low, words[0][1])
    threshold, best = max(words[min(room, len(words)) - 1][1], low), []
    while True:
        begin = time.monotonic()
        pieces = learner.learn(words, len(known) + room, [], threshold, threshold, max_unique_chars=len(known))
        size = sum(piece not in known for piece in pieces)
        logging.info(
            "Pieces that occur %d times or more: %d, wanted %d (%.0f s).",
            *(threshold, size, room, time.monotonic() - begin),
        )
        if size >= room:
            low, best = threshold + 1, pieces
            if size <= room * _SPARE:
                return best
        else:
            high = threshold - 1
        if low > high:
            return best or pieces
        threshold = _between(low, high, threshold * (max(size, 1) / room) ** (1 / _STEEPNESS))


def _between(low, high, guess):
    """The guess where it lies inside the range, else the range's middle on a logarithmic scale."""
    guess = round(guess)
    return guess if low <= guess <= high else min(max(round(math.sqrt(low * high)), low), high)
