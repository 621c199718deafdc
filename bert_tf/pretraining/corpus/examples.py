"""Creates examples of one or two texts, like google-research/bert's create_instances_from_document.

An example is chosen as positions in `Documents.tokens`; the ids are looked up last, for many examples at once. Only the
choice itself, which starts where the example before it ended, is a loop.
"""

import random
from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np

from bert_tf.pretraining.corpus.documents import CONTINUES, Documents
from bert_tf.pretraining.masking_vocabulary import MaskingVocabulary

CHOSEN, FORCED_RANDOM, FORCED_ACTUAL = range(3)  # how the second text was selected


class PretrainingExamples(NamedTuple):
    """n examples of one or two texts, as slices of `Documents.tokens.flat`.

    Attributes:
        a_start, a_length, b_start, b_length: int64 [n]; b_length is 0 if there is no second text.
        label: int32 [n], 1 if the second text is random (nsp) or the two are swapped (sop).
        forced: int8 [n], CHOSEN at random, or FORCED_RANDOM or FORCED_ACTUAL if there was no choice.
    """

    a_start: np.ndarray
    a_length: np.ndarray
    b_start: np.ndarray
    b_length: np.ndarray
    label: np.ndarray
    forced: np.ndarray

    def take(self, rows) -> "PretrainingExamples":
        """Returns these examples (int [k] or a slice)."""
        return PretrainingExamples(*(field[rows] for field in self))


class _OtherDocuments:
    """Samples parts of other documents uniformly."""

    def __init__(self, ids):
        self._order = np.argsort(ids, kind="stable").tolist()
        ordered = ids[self._order]
        first = np.searchsorted(ordered, ids, "left")
        self._first, self._own = first.tolist(), (np.searchsorted(ordered, ids, "right") - first).tolist()

    def any(self, part) -> bool:
        """Returns whether there is a part of a document other than that of `part`."""
        return self._own[part] < len(self._order)

    def draw(self, part, uniform) -> int:
        """Samples a part of another document uniformly, and returns its index."""
        place = int(uniform() * (len(self._order) - self._own[part]))
        return self._order[place + (self._own[part] if place >= self._first[part] else 0)]


def next_sentence(
    documents: Documents, max_seq_length: int, short_seq_prob: float, rng, special: int = 3
) -> PretrainingExamples:
    """Creates text pairs whose second text is the actual next one or a random one (BERT, section 3.1).

        the document's sentences    s0 s1 s2 s3 s4 ...         s0 to s3 fill a row; s0 s1 were drawn as the first text
        label 0                     s0 s1 | s2 s3              the next example begins with s4
        label 1                     s0 s1 | r7 r8              ... with s2, so that s2 s3 are not lost

    A random text is never from the same document. A single sentence at the end of its document has no next one and is
    paired with a random text; if there is no other document, the pair is an actual one and the single sentence is
    omitted. Such pairs are marked as forced.
    """
    others, starts = _OtherDocuments(documents.ids), documents.sentence_starts.tolist()
    uniform, target = _make_draws(rng, max_seq_length - special, short_seq_prob)
    parts, examples = _parts(documents), []
    for part, (i, end) in enumerate(parts):
        free = others.any(part)
        while i < end:
            goal = target()
            after = bisect_left(starts, starts[i] + goal, i + 1, end)
            middle = i + 1 + int(uniform() * (after - i - 1))
            lone = after == i + 1
            length = starts[middle] - starts[i]
            if free and (lone or uniform() < 0.5):
                first, last = parts[others.draw(part, uniform)]
                r = first + int(uniform() * (last - first))
                stop = bisect_left(starts, starts[r] + goal - length, r + 1, last)
                examples.append(
                    (starts[i], length, starts[r], starts[stop] - starts[r], 1, FORCED_RANDOM if lone else CHOSEN)
                )
                i = middle
                continue
            if not lone:
                length_b = starts[after] - starts[middle]
                examples.append((starts[i], length, starts[middle], length_b, 0, CHOSEN if free else FORCED_ACTUAL))
            i = after
    return _truncate(_to_arrays(examples), max_seq_length - special, rng)


def sentence_order(
    documents: Documents, max_seq_length: int, short_seq_prob: float, rng, special: int = 3
) -> PretrainingExamples:
    """Creates pairs of consecutive texts, half of them swapped (ALBERT, arXiv 1909.11942, section 3.1).

        label 0     s0 s1 | s2 s3          label 1     s2 s3 | s0 s1

    A single sentence is split at a random position; if it has one token only, it is omitted.
    """
    starts = documents.sentence_starts.tolist()
    uniform, target = _make_draws(rng, max_seq_length - special, short_seq_prob)
    examples = []
    for i, end in _parts(documents):
        while i < end:
            after = bisect_left(starts, starts[i] + target(), i + 1, end)
            begin, stop = starts[i], starts[after]
            if after > i + 1:
                middle = starts[i + 1 + int(uniform() * (after - i - 1))]
            else:
                middle = begin + 1 + int(uniform() * (stop - begin - 1))
            i = after
            if middle == stop:
                continue
            first, second = (begin, middle - begin), (middle, stop - middle)
            swapped = uniform() < 0.5
            examples.append((*second, *first, 1, CHOSEN) if swapped else (*first, *second, 0, CHOSEN))
    return _truncate(_to_arrays(examples), max_seq_length - special, rng)


