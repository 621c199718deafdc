"""A plain-Python BERT tokenizer, written from the description of the algorithm, to compare the graph with.

Slow and simple on purpose: every character of a word travels with the place in the text that it came from.
"""

import functools
import unicodedata

CHINESE = [
    range(0x4E00, 0xA000), range(0x3400, 0x4DC0), range(0x20000, 0x2A6E0), range(0x2A700, 0x2B740),
    range(0x2B740, 0x2B820), range(0x2B820, 0x2CEB0), range(0xF900, 0xFB00), range(0x2F800, 0x2FA20),
]  # fmt: skip


@functools.cache
def is_blank(char):
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


@functools.cache
def is_dropped(char):
    if ord(char) in (0, 0xFFFD):
        return True
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


@functools.cache
def is_punctuation(char):
    code = ord(char)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(char)[0] == "P"


@functools.cache
def is_chinese(char):
    return any(ord(char) in block for block in CHINESE)


class Reference:
    """`ids(text)` and `spans(text)` of google-research/bert's FullTokenizer, max_input_chars_per_word=200."""

    def __init__(self, vocab, lower):
        self.number = {token: i for i, token in enumerate(vocab)}
        self.longest = max(map(len, vocab))
        self.lower = lower

    def ids(self, text):
        return [self.number[token] for word in self.words(text) for token, _, _ in self.tokens(word)]

    def spans(self, text):
        """(id, first, last + 1) of each token: the least and the greatest place that its characters came from."""
        spans = []
        for word in self.words(text):
            for token, start, end in self.tokens(word):
                places = [place for _, place in word[start:end]]
                spans.append((self.number[token], min(places), max(places) + 1))
        return spans

    def words(self, text):
        """Lists of (character, place)."""
        if isinstance(text, bytes):
            text = text.decode("utf-8", "ignore")
        words = []
        for run in self.runs(text):
            if self.lower:
                run = strip_accents(lowercase(run))
            words += split_on_punctuation(run)
        return words

    def runs(self, text):
        """What white space separates after cleaning, a Chinese character always alone."""
        runs = [[]]
        for place, char in enumerate(text):
            if is_dropped(char):
                continue
            if is_blank(char) or char.isspace():
                runs.append([])
            elif is_chinese(char):
                runs += [[(char, place)], []]
            else:
                runs[-1].append((char, place))
        return [run for run in runs if run]

    def tokens(self, word):
        """(token, from, to) of the greedy longest match; one [UNK] for the whole word where there is none."""
        text = "".join(char for char, _ in word)
        unknown = [("[UNK]", 0, len(text))]
        if len(text) > 200:
            return unknown
        tokens, start = [], 0
        while start < len(text):
            prefix = "##" if start else ""
            last = min(len(text), start + self.longest)
            ends = (end for end in range(last, start, -1) if prefix + text[start:end] in self.number)
            end = next(ends, None)
            if end is None:
                return unknown
            tokens.append((prefix + text[start:end], start, end))
            start = end
        return tokens


def lowercase(run):
    text = "".join(char for char, _ in run)
    places = [place for char, place in run for _ in char.lower()]
    assert len(text.lower()) == len(places)
    return list(zip(text.lower(), places, strict=True))


def strip_accents(run):
    """Canonical decomposition, each run of combining characters sorted by class, without category Mn."""
    parts = [(part, place) for char, place in run for part in unicodedata.normalize("NFD", char)]
    ordered, start = [], 0
    for i in range(len(parts) + 1):
        if i == len(parts) or not unicodedata.combining(parts[i][0]):
            ordered += sorted(parts[start:i], key=lambda part: unicodedata.combining(part[0]))
            ordered += parts[i : i + 1]
            start = i + 1
    text = "".join(char for char, _ in run)
    assert "".join(char for char, _ in ordered) == unicodedata.normalize("NFD", text)
    return [(char, place) for char, place in ordered if unicodedata.category(char) != "Mn"]


def split_on_punctuation(run):
    words, fresh = [], True
    for char, place in run:
        alone = is_punctuation(char)
        if alone or fresh:
            words.append([])
        words[-1].append((char, place))
        fresh = alone
    return words


def truncate_pair(first, second, room):
    """Pops from the longer one, of equal ones from the second, until both fit."""
    first, second = list(first), list(second)
    while len(first) + len(second) > room:
        (first if len(first) > len(second) else second).pop()
    return first, second
