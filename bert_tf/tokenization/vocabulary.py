"""A WordPiece vocabulary: read from vocab.txt or tokenizer.json, checked, and written."""

import dataclasses
import functools
import itertools
import os
import re
import warnings
from collections.abc import Iterable

from absl import logging

from bert_tf.models.families import InputTemplate
from bert_tf.tokenization import tokenizer_json
from bert_tf.utils.files import brief, read_text, write_text
from bert_tf.utils.names import CLS, PAD, SEP, UNKNOWN

_LARGEST, _MOST_TOKENS = 32 * 2**20, 1_000_000  # bytes of a file; the largest vocabularies have half a million tokens
_MOST_BEGINNINGS = 4_000_000  # of tokens: each takes the op 300 bytes and a microsecond
_LONGEST = 256  # bytes of a token, without ##, that FastWordpieceTokenizer takes
LONGEST_WORD = 200  # characters; google-research/bert's max_input_chars_per_word: a longer word is one [UNK]
VOCAB_FILE = "vocab.txt"
_NEEDED = (PAD, UNKNOWN, CLS, SEP)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Tokens in the order of their ids; of equal tokens the last one's id counts, as in google-research/bert.

    Attributes:
        tokens: them; "" where an id has none.
        source: for messages: the file's path, or "the list".
        longest_word: characters of a word at most; a longer one is unknown.
    """

    tokens: list[str]
    source: str
    longest_word: int = LONGEST_WORD

    def __post_init__(self):
        missing = [token for token in _NEEDED if token not in self._ids]
        if missing:
            raise ValueError(
                f"A BERT vocabulary must hold {', '.join(_NEEDED)}, one token a line. {self.source} has "
                f"{len(self.tokens)} lines, none of them {', '.join(missing)}: is it another family's vocabulary?"
            )
        if repeated := [i for i, token in enumerate(self.tokens) if self._ids[token] != i and token]:
            warnings.warn(
                f"{self.source}: {len(repeated)} lines hold a token that a later line holds again; the later line's "
                f"id counts, as in google-research/bert. The first of them, line {repeated[0] + 1}: "
                f"{self.tokens[repeated[0]]!r}.",
                stacklevel=4,
            )

    def id_of(self, token: str) -> int | None:
        """Returns the id of a token, None if there is none."""
        return self._ids.get(token)

    def matchable(self) -> list[str]:
        """Returns the tokens with those replaced that no word can hold, so that all differ and none is empty.

        A word holds no space, hence neither do the replacements stand for anything; nor is a word longer than
        longest_word.

        Raises:
            ValueError: a token which a word can hold is longer than the op that looks tokens up can take, or all have
                more beginnings than its tree should.
        """
        tokens = [
            token if token and self._ids[token] == i and self._fits(i, token) else f" {i}"
            for i, token in enumerate(self.tokens)
        ]
        if sum(map(len, tokens)) > _MOST_BEGINNINGS and (count := _count_beginnings(tokens)) > _MOST_BEGINNINGS:
            raise ValueError(
                f"The tokens of a vocabulary must share their beginnings, as words do: {_MOST_BEGINNINGS:,} different "
                f"ones, of one character and more, at most. Received {self.source} with {count:,}: is it one?"
            )
        return tokens

    def _fits(self, i, token):
        """Returns whether a word can hold a token."""
        bare = token.removeprefix("##")
        if re.search(r"[\0\s]", token) or len(bare) > self.longest_word:
            return token == UNKNOWN  # for which the op asks, though no word holds it
        if len(bare.encode("utf-8")) > _LONGEST:
            raise ValueError(
                f"A token must have at most {_LONGEST} bytes, which is what tensorflow-text looks up. Received, in "
                f"line {i + 1} of {self.source}, one of {len(bare.encode('utf-8'))}: {brief(token)}; take it out."
            )
        return True

    @functools.cached_property
    def _ids(self):
        return {token: i for i, token in enumerate(self.tokens)}

    @classmethod
    def read(cls, vocab: str | os.PathLike | Iterable[str]) -> "Vocabulary":
        """Reads a file of one token a line (UTF-8) or a tokenizer.json, or takes a list; white space around tokens is
        not theirs.

        Raises:
            ValueError: the file is missing or a special token is; an item of the list is no single line of text;
                tokenizer.json is not WordPiece's, or asks for what our tokenizer does not do.
        """
        if not isinstance(vocab, (str, os.PathLike)):
            tokens = list(vocab)
            for i, token in enumerate(tokens):
                if not isinstance(token, str) or "\n" in token.strip():
                    raise ValueError(f"A vocabulary must be a list of single lines. Received, at {i}: {token!r}.")
            return cls([token.strip() for token in tokens], "The list")
        path = os.fspath(vocab)
        if not os.path.isfile(path):
            raise ValueError(
                f"The vocabulary must be a file, one token a line, or {tokenizer_json.WHOLE_FILE}. There is none at "
                f"{path}; put it there, or correct `vocab_file`."
            )
        if tokenizer_json.is_tokenizer_json(path):
            return cls.of_whole(tokenizer_json.read_whole(path, "wordpiece"))
        if os.path.getsize(path) > _LARGEST:
            raise ValueError(
                f"A vocabulary must have at most {_LARGEST:,} bytes. Received {path} of {os.path.getsize(path):,}: is "
                "it one, with a token a line?"
            )
        text = read_text(path).rstrip()  # which keeps U+2028 and "\r", and drops a byte-order mark
        if text.count("\n") >= _MOST_TOKENS:
            raise ValueError(
                f"A vocabulary must have at most {_MOST_TOKENS:,} tokens. Received {path} of "
                f"{text.count(chr(10)) + 1:,} lines: is it one, with a token a line?"
            )
        return cls([line.strip() for line in text.split("\n")] if text else [], path)

    @classmethod
    def of_whole(cls, whole: tokenizer_json.WholeFile, template: InputTemplate | None = None) -> "Vocabulary":
        """Returns the vocabulary of a tokenizer.json; a token that a line of vocab.txt could not hold is left out."""
        tokens = whole.vocabulary(template or InputTemplate())
        single = [token if token == token.strip() and "\n" not in token else "" for token in tokens]
        return cls(single, whole.path, whole.model.get("max_input_chars_per_word", tokenizer_json.USUAL_LONGEST_WORD))

    @property
    def text(self) -> str:
        """One token a line, as its file has them."""
        return "".join(f"{token}\n" for token in self.tokens)

    def save(self, path: str):
        """Writes `text`, aside and then renamed."""
        write_text(path, self.text)


def _count_beginnings(tokens):
    """Returns how many different texts tokens begin with: the size of the tree that the op makes of them."""
    ordered = sorted(tokens)
    shared = sum(len(os.path.commonprefix(pair)) for pair in itertools.pairwise(ordered))
    return sum(map(len, ordered)) - shared


def vocabulary_in(directory: str | os.PathLike) -> str:
    """Returns the path of a WordPiece model's vocabulary: its tokenizer.json, or else where its vocab.txt must be."""
    return tokenizer_json.find_tokenizer_json(directory) or os.path.join(os.fspath(directory), VOCAB_FILE)


def warn_of_capitals(tokens: Iterable[str], path: str):
    """Warns where text is lowercased for want of a setting, although the vocabulary is one of a cased model."""
    words = [token for token in tokens if not token.startswith("[")]
    capitals = sum(token != token.lower() for token in words)
    if capitals > len(words) / 10:
        logging.warning(
            "%d of %d tokens in %s have capital letters, and text is lowercased, as nothing says otherwise: give "
            "do_lower_case=false if the model is cased.",
            *(capitals, len(words), path),
        )
