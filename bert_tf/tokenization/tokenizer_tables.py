"""A tokenizer's tables, without TensorFlow: vocabulary, settings, special and added tokens, from files and to files."""

import dataclasses
import functools
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from bert_tf.models import config_files, family_registry
from bert_tf.models.family_spec import Family, InputTemplate
from bert_tf.tokenization import decoding, file_precedence, tokenizer_json, tokenizer_json_writer
from bert_tf.tokenization.added_token_files import read_listed_tokens
from bert_tf.tokenization.added_tokens import AddedToken, names_with_added, order_added_tokens, write_added_tokens
from bert_tf.tokenization.special_token_files import with_special_tokens
from bert_tf.tokenization.token_edges import TokenEdges, find_token_edges
from bert_tf.tokenization.tokenizer_config import read_config, write_config
from bert_tf.tokenization.tokenizer_json import WholeFile

if TYPE_CHECKING:
    from typing_extensions import Self  # in `typing` from Python 3.11 on

_ADDED = "added_tokens"  # the argument of constructors, and its key in `settings`


class TokenList(NamedTuple):
    """The tokens of a vocabulary in the order of their ids, all different."""

    tokens: list[str]
    ids: Mapping[str, int]

    def id_of(self, token: str) -> int | None:
        """Returns the id of a token, or None if it is not in the vocabulary."""
        return self.ids.get(token)


class _Extended(NamedTuple):
    """A vocabulary with added tokens behind it: all `tokens`, the vocabulary, and content -> id of what is behind."""

    tokens: list[str]
    own: Any
    behind: Mapping[str, int]

    def id_of(self, token: str) -> int | None:
        """Returns the id of a token, or None if it is not in the vocabulary."""
        number = self.own.id_of(token)
        return self.behind.get(token) if number is None else number


