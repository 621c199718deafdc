"""The base class of the tokenizers that run in the graph: texts to ids and model inputs."""

import itertools
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence

import tensorflow as tf

from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization import special_tokens
from bert_tf.tokenization.added_token_matcher import AddedTokenMatcher, Normalized
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.tokenizer_tables import TokenizerTables
from bert_tf.utils.text_inputs import text_list


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

        self.ids = _traced_when_it_pays(ids)
        self.ids_and_offsets = _traced_when_it_pays(ids_and_offsets)


_FIRST_CALLS = 8  # tracing takes as long as some ten calls without a graph: a second or two for large vocabularies


def _traced_when_it_pays(function):
    """Returns a function of texts that runs `function` op by op in its first calls, and as a graph from then on."""
    traced = tf.function(function, [tf.TensorSpec([None], tf.string)], autograph=False)
    calls = itertools.count()

    def call(texts):
        is_early = tf.executing_eagerly() and next(calls) < _FIRST_CALLS
        return function(texts) if is_early else traced(texts)

    return call


class BaseTokenizer(tf.Module, TokenizerTables):
    """Converts text to token ids and model inputs; works eagerly, in tf.data and in a SavedModel.

    A subclass is made of this and of its `TokenizerTables`, and implements `_ids_and_offsets`, which converts texts to
    ids and offsets. Special tokens written in a text are treated as ordinary text; added tokens are matched before
    tokenization.
    """

    def __init__(self, vocabulary, vocab_file, template: InputTemplate | None, special: tuple[str, str, str]):
        """Initializes the tables and the functions; arguments and errors are those of `TokenizerTables`."""
        tf.Module.__init__(self)
        self._matcher = None
        self._graphs = _Graphs(self._on_cpu)
        TokenizerTables.__init__(self, vocabulary, vocab_file, template, special)

    def _take_added_tokens(self, tokens: Sequence[AddedToken]):
        """Registers added tokens, which are matched from now on, and the flags of special tokens.

        A subclass calls it in its constructor, when it can normalize text.

        Raises:
            ValueError: a token does not match the vocabulary.
        """
        super()._take_added_tokens(tokens)
        if tokens and (matched := self.matched_tokens):
            self._matcher = AddedTokenMatcher(matched, self._normalized, self.APART)

    def matcher_with_special(self, contents: Collection[str]) -> AddedTokenMatcher:
        """Returns a matcher for `tokenize_matching` of the added tokens and of these special tokens, by their flags."""
        special = [token for token in self.special_added_tokens if token.content in contents]
        return AddedTokenMatcher([*self.matched_tokens, *special], self._normalized, self.APART)

    def tokenize_matching(
        self, texts, matcher: AddedTokenMatcher
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns the results of `tokenize_with_offsets` with the tokens that `matcher` finds."""
        with tf.device("CPU:0"):
            return self._around_added_tokens(self._ids_and_offsets, _strings(texts), matcher)

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
            Hangul syllable, share its span. A token for whitespace alone has an empty span.
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
                f"`text_a` and `text_b` must have the same length; got {text_a.shape[0]} and {text_b.shape[0]} "
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
            f"`{parameter}` must be a vector of strings; got {texts.dtype.name} of shape {texts.shape}; put a "
            "single text into a list."
        )
    return texts
