"""Questions and their choices to the rows that BERT reads: one row for each choice."""

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data.cut import cut_of_rows
from bert_tf.data.dataset import Tokenized
from bert_tf.data.ragged import splits_of
from bert_tf.data.windowed import Windowed
from bert_tf.tasks.multiple_choice.files import ChoiceExamples
from bert_tf.tasks.texts import padded

_CHUNK = 2_000  # questions tokenized at a time: few enough to keep memory small


def choice_rows(tokenizer, examples: ChoiceExamples, max_seq_length: int) -> Windowed:
    """Lays questions out, a row for each choice, cut as `Tokenizer.pack` cuts pairs.

        [CLS] context [SEP] choice 0 [SEP]
        [CLS] context [SEP] choice 1 [SEP]

    Args:
        tokenizer: a `Tokenizer`.
        examples: the questions.
        max_seq_length: longest row.

    Returns:
        the n questions; with `label_ids` int32 [n] where these are known.
    """
    flat, lengths, wanted = {"input_ids": [], "segment_ids": []}, [], []
    counts = np.array([len(choices) for choices in examples.choices])
    for start in range(0, len(examples), _CHUNK):
        part = slice(start, start + _CHUNK)
        texts = [choice for choices in examples.choices[part] for choice in choices]
        pieces = _pieces(tokenizer, examples.contexts[part], texts, counts[part])
        packed = tokenizer.pack(*pieces, max_seq_length=max_seq_length)
        wanted.append(sum(each.row_lengths().numpy() for each in pieces) + tokenizer.template.special(2))
        lengths.append(packed["input_ids"].row_lengths().numpy())
        for name, parts in flat.items():
            parts.append(packed[name].flat_values.numpy())
    lengths = np.concatenate(lengths)
    pieces = {name: np.concatenate(parts) for name, parts in flat.items()}
    of = np.repeat(np.arange(len(counts)), counts)
    cut = cut_of_rows(np.concatenate(wanted), max_seq_length, of, len(counts))
    logging.info(
        "%s: %d questions of %.1f choices, %.1f pieces in a row; %d do not fit max_seq_length=%d and were cut.",
        *(examples.path, len(examples), counts.mean(), lengths.mean(), len(cut.examples), max_seq_length),
    )
    targets = {} if examples.labels is None else {"label_ids": np.array(examples.labels, np.int32)}
    rows = Tokenized(pieces, splits_of(lengths), {}, tokenizer.pad_id)
    return Windowed(rows, splits_of(counts), targets, cut=cut)


def served_rows(tokenizer, contexts, choices, max_seq_length: int) -> dict[str, tf.Tensor]:
    """Lays questions out in the graph, as `choice_rows` does.

    Args:
        tokenizer: a `Tokenizer`.
        contexts: strings [n].
        choices: strings [n, k]; one that is empty or blank is none, for questions that have fewer than others.
        max_seq_length: longest row.

    Returns:
        "input_ids", "input_mask" and "segment_ids", int32 [n, K, S], K being k but 1 at least; the mask of what is no
        choice is 0.
    """
    choices = tf.pad(choices, [[0, 0], [0, tf.maximum(0, 1 - tf.shape(choices)[1])]], constant_values="")
    texts, shape = tf.reshape(choices, [-1]), tf.shape(choices)
    pieces = _pieces(tokenizer, contexts, texts, tf.fill(shape[:1], shape[1]))
    packed = tokenizer.pack(*pieces, max_seq_length=max_seq_length)
    rows = padded(tokenizer, packed)
    there = tf.strings.length(tf.strings.strip(texts)) > 0
    rows["input_mask"] *= tf.cast(there, tf.int32)[:, tf.newaxis]
    width = tf.shape(rows["input_ids"])[-1:]
    return {name: tf.reshape(values, tf.concat([shape, width], 0)) for name, values in rows.items()}


def _pieces(tokenizer, contexts, choices, counts):
    """Returns the pieces of each choice's context and of the choice; `counts`: how many of them each context has."""
    contexts = tf.gather(tokenizer.tokenize(contexts), tf.repeat(tf.range(tf.size(counts)), counts))
    return contexts, tokenizer.tokenize(choices)
