"""Japanese words by MeCab, as Transformers' BertJapaneseTokenizer finds them, with a map back to the original text."""

import functools
import importlib
import os
import re
import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bert_tf.tokenization.fast_composition import compatible_spans
from bert_tf.utils.extras import require_packages

_PART = re.compile(r"\S+")
_TURN = threading.Lock()  # a tagger computes one text at a time


class MecabWord(NamedTuple):
    """A word after normalization, and where the origin of each of its characters starts and ends in the text."""

    text: str
    starts: list[int]
    ends: list[int]


class MecabWords:
    """Finds the words of a text.

        text     ﾃﾚﾋﾞ を見た。
        words    テレビ を 見 た 。

    A text is lowercased if the model's is, normalized to NFKC, and split by MeCab; white space is part of no word.

    Args:
        dictionary: "ipadic", "unidic_lite" or "unidic", a package.
        lower: whether to lowercase text.
        single: whether each character is a word, as for a vocabulary of characters.

    Raises:
        ValueError: fugashi or the dictionary is not installed.
    """

    def __init__(self, dictionary: str, lower: bool, single: bool):
        require_packages("A model with the words of MeCab", "fugashi", dictionary)
        self._tagger, self._lower, self._single = _load_tagger(dictionary), lower, single

    def __call__(self, text: str) -> list[MecabWord]:
        """Returns the words of a text in order."""
        chars, starts, ends = self._normalized(text)
        words, at = [], 0
        with _TURN:
            surfaces = [node.surface for node in self._tagger(chars)]
        for surface in surfaces:
            at = chars.index(surface, at)
            for first, end in self._parts(surface):
                span = slice(at + first, at + end)
                words.append(self._cased(chars[span], starts[span], ends[span]))
            at += len(surface)
        return words

    def _normalized(self, text):
        """Returns a text in NFKC, lowercased before, and the span that each character came from."""
        if not self._lower:
            return compatible_spans(text)
        forms = [char.lower() for char in text]
        origin = np.repeat(np.arange(len(text)), [len(form) for form in forms])
        chars, starts, ends = compatible_spans("".join(forms))
        last = origin[np.array(ends, int) - 1]
        return chars, origin[np.array(starts, int)].tolist(), (last + 1).tolist()

    def _parts(self, surface) -> Iterator[tuple[int, int]]:
        if self._single:
            return zip(range(len(surface)), range(1, len(surface) + 1), strict=True)
        return (match.span() for match in _PART.finditer(surface))

    def _cased(self, word, starts, ends):
        """Returns a word, whose letters of other forms, such as those of the sign ℡, are lowercased only now."""
        if not self._lower:
            return MecabWord(word, starts, ends)
        lower = word.lower()
        if len(lower) != len(word):
            counts = [len(char.lower()) for char in word]
            starts, ends = np.repeat(starts, counts).tolist(), np.repeat(ends, counts).tolist()
        return MecabWord(lower, starts, ends)


@functools.cache
def _load_tagger(dictionary):
    import fugashi

    folder = importlib.import_module(dictionary).DICDIR
    if not os.path.isdir(folder):
        raise ValueError(
            f"The package {dictionary} must have its dictionary in {folder}; got none there; download it: python -m "
            f"{dictionary} download"
        )
    return fugashi.GenericTagger(f'-d "{folder}" -r "{os.path.join(folder, "mecabrc")}"')
