"""Encodes sentences of words and tags as the sequences that a tagger is trained on, scored on and queried with."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from absl import logging

from bert_tf.data.dataset import EncodedDataset
from bert_tf.data.features import FEATURES
from bert_tf.data.ragged import splits_of
from bert_tf.tasks.tagging.columns import TaggedExamples
from bert_tf.tasks.tagging.words import TaggedWords, encode_words

_CHUNK = 5_000  # sentences encoded at a time: few enough to keep memory small


@dataclasses.dataclass(frozen=True)
class SentenceOrigin:
    """Where sequences come from.

    Attributes:
        words: words of the sentences' texts, as numpy arrays.
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
        """Returns the words as in the file; for one with whitespace, its first part counts, as in `take`."""
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
        tokenizer: a `BaseTokenizer`.
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
                    f"{examples.where(i, k)}: the tag must be one of those in the training data: {', '.join(labels)}; "
                    f"got {tag!r}; correct this line, check `tag_column`, or train on examples of this tag too."
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
