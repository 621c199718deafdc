"""The scores that attributions explain: a label's, a tag's or an answer span's."""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.interpret.encoded_text import EncodedText, name_of_model
from bert_tf.interpret.loaded_heads import build_head
from bert_tf.models.config_files import task_in
from bert_tf.models.heads import QuestionAnsweringHead
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.classification.foreign_models import problem_of
from bert_tf.tasks.classification.problems import PROBLEMS
from bert_tf.tasks.question_answering.spans import best_spans
from bert_tf.tasks.registry import read_task

_SPANS = "cls/squad/output_weights"
_UNREAD = ("recurrent/", "tagger/")
_OF_PIECES = "ForTokenClassification"  # how the names of Transformers' classes end
_LONGEST = 30  # longest answer in tokens, `max_answer_length` of `train qa`
_SPAN, _SPAN_AND_TAG = r"(\d{1,9}):(\d{1,9})", r"(\d{1,9}):(\d{1,9})(?::(.+))?"
_OUTSIDE = "O"


class AttributionTarget(NamedTuple):
    """The explained score of one sequence: the sum of some logits.

    Attributes:
        name: the label, the tag, or the answer's text.
        places: (first token, last token) of the target; None for the whole sequence.
        logits: float32 [n], of all alternatives: labels in the head's order; for a tag, those of its
            token; for a span, [S, 2], each token's logits as start and as end.
        parts: float32 [...], 1 for the head's logits that add up to the score, 0 for all others.
        probabilities: float64 [labels], as returned by a server; if None, the task is unknown.
    """

    name: str
    places: tuple[int, int] | None
    logits: np.ndarray
    parts: np.ndarray
    probabilities: np.ndarray | None = None


class ExplainedTargets(NamedTuple):
    """The explained scores of n examples in a graph.

    Attributes:
        name: string [n]: the label, the tag, or the answer's text.
        rows: int64 [n], the index of its row among w.
        parts: float32 [n, ...], 1 for the row's logits [...] that add up to the score, 0 for all others.
        there: bool [n], whether a text has anything to explain, such as a word for a tag.
    """

    name: tf.Tensor
    rows: tf.Tensor
    parts: tf.Tensor
    there: tf.Tensor


class TextHead:
    """A head that predicts labels or a value for a whole sequence.

    Args:
        head: a `ClassificationHead`.
        labels: their names, or None.
        answers: logits [n, L] -> probabilities [n, L], or scores [n]; None if the task is unknown.
    """

    def __init__(self, head: Any, labels: Sequence[str] | None, answers: Callable | None = None):
        self.head, self._answers = head, answers
        self.labels = list(map(str, range(head.num_labels))) if labels is None else list(labels)

    def logits(self, outputs: dict) -> tf.Tensor:
        """Returns the head's logits for the encoder's outputs: [w, L], for tokens [w, S, L], for spans [w, S, 2]."""
        return self.head(outputs["pooled_output"])

    def score(self, outputs: dict, parts: Any) -> tf.Tensor:
        """Returns float32 [w]: for each row, the sum of its logits times `parts`, which may be longer."""
        logits = tf.cast(self.logits(outputs), tf.float32)
        own = parts if logits.shape.rank == 2 else parts[: tf.shape(logits)[1]]  # [L], or [S, L]
        return tf.reduce_sum(tf.reshape(logits * own, [tf.shape(logits)[0], -1]), 1)

    def target(self, outputs: dict, row: EncodedText, wanted: Any) -> AttributionTarget:
        """Returns the target for a label.

        Args:
            outputs: outputs of the encoder for the sequence.
            row: the encoded text.
            wanted: the label's name or number; None for the most likely.

        Raises:
            ValueError: there is no such label.
        """
        logits = self.logits(outputs).numpy()[0]
        label = int(logits.argmax()) if wanted is None else self.label(wanted)
        shares = self._answers(logits[np.newaxis])[0] if self._answers and len(logits) > 1 else None
        return AttributionTarget(self.labels[label], None, logits, _ones(logits.shape, label), shares)

    def label(self, wanted: Any) -> int:
        """Returns the index of a label, given by name or number; raises ValueError if there is none."""
        if isinstance(wanted, str) and wanted in self.labels:
            return self.labels.index(wanted)
        if isinstance(wanted, int | np.integer) and 0 <= wanted < len(self.labels):
            return int(wanted)
        raise ValueError(
            f"`target` must be one of the model's labels, {', '.join(self.labels[:20])}; got {wanted!r}; choose "
            "one, or omit it for the model's own prediction."
        )

    def choose(self, logits: tf.Tensor, origin: Any, target: tf.Tensor) -> ExplainedTargets:
        """Returns the targets with these names.

        Args:
            logits: logits of all rows.
            origin: the second result of the task's `preprocess`.
            target: string [n]; "" is the model's own prediction. A label; for a token "10:14", the offsets of the word
                in the text, in code points, or "10:14:B-PER"; for a span "10:14", the offsets of the answer.

        Raises:
            tf.errors.InvalidArgumentError: a target is invalid.
        """
        label = self._named(target, tf.argmax(logits, -1, tf.int32))
        rows = tf.range(tf.size(label, tf.int64))
        return ExplainedTargets(
            self._name(label), rows, tf.one_hot(label, len(self.labels)), tf.ones_like(rows, tf.bool)
        )

    def _named(self, target, likeliest, what="a label"):
        """Returns int32 [n]: the indices of labels among all, `likeliest` if the name is ""."""
        is_it = target[:, tf.newaxis] == tf.constant(self.labels)
        target = _assert_then(
            tf.reduce_all(tf.reduce_any(is_it, 1) | (target == "")),
            f"`target` must be {what} of this model: {', '.join(self.labels[:20])}, or empty for its prediction; "
            "got another value.",
            target,
        )
        return tf.where(target == "", likeliest, tf.argmax(is_it, 1, tf.int32))

    def _name(self, label):
        return tf.gather(tf.constant(self.labels), label)


