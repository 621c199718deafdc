"""Whose score is explained in a graph: for many rows at once, by `targets` that a request names, or the model's own.

`targets.py` is the same for one row, with its words.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from bert_tf.models.heads import ClassificationHead, QuestionAnsweringHead
from bert_tf.tasks.squad import best_spans

_SPAN, _SPAN_AND_TAG = r"(\d{1,9}):(\d{1,9})", r"(\d{1,9}):(\d{1,9})(?::(.+))?"
_OUTSIDE = "O"


class ExplainedTargets(NamedTuple):
    """What is explained of each of n examples.

    Attributes:
        name: string [n]: the label, the tag, or the answer's text.
        rows: int64 [n], which of the w rows it is in.
        parts: float32 [n, ...], 1 for the row's logits [...] that add up to the score, 0 for all others.
        there: bool [n], whether a text has anything that could be explained: a word for a tag.
    """

    name: tf.Tensor
    rows: tf.Tensor
    parts: tf.Tensor
    there: tf.Tensor


class TextChoice:
    """A head that says one thing of a row: labels, or a value.

    Args:
        head: a `ClassificationHead`.
        labels: their names.
    """

    def __init__(self, head: Any, labels: Sequence[str]):
        self.head, self.labels = head, list(labels)

    def logits(self, outputs) -> tf.Tensor:
        """Returns what the head makes of the encoder's outputs, float32 [w, L]; pieces: [w, S, L], spans: [w, S, 2]."""
        return self.head(outputs["pooled_output"])

    def choose(self, logits: tf.Tensor, origin: Any, target: tf.Tensor) -> ExplainedTargets:
        """Returns what the targets name.

        Args:
            logits: of all rows.
            origin: what the task's `read` gave with the rows.
            target: string [n]; "" is what the model itself says. A label; of a piece "10:14", where the word lies in
                the text, in code points, or "10:14:B-PER"; of a span "10:14", where the answer lies.

        Raises:
            tf.errors.InvalidArgumentError: a target is none of those.
        """
        label = self._named(target, tf.argmax(logits, -1, tf.int32))
        rows = tf.range(tf.size(label, tf.int64))
        return ExplainedTargets(
            self._name(label), rows, tf.one_hot(label, len(self.labels)), tf.ones_like(rows, tf.bool)
        )

    def _named(self, target, likeliest, what="a label"):
        """Returns int32 [n]: the places of labels among all, `likeliest` where the name is ""."""
        is_it = target[:, tf.newaxis] == tf.constant(self.labels)
        target = _must(
            tf.reduce_all(tf.reduce_any(is_it, 1) | (target == "")),
            f"`target` must be {what} of this model: {', '.join(self.labels[:20])}; or empty for what the model says. "
            "Received something else; correct it.",
            target,
        )
        return tf.where(target == "", likeliest, tf.argmax(is_it, 1, tf.int32))

    def _name(self, label):
        return tf.gather(tf.constant(self.labels), label)


class TokenChoice(TextChoice):
    """A head that says something of each piece; a word's first one speaks for it. `origin` is a tagger's `Words`."""

    def logits(self, outputs):
        return self.head(outputs["sequence_output"])

    def choose(self, logits, origin, target):
        """As `TextChoice.choose`; where no word is named, the one least likely to be outside ("O"), else the surest."""
        n, is_given = tf.size(target, tf.int64), target != ""
        told = (
            "`target` must be where a word lies in the text, such as 10:14, in characters, or that and a tag, "
            "10:14:B-PER. Received "
        )
        start, limit, tag = _parsed(target, _SPAN_AND_TAG, told + "something else; correct it.")
        of_word = tf.gather_nd(logits, tf.stack([origin.rows, origin.columns], 1))
        named = (origin.limits > tf.gather(start, origin.of_text)) & (origin.starts < tf.gather(limit, origin.of_text))
        of_given = tf.gather(is_given, origin.of_text)
        word, there = _first_of_most(tf.where(of_given, tf.cast(named, tf.float32), self._sure(of_word)),
                                     origin.of_text, n)  # fmt: skip
        holds = ~is_given | (tf.math.unsorted_segment_max(tf.cast(named, tf.int32), origin.of_text, n) > 0)
        word = _must(tf.reduce_all(holds), told + "a place where there is none; correct it.", word)
        of_word, rows, columns = (_at(values, word) for values in (of_word, origin.rows, origin.columns))
        label = self._named(tag, tf.argmax(of_word, -1, tf.int32), "a tag")
        place = tf.one_hot(columns, tf.shape(logits)[1]) * tf.cast(there, tf.float32)[:, tf.newaxis]
        parts = place[:, :, tf.newaxis] * tf.one_hot(label, len(self.labels))[:, tf.newaxis]
        return ExplainedTargets(tf.where(there, self._name(label), ""), rows, parts, there)

    def _sure(self, logits):
        shares = tf.nn.softmax(logits)
        is_named = _OUTSIDE in self.labels
        return 1 - shares[:, self.labels.index(_OUTSIDE)] if is_named else tf.reduce_max(shares, -1)


