"""The base class of all tokenizers: special tokens, model inputs, and the conversion of text to ids."""

import dataclasses
import functools
import os
import tempfile
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import tensorflow as tf

from bert_tf.models import config_files, family_registry
from bert_tf.models.family_spec import Family, InputTemplate
from bert_tf.tokenization import file_precedence, special_tokens, tokenizer_json, tokenizer_json_writer
from bert_tf.tokenization.added_token_files import read_listed_tokens
from bert_tf.tokenization.added_token_matcher import AddedTokenMatcher, Normalized
from bert_tf.tokenization.added_tokens import AddedToken, names_with_added, order_added_tokens, write_added_tokens
from bert_tf.tokenization.special_token_files import with_special_tokens
from bert_tf.tokenization.tokenizer_config import read_config, write_config
from bert_tf.tokenization.tokenizer_json import WholeFile
from bert_tf.utils.text_inputs import text_list

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


class _Graphs:
    """The functions from texts to ids, and to ids and offsets.

    They are kept apart from the tokenizer's attributes because saving a module traces and writes all of its functions,
    whether an export calls them or not.
    """

    def __init__(self, tokenize: Callable[[tf.Tensor], tuple]):
        method = weakref.WeakMethod(tokenize)  # the tokenizer is freed as soon as it is no longer referenced

        def ids(texts):
            return method()(texts)[0]

        def ids_and_offsets(texts):
            return method()(texts)

        texts = [tf.TensorSpec([None], tf.string)]
        self.ids = tf.function(ids, texts, autograph=False)
        self.ids_and_offsets = tf.function(ids_and_offsets, texts, autograph=False)


