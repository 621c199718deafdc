"""The tables of byte-level BPE: vocab.json and merges.txt, or tokenizer.json, and its settings."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization import file_precedence, tokenizer_json_writer
from bert_tf.tokenization.added_tokens import AddedToken, added_tokens_config
from bert_tf.tokenization.byte_pair_merges import byte_symbols, check_merges
from bert_tf.tokenization.letter_case import case_setting
from bert_tf.tokenization.merge_lists import checked_merge, tokens_by_id
from bert_tf.tokenization.tokenizer_config import CONFIG_FILE, check_tokenizer_config
from bert_tf.tokenization.tokenizer_json import WHOLE_FILE, check_vocab
from bert_tf.tokenization.tokenizer_tables import TokenizerTables, TokenList
from bert_tf.utils.files import brief, read_text, write_text
from bert_tf.utils.json_files import read_object

VOCAB_FILE, MERGES_FILE = "vocab.json", "merges.txt"
_LARGEST = 16 * 2**20  # bytes of a file: 300,000 tokens and their merges
_REMEDY = "use the files of a model with byte-level BPE"
_HEAD = "#version"  # of merges.txt: its first line may be a comment that begins so


class ByteBpeTables(TokenizerTables):
    """The vocabulary, the merges and the settings of a tokenizer by byte-level BPE.

    Attributes:
        merges: pairs of tokens, in the order they were learned.
        add_prefix_space: whether a space is prepended to a text that does not begin with one.
        nfc: whether a text is first normalized to Unicode's NFC, as in ModernBERT.
    """

    KIND: ClassVar = "byte_bpe"
    _mask_lstrip = True
    FILES: ClassVar = (VOCAB_FILE,)

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        template: InputTemplate,
        add_prefix_space: bool = False,
        vocab_file: str | os.PathLike | None = None,
        added_tokens: Sequence[AddedToken] = (),
        nfc: bool = False,
        tokenizer_class: str = "RobertaTokenizer",
    ):
        """Builds the tokenizer from a vocabulary and its merges.

        Args:
            vocab: token -> id, from 0 without gaps, in the characters of `byte_symbols`.
            merges: pairs of tokens, in the order they were learned.
            template: the family's input template.
            add_prefix_space: see above.
            vocab_file: path of the file they came from.
            added_tokens: tokens matched in the text before it is split; after the vocabulary, or in it with the same
                ids.
            nfc: see above.
            tokenizer_class: Transformers' class that reads the files.

        Raises:
            ValueError: an id, a byte, a special token or the result of a merge is missing, or an added token does not
                match the vocabulary.
        """
        source = vocab_file or "The vocabulary"
        super().__init__(
            *(TokenList(tokens_by_id(vocab, source), dict(vocab)), vocab_file, template),
            special=(template.pad, template.unknown, template.mask),
        )
        self.do_lower_case, self.add_prefix_space = False, bool(add_prefix_space)
        self.nfc, self._tokenizer_class = nfc, tokenizer_class
        self.merges = tuple(tuple(merge) for merge in merges)
        try:
            check_merges(vocab, self.merges)
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from error
        self._take_added_tokens(added_tokens)

    @classmethod
    def _check_settings(cls, directory, config, do_lower_case, family):
        config_path = os.path.join(directory, CONFIG_FILE)
        check_tokenizer_config(config_path, config, cls.KIND)
        if case_setting(config_path, config, do_lower_case, False):
            raise ValueError(
                "`do_lower_case` must be false for a model with byte-level BPE, because its vocabulary is cased; "
                "got true; omit `do_lower_case`."
            )
        if not isinstance(config.get("add_prefix_space", False), bool):
            raise ValueError(
                f"{config_path}: add_prefix_space must be true or false; got "
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
                f"{whole.path}: ids must be 0, 1, 2 and so on without gaps. No token has the id {tokens.index('')}. "
                "The vocabulary may be incomplete; download it again."
            )
        merges = whole.model["merges"]
        merges = [checked_merge(merge, vocab, f"{whole.path}, merge {n}") for n, merge in enumerate(merges, 1)]
        path = cls.file_in(os.path.dirname(whole.path))
        if os.path.isfile(path):
            other = check_vocab(read_object(path, "a vocabulary in JSON", _REMEDY, _LARGEST), path)
            tokens = sorted(other, key=other.get)
            file_precedence.warn_of_vocabulary(whole.path, whole.tokens[: whole.own], path, tokens)
        said = {"add_prefix_space": file_precedence.prefix_space(whole, directory), "nfc": whole.said["nfc"]}
        return cls(vocab, merges, template, vocab_file=whole.path, **{**settings, **said})

    @property
    def written_tokens(self) -> list[str]:
        return self._decoded("replace")

    def _token_texts(self):
        return self._decoded("surrogateescape")

    def _decoded(self, errors):
        """Returns the tokens as text; `errors` is how bytes are decoded that are no whole character."""
        byte_of = {symbol: byte for byte, symbol in enumerate(byte_symbols())}
        special = self._special() | {token.content for token in self.added_tokens}

        def written(token):
            if token in special or not byte_of.keys() >= set(token):
                return token
            return bytes(byte_of[symbol] for symbol in token).decode("utf-8", errors)

        return [written(token) for token in self.vocab]

    @property
    def splits_at_spaces(self) -> bool:
        """False: a space belongs to the word after it, and several spaces are one word."""
        return False

    @property
    def joining_space(self) -> str:
        """A space, unless it is put before each text anyway."""
        return "" if self.add_prefix_space else " "

    @property
    def deciding_values(self) -> dict[str, Any]:
        return {"merges": self.merges, "add_prefix_space": self.add_prefix_space, "nfc": self.nfc}

    @property
    def settings(self) -> dict[str, Any]:
        more: dict[str, Any] = {"nfc": True} if self.nfc else {}
        more |= {"tokenizer_class": self._tokenizer_class} if self._tokenizer_class != "RobertaTokenizer" else {}
        return self._with_added({"add_prefix_space": self.add_prefix_space, **more})

    @classmethod
    def from_saved(cls, directory, template, settings):
        return cls._from_vocabulary(cls.file_in(directory), directory, None, template, cls._arguments(settings))

    def _write_vocabulary(self, directory):
        ids = {token: i for i, token in enumerate(self._vocabulary.tokens)}
        write_text(os.path.join(directory, VOCAB_FILE), json.dumps(ids, ensure_ascii=False) + "\n")
        lines = [f"{_HEAD}: 0.2", *(" ".join(merge) for merge in self.merges)]
        write_text(os.path.join(directory, MERGES_FILE), "".join(f"{line}\n" for line in lines))

    def _tokenizer_json(self):
        return tokenizer_json_writer.byte_bpe_json(self, self.merges)

    def _tokenizer_config(self):
        settings = {"add_prefix_space": self.add_prefix_space, **self.special_tokens}
        return self._tokenizer_class, settings | added_tokens_config(self.added_tokens, self.special_added_tokens)


def _read_pair(vocab_file):
    """Returns the vocabulary and merges of vocab.json and of the merges.txt next to it."""
    if not os.path.isfile(vocab_file):
        raise ValueError(
            f"Vocabulary file not found: {vocab_file}. A byte-level BPE vocabulary is {VOCAB_FILE} with {MERGES_FILE} "
            f"next to it, or {WHOLE_FILE}; check `vocab_file`."
        )
    vocab = check_vocab(read_object(vocab_file, "a vocabulary in JSON", _REMEDY, _LARGEST), vocab_file)
    path = os.path.join(os.path.dirname(vocab_file), MERGES_FILE)
    if not os.path.isfile(path):
        raise ValueError(
            f"Merges file not found: {path}. {MERGES_FILE} is required next to {vocab_file}; copy it from the original "
            "model."
        )
    if os.path.getsize(path) > _LARGEST:
        raise ValueError(
            f"A merges file must have at most {_LARGEST:,} bytes; got {path} of {os.path.getsize(path):,}; "
            f"{_REMEDY}."
        )
    merges = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith(_HEAD)):
            continue
        merges.append(checked_merge(line, vocab, f"{path}, line {number}"))
    return vocab, merges