class SpanChoice:
    """A head that finds an answer in a context; `origin` is that of question answering.

    Args:
        head: a `QuestionAnsweringHead`.
        longest: pieces of an answer at most.
    """

    def __init__(self, head: Any, longest: int):
        self.head, self._longest = head, longest

    def logits(self, outputs):
        values = outputs["sequence_output"]
        found = self.head(values, tf.ones(tf.shape(values)[:2], tf.int32))
        return tf.stack([found["start_logits"], found["end_logits"]], -1)

    def choose(self, logits, origin, target):
        """As `TextChoice.choose`: the sum of the logits of an answer's first and last piece."""
        n, context = tf.size(target, tf.int64), origin.starts >= 0
        score, *own = (part[:, 0] for part in best_spans(logits[..., 0], logits[..., 1], context, self._longest, 1))
        told = "`target` must be where an answer lies in the context, such as 10:14, in characters. "
        start, limit, _ = _parsed(target, _SPAN, told + "Received something else; correct it.")
        start, limit = (tf.gather(each, origin.rows)[:, tf.newaxis] for each in (start, limit))
        inside = context & (origin.limits > start) & (origin.starts < limit) & (origin.starts < origin.limits)
        inside = tf.cast(inside, tf.int32)
        is_given = tf.gather(target != "", origin.rows)
        held = tf.reduce_sum(inside, 1)
        best, _ = _first_of_most(tf.where(is_given, tf.cast(held, tf.float32), score), origin.rows, n)
        holds = (target == "") | (_at(held, best) > 0)
        best = _must(tf.reduce_all(holds), told + "Received a place where nothing is; correct it.", best)
        last = tf.shape(inside)[1] - 1 - tf.argmax(inside[:, ::-1], 1, tf.int32)
        named = tf.argmax(inside, 1, tf.int32), last
        ends = [_at(tf.where(is_given, *both), best) for both in zip(named, own, strict=True)]
        parts = tf.stack([tf.one_hot(end, tf.shape(inside)[1]) for end in ends], -1)
        first, behind = (tf.gather(_at(values, best), end, batch_dims=1)
                         for values, end in zip((origin.starts, origin.limits), ends, strict=True))  # fmt: skip
        first, behind = tf.maximum(first, 0), tf.maximum(behind, 0)  # -1 where the context has no word
        text = tf.strings.substr(origin.contexts, first, behind - first, unit="UTF8_CHAR")
        return ExplainedTargets(text, best, parts, tf.ones_like(best, tf.bool))


def check_task(task: Any):
    """Raises ValueError where the models of a task have no score to explain, as far as that is seen without one."""
    if task.list_inputs or task.recipe is not None or getattr(task, "lstm_units", None):
        raise _without_head(task)
    if task.has_windows:
        raise ValueError(
            "`export_explanations=attributions` must come with a model whose answer is of one row. Received one that "
            "averages over the windows of a text; leave attributions out, or train with `long_text=truncate`."
        )


def _without_head(task):
    return ValueError(
        "`export_explanations=attributions` must come with a model that has a head for labels, tags or answers, "
        f"and nothing between it and the encoder. Received one for {task.name} without; leave attributions out."
    )


def head_in(model: Any, task: Any) -> TextChoice | TokenChoice | SpanChoice:
    """Returns what the head of a task's model says.

    Args:
        model: functional, an `Encoder` and a head.
        task: see `tasks/task.FineTuned`.

    Raises:
        ValueError: there is no head on the encoder whose score can be explained.
    """
    check_task(task)
    heads = [layer for layer in model.layers if isinstance(layer, ClassificationHead | QuestionAnsweringHead)]
    if len(heads) != 1:
        raise _without_head(task)
    if isinstance(heads[0], QuestionAnsweringHead):
        return SpanChoice(heads[0], task.max_answer_length)
    labels = task.labels or list(map(str, range(heads[0].num_labels)))
    return (TokenChoice if "tag_ids" in task.targets else TextChoice)(heads[0], labels)


def _parsed(target, pattern, told):
    """Returns (first number, second number, what is behind them) of targets; -1, -1, "" where they are empty."""
    is_span = tf.strings.regex_full_match(target, pattern)
    target = _must(tf.reduce_all(is_span | (target == "")), told, target)
    target = tf.where(is_span, target, "-1:-1")
    numbers = [tf.strings.regex_replace(target, r"^(-?\d+):(-?\d+).*$", rf"\{k}") for k in (1, 2)]
    return *(tf.strings.to_number(each, tf.int32) for each in numbers), tf.strings.regex_replace(
        target, r"^-?\d+:-?\d+:?", ""
    )


def _first_of_most(values, groups, n):
    """Returns int64 [n], which of `values` [k] is the greatest of its group, the first of equal ones, and bool [n],
    whether a group has any; groups: int64 [k], ascending."""
    each = tf.RaggedTensor.from_value_rowids(values, groups, n, validate=False)
    wide = tf.pad(each.to_tensor(float("-inf")), [[0, 0], [0, 1]], constant_values=float("-inf"))
    return each.row_starts() + tf.argmax(wide, 1), each.row_lengths() > 0


def _at(values, places):
    """Returns values[places]; zeros for places behind the last, of groups that have none."""
    behind = tf.zeros([1, *tf.unstack(tf.shape(values)[1:])], values.dtype)
    return tf.gather(tf.concat([values, behind], 0), tf.minimum(places, tf.shape(values, tf.int64)[0]))


def _must(holds, message, values):
    """Returns `values`, which are not to be had unless it holds."""
    with tf.control_dependencies([tf.debugging.Assert(holds, [message])]):
        return tf.identity(values)
