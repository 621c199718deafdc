"""RoBERTa's tokenizer in graph ops: byte-level BPE, read from vocab.json and merges.txt or from tokenizer.json."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import ClassVar

import tensorflow as tf

from bert_tf.models.families import InputTemplate
from bert_tf.tokenization import precedence, tokenizer_json_writer
from bert_tf.tokenization import vocabulary as vocabularies
from bert_tf.tokenization.added_tokens import AddedToken, added_tokens_config
from bert_tf.tokenization.base import BaseTokenizer, TokenList
from bert_tf.tokenization.bpe import BytePairs, byte_symbols
from bert_tf.tokenization.settings import check_tokenizer_config
from bert_tf.tokenization.tokenizer_json import WHOLE_FILE, check_vocab
from bert_tf.utils.files import brief, read_text, write_text
from bert_tf.utils.json_files import read_object

VOCAB_FILE, MERGES_FILE = "vocab.json", "merges.txt"
_LARGEST = 16 * 2**20  # bytes of a file: 300,000 tokens and their merges
_REMEDY = "take the files of a model with byte-level BPE"
_HEAD = "#version"  # of merges.txt: its first line may be a comment that begins so
_NO_SPACE = r"(?s)[^ ].*"  # a text that begins with something else than a space


class ByteBpeTokenizer(BaseTokenizer):
    """Text to the ids of byte-level BPE: equal to GPT-2's and RoBERTa's, see `bpe.BytePairs`.

        tokenizer = ByteBpeTokenizer.from_directory("roberta-base")
        tokenizer.tokenize(["Hello world"])             # [[31414, 232]]     Hello Ġworld

    Attributes:
        add_prefix_space: whether a text that does not begin with a space is read as if one stood before it.
    """

    KIND: ClassVar = "byte_bpe"
    FILES: ClassVar = (VOCAB_FILE,)

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        template: InputTemplate,
        add_prefix_space: bool = False,
        vocab_file: str | os.PathLike | None = None,
        added_tokens: Sequence[AddedToken] = (),
    ):
        """Takes a vocabulary and its merges.

        Args:
            vocab: token -> id, from 0 without gaps; in the characters of `bpe.byte_symbols`.
            merges: pairs of tokens, the first learned first.
            template: the family's.
            add_prefix_space: see above.
            vocab_file: where they came from.
            added_tokens: what is found in a text before it is split; behind the vocabulary, or in it with the same ids.

        Raises:
            ValueError: an id, a byte, a special token or what a merge makes is missing, or an added token does not go
                with the vocabulary.
        """
        source = vocab_file or "The vocabulary"
        super().__init__(
            *(TokenList(_by_id(vocab, source), dict(vocab)), vocab_file, template),
            special=(template.pad, template.unknown, template.mask),
        )
        self.do_lower_case, self.add_prefix_space = False, bool(add_prefix_space)
        self._merges = tuple(tuple(merge) for merge in merges)
        try:
            self._pairs = BytePairs(vocab, merges)
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from error
        self._take_added_tokens(added_tokens)

    @classmethod
    def _check_settings(cls, directory, config, do_lower_case, family):
        config_path = os.path.join(directory, vocabularies.CONFIG_FILE)
        check_tokenizer_config(config_path, config, cls.KIND)
        if vocabularies.case_setting(config_path, config, do_lower_case, False):
            raise ValueError(
                "`do_lower_case` must be false for a model with byte-level BPE, whose vocabulary tells letter case "
                "apart. Received: true; leave `do_lower_case` out."
            )
        if not isinstance(config.get("add_prefix_space", False), bool):
            raise ValueError(
                f"{config_path}: add_prefix_space must be true or false. Received: "
                f"{brief(config['add_prefix_space'])}; {_REMEDY}."
            )
        asked = {"add_prefix_space": config["add_prefix_space"]} if "add_prefix_space" in config else {}
        return {**family.tokenizing_by(cls.KIND), **asked}

    @classmethod
    def _from_vocabulary(cls, vocab_file, directory, do_lower_case, template, settings):
        vocab, merges = _read_pair(vocab_file)
        return cls(vocab, merges, template, vocab_file=vocab_file, **settings)

    @classmethod
    def _from_tokenizer_json(cls, whole, directory, do_lower_case, template, settings):
        tokens = whole.vocabulary(template)
        vocab = {token: i for i, token in enumerate(tokens) if token}
        if len(vocab) < len(tokens):
            raise ValueError(
                f"{whole.path}: ids must be 0, 1, 2 and so on, each once. Received no token for "
                f"{tokens.index('')}; is it a part of a vocabulary?"
            )
        merges = whole.model["merges"]
        merges = [_checked_merge(merge, vocab, f"{whole.path}, merge {n}") for n, merge in enumerate(merges, 1)]
        path = cls.file_in(os.path.dirname(whole.path))
        if os.path.isfile(path):
            beside = check_vocab(read_object(path, "a vocabulary in JSON", _REMEDY, _LARGEST), path)
            tokens = sorted(beside, key=beside.get)
            precedence.warn_of_vocabulary(whole.path, whole.tokens[: whole.own], path, tokens)
        return cls(vocab, merges, template, precedence.prefix_space(whole, directory), whole.path)

    @property
    def written_pieces(self) -> list[str]:
        byte_of = {symbol: byte for byte, symbol in enumerate(byte_symbols())}
        special = self._special() | {token.content for token in self.added_tokens}

        def written(piece):
            if piece in special or not byte_of.keys() >= set(piece):
                return piece
            return bytes(byte_of[symbol] for symbol in piece).decode("utf-8", "replace")

        return [written(piece) for piece in self.vocab]

    @property
    def settings(self) -> dict[str, bool]:
        return self._with_added({"add_prefix_space": self.add_prefix_space})

    @classmethod
    def from_saved(cls, directory, template, settings):
        return cls._from_vocabulary(cls.file_in(directory), directory, None, template, cls._arguments(settings))

    def _write_vocabulary(self, directory):
        ids = {token: i for i, token in enumerate(self._vocabulary.pieces)}
        write_text(os.path.join(directory, VOCAB_FILE), json.dumps(ids, ensure_ascii=False) + "\n")
        lines = [f"{_HEAD}: 0.2", *(" ".join(merge) for merge in self._merges)]
        write_text(os.path.join(directory, MERGES_FILE), "".join(f"{line}\n" for line in lines))

    def _tokenizer_json(self):
        return tokenizer_json_writer.byte_bpe_json(self, self._merges)

    def _tokenizer_config(self):
        settings = {"add_prefix_space": self.add_prefix_space, **self.special_tokens}
        return "RobertaTokenizer", settings | added_tokens_config(self.added_tokens)

    def _ids_and_offsets(self, texts):
        if not self.add_prefix_space:
            return self._pairs(texts)
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore")
        spaced = tf.strings.regex_full_match(texts, _NO_SPACE)
        ids, starts, limits = self._pairs(tf.strings.join([tf.where(spaced, " ", ""), texts]))
        moved = tf.gather(tf.cast(spaced, tf.int32), ids.value_rowids())
        return ids, *(ids.with_flat_values(tf.maximum(each.flat_values - moved, 0)) for each in (starts, limits))


def _by_id(vocab, source):
    tokens = sorted(vocab, key=vocab.get)
    wrong = next((i for i, token in enumerate(tokens) if vocab[token] != i), None)
    if wrong is not None:
        raise ValueError(
            f"{source}: ids must be 0, 1, 2 and so on, each once. Received {brief(vocab[tokens[wrong]])} "
            f"for {brief(tokens[wrong])}, where {wrong} was expected; is it a part of a vocabulary?"
        )
    return tokens


def _read_pair(vocab_file):
    """Returns the vocabulary and merges of vocab.json and of the merges.txt next to it."""
    if not os.path.isfile(vocab_file):
        raise ValueError(
            f"A vocabulary of byte-level BPE must be {VOCAB_FILE} with {MERGES_FILE} beside it, or {WHOLE_FILE}. There "
            f"is none at {vocab_file}; correct `vocab_file`."
        )
    vocab = check_vocab(read_object(vocab_file, "a vocabulary in JSON", _REMEDY, _LARGEST), vocab_file)
    path = os.path.join(os.path.dirname(vocab_file), MERGES_FILE)
    if not os.path.isfile(path):
        raise ValueError(
            f"{MERGES_FILE} must lie beside {vocab_file}. There is none at {path}; copy it there from where the "
            "vocabulary came."
        )
    if os.path.getsize(path) > _LARGEST:
        raise ValueError(
            f"A file of merges must have at most {_LARGEST:,} bytes. Received {path} of {os.path.getsize(path):,}; "
            f"{_REMEDY}."
        )
    merges = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith(_HEAD)):
            continue
        merges.append(_checked_merge(line, vocab, f"{path}, line {number}"))
    return vocab, merges


def _checked_merge(merge, vocab, where):
    pair = tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) if isinstance(merge, list) else ()
    if len(pair) != 2 or not all(isinstance(token, str) and token for token in pair):
        raise ValueError(f"{where}: a merge must be two pieces with a space between. Received: {brief(merge)}.")
    lacking = [token for token in (*pair, "".join(pair)) if token not in vocab]
    if lacking:
        raise ValueError(
            f"{where}: the pieces of a merge, and what it makes, must be in the vocabulary. Received {brief(merge)} "
            f"without {brief(lacking[0])} there; take both files from one model."
        )
    return pair
