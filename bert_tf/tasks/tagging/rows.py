"""Sentences of words and tags to the rows that a tagger is trained on, scored on and asked about."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from absl import logging

from bert_tf.data.dataset import Tokenized
from bert_tf.data.features import FEATURES
from bert_tf.data.ragged import splits_of
from bert_tf.tasks.tagging.columns import TaggedExamples, text_of
from bert_tf.tasks.tagging.words import Words, word_rows

_CHUNK = 5_000  # sentences laid out at a time: few enough to keep memory small


@dataclasses.dataclass(frozen=True)
class SentenceOrigin:
    """Where rows come from.

    Attributes:
        words: of the sentences' texts, as numpy arrays.
        tokens: int64 [W], index in the file's sentence of the word that each of the words is or begins in.
        counts: list of n, the number of words of each sentence in the file.
        tags: of each sentence in the file, in IOB2; None where it has none.
    """

    words: Words
    tokens: np.ndarray
    counts: list[int]
    tags: list[list[str]] | None

    def take(self, values: np.ndarray, default) -> list[list]:
        """Returns a value for each word of each sentence: that of its first piece, or `default` where it has none.

        Args:
            values: [w, S], of each piece of the rows.
            default: for words without a piece, such as a lone control character.
        """
        words, bounds = self.words, np.searchsorted(self.words.of_text, np.arange(len(self.counts) + 1))
        picked, sentences = values[words.rows, words.columns].tolist(), []
        for count, first, limit in zip(self.counts, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            own = [default] * count
            for i in range(limit - 1, first - 1, -1):  # of several parts of a word the first one counts
                own[self.tokens[i]] = picked[i]
            sentences.append(own)
        return sentences


    def whole_words(self) -> Words:
        """Returns the words as the file has them: of one that holds white space the first part speaks, as in `take`."""
        words = self.words
        whole = np.stack([words.of_text, self.tokens])
        begins = np.append(True, (whole[:, 1:] != whole[:, :-1]).any(0))[: len(self.tokens)]
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(begins))[: len(first)] - 1
        of_words = Words(words.texts, *(part[first] for part in words[1:]))
        return of_words._replace(limits=words.limits[last], inner_limits=words.inner_limits[last])


def sentence_rows(
    tokenizer, examples: TaggedExamples, labels: Sequence[str], max_seq_length: int, stride: int, with_tags: bool
) -> Tokenized:
    """Lays sentences out in rows; a sentence longer than a row is read through windows.

        words       Joan  Baez     sings
        tags        B-PER I-PER    O
        input_ids   [CLS] joan ba ##ez sings [SEP]
        tag_ids      -1    0   1   -1    2    -1        on a word's first piece, in the window where it has most around

    Args:
        tokenizer: a `Tokenizer`.
        examples: the sentences.
        labels: all tags.
        max_seq_length, stride: as in `words.word_rows`.
        with_tags: make `tag_ids`.

    Returns:
        The w rows, with a `SentenceOrigin`.

    Raises:
        ValueError: a tag is not among the labels, or the lengths do not fit.
    """
    ids = _label_ids(examples, labels) if with_tags else None  # first: it is where a file can be wrong
    pieces, lengths, words, tokens = [], [], [], []
    for start in range(0, len(examples), _CHUNK):
        texts, spans = zip(*map(text_of, examples.words[start : start + _CHUNK]), strict=True)
        packed, read = word_rows(tokenizer, list(texts), max_seq_length, stride)
        read = Words(*(part.numpy() for part in read))
        tokens.append(_tokens(read, spans))
        words.append(read._replace(of_text=read.of_text + start, rows=read.rows + sum(map(len, lengths))))
        lengths.append(packed["input_ids"].row_lengths().numpy())
        pieces.append({name: part.flat_values.numpy() for name, part in packed.items()})
    words, tokens = Words(*map(np.concatenate, zip(*words, strict=True))), np.concatenate(tokens)
    splits = splits_of(np.concatenate(lengths))
    flat = {name: np.concatenate([part[name] for part in pieces]) for name in pieces[0]}
    if ids is not None:
        flat["tag_ids"] = np.full(splits[-1], FEATURES["tag_ids"].padding, np.int32)
        offsets = splits_of([len(each) for each in ids])[words.of_text] + tokens
        first = np.unique(offsets, return_index=True)[1]  # of several parts of a word the first one counts
        places = splits[words.rows[first]] + words.columns[first]
        flat["tag_ids"][places] = np.concatenate(ids)[offsets[first]]
    _log(examples, splits)
    origin = SentenceOrigin(words, tokens, [len(each) for each in examples.words], examples.tags)
    return Tokenized(flat, splits, {}, tokenizer.pad_id, origin)


def _label_ids(examples, labels):
    """Returns an array of label ids for each sentence."""
    places = {label: i for i, label in enumerate(labels)}
    for i, tags in enumerate(examples.tags):
        for k, tag in enumerate(tags):
            if tag not in places:
                raise ValueError(
                    f"{examples.where(i, k)}: the tag must be one that training saw: {', '.join(labels)}. Received: "
                    f"{tag!r}; correct this line, check `tag_column`, or train on examples of this tag too."
                )
    return [np.array([places[tag] for tag in tags], np.int32) for tags in examples.tags]


def _tokens(words, spans):
    """Returns int64 [W]: in which word of its sentence each word begins; spans: (start, end) of these."""
    longest = 1 + max(limit for each in spans for _, limit in each)
    starts = np.array([start + i * longest for i, each in enumerate(spans) for start, _ in each])
    firsts = splits_of([len(each) for each in spans])
    places = np.searchsorted(starts, words.starts + words.of_text * longest, "right") - 1
    return places - firsts[words.of_text]


def _log(examples, splits):
    lengths = np.diff(splits)
    logging.info(
        "%s: %d sentences of %d words, in %d rows of %.1f pieces each.",
        *(examples.path, len(examples), sum(map(len, examples.words)), len(lengths), lengths.mean()),
    )