class TokenizerTables:
    """What a tokenizer is, apart from how it runs: in the graph (`BaseTokenizer`) or in Python (`FastTokenizer`).

    A subclass reads and writes its own files.

    Attributes:
        KIND: the tokenizer's name in `family_registry.FAMILIES`.
        FILES: file names under which `from_directory` looks for the vocabulary, by preference.
        SPACES: an RE2 regular expression for long whitespace that is equivalent to one space, or "" for none.
        APART: (first, last) of characters around which the normalizer puts spaces, for Hugging Face's tokenizers.
        OUTSIDE: what finds words outside of the graph, so that no export can contain the tokenizer; "": nothing.
        vocab: list of str, the tokens in the order of their ids, including added tokens after the vocabulary file.
        vocab_size: number of tokens.
        vocab_file: path of the vocabulary file, or None if the vocabulary did not come from a file.
        do_lower_case: whether text is lowercased.
        pad_id, unk_id, mask_id: ids of the special tokens; mask_id may be None.
        mask: the mask token.
        template: the special tokens around the texts of a sequence, a `family.InputTemplate`.
        added_tokens: the `AddedToken`s in the order of their ids; all are matched except the template's special tokens.
            Special tokens of the vocabulary are not among them.
    """

    KIND: ClassVar[str]
    FILES: ClassVar[tuple[str, ...]]
    SPACES: ClassVar[str] = ""
    APART: ClassVar[tuple[tuple[int, int], ...]] = ()
    OUTSIDE: ClassVar[str] = ""

    def __init__(self, vocabulary, vocab_file, template: InputTemplate | None, special: tuple[str, str, str]):
        """Initializes the tables from what the subclass has read.

        Args:
            vocabulary: an object with `tokens` and `id_of`.
            vocab_file: path of the vocabulary file.
            template: special tokens around the texts. If None, BERT's.
            special: the padding token, the unknown token and the mask token.

        Raises:
            ValueError: a token of the template, the padding token or the unknown token is missing.
        """
        self._vocabulary = self._all = vocabulary
        self.added_tokens = ()
        self._listed_special: dict[str, AddedToken] = {}
        self.vocab_file = None if vocab_file is None else os.fspath(vocab_file)
        self.template = InputTemplate() if template is None else template
        self.mask = special[2]
        self.pad_id, self.unk_id, self.mask_id = map(vocabulary.id_of, special)
        needed = (*self.template.pieces(2), *special[:2])
        missing = [token for token in needed if vocabulary.id_of(token) is None]
        if missing:
            raise ValueError(
                f"The vocabulary lacks the special token {missing[0]}. The model needs "
                f"{' '.join(dict.fromkeys(needed))}, but the vocabulary has {self.vocab_size} tokens without it. Pass "
                "the vocabulary that belongs to the model."
            )

    @classmethod
    def from_directory(
        cls,
        path,
        do_lower_case: bool | None = None,
        vocab_file=None,
        template: InputTemplate | None = None,
        family: Family | None = None,
    ) -> "Self":
        """Builds the tokenizer of a checkpoint directory.

        Args:
            path: directory with `tokenizer.json` or one of FILES, and optionally `tokenizer_config.json`.
            do_lower_case: whether to lowercase text. If None, as in the files (see `file_precedence`); otherwise the
                family's default.
            vocab_file: another vocabulary or tokenizer.json to use instead of the directory's.
            template: special tokens around the texts. If None, the family's.
            family: the model family. If None, it is read from the directory's configuration.

        Raises:
            ValueError: a file is missing or its content does not match its name; a letter case that contradicts the
                directory's file or name; an unsupported setting in `tokenizer_config.json` or `tokenizer.json`.
        """
        directory, family = file_precedence.settings_directory(path, vocab_file), family or cls.family_of(path)
        config = read_config(directory)
        file = tokenizer_json.find_tokenizer_json(directory, vocab_file)
        whole = tokenizer_json.read_whole(file, cls.KIND) if file else None
        family, template = cls._owner(directory, config, family, template or family.template, whole)
        settings = cls._check_settings(directory, config, do_lower_case, family)
        template = with_special_tokens(directory, config, cls.KIND, family, template)
        if whole:
            source = os.path.dirname(whole.path)
            whole.check_template(template, file_precedence.counts_alone(config))
            tokenizer = cls._from_tokenizer_json(whole, directory, do_lower_case, template, settings)
        else:
            source = os.path.dirname(vocab_file) if vocab_file else directory
            vocab_file = os.fspath(vocab_file or cls.file_in(directory))
            tokenizer = cls._from_vocabulary(vocab_file, directory, do_lower_case, template, settings)
        own = tokenizer._vocabulary
        tokenizer._take_added_tokens(read_listed_tokens(source, own.tokens, own.id_of))
        return tokenizer

    @classmethod
    def _owner(
        cls, directory: str, config: Mapping[str, Any], family: Family, template: InputTemplate, whole: WholeFile | None
    ) -> tuple[Family, InputTemplate]:
        """Returns the family whose settings of this tokenizer apply, and the model's template with them."""
        return family, template

    @classmethod
    def _check_settings(
        cls, directory: str, config: Mapping[str, Any], do_lower_case: bool | None, family: Family
    ) -> dict[str, Any]:
        """Returns constructor settings; raises ValueError if tokenizer_config.json has an unsupported setting."""
        return {}

    @classmethod
    def _from_tokenizer_json(cls, whole: WholeFile, directory: str, do_lower_case, template, settings) -> "Self":
        raise NotImplementedError

    @classmethod
    def _from_vocabulary(cls, vocab_file: str, directory: str, do_lower_case, template, settings) -> "Self":
        return cls(vocab_file, template, **settings)

    @classmethod
    def file_in(cls, directory: str | os.PathLike) -> str:
        """Returns the path of the vocabulary in a directory, or that of the first of FILES if there is none."""
        paths = [os.path.join(os.fspath(directory), name) for name in cls.FILES]
        return next(filter(os.path.isfile, paths), paths[0])

    @classmethod
    def family_of(cls, directory: str | os.PathLike) -> Family:
        """Returns the family of a directory's configuration; without one, the first family with this tokenizer."""
        model_type = config_files.model_type_in(directory)
        return family_registry.family(model_type) if model_type else family_registry.with_tokenizer(cls.KIND)

    @property
    def vocab(self) -> list[str]:
        return self._all.tokens

    def __reduce__(self):
        from bert_tf.tokenization.pickled_tables import pickle_tables  # here: it knows all kinds of tables

        return pickle_tables(self)

    @functools.cached_property
    def asset_file(self) -> str | None:
        """Path of the vocabulary that is packed into a SavedModel, one of FILES, under the name that readers expect.

        For a tokenizer read from tokenizer.json, it is written to a directory that exists as long as the tokenizer.
        """
        if self.vocab_file is None or not tokenizer_json.is_tokenizer_json(self.vocab_file):
            return self.vocab_file
        self._asset_folder = tempfile.TemporaryDirectory(prefix="bert_tf-")
        self.save(self._asset_folder.name)
        return self.file_in(self._asset_folder.name)

    @property
    def vocab_size(self) -> int:
        return len(self._all.tokens)

    @property
    def file_size(self) -> int:
        """Number of tokens in the vocabulary file; added tokens may follow."""
        return len(self._vocabulary.tokens)

    def id_of(self, token: str) -> int | None:
        """Returns the id of a token, or None if it is not in the vocabulary."""
        return self._all.id_of(token)

    def check_exportable(self, what: str):
        """Raises ValueError if `what`, such as "An export", cannot contain this tokenizer."""
        if self.OUTSIDE:
            raise ValueError(
                f"{what} must contain its tokenizer as TensorFlow operations; got one whose words are found by "
                f"{self.OUTSIDE}. Use the trained model itself, with `bert_tf.Predictor`, `bert-tf predict` or "
                "`bert-tf embed`."
            )

    @property
    def written_tokens(self) -> list[str]:
        """The tokens in human-readable form; `vocab` has them as in the vocabulary file."""
        return self.vocab

    @property
    def token_edges(self) -> TokenEdges:
        """Which tokens continue a word, and which end one; added tokens are words by themselves."""
        apart = {token.content for token in self.added_tokens} | self.reserved_tokens
        return find_token_edges(self._token_texts(), [token in apart for token in self.vocab])

    def _token_texts(self) -> list[str]:
        """Returns the text of each token, as in `find_token_edges`."""
        return self.written_tokens

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str | list[str]:
        """Converts token ids [n] into a text, or rows of ids [rows, n] into a list of texts.

            tokenizer.decode(tokenizer(["A warm film."])["input_ids"])         ["a warm film."] if it is uncased

        What the tokenizer changes, such as letter case, and what it does not know stay lost. The result is that of the
        decoder in `tokenizer.json`, as Hugging Face's tokenizers apply it.

        Args:
            ids: a list, NumPy array, tensor or ragged tensor of integers.
            skip_special_tokens: whether to leave out `reserved_tokens`, such as [CLS] and padding.

        Raises:
            ValueError: an id is not one of the vocabulary.
        """
        rows, several = decoding.id_rows(ids, self.vocab_size)
        skipped = self._reserved_ids if skip_special_tokens else ()
        texts = [self._join([number for number in row if number not in skipped]) for row in rows]
        return texts if several else texts[0]

    @functools.cached_property
    def _reserved_ids(self):
        return frozenset(map(self.id_of, self.reserved_tokens))

    @functools.cached_property
    def _texts(self):
        return self._token_texts()

    def _join(self, ids):
        """Returns the text of a row of ids."""
        return decoding.join_bytes([self._texts[number] for number in ids])

    @property
    def reserved_tokens(self) -> set[str]:
        """The tokens that represent no text: special tokens, with the added ones among them."""
        return self._special() | {token.content for token in self.added_tokens if token.special}

    @property
    def splits_at_spaces(self) -> bool:
        """Whether what is between two spaces of a text is tokenized independently of the rest of the text."""
        return not any(" " in token.content or token.lstrip or token.rstrip for token in self.matched_tokens)

    @property
    def joining_space(self) -> str:
        """What to put before a sentence that follows another one, so that its tokens are those of the whole text."""
        return ""

    @property
    def deciding_values(self) -> dict[str, Any]:
        """What decides the ids of a text besides the vocabulary, letter case and accents, as JSON values."""
        return {}

    @property
    def special_tokens(self) -> dict[str, str]:
        """The special tokens under Hugging Face's names: "cls_token" and so on."""
        first, last = self.template.before[0], self.template.after[-1]
        names = {"bos_token": first, "cls_token": first, "eos_token": last, "sep_token": last}
        names |= {"pad_token": self.vocab[self.pad_id], "unk_token": self.vocab[self.unk_id]}
        return names | ({} if self.mask_id is None else {"mask_token": self.mask})

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments except for the vocabulary and the template, as JSON values."""
        raise NotImplementedError

    @classmethod
    def from_saved(cls, directory: str, template: InputTemplate, settings: Mapping[str, Any]) -> "Self":
        """Restores a tokenizer from the files that `save` wrote, and its `template` and `settings`."""
        return cls(cls.file_in(directory), template=template, **cls._arguments(settings))

    @staticmethod
    def _arguments(settings: Mapping[str, Any]) -> dict[str, Any]:
        """Converts `settings` read from JSON into constructor arguments."""
        added = [AddedToken(**each) for each in settings.get(_ADDED, ())]
        return {**settings, _ADDED: added} if added else dict(settings)

    def _with_added(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        listed = [token.to_json() for token in self.listed_tokens]
        return {**settings, _ADDED: listed} if listed else dict(settings)

    @property
    def _mask_lstrip(self) -> bool:
        """Whether the mask absorbs the whitespace before it if no file has its flags, as in Transformers 4."""
        return False

    @property
    def special_added_tokens(self) -> tuple[AddedToken, ...]:
        """The special tokens with their flags, in the order of their ids."""
        return tuple(self._listed_special.get(token.content, token) for token in self._usual_special())

    @property
    def listed_tokens(self) -> list[AddedToken]:
        """The added tokens and the special tokens with unusual flags: what the argument `added_tokens` must be."""
        pairs = zip(self.special_added_tokens, self._usual_special(), strict=True)
        there = {token.content for token in self.added_tokens}
        special = [token for token, usual in pairs if token != usual and token.content not in there]
        return sorted([*self.added_tokens, *special], key=lambda token: token.id)

    def _usual_special(self):
        tokens = [
            AddedToken(content, self.id_of(content), lstrip=self._mask_lstrip and content == self.mask, special=True)
            for content in dict.fromkeys(self.special_tokens.values())
        ]
        return sorted(tokens, key=lambda token: token.id)

    def _take_added_tokens(self, tokens: Sequence[AddedToken]):
        """Registers added tokens and the flags of special tokens.

        A subclass calls it in its constructor.

        Raises:
            ValueError: a token does not match the vocabulary.
        """
        if not tokens:
            return
        own = self._vocabulary
        listed = order_added_tokens(tokens, own.tokens, own.id_of)
        special = self._special()
        self._listed_special = {
            token.content: dataclasses.replace(token, special=True) for token in listed if token.content in special
        }
        self.added_tokens = tuple(
            token for token in listed if token.content not in special or token.id >= len(own.tokens)
        )
        behind = {token.content: token.id for token in self.added_tokens if token.id >= len(own.tokens)}
        self._all = _Extended(names_with_added(own.tokens, self.added_tokens), own, behind)
        self.mask_id = self._all.id_of(self.mask)

    @property
    def matched_tokens(self) -> list[AddedToken]:
        """The added tokens that are matched in text."""
        special = self._special()
        return [token for token in self.added_tokens if token.content not in special]

    def _special(self) -> set[str]:
        """Returns the template's special tokens, which are not matched in text."""
        return {*self.template.pieces(2), self._all.tokens[self.pad_id], self._all.tokens[self.unk_id], self.mask}

    def save(self, directory: str | os.PathLike):
        """Writes the vocabulary, `tokenizer.json`, `tokenizer_config.json` and `added_tokens.json`.

        `from_directory` and Hugging Face's tokenizers can read them.
        """
        directory = os.fspath(directory)
        os.makedirs(directory, exist_ok=True)
        self._write_vocabulary(directory)
        if whole := self._tokenizer_json():
            tokenizer_json_writer.write_tokenizer_json(directory, whole)
        write_config(directory, *self._tokenizer_config())
        write_added_tokens(directory, self.added_tokens)

    def _write_vocabulary(self, directory: str):
        raise NotImplementedError

    def _tokenizer_json(self) -> dict[str, Any] | None:
        """Returns the contents of tokenizer.json; None if Hugging Face has no fast tokenizer of this kind."""
        raise NotImplementedError

    def _tokenizer_config(self) -> tuple[str, dict[str, Any]]:
        """Returns Hugging Face's class name and the settings that it reads from tokenizer_config.json."""
        raise NotImplementedError
