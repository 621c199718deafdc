"""Word segmenters: where words begin and end in text without spaces, for masking whole words.

As in BERT-wwm (Cui et al. 2019, arXiv 1906.08101, section 2), the segmentation only decides which tokens are masked
together: the tokens and their ids stay those of the unsegmented text.
"""

import importlib
import logging
from collections.abc import Callable, Iterable

import numpy as np

from bert_tf.utils.extras import require_packages
from bert_tf.utils.files import brief

JIEBA, PRETOKENIZED = "jieba", "pretokenized"
_NO_WORD = -1


class WordSegmenter:
    """Finds the word of each character.

    Args:
        name: "jieba", "pretokenized" (words are separated by spaces in the text), or MODULE:FUNCTION, a function from a
            text to its words in order.

    Attributes:
        name: as given.

    Raises:
        ValueError: the name is none of these, or a package, module or function is missing.
    """

    def __init__(self, name: str):
        self.name = name
        self._split = {JIEBA: _load_jieba, PRETOKENIZED: lambda: str.split}.get(name, lambda: _load_function(name))()

    def __call__(self, text: str) -> np.ndarray:
        """Returns the number of the word of each character of a text, int32 [characters]; -1 for whitespace.

        Raises:
            ValueError: the words are not those of the text.
        """
        numbers, at = np.full(len(text), _NO_WORD, np.int32), 0
        words = self._split(text)
        if not isinstance(words, Iterable) or isinstance(words, str):
            raise ValueError(
                f"`word_segmenter={self.name}` must return the words of a text; got {type(words).__name__} for "
                f"{brief(text)}; return a list of str."
            )
        for number, word in enumerate(words):
            at += len(text[at:]) - len(text[at:].lstrip())
            bare = word.strip() if isinstance(word, str) else None
            if bare is None or not text.startswith(bare, at):
                raise ValueError(
                    f"`word_segmenter={self.name}` must return the words of a text unchanged and in order; got "
                    f"{brief(word)} instead of the beginning of {brief(text[at:])}."
                )
            numbers[at : at + len(bare)] = number
            at += len(bare)
        if text[at:].strip():
            raise ValueError(
                f"`word_segmenter={self.name}` must return all words of a text. The words end before "
                f"{brief(text[at:])}."
            )
        return numbers


def _load_jieba():
    require_packages(f"`word_segmenter={JIEBA}`", JIEBA)
    import jieba

    jieba.setLogLevel(logging.WARNING)  # it reports the loading of its dictionary on stderr
    return jieba.lcut


def _load_function(name) -> Callable:
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise ValueError(
            f"`word_segmenter` must be {JIEBA}, {PRETOKENIZED} or MODULE:FUNCTION; got {brief(name)}."
        )
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ImportError as error:
        raise ValueError(
            f"`word_segmenter={name}`: the module {module} cannot be imported: {error}. Install it, or add its "
            "directory to PYTHONPATH."
        ) from error
    if not callable(found):
        raise ValueError(
            f"`word_segmenter={name}`: {module} has no function {function}. Check the name, or define the function."
        )
    return found
