"""Normalizes text to Unicode's NFC in the graph, with a map back to the original text."""

import functools
import unicodedata

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.tokenization.added_token_matcher import Normalized
from bert_tf.tokenization.characters import CODE_POINTS, assigned
from bert_tf.tokenization.flat_ops import lower_bound, take, utf8_lengths, where
from bert_tf.tokenization.unigram_normalizer import Replacements, Stream

_LONGEST_RUN = 30  # marks; as in Unicode's Stream-Safe Text Format
_OVERLAY, _ABOVE = "\u0334", "\u0301"  # marks of a low and of a high class


class Composer(tf.Module):
    """Normalizes texts to NFC: a letter and its accent become one character.

    ICU, which does this, sorts the marks after a letter by inserting one after the other, so that a long run costs the
    square of its length. Runs of more than 30 marks are therefore decomposed and sorted before. The result is the same,
    but each mark of such a run comes from the whole run.
    """

    def __init__(self):
        super().__init__()
        classes, parts = combining_marks()
        self._parts = Replacements(parts)
        with tf.init_scope(), tf.device("CPU:0"):
            self._classes = tf.constant(classes)

    def __call__(self, texts) -> Normalized:
        """Returns the normalized texts, strings [n] in UTF-8; invalid bytes are dropped."""
        chars = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        chars, starts, ends = self._with_sorted_runs(chars)
        made = _compose(chars)
        first = tf.gather(chars.row_starts(), made.chars.value_rowids())
        starts, ends = Normalized(chars, starts, ends).origins(
            *(tf.cast(each, tf.int64) + first for each in (made.starts, made.ends))
        )
        return Normalized(made.chars, starts, ends)

    def _with_sorted_runs(self, chars):
        """Returns texts with sorted long runs of marks, and the spans in their texts that characters came from."""
        codes, rows = chars.flat_values, tf.cast(chars.value_rowids(), tf.int32)
        origin = tf.range(tf.size(codes)) - tf.gather(tf.cast(chars.row_starts(), tf.int32), rows)
        begins = (tf.gather(self._classes, codes) == 0) | (tf.concat([[-1], rows[:-1]], 0)[: tf.size(rows)] != rows)
        run = tf.cumsum(tf.cast(begins, tf.int32)) - 1
        is_long = tf.gather(tf.math.bincount(run), run) > _LONGEST_RUN

        def sorted_fields():
            stream = Stream(codes, tf.range(tf.size(codes)), origin)
            expanded = self._parts.apply(stream, tf.where(is_long, self._parts.rows(codes), 0))
            fields = (tf.gather(each, expanded.starts) for each in (run, is_long, rows, origin))
            return self._sorted(expanded.chars, *fields)

        def there():
            return codes, rows, origin, origin + 1

        with tf.device("CPU:0"):
            codes, rows, starts, ends = tf.cond(tf.reduce_any(is_long), sorted_fields, there)
        nrows = chars.nrows()
        return tf.RaggedTensor.from_value_rowids(codes, tf.cast(rows, tf.int64), nrows, validate=False), starts, ends

    def _sorted(self, codes, run, is_long, rows, origin):
        classes = tf.cast(tf.gather(self._classes, codes), tf.int64)
        at = where(is_long & (classes > 0))
        order = tf.argsort(tf.cast(take(run, at), tf.int64) * 256 + take(classes, at), stable=True)
        _, member = tf.unique(take(run, at))
        first = take(tf.math.segment_min(take(origin, at), member), member)
        last = take(tf.math.segment_max(take(origin, at), member), member)
        updates = (codes, take(take(codes, at), order)), (origin, first), (origin + 1, last + 1)
        codes, starts, ends = (tf.tensor_scatter_nd_update(field, at[:, None], values) for field, values in updates)
        return codes, rows, starts, ends


def _compose(chars):
    """Returns texts, code points [n, (characters)], in NFC by ICU."""
    texts = tf.strings.unicode_encode(chars, "UTF-8")
    normalized, offsets = tf_text.normalize_utf8_with_offsets_map(texts, "NFC")
    originals, chars = chars, tf.strings.unicode_decode(normalized, "UTF-8")
    # Places between characters, with both ends of each text: the operation does not take texts without places.
    places = tf.concat([chars, tf.zeros([tf.size(texts), 1], tf.int32)], 1)
    rows = places.value_rowids()
    first_byte = tf.cumsum(utf8_lengths(places.flat_values), exclusive=True)
    first_byte -= tf.gather(first_byte, tf.gather(places.row_starts(), rows))
    found = tf_text.find_source_offsets(offsets, places.with_flat_values(tf.cast(first_byte, tf.int64)))
    # Bytes and characters of the originals are counted over all texts.
    bytes_before = tf.gather(tf.cumsum(tf.strings.length(texts), exclusive=True), rows)
    begins = tf.cumsum(utf8_lengths(originals.flat_values), exclusive=True)
    chars_before = lower_bound(begins, tf.cast(found.flat_values, tf.int32) + bytes_before)
    found = found.with_flat_values(tf.cast(chars_before - tf.gather(originals.row_starts(), rows), tf.int32))
    starts, ends = found[:, :-1].flat_values, found[:, 1:].flat_values
    return Normalized(chars, tf.minimum(starts, ends - 1), ends)  # of one that became several, all came from it


@functools.cache
def combining_marks() -> tuple[np.ndarray, dict[int, str]]:
    """Returns the combining class of each code point, uint8 [code points], and marks that consist of several -> these.

    A mark that Python knows and ICU does not, or the other way around, has the class 0: ICU leaves it where it is. A
    class never changes from one version of Unicode to the next.
    """
    changing = [c for _, c, _ in assigned(ideographs=False) if unicodedata.combining(c) or unicodedata.decomposition(c)]
    full = {char: unicodedata.normalize("NFD", char) for char in changing}
    marks = {char: form for char, form in full.items() if unicodedata.combining(form[0])}
    simple = [char for char, form in marks.items() if form == char]
    pairs = [char + _OVERLAY if unicodedata.combining(char) > 1 else _ABOVE + char for char in simple]
    with tf.init_scope(), tf.device("CPU:0"):
        turned = tf_text.normalize_utf8(pairs, "NFD").numpy()
    known = {char for char, pair, out in zip(simple, pairs, turned, strict=True) if out.decode("utf-8") == pair[::-1]}
    classes = np.zeros(CODE_POINTS, np.uint8)
    for char, form in marks.items():
        classes[ord(char)] = unicodedata.combining(form[0]) if known >= {*form} else 0
    return classes, {ord(char): form for char, form in marks.items() if form != char}
