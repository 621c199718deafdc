"""Words of a text and their tokens: the sequences of a tagger, and the predicted entities."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data.dataset import EncodedDataset
from bert_tf.data.features import FEATURES
from bert_tf.data.ragged import splits_of
from bert_tf.evaluation.entities import split_tag
from bert_tf.tasks.tagging.boundaries import ALONE, ATTACHED, BLANK, EDGES, class_pages
from bert_tf.tasks.tagging.columns import TaggedExamples
from bert_tf.tokenization.characters import SPACE, character_table
from bert_tf.tokenization.flat_ops import places, take, upper_bound, where
from bert_tf.tokenization.special_tokens import room_for
from bert_tf.tokenization.windows import Windows, find_windows

# === Words ===
# Encodes texts for a tagger, and locates their words: the token that represents each word, and its position.
#
# Eager and in a SavedModel alike, so that files and the exported model are encoded identically.


_EDGES = tuple(map(ord, EDGES))
_FULL_STOP = ord(".")


class TaggedWords(NamedTuple):
    """The W words of n texts, grouped by text; words without tokens are omitted.

    A word is represented by its first token, in the window where that token has the most context. A word in which no
    token begins, such as the second character of a token of two, is represented by the token that it is in.

    Attributes:
        texts: strings [n], without invalid UTF-8 bytes, which the offsets do not count.
        of_text: int64 [W], the text index of each word; ascending.
        sequences, positions: int64 [W], the sequence of the word's first token, and its position there.
        starts, ends: int32 [W], the span of the word in its text, half-open, in code points.
        inner_starts, inner_ends: int32 [W], the same without punctuation at its edges: "Rome," -> "Rome", but "U.S."
            and "..." are unchanged.
    """

    texts: tf.Tensor
    of_text: tf.Tensor
    sequences: tf.Tensor
    positions: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    inner_starts: tf.Tensor
    inner_ends: tf.Tensor


def encode_words(
    tokenizer, texts, max_seq_length: int, stride: int, boundaries: str = "whitespace"
) -> tuple[dict[str, tf.RaggedTensor], TaggedWords]:
    """Encodes texts with one sequence per window of their tokens, and locates their words.

        text        Joan    Baez,       in Rome.
        sequence    [CLS] joan ba ##ez , in rome . [SEP]
        positions           1   2        5  6               the first tokens of the four words

    Args:
        tokenizer: a `Tokenizer`.
        texts: strings [n].
        max_seq_length: maximum tokens per sequence.
        stride: tokens from one window's start to the next one's.
        boundaries: where words end, one of `names.WORD_BOUNDARIES`.

    Returns:
        "input_ids" and "segment_ids", RaggedTensors of int32 [w, (length)]; and the `TaggedWords`.

    Raises:
        ValueError: max_seq_length has no room for a token, or tokens would fall between two windows.
    """
    room = room_for(1, max_seq_length, tokenizer.template)
    if not 1 <= stride <= room:
        raise ValueError(
            f"`doc_stride` must be from 1 to {room}, the number of tokens that fit into a sequence of "
            f"`max_seq_length`. Received: {stride}; with a larger one, tokens would fall between two windows."
        )
    texts = tf.strings.unicode_transcode(tf.convert_to_tensor(texts, tf.string), "UTF-8", "UTF-8", errors="ignore")
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    windows = find_windows(ids.row_lengths(), room, stride)
    packed = tokenizer.pack(windows.take(ids), max_seq_length=max_seq_length)
    chars = tf.strings.unicode_decode(texts, "UTF-8")
    spans = _Spans.of(chars, boundaries)
    word, first = _first_tokens(spans, chars, ids, starts, ends)
    sequence, position = _best_windows(windows, ids)
    of_text = tf.gather(ids.value_rowids(), first)
    origin = tf.gather(chars.row_starts(), of_text)
    positions = tf.gather(position, first) + len(tokenizer.template.before)
    spans = [tf.cast(tf.gather(part, word) - origin, tf.int32) for part in spans.extents()]
    return packed, TaggedWords(texts, of_text, tf.gather(sequence, first), positions, *spans)


def _first_tokens(spans, chars, ids, starts, ends):
    """Returns int64 [W] twice: the words that have a token, and the first token of each, or the one that it is in."""
    base = tf.gather(chars.row_starts(), ids.value_rowids())
    solid = where(starts.flat_values < ends.flat_values)  # a token of a space alone is of no word
    begins, limits = (tf.gather(base + tf.cast(side.flat_values, tf.int64), solid) for side in (starts, ends))
    words = tf.size(spans.starts, tf.int64)
    own = tf.math.unsorted_segment_min(solid, tf.gather(spans.word_of_char, begins), words)
    around = upper_bound(begins, spans.starts) - 1
    known = tf.concat([[0], limits], 0)  # so that -1, no token before it, is a place too
    inside = tf.where(take(known, around + 1) > spans.starts, take(tf.concat([[-1], solid], 0), around + 1), -1)
    token = tf.where(own < tf.int64.max, own, inside)
    word = where(token >= 0)
    return word, take(token, word)


class _Spans(NamedTuple):
    """The words of all texts, indexed by the code points of the concatenated texts: int64 [code points], or [words]."""

    word_of_char: tf.Tensor  # of white space: that of the word before it, or -1
    starts: tf.Tensor
    ends: tf.Tensor
    inner_starts: tf.Tensor
    inner_ends: tf.Tensor

    @classmethod
    def of(cls, chars: tf.RaggedTensor, boundaries: str) -> "_Spans":
        flat = chars.flat_values
        begins, space = _mark_words(chars, boundaries)
        word = tf.cumsum(tf.cast(begins, tf.int64)) - 1
        count, solid = tf.reduce_sum(tf.cast(begins, tf.int64)), tf.where(~space)[:, 0]
        char, of = tf.gather(flat, solid), tf.gather(word, solid)
        stops = tf.math.unsorted_segment_sum(tf.cast(char == _FULL_STOP, tf.int64), of, count)
        edge = tf.reduce_any(char[:, tf.newaxis] == tf.constant(_EDGES), 1)
        edge &= ~((char == _FULL_STOP) & (tf.gather(stops, of) > 1))
        inner, of_inner = tf.boolean_mask(solid, ~edge), tf.boolean_mask(of, ~edge)
        starts, ends = tf.math.segment_min(solid, of), tf.math.segment_max(solid, of) + 1
        first = tf.math.unsorted_segment_min(inner, of_inner, count)
        last = tf.math.unsorted_segment_max(inner, of_inner, count)
        only_edges = last < 0  # what the maximum of nothing is
        return cls(word, starts, ends, tf.where(only_edges, starts, first), tf.where(only_edges, ends, last + 1))

    def extents(self):
        return self.starts, self.ends, self.inner_starts, self.inner_ends


def _mark_words(chars, boundaries):
    """Returns bool [code points] twice: where words begin, as in `word_spans`, and which characters are white space."""
    flat, text = chars.flat_values, chars.value_rowids()
    begins_text = tf.concat([[True], text[1:] != text[:-1]], 0)[: tf.size(text)]
    if boundaries == "whitespace":
        table = character_table(False, False)  # flags are the same in all tables, and this is the smallest
        space = take(tf.constant(table.flags), places(tf.constant(table.pages), flat)) & SPACE != 0
        return ~space & (begins_text | _shifted(space, True)), space
    pages, entries = class_pages(boundaries)
    classes = take(tf.constant(entries), places(tf.constant(pages), flat))
    space = classes == BLANK
    attached = (classes == ATTACHED) & ~begins_text & ~_shifted(space, True)
    known = tf.concat([[BLANK], tf.boolean_mask(classes, ~attached)], 0)
    before = _shifted(take(known, tf.cumsum(tf.cast(~attached, tf.int32))), BLANK)
    begins = begins_text | (before == BLANK) | (before == ALONE) | (classes == ALONE)
    return ~space & ~attached & begins, space


def _shifted(values, first):
    """Returns the value before each one."""
    return tf.concat([[first], values], 0)[:-1]


def _best_windows(windows: Windows, ids):
    """Returns int64 [tokens] twice: the window in which each token has most around it, and its position in that window.

    As google-research/bert's run_squad.py chooses: the fewer of the tokens to the left and to the right decide, and of
    equal windows the first.
    """
    at = windows.take(ids.with_flat_values(tf.range(tf.size(ids.flat_values, tf.int64))))
    token, window = at.flat_values, at.value_rowids()
    position = tf.range(tf.size(token, tf.int64)) - tf.gather(at.row_starts(), window)
    around = tf.minimum(position, tf.gather(windows.lengths, window) - 1 - position)
    count = tf.size(ids.flat_values, tf.int64)
    most = tf.math.unsorted_segment_max(around, token, count)
    best = tf.where(around == tf.gather(most, token))[:, 0]
    chosen = tf.math.unsorted_segment_min(best, tf.gather(token, best), count)
    return tf.gather(window, chosen), tf.gather(position, chosen)


# === Spans ===
# The entities in texts, from the tags of their words: in the graph, so that program and server answer alike.


def entities_in(best, words: TaggedWords, labels: Sequence[str]) -> dict[str, tf.Tensor]:
    """Returns the entities of each text, as `TaggingTask.postprocess` describes them.

    An entity begins at B- or S-, and at I- or E- after a word outside, of another type, or with E- or S-, as in
    conlleval. Words of one token are of one entity. Its score is the mean probability of its words' tags.

    Args:
        best: "tag" int32 [w, S] and "probability" float32 [w, S], of each token.
        words: of n texts.
        labels: the tags, in any scheme.
    """
    prefixes, kinds = zip(*map(split_tag, labels), strict=True)
    names = sorted(set(kinds))
    kind_of = tf.constant([names.index(k) if p != "O" else -1 for p, k in zip(prefixes, kinds, strict=True)], tf.int64)
    begins_of = tf.constant([prefix in "BS" for prefix in prefixes])
    ends_of = tf.constant([prefix in "ES" for prefix in prefixes])
    at = tf.stack([words.sequences, words.positions], 1)
    tags, chances = tf.gather_nd(best["tag"], at), tf.gather_nd(best["probability"], at)  # [W]
    kind, of_text = tf.gather(kind_of, tags), tf.convert_to_tensor(words.of_text)
    before = tf.concat([[-1], kind], 0)[: tf.size(kind)]
    same_text = tf.concat([[False], of_text[1:] == of_text[:-1]], 0)[: tf.size(kind)]
    inside = kind >= 0
    ended = tf.concat([[False], tf.gather(ends_of, tags)], 0)[: tf.size(kind)]
    same_token = tf.concat([[False], tf.reduce_all(at[1:] == at[:-1], 1)], 0)[: tf.size(kind)]
    begins = inside & ~same_token & (tf.gather(begins_of, tags) | ended | ~same_text | (before != kind))
    first = tf.where(begins)[:, 0]
    own = tf.where(inside)[:, 0]
    entity = tf.gather(tf.cumsum(tf.cast(begins, tf.int64)) - 1, own)  # of each word inside one
    last = tf.math.unsorted_segment_max(own, entity, tf.size(first))
    starts, ends = tf.gather(words.inner_starts, first), tf.gather(words.inner_ends, last)
    score = tf.math.unsorted_segment_mean(tf.gather(chances, own), entity, tf.size(first))
    text = tf.gather(of_text, first)
    flat = {
        "entity": tf.strings.substr(tf.gather(words.texts, text), starts, ends - starts, unit="UTF8_CHAR"),
        "type": tf.gather(tf.constant(np.array(names, object)), tf.gather(kind, first)),
        "start": starts,
        "end": ends,
        "score": score,
    }
    number = tf.size(words.texts, tf.int64)
    ragged = {name: tf.RaggedTensor.from_value_rowids(v, text, number, validate=False) for name, v in flat.items()}
    counts = tf.cast(ragged["start"].row_lengths(), tf.int32)
    return {name: values.to_tensor() for name, values in ragged.items()} | {"entity_count": counts}


# === Encoding ===
# Sentences of words and tags to the sequences that a tagger is trained on, scored on and asked about.


_CHUNK = 5_000  # sentences encoded at a time: few enough to keep memory small


@dataclasses.dataclass(frozen=True)
class SentenceOrigin:
    """Where sequences come from.

    Attributes:
        words: of the sentences' texts, as numpy arrays.
        tokens: int64 [W], index in the file's sentence of the word that each of the words is or begins in.
        examples: the n sentences.
    """

    words: TaggedWords
    tokens: np.ndarray
    examples: TaggedExamples

    def take(self, values: np.ndarray, default) -> list[list]:
        """Returns a value for each word of each sentence: that of its token, or `default` where it has none.

        Args:
            values: [w, S], of each token of the sequences.
            default: for words without a token, such as a lone control character.
        """
        return self._by_sentence(values[self.words.sequences, self.words.positions], default)

    def continued(self) -> list[list[bool]]:
        """Returns for each word of each sentence whether its token is that of the word before it."""
        at = np.stack([self.words.sequences, self.words.positions])
        same = np.append(False, (at[:, 1:] == at[:, :-1]).all(0))[: at.shape[1]]
        return self._by_sentence(same, False)

    def _by_sentence(self, values, default):
        counts = list(map(len, self.examples.words))
        picked, sentences = values.tolist(), []
        bounds = np.searchsorted(self.words.of_text, np.arange(len(counts) + 1))
        for count, first, end in zip(counts, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            own = [default] * count
            for i in range(end - 1, first - 1, -1):  # of several parts of a word the first one counts
                own[self.tokens[i]] = picked[i]
            sentences.append(own)
        return sentences

    def whole_words(self) -> TaggedWords:
        """Returns the words as the file has them: of one that holds white space the first part speaks, as in `take`."""
        words = self.words
        whole = np.stack([words.of_text, self.tokens])
        begins = np.append(True, (whole[:, 1:] != whole[:, :-1]).any(0))[: len(self.tokens)]
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(begins))[: len(first)] - 1
        of_words = TaggedWords(words.texts, *(part[first] for part in words[1:]))
        return of_words._replace(ends=words.ends[last], inner_ends=words.inner_ends[last])


def encode_sentences(
    tokenizer,
    examples: TaggedExamples,
    labels: Sequence[str],
    max_seq_length: int,
    stride: int,
    with_tags: bool,
    boundaries: str = "whitespace",
) -> EncodedDataset:
    """Encodes sentences; one longer than a sequence may be is read through windows.

        words       Joan  Baez     sings
        tags        B-PER I-PER    O
        input_ids   [CLS] joan ba ##ez sings [SEP]
        tag_ids      -1    0   1   -1    2    -1        on a word's first token, in the window where it has most around

    Args:
        tokenizer: a `Tokenizer`.
        examples: the sentences.
        labels: all tags.
        max_seq_length, stride, boundaries: as in `encode_words`.
        with_tags: make `tag_ids`.

    Returns:
        The w sequences, with a `SentenceOrigin`.

    Raises:
        ValueError: a tag is not among the labels, or the lengths do not fit.
    """
    ids = _label_ids(examples, labels) if with_tags else None  # first: it is where a file can be wrong
    features, lengths, words, tokens = [], [], [], []
    for start in range(0, len(examples), _CHUNK):
        chunk = range(start, min(start + _CHUNK, len(examples)))
        texts, spans = zip(*map(examples.text_of, chunk), strict=True)
        packed, read = encode_words(tokenizer, list(texts), max_seq_length, stride, boundaries)
        read = TaggedWords(*(part.numpy() for part in read))
        tokens.append(_tokens(read, spans))
        words.append(read._replace(of_text=read.of_text + start, sequences=read.sequences + sum(map(len, lengths))))
        lengths.append(packed["input_ids"].row_lengths().numpy())
        features.append({name: part.flat_values.numpy() for name, part in packed.items()})
    words, tokens = TaggedWords(*map(np.concatenate, zip(*words, strict=True))), np.concatenate(tokens)
    splits = splits_of(np.concatenate(lengths))
    flat = {name: np.concatenate([part[name] for part in features]) for name in features[0]}
    if ids is not None:
        flat["tag_ids"] = np.full(splits[-1], FEATURES["tag_ids"].padding, np.int32)
        offsets = splits_of([len(each) for each in ids])[words.of_text] + tokens
        first = np.unique(offsets, return_index=True)[1]  # of several parts of a word the first one counts
        indexes = splits[words.sequences[first]] + words.positions[first]
        indexes, begins = np.unique(indexes, return_index=True)  # of several words in a token likewise
        flat["tag_ids"][indexes] = np.concatenate(ids)[offsets[first[begins]]]
    _log(examples, splits)
    origin = SentenceOrigin(words, tokens, examples)
    return EncodedDataset(flat, splits, {}, tokenizer.pad_id, origin)


def _label_ids(examples, labels):
    """Returns an array of label ids for each sentence."""
    known = {label: i for i, label in enumerate(labels)}
    for i, tags in enumerate(examples.tags):
        for k, tag in enumerate(tags):
            if tag not in known:
                raise ValueError(
                    f"{examples.where(i, k)}: the tag must be one of those in the training data: {', '.join(labels)}. "
                    f"Received: {tag!r}; correct this line, check `tag_column`, or train on examples of this tag too."
                )
    return [np.array([known[tag] for tag in tags], np.int32) for tags in examples.tags]


def _tokens(words, spans):
    """Returns int64 [W]: in which word of its sentence each word begins; spans: (start, end) of these."""
    longest = 1 + max(end for each in spans for _, end in each)
    starts = np.array([start + i * longest for i, each in enumerate(spans) for start, _ in each])
    firsts = splits_of([len(each) for each in spans])
    indexes = np.searchsorted(starts, words.starts + words.of_text * longest, "right") - 1
    return indexes - firsts[words.of_text]


def _log(examples, splits):
    lengths = np.diff(splits)
    logging.info(
        "%s: %d sentences of %d words, in %d sequences of %.1f tokens on average.",
        *(examples.path, len(examples), sum(map(len, examples.words)), len(lengths), lengths.mean()),
    )
