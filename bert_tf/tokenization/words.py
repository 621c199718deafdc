"""Text to words in the graph: google-research/bert's BasicTokenizer, with a map back to the original text."""

from typing import NamedTuple

import tensorflow as tf

from bert_tf.tokenization import characters
from bert_tf.tokenization.added_token_matcher import Normalized
from bert_tf.tokenization.flat_ops import lower_bound, places, ragged, take, unicode_decode, where, with_end

_CAPITAL_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2


class WordBatch(NamedTuple):
    """The words of a batch of n texts, concatenated.

    Attributes:
        chars: RaggedTensor int32 [words, (characters)], the code points of each word, lowercased and stripped.
        splits: int64 [n + 1], where each text's words begin among all words.
        text_starts: int64 [n + 1], where each text begins in the concatenated texts, in code points.
        starts: int64 [all characters], the start of a character's origin in the concatenated texts.
        ends: int64 [all characters], its end (exclusive), including any combining marks that were stripped.
    """

    chars: tf.RaggedTensor
    splits: tf.Tensor
    text_starts: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor


class _Stream(NamedTuple):
    """The concatenated characters of all texts, each text ended by a line feed.

    Attributes:
        chars, bits: int32 [characters], the code points, and in the lowest FORM_BITS bits their flags of `characters`.
        starts, ends: int64 [characters], the span in the concatenated original texts that each came from.
    """

    chars: tf.Tensor
    bits: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor

    def take(self, indices):
        return _Stream(*(take(field, indices) for field in self))


class WordSplitter(tf.Module):
    """Cleans, isolates CJK, splits at whitespace, lowercases, decomposes, strips marks, splits at punctuation.

    All steps but two look at one character at a time and use tables. The exceptions: a capital sigma at the end of a
    word becomes a final one, and canonical order sorts the combining characters that are not stripped by their class.

        text     C  a  f  e  ◌́  中  !          the original text, ◌́ = U+0301
        chars    c  a  f  e     中  !          three words
        starts   0  1  2  3     5  6
        ends   1  2  3  5     6  7          the mark belongs to the e before it
    """

    def __init__(self, do_lower_case: bool, strip_accents: bool | None = None):
        super().__init__()
        self._do_lower_case = do_lower_case
        self._strip_accents = do_lower_case if strip_accents is None else strip_accents
        if self._strip_accents and not do_lower_case:
            raise ValueError("`strip_accents` requires `do_lower_case`, because only lowercased text is stripped.")
        table = characters.character_table(do_lower_case, self._strip_accents)
        with tf.init_scope(), tf.device("CPU:0"):
            self._pages, self._flags, self._forms = map(tf.constant, table)

    def __call__(self, texts: tf.Tensor) -> WordBatch:
        """Splits texts (string [n], UTF-8; invalid bytes are dropped) into words."""
        return _words(*self._stream(texts))

    def normalized(self, texts: tf.Tensor) -> Normalized:
        """Returns normalized texts before splitting, with all whitespace as blanks."""
        stream, text_starts = self._stream(texts)
        chars = tf.where(stream.bits & characters.SPACE != 0, ord(" "), stream.chars)
        return Normalized.of(chars, *(tf.cast(each, tf.int32) for each in stream[2:]), text_starts)

    def _stream(self, texts):
        """Returns the characters of texts, cleaned, lowercased and stripped, and the starts of the original texts."""
        # The line feed is a space: no word, no sigma's neighbourhood and no run of marks reaches into the next text.
        text_starts, chars = unicode_decode(tf.strings.join([texts, "\n"]))
        if self._do_lower_case:
            chars = _with_final_sigma(chars, self._flags, self._pages)
        forms = take(self._forms, places(self._pages, chars))
        found = tf.where(forms != characters.NOTHING)
        starts, _ = tf.unstack(found, axis=1)
        form = tf.gather_nd(forms, found)
        chars = take(chars, starts) + tf.bitwise.right_shift(form, characters.FORM_BITS)
        stream = _Stream(chars, form, starts, starts + 1)
        return (_strip_marks(_in_canonical_order(stream)) if self._strip_accents else stream), text_starts


_ROW, _ORIGINS = tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int64)


# Functions of their own, so that code that rarely runs but is slow to trace is traced once for all tokenizers.
@tf.function(input_signature=[_ROW, _ROW, _ROW], autograph=False)
def _with_final_sigma(chars, flags, pages):
    """Σ after a cased character and before none is ς in lower case (Unicode's Final_Sigma, as in Python's lower())."""
    is_sigma = chars == _CAPITAL_SIGMA

    def replaced():
        bits = take(flags, places(pages, chars))
        seen = where(bits & characters.TRANSPARENT == 0)
        cased = take(bits, seen) & characters.CASED != 0
        before, after = tf.concat([[False], cased[:-1]], 0), tf.concat([cased[1:], [False]], 0)
        at = take(seen, where(take(is_sigma, seen) & before & ~after))
        return tf.tensor_scatter_nd_update(chars, at[:, None], tf.fill([tf.size(at)], _FINAL_SIGMA))

    with tf.device("CPU:0"):
        return tf.cond(tf.reduce_any(is_sigma), replaced, lambda: chars)


@tf.function(input_signature=[_Stream(_ROW, _ROW, _ORIGINS, _ORIGINS)], autograph=False)
def _in_canonical_order(stream):
    """Sorts, within each run of combining characters, those that stay by their class.

    Marks that are stripped anyway need no sorting. Each sorted character gets the span of its whole run, so that
    offsets cover the original characters and never decrease.
    """
    reordered = stream.bits & characters.REORDERED != 0

    def sorted_fields():
        classes = tf.cast(stream.bits & characters.FORM, tf.int64) // characters.COMBINING_CLASS
        at = where(reordered)
        run = take(tf.cumsum(tf.cast(classes == 0, tf.int64)), at)
        order = tf.argsort(run * 256 + take(classes, at), stable=True)
        _, member = tf.unique(run)
        first = take(tf.math.segment_min(take(stream.starts, at), member), member)
        last = take(tf.math.segment_max(take(stream.ends, at), member), member)
        updates = ((stream.chars, take(take(stream.chars, at), order)), (stream.starts, first), (stream.ends, last))
        return tuple(tf.tensor_scatter_nd_update(field, at[:, None], values) for field, values in updates)

    there = stream.chars, stream.starts, stream.ends
    with tf.device("CPU:0"):
        chars, starts, ends = tf.cond(tf.reduce_any(reordered), sorted_fields, lambda: there)
    return stream._replace(chars=chars, starts=starts, ends=ends)  # bits stay: all sorted characters are letters


def _strip_marks(stream):
    """Drops marks; the character before a run of marks inherits the end of the run."""
    indices = where(stream.bits & characters.MARK == 0)
    following = with_end(indices, stream.chars)[1:]
    stayed, run_ends = stream.take(indices), take(stream.ends, following - 1)
    return stayed._replace(ends=tf.maximum(stayed.ends, run_ends))


def _words(stream, text_starts):
    apart = stream.bits & characters.ISOLATED != 0
    cut = stream.bits & (characters.SPACE | characters.ISOLATED) != 0
    begins = apart | tf.roll(cut, 1, 0)  # the last character of all is a line feed
    solid = where(stream.bits & characters.SPACE == 0)
    first = where(take(begins, solid))
    chars, _, starts, ends = stream.take(solid)
    chars = ragged(chars, with_end(first, chars))
    return WordBatch(chars, lower_bound(take(starts, first), text_starts), text_starts, starts, ends)
