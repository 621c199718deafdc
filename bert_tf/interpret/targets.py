"""What a model says of a row, as one number whose parts can be asked for: the logit of a label, of a tag, of a span."""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.interpret.lens import build_head
from bert_tf.interpret.rows import EncodedText, name_of_model
from bert_tf.models.config_files import task_in
from bert_tf.models.heads import QuestionAnsweringHead
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.classification_outputs import PROBLEMS, problem_of
from bert_tf.tasks.registry import read_task
from bert_tf.tasks.squad import best_spans

_SPANS = "cls/squad/output_weights"
_UNREAD = ("recurrent/", "tagger/")
_OF_PIECES = "ForTokenClassification"  # how the names of Transformers' classes end
_LONGEST = 30  # pieces of an answer, run_squad's `max_answer_length`
_OUTSIDE = "O"


class AttributionTarget(NamedTuple):
    """One number of a model's outputs for a row: the sum of some logits.

    Attributes:
        name: the label, the tag, or the answer's text.
        places: (first piece, last piece) that it is about; None: the whole row.
        logits: float32 [n], of everything that it could have been: labels in the head's order, for a tag those of its
            piece; of a span [S, 2], how well each piece begins it and ends it.
        score: the encoder's outputs -> float32 [B].
        probabilities: float64 [labels], what a server answers with; None: no task is known that says so.
    """

    name: str
    places: tuple[int, int] | None
    logits: np.ndarray
    score: Callable[[dict], tf.Tensor]
    probabilities: np.ndarray | None = None


class TextTarget:
    """A head that says one thing of a row: labels, or a value.

    Args:
        head: a `ClassificationHead`.
        labels: their names, or None.
        answers: logits [n, L] -> probabilities [n, L], or scores [n]; None where no task is known.
    """

    def __init__(self, head: Any, labels: Sequence[str] | None, answers: Callable | None = None):
        self.head, self._answers = head, answers
        self.labels = list(map(str, range(head.num_labels))) if labels is None else list(labels)

    def target(self, outputs: dict, row: EncodedText, wanted: Any) -> AttributionTarget:
        """Returns a label's logit.

        Args:
            outputs: of the encoder for the row.
            row: the row.
            wanted: the label's name or number; None: the likeliest.

        Raises:
            ValueError: there is no such label.
        """
        logits = self.head(outputs["pooled_output"]).numpy()[0]
        label = int(logits.argmax()) if wanted is None else self.label(wanted)
        shares = self._answers(logits[np.newaxis])[0] if self._answers and len(logits) > 1 else None
        return AttributionTarget(
            self.labels[label], None, logits, lambda o: self.head(o["pooled_output"])[:, label], shares
        )

    def label(self, wanted: Any) -> int:
        """Returns the number of a label, by its name or number; raises ValueError where there is none."""
        if isinstance(wanted, str) and wanted in self.labels:
            return self.labels.index(wanted)
        if isinstance(wanted, int | np.integer) and 0 <= wanted < len(self.labels):
            return int(wanted)
        raise ValueError(
            f"`target` must be one of the model's labels, {', '.join(self.labels[:20])}. Received: {wanted!r}; choose "
            "one, or leave it out for what the model says."
        )


