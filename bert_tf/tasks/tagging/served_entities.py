"""The entities in texts, from the tags of their words: in the graph, so that files and requests get the same."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_tf.evaluation.entities import split_tag
from bert_tf.tasks.tagging.words import TaggedWords


def entities_in(best, words: TaggedWords, labels: Sequence[str]) -> dict[str, tf.Tensor]:
    """Returns the entities of each text, as `TaggingTask.postprocess` describes them.

    An entity begins at B- or S-, and at I- or E- after a word outside, of another type, or with E- or S-, as in
    conlleval. Words of one token are of one entity. Its score is the mean probability of its words' tags.

    Args:
        best: "tag" int32 [w, S] and "probability" float32 [w, S], of each token.
        words: words of n texts.
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