class BaseTokenizer(tf.Module):
    """Converts text to token ids and model inputs; works eagerly, in tf.data and in a SavedModel.

    A subclass reads its files and implements `_ids_and_offsets`, which converts texts to ids and offsets. Special
    tokens written in a text are treated as ordinary text; added tokens are matched before tokenization.

    Attributes:
        KIND: the tokenizer's name in `family_registry.FAMILIES`.
        FILES: file names under which `from_directory` looks for the vocabulary, by preference.
        SPACES: an RE2 regular expression for long white space that is equivalent to one space, or "" for none.
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
    # (first, last) of characters around which the normalizer puts spaces, for Hugging Face's tokenizers.
    _APART: ClassVar[tuple[tuple[int, int], ...]] = ()

    def __init__(self, vocabulary, vocab_file, template: InputTemplate | None, special: tuple[str, str, str]):
        """Initializes the tokenizer from what the subclass has read.

        Args:
            vocabulary: an object with `tokens` and `id_of`.
            vocab_file: path of the vocabulary file.
            template: special tokens around the texts. If None, BERT's.
            special: the padding token, the unknown token and the mask token.

        Raises:
            ValueError: a token of the template, the padding token or the unknown token is missing.
        """
        super().__init__()
        self._vocabulary = self._all = vocabulary
        self.added_tokens, self._matcher = (), None
        self._listed_special: dict[str, AddedToken] = {}
        self._graphs = _Graphs(self._on_cpu)
        self.vocab_file = None if vocab_file is None else os.fspath(vocab_file)
        self.template = InputTemplate() if template is None else template
        self.mask = special[2]
        self.pad_id, self.unk_id, self.mask_id = map(vocabulary.id_of, special)
        needed = (*self.template.pieces(2), *special[:2])
        missing = [token for token in needed if vocabulary.id_of(token) is None]
        if missing:
            raise ValueError(
                f"The vocabulary lacks the special token {missing[0]}. The model needs "
                f"{' '.join(dict.fromkeys(needed))}, but the vocabulary has {self.vocab_size} tokens without it: is it "
                "another model's vocabulary?"
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
            ValueError: a file is missing or is not what its name says; a letter case that contradicts the directory's
                file or name; an unsupported setting in `tokenizer_config.json` or `tokenizer.json`.
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

    @property
    def written_tokens(self) -> list[str]:
        """The tokens in human-readable form; `vocab` has them as in the vocabulary file."""
        return self.vocab

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
    def from_saved(cls, directory: str, template: InputTemplate, settings: Mapping[str, Any]) -> "BaseTokenizer":
        """Restores a tokenizer from the files that `save` wrote, and its `template` and `settings`."""
        return cls(cls.file_in(directory), template=template, **cls._arguments(settings))

    @staticmethod
    def _arguments(settings: Mapping[str, Any]) -> dict[str, Any]:
        """Converts `settings` read from JSON into constructor arguments."""
        added = [AddedToken(**each) for each in settings.get(_ADDED, ())]
        return {**settings, _ADDED: added} if added else dict(settings)

    def _with_added(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        listed = [token.to_json() for token in self.listed_tokens]
        return {**settings, _ADDED: listed} if listed else settings

    # Whether the mask token absorbs the white space before it if no file has its flags, as in Transformers 4.
    _MASK_LSTRIP: bool = False

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
            AddedToken(content, self.id_of(content), lstrip=self._MASK_LSTRIP and content == self.mask, special=True)
            for content in dict.fromkeys(self.special_tokens.values())
        ]
        return sorted(tokens, key=lambda token: token.id)

    def _take_added_tokens(self, tokens: Sequence[AddedToken]):
        """Registers added tokens, which are matched from now on, and the flags of special tokens.

        A subclass calls it in its constructor, when it can normalize text.

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
        matched = [token for token in self.added_tokens if token.content not in special]
        if matched:
            self._matcher = AddedTokenMatcher(matched, self._normalized, self._APART)

    def matcher_with_special(self, contents: Collection[str]) -> AddedTokenMatcher:
        """Returns a matcher for `tokenize_matching` of the added tokens and of these special tokens, by their flags."""
        special = [token for token in self.special_added_tokens if token.content in contents]
        matched = [token for token in self.added_tokens if token.content not in self._special()]
        return AddedTokenMatcher([*matched, *special], self._normalized, self._APART)

    def tokenize_matching(
        self, texts, matcher: AddedTokenMatcher
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns the results of `tokenize_with_offsets` with the tokens that `matcher` finds."""
        with tf.device("CPU:0"):
            return self._around_added_tokens(self._ids_and_offsets, _strings(texts), matcher)

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
        tokenizer_json_writer.write_tokenizer_json(directory, self._tokenizer_json())
        write_config(directory, *self._tokenizer_config())
        write_added_tokens(directory, self.added_tokens)

    def _write_vocabulary(self, directory: str):
        raise NotImplementedError

    def _tokenizer_json(self) -> dict[str, Any]:
        raise NotImplementedError

    def _tokenizer_config(self) -> tuple[str, dict[str, Any]]:
        """Returns Hugging Face's class name and the settings that it reads from tokenizer_config.json."""
        raise NotImplementedError

    def tokenize(self, texts) -> tf.RaggedTensor:
        """Returns the ids of the tokens of each text, without special tokens.

        Args:
            texts: strings [n], UTF-8, as a tensor or anything that `text_inputs.text_list` accepts; invalid UTF-8 bytes
                are dropped, as in google-research/bert.

        Returns:
            RaggedTensor of int32 [n, (tokens)].
        """
        return self._graphs.ids(_strings(texts))

    def tokenize_with_offsets(self, texts) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns the token ids of each text and the span of each token.

        Args:
            texts: strings [n], UTF-8.

        Returns:
            ids, starts, ends: RaggedTensors of int32 [n, (tokens)]. A token came from text[start:end], counted in
            Unicode code points of the original text (after dropping invalid UTF-8 bytes), without surrounding white
            space. Stripped accents belong to the letter before them. Tokens of one character, such as the three of a
            Hangul syllable, share its span. A token for white space alone has an empty span.
        """
        return self._graphs.ids_and_offsets(_strings(texts))

    def tokenize_by_words(self, texts) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns the results of `tokenize_with_offsets`, grouped by words.

        Args:
            texts: strings [n], UTF-8.

        Returns:
            ids, starts, ends: RaggedTensors of int32 [n, (words), (tokens)], or [n, (tokens)] if the tokenizer has no
            words.
        """
        with tf.device("CPU:0"):
            return self._around_added_tokens(self._by_words, _strings(texts))

    def between_added_tokens(self, texts) -> tf.Tensor:
        """Returns the text between the added tokens of texts (strings [n]): strings [s], in the order of the texts."""
        texts = _strings(texts)
        return texts if self._matcher is None else self._matcher(texts).strings()

    def pack(self, ids_a, ids_b=None, max_seq_length: int = 128) -> dict[str, tf.RaggedTensor]:
        """Joins the ids of one or two texts per sequence; see `special_tokens.add_special_tokens`.

        Args:
            ids_a, ids_b: RaggedTensors of int32 [n, (tokens)], as from `tokenize`.
            max_seq_length: maximum tokens per sequence, including special tokens; an int or an int32 scalar tensor.

        Returns:
            "input_ids" and "segment_ids", RaggedTensors of int32 [n, (length)].

        Raises:
            ValueError: max_seq_length has no room for the special tokens, or the model has no segment for a second
                text.
        """
        return special_tokens.add_special_tokens(ids_a, ids_b, max_seq_length, self.template, self._all.id_of)

    def pad(self, packed: Mapping[str, tf.RaggedTensor], seq_length: int | None = None) -> dict[str, tf.Tensor]:
        """Returns "input_ids", "input_mask" and "segment_ids", int32 [n, seq_length]; see `packing.pad`.

        Args:
            packed: the result of `pack`.
            seq_length: length to pad to, an int or an int32 scalar tensor. If None, that of the longest sequence.

        Raises:
            tf.errors.InvalidArgumentError: a sequence is longer than seq_length.
        """
        return special_tokens.pad(packed, seq_length, self.pad_id)

    def __call__(self, text_a, text_b=None, max_seq_length: int = 128) -> dict[str, tf.Tensor]:
        """Returns the model inputs for texts (strings [n]) or text pairs: three int32 [n, max_seq_length].

        Raises:
            ValueError: an input is not texts (see `text_inputs.text_list`), or `text_a` and `text_b` differ in length.
        """
        text_a, text_b = _strings(text_a, "text_a"), None if text_b is None else _strings(text_b, "text_b")
        if text_b is not None and not text_a.shape.is_compatible_with(text_b.shape):
            raise ValueError(
                f"`text_a` and `text_b` must have the same length. Received {text_a.shape[0]} and {text_b.shape[0]} "
                "texts; pass one second text per first text."
            )
        ids_b = None if text_b is None else self.tokenize(text_b)
        return self.pad(self.pack(self.tokenize(text_a), ids_b, max_seq_length), max_seq_length)

    def _on_cpu(self, texts):
        with tf.device("CPU:0"):  # a GPU has no string ops and would copy the rest to and fro
            return self._around_added_tokens(self._ids_and_offsets, texts)

    def _around_added_tokens(self, tokenize, texts, matcher=None):
        """Applies `tokenize` to the text between added tokens and inserts these in the results."""
        matcher = matcher or self._matcher
        if matcher is None:
            return tokenize(texts)
        sections = matcher(texts)
        return sections.joined(*tokenize(sections.strings()))

    def _ids_and_offsets(self, texts):
        """Converts texts to ids, starts and ends; a graph that does not use the offsets does not compute them."""
        raise NotImplementedError

    def _by_words(self, texts):
        return self._ids_and_offsets(texts)

    # Returns normalized texts (strings [n]), in which words and tokens are looked up; None: there is no normalizer.
    _normalized: Callable[[tf.Tensor], Normalized] | None = None


def _strings(texts, parameter="texts"):
    """Returns texts as a tensor; in a graph they are one already."""
    if not tf.is_tensor(texts):
        return tf.constant(text_list(texts, parameter), tf.string)
    if isinstance(texts, tf.RaggedTensor) or texts.dtype != tf.string or texts.shape.rank not in (None, 1):
        raise ValueError(
            f"`{parameter}` must be a vector of strings. Received {texts.dtype.name} of shape {texts.shape}; put a "
            "single text into a list."
        )
    return texts
