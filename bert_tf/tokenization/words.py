"""Text to words in the graph: google-research/bert's BasicTokenizer, with a map back to the text as it came."""

from typing import NamedTuple

import tensorflow as tf

from bert_tf.tokenization import characters as ch
from bert_tf.tokenization.matching import Normalized

_CAPITAL_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2


class Words(NamedTuple):
    """The words of a batch of n texts, one after the other.

    Attributes:
        chars: RaggedTensor int32 [words, (characters)], the code points of each word, lowercased and stripped.
        rows: int64 [words], the text that each word is of.
        origins: int32 [words], where this text begins in the row of all texts, in code points.
        starts: int32 [all characters], where in the row of all texts the origin of a character begins.
        limits: int32 [all characters], where it ends (not included), combining marks that were stripped included.
    """

    chars: tf.RaggedTensor
    rows: tf.Tensor
    origins: tf.Tensor
    starts: tf.Tensor
    limits: tf.Tensor


class _Stream(NamedTuple):
    """The characters of all texts in one row, each text closed by a line feed; every field is int32 [characters]."""

    chars: tf.Tensor
    starts: tf.Tensor
    limits: tf.Tensor
    flags: tf.Tensor

    def take(self, indices):
        return _Stream(*(tf.gather(field, indices) for field in self))