class TokenHead(TextHead):
    """A head that predicts a tag for each token; a word has the tag of its first token."""

    def logits(self, outputs):
        return self.head(outputs["sequence_output"])

    def target(self, outputs, row, wanted):
        """Returns the target for a tag at a word.

        Args:
            outputs, row: as in `TextHead`.
            wanted: (index of a word among the row's, tag or None for the most likely), or only the index; if None, the
                word that is least likely to be outside ("O"), or, without such a tag, the most confident one.
        """
        logits = self.logits(outputs).numpy()[0]
        firsts = np.unique(row.word_of_token, return_index=True)[1][-len(row.words) :] if row.words else np.arange(0)
        if not len(firsts):
            raise ValueError("The text has no words whose tag could be explained. Pass a text with words.")
        if wanted is None:
            shares = np.exp(logits[firsts] - logits[firsts].max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            sure = 1 - shares[:, self.labels.index(_OUTSIDE)] if _OUTSIDE in self.labels else shares.max(-1)
            wanted = int(sure.argmax())
        word, tag = wanted if isinstance(wanted, tuple | list) else (wanted, None)
        if not isinstance(word, int | np.integer) or not 0 <= word < len(firsts):
            raise ValueError(
                f"`target` must be the index of a word, from 0 to {len(firsts) - 1}, or a pair of it and a tag; "
                f"got {wanted!r}."
            )
        position = int(firsts[word])
        tag = int(logits[position].argmax()) if tag is None else self.label(tag)
        parts = _ones(logits.shape, (position, tag))
        return AttributionTarget(self.labels[tag], (position, position), logits[position], parts)

    def choose(self, logits, origin, target):
        """Returns the tag to explain for each text: of the named word, or of the word least likely to be "O"."""
        n, is_given = tf.size(target, tf.int64), target != ""
        refusal = (
            "`target` must be a word's offsets in the text, in characters, such as 10:14, or these and a tag, "
            "10:14:B-PER; got "
        )
        start, end, tag = _parse_spans(target, _SPAN_AND_TAG, refusal + "another value.")
        of_word = tf.gather_nd(logits, tf.stack([origin.sequences, origin.positions], 1))
        named = (origin.ends > tf.gather(start, origin.of_text)) & (origin.starts < tf.gather(end, origin.of_text))
        of_given = tf.gather(is_given, origin.of_text)
        word, there = _argmax_of_groups(tf.where(of_given, tf.cast(named, tf.float32), self._sure(of_word)),
                                     origin.of_text, n)  # fmt: skip
        holds = ~is_given | (tf.math.unsorted_segment_max(tf.cast(named, tf.int32), origin.of_text, n) > 0)
        word = _assert_then(tf.reduce_all(holds), refusal + "offsets without a word.", word)
        found = of_word, origin.sequences, origin.positions
        of_word, rows, columns = (_gather_or_zero(values, word) for values in found)
        label = self._named(tag, tf.argmax(of_word, -1, tf.int32), "a tag")
        position = tf.one_hot(columns, tf.shape(logits)[1]) * tf.cast(there, tf.float32)[:, tf.newaxis]
        parts = position[:, :, tf.newaxis] * tf.one_hot(label, len(self.labels))[:, tf.newaxis]
        return ExplainedTargets(tf.where(there, self._name(label), ""), rows, parts, there)

    def _sure(self, logits):
        shares = tf.nn.softmax(logits)
        is_named = _OUTSIDE in self.labels
        return 1 - shares[:, self.labels.index(_OUTSIDE)] if is_named else tf.reduce_max(shares, -1)


class SpanHead(TextHead):
    """A head that finds an answer span in the second text, or in the only one.

    Args:
        head: a `QuestionAnsweringHead`.
        longest: longest answer in tokens.
    """

    def __init__(self, head: Any, longest: int):
        self.head, self._longest = head, longest

    def logits(self, outputs):
        values = outputs["sequence_output"]
        found = self.head(values, tf.ones(tf.shape(values)[:2], tf.int32))
        return tf.stack([found["start_logits"], found["end_logits"]], -1)

    def target(self, outputs, row, wanted):
        """Returns the target for an answer: the sum of the logits of its first and last token.

        Args:
            outputs, row: as in `TextHead`.
            wanted: the answer's offsets in the text, half-open, in code points; None for the most likely.

        Raises:
            ValueError: there is no token at these offsets.
        """
        logits, context = self.logits(outputs), row.of_text == max(row.of_text.max(), 0)
        if wanted is None:
            both = logits[..., 0], logits[..., 1]
            _, start, end = (int(each[0, 0]) for each in best_spans(*both, context[np.newaxis], self._longest, 1))
        else:
            start, end = _tokens_of(row, context, wanted)
        text = row.texts[-1][row.starts[start] : row.ends[end]] if row.texts else ""
        parts = _ones(logits.shape[1:], (start, 0), (end, 1))
        return AttributionTarget(text, (start, end), logits.numpy()[0], parts)

    def choose(self, logits, origin, target):
        """Returns the targets for spans, as `TextHead.choose` for labels: the summed logits of first and last token."""
        n, context = tf.size(target, tf.int64), origin.starts >= 0
        score, *own = (part[:, 0] for part in best_spans(logits[..., 0], logits[..., 1], context, self._longest, 1))
        refusal = "`target` must be an answer's offsets in the context, in characters, such as 10:14; "
        start, end, _ = _parse_spans(target, _SPAN, refusal + "got another value.")
        start, end = (tf.gather(each, origin.questions)[:, tf.newaxis] for each in (start, end))
        inside = context & (origin.ends > start) & (origin.starts < end) & (origin.starts < origin.ends)
        inside = tf.cast(inside, tf.int32)
        is_given = tf.gather(target != "", origin.questions)
        held = tf.reduce_sum(inside, 1)
        best, _ = _argmax_of_groups(tf.where(is_given, tf.cast(held, tf.float32), score), origin.questions, n)
        holds = (target == "") | (_gather_or_zero(held, best) > 0)
        best = _assert_then(tf.reduce_all(holds), refusal + "got offsets without a token.", best)
        last = tf.shape(inside)[1] - 1 - tf.argmax(inside[:, ::-1], 1, tf.int32)
        named = tf.argmax(inside, 1, tf.int32), last
        edges = [_gather_or_zero(tf.where(is_given, *both), best) for both in zip(named, own, strict=True)]
        parts = tf.stack([tf.one_hot(edge, tf.shape(inside)[1]) for edge in edges], -1)
        first, behind = (tf.gather(_gather_or_zero(values, best), edge, batch_dims=1)
                         for values, edge in zip((origin.starts, origin.ends), edges, strict=True))  # fmt: skip
        first, behind = tf.maximum(first, 0), tf.maximum(behind, 0)  # -1 if the context has no words
        text = tf.strings.substr(origin.contexts, first, behind - first, unit="UTF8_CHAR")
        return ExplainedTargets(text, best, parts, tf.ones_like(best, tf.bool))


def _ones(shape, *indices):
    """Returns float32 zeros with ones at some indices."""
    parts = np.zeros(shape, np.float32)
    for index in indices:
        parts[index] = 1
    return parts


def _tokens_of(row, context, wanted):
    if not isinstance(wanted, tuple | list) or len(wanted) != 2 or isinstance(wanted[0], str):
        raise ValueError(
            "`target` must be an answer's offsets in the text, (start, end) in characters; got "
            f"{wanted!r}. Omit it for the model's own prediction."
        )
    inside = np.flatnonzero(context & (row.ends > wanted[0]) & (row.starts < wanted[1]) & (row.starts < row.ends))
    if not len(inside):
        raise ValueError(
            f"`target` must be within the text, which has {len(row.texts[-1])} characters; got "
            f"{tuple(wanted)}."
        )
    return int(inside[0]), int(inside[-1])


def head_of(model: Any) -> TextHead:
    """Returns the explainable head of a model.

    Args:
        model: a model from `bert_tf.load`.

    Raises:
        ValueError: it has no head for a task, or one that is not supported.
    """
    head, others = getattr(model, "head", None), getattr(model, "others", {})
    if any(path.startswith(_UNREAD) for path in others):
        raise ValueError(
            "Attributions require a head directly on the encoder; this model has a BiLSTM between them. "
            "Train it without `lstm_units`."
        )
    if head is None and _SPANS not in others:
        raise ValueError(
            f"Attributions require a head for labels, tags or answers; {name_of_model(model)} has no such head. Use a "
            "model that was fine-tuned for a task."
        )
    trained = trained_of(model)
    task = trained and trained.task
    if head is None:
        span_head = QuestionAnsweringHead.of(model.config, dtype=model.encoder.dtype_policy)
        return SpanHead(build_head(span_head, model), getattr(task, "max_answer_length", _LONGEST))
    if _is_of_tokens(model, task):
        return TokenHead(head, model.labels)
    if task:
        return TextHead(head, model.labels, task.answers)
    problem = problem_of(model.config, model.labels)  # from other libraries' files; None: unknown
    return TextHead(head, model.labels, problem and PROBLEMS[problem].answers)


def trained_of(model: Any) -> TrainedTask | None:
    """Returns the task that task.json next to the model describes, or None."""
    if getattr(model, "path", None) is None:
        return None
    folder = model.path if os.path.isdir(model.path) else os.path.dirname(model.path) or "."
    return read_task(folder, model.config) if task_in(folder) is not None else None


def _is_of_tokens(model, task):
    """Returns whether a head is one for each token: by the task, by its class in other libraries, or by its layers."""
    if task is not None:
        return "tag_ids" in task.targets
    classes = model.config.extra.get("architectures")
    classes = [*(classes if isinstance(classes, list) else []), model.config.extra.get("head_class")]
    if classes := [each for each in classes if isinstance(each, str)]:
        return any(each.endswith(_OF_PIECES) for each in classes)
    return bool(model.config.classifier_act) and model.head.transform_act is None


def _parse_spans(target, pattern, refusal):
    """Parses targets into (first number, second number, rest); -1, -1, "" for empty ones."""
    is_span = tf.strings.regex_full_match(target, pattern)
    target = _assert_then(tf.reduce_all(is_span | (target == "")), refusal, target)
    target = tf.where(is_span, target, "-1:-1")
    numbers = [tf.strings.regex_replace(target, r"^(-?\d+):(-?\d+).*$", rf"\{k}") for k in (1, 2)]
    return *(tf.strings.to_number(each, tf.int32) for each in numbers), tf.strings.regex_replace(
        target, r"^-?\d+:-?\d+:?", ""
    )


def _argmax_of_groups(values, groups, n):
    """Returns int64 [n], the index of the largest of `values` [k] in each group, the first of equal ones, and bool [n],
    whether a group has any; groups: int64 [k], ascending."""
    each = tf.RaggedTensor.from_value_rowids(values, groups, n, validate=False)
    wide = tf.pad(each.to_tensor(float("-inf")), [[0, 0], [0, 1]], constant_values=float("-inf"))
    return each.row_starts() + tf.argmax(wide, 1), each.row_lengths() > 0


def _gather_or_zero(values, indices):
    """Returns values[indices]; zeros for indices after the last, of empty groups."""
    behind = tf.zeros([1, *tf.unstack(tf.shape(values)[1:])], values.dtype)
    return tf.gather(tf.concat([values, behind], 0), tf.minimum(indices, tf.shape(values, tf.int64)[0]))


def _assert_then(holds, message, values):
    """Returns `values`; evaluating them fails unless the condition holds."""
    with tf.control_dependencies([tf.debugging.Assert(holds, [message])]):
        return tf.identity(values)
