"""Reads, checks and writes WordPiece vocabularies (vocab.txt or tokenizer.json)."""

import dataclasses
import functools
import itertools
import os
import re
import warnings
from collections.abc import Iterable

from absl import logging

from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization import tokenizer_json
from bert_tf.utils.files import brief, path_text, read_text, write_text
from bert_tf.utils.names import UNKNOWN

_LARGEST, _MOST_TOKENS = 32 * 2**20, 1_000_000  # bytes of a file; the largest vocabularies have half a million tokens
_MOST_BEGINNINGS = 4_000_000  # of tokens: each takes the op 300 bytes and a microsecond
_LONGEST = 256  # bytes of a token, without ##, that FastWordpieceTokenizer takes
LONGEST_WORD = 200  # characters; google-research/bert's max_input_chars_per_word: a longer word is one [UNK]
VOCAB_FILE = "vocab.txt"
_ODD = re.compile("[\\0\\s\ud800-\udfff]")  # no word holds white space or NUL; half of a surrogate pair is no UTF-8


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Tokens in the order of their ids; of equal tokens, the last one's id is used, as in google-research/bert.

    Attributes:
        tokens: the tokens; "" for an id without one.
        source: for messages: the file path, or "the list".
        longest_word: maximum characters of a word; a longer one is unknown.
        template: the special tokens that the vocabulary must have.
    """

    tokens: list[str]
    source: str
    longest_word: int = LONGEST_WORD
    template: InputTemplate = InputTemplate()

    def __post_init__(self):
        needed = tuple(dict.fromkeys((self.template.pad, UNKNOWN, *self.template.pieces(2))))
        missing = [token for token in needed if token not in self._ids]
        if missing:
            raise ValueError(
                f"A WordPiece vocabulary must contain {', '.join(needed)}, one token per line. {self.source} has "
                f"{len(self.tokens)} lines, but lacks {', '.join(missing)}. It may belong to a model of another family."
            )
        some_twice = len(self._ids) < len(self.tokens)
        if repeated := some_twice and [i for i, token in enumerate(self.tokens) if self._ids[token] != i and token]:
            warnings.warn(
                f"{self.source}: {len(repeated)} lines contain a token that is repeated on a later line, whose id is "
                f"used, as in google-research/bert. The first such line is {repeated[0] + 1}: "
                f"{self.tokens[repeated[0]]!r}.",
                stacklevel=4,
            )

    def id_of(self, token: str) -> int | None:
        """Returns the id of a token, or None if it is not in the vocabulary."""
        return self._ids.get(token)

    def matchable(self) -> list[str]:
        """Returns the tokens with those replaced that cannot occur in a word, so that all differ and none is empty.

        The replacements contain a space, so they never match a word; neither do tokens longer than longest_word.

        Raises:
            ValueError: a token that can occur in a word is longer than the lookup op supports, or the tokens have too
                many distinct prefixes for its trie.
        """
        # Short tokens fit if none is odd, as in nearly all vocabularies; a character has at most 4 bytes.
        short = -1 if _ODD.search("".join(self.tokens)) else min(self.longest_word, _LONGEST // 4)
        ids = self._ids
        tokens = [
            token if token and ids[token] == i and (len(token) <= short or self._fits(i, token)) else f" {i}"
            for i, token in enumerate(self.tokens)
        ]
        if sum(map(len, tokens)) > _MOST_BEGINNINGS and (count := _count_beginnings(tokens)) > _MOST_BEGINNINGS:
            raise ValueError(
                f"The tokens of {self.source} have {count:,} different prefixes, more than the {_MOST_BEGINNINGS:,} "
                "supported. Check that the file is a vocabulary."
            )
        return tokens

    def _fits(self, i, token):
        """Returns whether a token can occur in a word."""
        bare = token.removeprefix("##")
        if re.search(r"[\0\s]", token) or len(bare) > self.longest_word:
            return token == UNKNOWN  # for which the op asks, though no word holds it
        if len(bare.encode("utf-8")) > _LONGEST:
            raise ValueError(
                f"A token must have at most {_LONGEST} bytes, the limit of tensorflow-text; got, in line {i + 1} of "
                f"{self.source}, one of {len(bare.encode('utf-8'))}: {brief(token)}; remove it."
            )
        return True

    @functools.cached_property
    def _ids(self):
        return {token: i for i, token in enumerate(self.tokens)}

    @classmethod
    def read(cls, vocab: str | os.PathLike | Iterable[str], template: InputTemplate | None = None) -> "Vocabulary":
        """Reads a file with one token per line (UTF-8) or a tokenizer.json, or takes a list; whitespace around tokens
        is stripped.

        Args:
            vocab: path, or tokens.
            template: the special tokens that the vocabulary must have. If None, BERT's.

        Raises:
            ValueError: the file or a special token is missing; an item of the list is not a single line of text;
                tokenizer.json is not for WordPiece, or has settings that are not supported.
        """
        template = template or InputTemplate()
        if isinstance(vocab, Iterable) and not isinstance(vocab, (str, os.PathLike)):
            tokens = list(vocab)
            for i, token in enumerate(tokens):
                if not isinstance(token, str) or "\n" in token.strip():
                    raise ValueError(f"A vocabulary must be a list of single lines; got {token!r} at index {i}.")
            return cls([token.strip() for token in tokens], "The list", template=template)
        path = path_text(vocab, "vocab")
        if os.path.isdir(path):
            raise ValueError(
                f"A vocabulary must be a file, but {path} is a directory. Name the file in it, or use "
                "`bert_tf.load(path).tokenizer` for the tokenizer of a model."
            )
        if not os.path.isfile(path):
            raise ValueError(
                f"Vocabulary file not found: {path}. It must be a file with one token per line, or "
                f"{tokenizer_json.WHOLE_FILE}; check `vocab_file`."
            )
        if tokenizer_json.is_tokenizer_json(path):
            return cls.of_whole(tokenizer_json.read_whole(path, "wordpiece"), template)
        if os.path.getsize(path) > _LARGEST:
            raise ValueError(
                f"A vocabulary must have at most {_LARGEST:,} bytes; got {path} of {os.path.getsize(path):,}. Check "
                "that it is a vocabulary with one token per line."
            )
        text = read_text(path).rstrip()  # which keeps U+2028 and "\r", and drops a byte-order mark
        if text.count("\n") >= _MOST_TOKENS:
            raise ValueError(
                f"A vocabulary must have at most {_MOST_TOKENS:,} tokens; got {path} of {text.count(chr(10)) + 1:,} "
                "lines. Check that it is a vocabulary."
            )
        return cls([line.strip() for line in text.split("\n")] if text else [], path, template=template)

    @classmethod
    def of_whole(cls, whole: tokenizer_json.WholeFile, template: InputTemplate | None = None) -> "Vocabulary":
        """Returns the vocabulary of a tokenizer.json; tokens that a line of vocab.txt could not contain are omitted."""
        template = template or InputTemplate()
        tokens = whole.vocabulary(template)
        single = [token if token == token.strip() and "\n" not in token else "" for token in tokens]
        longest = whole.model.get("max_input_chars_per_word", tokenizer_json.USUAL_LONGEST_WORD)
        return cls(single, whole.path, longest, template)

    @property
    def text(self) -> str:
        """The file contents: one token per line."""
        return "".join(f"{token}\n" for token in self.tokens)

    def save(self, path: str):
        """Writes `text` atomically."""
        write_text(path, self.text)


def _count_beginnings(tokens):
    """Returns the number of distinct token prefixes: the size of the trie that the op builds."""
    ordered = sorted(tokens)
    shared = sum(len(os.path.commonprefix(pair)) for pair in itertools.pairwise(ordered))
    return sum(map(len, ordered)) - shared


def warn_of_capitals(tokens: Iterable[str], path: str):
    """Warns if text is lowercased by default although the vocabulary is that of a cased model."""
    words = [token for token in tokens if not token.startswith("[")]
    capitals = sum(token != token.lower() for token in words)
    if capitals > len(words) / 10:
        logging.warning(
            "%d of %d tokens in %s have capital letters, but text is lowercased by default: set do_lower_case=false if "
            "the model is cased.",
            *(capitals, len(words), path),
        )