class WordSplitter(tf.Module):
    """Cleans, isolates CJK, splits at white space, lowercases, decomposes, strips marks, splits at punctuation.

    Every step but two looks at one character at a time, hence the tables. The two: a capital sigma at the end of a word
    becomes a final one, and canonical order sorts combining characters (the few which are not stripped) by their class.

        text     C  a  f  e  ◌́  中  !          one text as it came, ◌́ = U+0301
        chars    c  a  f  e     中  !          three words
        starts   0  1  2  3     5  6
        limits   1  2  3  5     6  7          the mark belongs to the e before it
    """

    def __init__(self, do_lower_case: bool, strip_accents: bool | None = None):
        super().__init__()
        self._do_lower_case = do_lower_case
        self._strip_accents = do_lower_case if strip_accents is None else strip_accents
        if self._strip_accents and not do_lower_case:
            raise ValueError("Accents must stay where text is not lowercased. Received: `strip_accents=True`; drop it.")
        only_lower = do_lower_case and not self._strip_accents
        table = ch.character_table(decompose=False) if only_lower else ch.character_table()
        with tf.init_scope(), tf.device("CPU:0"):
            self._pages, self._flags_table = tf.constant(table.pages), tf.constant(table.flags)
            self._deltas = tf.constant(table.deltas) if do_lower_case else None

    def __call__(self, texts: tf.Tensor) -> Words:
        """Splits texts (string [n], UTF-8; bytes that are none are dropped) into words."""
        return _words(*self._stream(texts))

    def normalized(self, texts: tf.Tensor) -> Normalized:
        """Returns texts before they are split; all white space is blanks."""
        stream, splits = self._stream(texts)
        chars = tf.where(stream.flags & ch.SPACE != 0, ord(" "), stream.chars)
        return Normalized.of(chars, stream.starts, stream.limits, splits)

    def _stream(self, texts):
        """Returns the characters of texts, cleaned, lowercased and stripped, and where texts begin as they came."""
        # The line feed is a space: no word, no sigma's neighbourhood and no run of marks reaches into the next text.
        decoded = tf.strings.unicode_decode(tf.strings.join([texts, "\n"]), "UTF-8", errors="ignore")
        chars, at = decoded.flat_values, tf.range(tf.size(decoded.flat_values))
        stream = _Stream(chars, at, at + 1, tf.gather(self._flags_table, self._places(chars)))
        stream = stream.take(_where_not(stream.flags, ch.DELETED))
        if self._do_lower_case:
            stream = self._lowered(_with_final_sigma(stream))
        if self._strip_accents:
            stream = _strip_marks(_in_canonical_order(stream))
        return stream, decoded.row_splits

    def _places(self, chars):
        return tf.gather(self._pages, chars // ch.PAGE) * ch.PAGE + chars % ch.PAGE

    def _lowered(self, stream):
        """Replaces each character by its lower case, decomposed where accents are stripped: one to four characters."""
        deltas = tf.gather(self._deltas, self._places(stream.chars))  # [characters, 4]
        deltas = tf.reshape(deltas, [-1])
        places = tf.where(deltas != ch.NOTHING)[:, 0]
        origin = places // ch.LONGEST
        chars = tf.gather(stream.chars, origin) + tf.gather(deltas, places)
        flags = tf.gather(self._flags_table, self._places(chars))
        return _Stream(chars, tf.gather(stream.starts, origin), tf.gather(stream.limits, origin), flags)


def _where_not(flags, bits):
    """int64 [k]: where none of the bits is set."""
    return tf.where(flags & bits == 0)[:, 0]


def _with_final_sigma(stream):
    """Σ after a cased character and before none is ς in lower case (Unicode's Final_Sigma, as in Python's lower())."""

    def replaced():
        seen = _where_not(stream.flags, ch.TRANSPARENT)
        cased = tf.gather(stream.flags, seen) & ch.CASED != 0
        before, after = tf.concat([[False], cased[:-1]], 0), tf.concat([cased[1:], [False]], 0)
        final = (tf.gather(stream.chars, seen) == _CAPITAL_SIGMA) & before & ~after
        at = tf.boolean_mask(seen, final)[:, None]
        return tf.tensor_scatter_nd_update(stream.chars, at, tf.fill([tf.size(at)], _FINAL_SIGMA))

    chars = tf.cond(tf.reduce_any(stream.chars == _CAPITAL_SIGMA), replaced, lambda: stream.chars)
    return stream._replace(chars=chars)


def _in_canonical_order(stream):
    """Sorts, within each run of combining characters, those that stay by their class.

    Marks that are stripped anyway need no sorting. Each sorted character is given the extent of all of its run's, so
    that offsets hold what they name and never go back.
    """
    classes = stream.flags // ch.COMBINING_CLASS  # the highest bits

    def sorted_fields():
        at = tf.where(stream.flags & ch.REORDERED != 0)
        run = tf.gather_nd(tf.cumsum(tf.cast(classes == 0, tf.int64)), at)
        order = tf.argsort(run * 256 + tf.cast(tf.gather_nd(classes, at), tf.int64), stable=True)
        _, member = tf.unique(run)
        first = tf.gather(tf.math.segment_min(tf.gather_nd(stream.starts, at), member), member)
        last = tf.gather(tf.math.segment_max(tf.gather_nd(stream.limits, at), member), member)
        chars = tf.gather(tf.gather_nd(stream.chars, at), order)
        updates = ((stream.chars, chars), (stream.starts, first), (stream.limits, last))
        return tuple(tf.tensor_scatter_nd_update(field, at, values) for field, values in updates)

    needed = tf.reduce_any(stream.flags & ch.REORDERED != 0)
    chars, starts, limits = tf.cond(needed, sorted_fields, lambda: (stream.chars, stream.starts, stream.limits))
    return stream._replace(chars=chars, starts=starts, limits=limits)  # flags tell the sorted ones not apart: letters


def _strip_marks(stream):
    """Drops marks; the character before a run of marks takes over where the run ends."""
    places = _where_not(stream.flags, ch.MARK)
    following = tf.concat([places, tf.shape(stream.flags, tf.int64)], 0)[1:]
    stayed, run_ends = stream.take(places), tf.gather(stream.limits, following - 1)
    return stayed._replace(limits=tf.maximum(stayed.limits, run_ends))


def _words(stream, row_splits):
    """Cuts the stream at spaces and around isolated characters."""
    apart = stream.flags & ch.ISOLATED != 0
    cut = stream.flags & (ch.SPACE | ch.ISOLATED) != 0
    begins = apart | tf.concat([[True], cut], 0)[:-1]
    solid = _where_not(stream.flags, ch.SPACE)
    chars, starts, limits, _ = stream.take(solid)
    first = tf.where(tf.gather(begins, solid))[:, 0]
    splits = tf.concat([first, tf.shape(chars, tf.int64)], 0)
    rows = tf.searchsorted(row_splits, tf.cast(tf.gather(starts, first), tf.int64), "right", tf.int64) - 1
    origins = tf.cast(tf.gather(row_splits, rows), tf.int32)
    chars = tf.RaggedTensor.from_row_splits(chars, splits, validate=False)
    return Words(chars, rows, origins, starts, limits)