def one_text(
    documents: Documents, max_seq_length: int, short_seq_prob: float, rng, special: int = 2
) -> PretrainingExamples:
    """Creates single texts of as many complete sentences as fit (RoBERTa, arXiv 1907.11692, DOC-SENTENCES).

        s0 s1 s2 | s3 s4 | ...          one example after the other

    A sentence longer than an example is split over several: nothing is truncated.
    """
    starts = documents.sentence_starts.tolist()
    _, target = _make_draws(rng, max_seq_length - special, short_seq_prob)
    examples = []
    for i, end in _parts(documents):
        place, stop = starts[i], starts[end]
        while place < stop:
            goal = place + target()
            whole = starts[bisect_right(starts, goal, i, end + 1) - 1]  # end of the last sentence that fits
            upto = whole if whole > place else goal
            examples.append((place, upto - place, 0, 0, 0, CHOSEN))
            place = upto
    return _to_arrays(examples)


# The functions for `sentence_objective`. Each takes (documents, max_seq_length, short_seq_prob, rng, special): the
# texts, the maximum tokens per example (including special ones), the probability of a random shorter target length, a
# np.random.Generator, and the number of special tokens of an example; each returns examples that fit. The length is
# drawn for every example. Google draws it once per document, which turns one long document in ten into short examples
# only.
OBJECTIVES = {"nsp": next_sentence, "sop": sentence_order, "none": one_text}


def lay_out_examples(
    documents: Documents, examples: PretrainingExamples, max_seq_length: int, vocabulary: MaskingVocabulary
) -> dict:
    """Returns the input features of examples, in the model's layout: ids, mask and segments. BERT's:

        input_ids    [CLS]  a  a  a [SEP]  b  b [SEP] [PAD] [PAD]
        input_mask     1    1  1  1   1    1  1   1     0     0
        segment_ids    0    0  0  0   0    1  1   1     0     0

    Returns:
        "input_ids", "input_mask", "segment_ids": int32 [n, max_seq_length]; "next_sentence_labels": int32 [n, 1];
        "continues": bool [n, max_seq_length], where a token continues the word before it, according to the segmenter.
    """
    column = np.arange(max_seq_length, dtype=np.int32)
    a, b = (length.astype(np.int32)[:, None] for length in (examples.a_length, examples.b_length))
    has_b = b > 0
    before, between, after = vocabulary.before, vocabulary.between, vocabulary.after
    middle = len(before) + a  # the end of the first text
    second = (column >= middle + len(between)) & has_b
    total = middle + b + has_b * len(between) + len(after)
    start = np.where(second, examples.b_start[:, None] - middle - len(between), examples.a_start[:, None] - len(before))
    mask = column < total
    ids = documents.tokens.flat.take(start + column, mode="clip")
    for number, token in enumerate(before):
        ids[:, number] = token
    for number, token in enumerate(between):
        ids[(column == middle + number) & has_b] = token
    for number, token in enumerate(after, -len(after)):
        ids[column == total + number] = token
    ids[~mask] = vocabulary.pad_id
    return {
        "input_ids": ids & ~CONTINUES,
        "input_mask": mask.astype(np.int32),
        "segment_ids": vocabulary.second_segment * (second & mask).astype(np.int32),
        "next_sentence_labels": examples.label[:, None],
        "continues": ids & CONTINUES != 0,
    }


def _parts(documents):
    """Returns (first sentence, sentence after the last) of each part, as Python integers, the fastest for a loop."""
    splits = documents.sentences.splits.tolist()
    return list(zip(splits[:-1], splits[1:], strict=True))


def _make_draws(rng, longest, short_seq_prob):
    """Returns two functions for loops: a sample from [0, 1), and an example's target length."""
    uniform = random.Random(int(rng.integers(2**63))).random  # ten times faster than the Generator for single numbers

    def target():
        return 2 + int(uniform() * (longest - 1)) if uniform() < short_seq_prob else longest

    return uniform, target


def _to_arrays(examples):
    fields = np.array(examples, np.int64).reshape(-1, 6).T
    return PretrainingExamples(*fields[:4], fields[4].astype(np.int32), fields[5].astype(np.int8))


def _truncate(examples, room, rng):
    """Truncates both texts to `room` tokens: always the longer one (the second if equal), at a random end.

    What google-research/bert's truncate_seq_pair does token by token depends only on the lengths, so it is computed at
    once: a text shorter than half of the room leaves the rest of its half to the other.
    """
    keep_b = np.minimum(examples.b_length, np.maximum(room // 2, room - examples.a_length))
    keep_a = np.minimum(examples.a_length, room - keep_b)
    return examples._replace(
        a_start=examples.a_start + rng.binomial(examples.a_length - keep_a, 0.5),
        a_length=keep_a,
        b_start=examples.b_start + rng.binomial(examples.b_length - keep_b, 0.5),
        b_length=keep_b,
    )