class TokenTarget(TextTarget):
    """A head that says something of each piece; a word's first one speaks for it, as in a tagger."""

    def target(self, outputs, row, wanted):
        """Returns a tag's logit at a word.

        Args:
            outputs, row: as of `TextTarget`.
            wanted: (place of a word among the row's, tag or None for the likeliest), or the place alone; None: the
                word that is least likely to be outside ("O"), or where there is no such tag the surest one.
        """
        logits = self.head(outputs["sequence_output"]).numpy()[0]
        firsts = np.unique(row.word_of_piece, return_index=True)[1][-len(row.words) :] if row.words else np.arange(0)
        if not len(firsts):
            raise ValueError("A row must hold a word for its tag. Received a text without words; give another.")
        if wanted is None:
            shares = np.exp(logits[firsts] - logits[firsts].max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            sure = 1 - shares[:, self.labels.index(_OUTSIDE)] if _OUTSIDE in self.labels else shares.max(-1)
            wanted = int(sure.argmax())
        word, tag = wanted if isinstance(wanted, tuple | list) else (wanted, None)
        if not isinstance(word, int | np.integer) or not 0 <= word < len(firsts):
            raise ValueError(
                f"`target` must be the place of a word, from 0 to {len(firsts) - 1}, or a pair of it and a tag. "
                f"Received: {wanted!r}; correct it."
            )
        place = int(firsts[word])
        tag = int(logits[place].argmax()) if tag is None else self.label(tag)
        return AttributionTarget(self.labels[tag], (place, place), logits[place],
                      lambda o: self.head(o["sequence_output"])[:, place, tag])  # fmt: skip


class SpanTarget:
    """A head that finds an answer in the second text, or in the only one.

    Args:
        head: a `QuestionAnsweringHead`.
        longest: pieces of an answer at most.
    """

    def __init__(self, head: Any, longest: int):
        self.head, self._longest = head, longest

    def _logits(self, outputs):
        values = outputs["sequence_output"]
        return self.head(values, tf.ones(tf.shape(values)[:2], tf.int32))

    def target(self, outputs, row, wanted):
        """Returns the sum of the logits of an answer's first and last piece.

        Args:
            outputs, row: as of `TextTarget`.
            wanted: where the answer lies in the text, half-open, in code points; None: the likeliest.

        Raises:
            ValueError: no piece lies there.
        """
        logits, context = self._logits(outputs), row.of_text == max(row.of_text.max(), 0)
        both = [logits["start_logits"], logits["end_logits"]]
        if wanted is None:
            _, start, end = (int(each[0, 0]) for each in best_spans(*both, context[np.newaxis], self._longest, 1))
        else:
            start, end = _pieces_of(row, context, wanted)
        text = row.texts[-1][row.starts[start] : row.limits[end]] if row.texts else ""
        found = np.stack([each.numpy()[0] for each in both], -1)

        def score(o):
            logits = self._logits(o)
            return logits["start_logits"][:, start] + logits["end_logits"][:, end]

        return AttributionTarget(text, (start, end), found, score)


def _pieces_of(row, context, wanted):
    if not isinstance(wanted, tuple | list) or len(wanted) != 2 or isinstance(wanted[0], str):
        raise ValueError(
            "`target` must be where an answer lies in the text, (start, limit) in characters. Received: "
            f"{wanted!r}; correct it, or leave it out for what the model says."
        )
    inside = np.flatnonzero(context & (row.limits > wanted[0]) & (row.starts < wanted[1]) & (row.starts < row.limits))
    if not len(inside):
        raise ValueError(
            f"`target` must hold a piece of the text, which has {len(row.texts[-1])} characters. Received: "
            f"{tuple(wanted)}; correct it."
        )
    return int(inside[0]), int(inside[-1])


def head_of(model: Any) -> TextTarget | SpanTarget:
    """Returns what a model's head says.

    Args:
        model: what `bert_tf.load` gave.

    Raises:
        ValueError: it has no head for a task, or one that is not among those which can be asked.
    """
    head, others = getattr(model, "head", None), getattr(model, "others", {})
    if any(path.startswith(_UNREAD) for path in others):
        raise ValueError(
            "`model` must have a head of its own on the encoder for this. Received one with a BiLSTM between them; "
            "train it without `lstm_units`."
        )
    if head is None and _SPANS not in others:
        raise ValueError(
            "`model` must have a head for labels, tags or answers, whose score is to be explained. Received "
            f"{name_of_model(model)}, which has none; name a model that was trained for a task."
        )
    trained = trained_of(model)
    task = trained and trained.task
    if head is None:
        return SpanTarget(_span_head(model), getattr(task, "max_answer_length", _LONGEST))
    if _is_of_pieces(model, task):
        return TokenTarget(head, model.labels)
    return TextTarget(head, model.labels, task.answers if task else _answers_of_others(model))


def _answers_of_others(model):
    """Returns what makes answers of a classifier's logits, as the files of others say; None: they do not."""
    problem = problem_of(model.config, model.labels)
    return problem and PROBLEMS[problem].answers


def trained_of(model: Any) -> TrainedTask | None:
    """Returns the task that task.json beside the model describes, or None."""
    if getattr(model, "path", None) is None:
        return None
    beside = model.path if os.path.isdir(model.path) else os.path.dirname(model.path) or "."
    return read_task(beside, model.config) if task_in(beside) is not None else None


def _is_of_pieces(model, task):
    """Says whether a head is one for each piece: by the task, by the class that others gave it, or by its layers."""
    if task is not None:
        return "tag_ids" in task.targets
    classes = model.config.extra.get("architectures")
    classes = [*(classes if isinstance(classes, list) else []), model.config.extra.get("head_class")]
    if classes := [each for each in classes if isinstance(each, str)]:
        return any(each.endswith(_OF_PIECES) for each in classes)
    return bool(model.config.classifier_act) and model.head.transform_act is None


def _span_head(model):
    return build_head(QuestionAnsweringHead(model.config.initializer_range, dtype=model.encoder.dtype_policy), model)
