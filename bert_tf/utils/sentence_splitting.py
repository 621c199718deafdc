"""Splits running text into sentences with the library sentencex (Wikimedia)."""

import itertools
import re

import sentencex

_QUOTES = "\"'`“”„‟‘’‚‛«»‹›「」『』《》"
_OPENING = frozenset(_QUOTES + "([{")
# Direct speech that ends like a sentence although the sentence continues: "Why?" he asked.
_SPEECH = re.compile(rf"[.!?…][{_QUOTES}]+(?= [a-zß-öø-ÿ])")
# The same marks inside a word are apostrophes; "don’t" cut in two would end in "t.", which passes for an abbreviation.
_NOT_APOSTROPHES = re.compile(r"['’](?:(?!\w)|(?<!\w.))")
_BLANKED = [mark for mark in _QUOTES if mark not in "'’"] + ["<"]


def split_sentences(paragraphs: list[str], language: str = "en") -> list[str]:
    """Returns the sentences of `paragraphs`, in order, each run of whitespace in them as one space; none is empty.

        ['“Go. Now!” he said.  It', 'Mr. Ray left.']
        ['“Go.', 'Now!” he said.', 'It', 'Mr. Ray left.']

    `language` is an ISO 639 code: sentencex knows the full stops and abbreviations of some 30 languages, takes a
    related one for 200 more, and English for any other code.
    """
    text = "\n".join([" ".join(paragraph.split()) for paragraph in paragraphs])
    blind = _without_quotes(text)  # all at once, but cut one by one: from 10 kB on, sentencex loses paragraph breaks
    pairs = zip(text.split("\n"), blind.split("\n"), strict=True)
    return [sentence for whole, seen in pairs for sentence in _cut(whole, sentencex.segment(language, seen))]


def _cut(paragraph, parts):
    """Returns `paragraph` cut into strings as long as `parts`, stripped, without empty ones."""
    if len(parts) < 2:
        return [paragraph] if paragraph else []
    ends = [_before_opening(paragraph, end) for end in itertools.accumulate(map(len, parts))]
    assert ends[-1] == len(paragraph), "sentencex returned another text"
    sentences = [paragraph[start:end].strip() for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    return [sentence for sentence in sentences if sentence]


def _without_quotes(text):
    """Returns `text` as sentencex shall see it, of the same length, so that its cuts are good for `text`.

        “Go. Now!” he said. It         p < 0.05. Then
         Go. Now   he said. It         p   0.05. Then

    sentencex cuts nowhere between two quotation marks or brackets. One mark that is not closed, and in dialogue one is
    (each paragraph of a long speech opens again), makes a sentence of a page. "<" is rarely a bracket: it goes too.
    """
    text = _SPEECH.sub(lambda match: " " * len(match[0]), text)
    for mark in _BLANKED:
        text = text.replace(mark, " ")
    text = text.replace("@.@", "   ")  # WikiText writes 4.5 as 4 @.@ 5
    return _NOT_APOSTROPHES.sub(" ", text)


def _before_opening(paragraph, end):
    """Returns where the sentence that was cut at `end` ends: marks that open the next one belong to that one.

    He left. “Go!”      He left. “Go!”
              ^                  ^         the blank in place of “ was taken for a space between the two
    """
    start = end
    while start and paragraph[start - 1] in _OPENING:
        start -= 1
    return start if start < end < len(paragraph) and paragraph[start - 1 : start] == " " else end
