"""What a classifier's numbers can stand for: one label, several, or a value; one row of `PROBLEMS` each."""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from bert_tf.evaluation import metrics
from bert_tf.evaluation.error_reports.labels import MultiLabelReport, SingleLabelReport
from bert_tf.evaluation.error_reports.values import RegressionReport
from bert_tf.tasks.labels import cross_entropy, divergence, yes_no_divergence


@dataclasses.dataclass(frozen=True)
class Problem:
    """What the head's numbers stand for.

    Attributes:
        target: the feature that the loss compares them with: `label_ids` [B], `label_ids` [B, L] of 0 and 1 for
            several labels, or `label_values` [B].
        losses: (float32 logits [B, L], target, weights float32 [L] or None, smoothing) -> float32 [B].
        soft_losses: (logits, a teacher's logits [B, L], temperature) -> float32 [B].
        example_weights: (target, weights float32 [L]) -> float32 [B], what each of these losses counts in the
            mean; None where there are no labels.
        answers: logits as numpy [n, L] -> probabilities [n, L], or scores [n].
        score: (answers, target, names, L) -> {metric: score}.
        default_metrics: what is reported where none are chosen.
        serve: (logits, label names) -> what is served, {name: tensor}; in the graph.
        example_method: TensorFlow Serving's request on tf.Examples that fits, "classify" or "regress".
        serve_example: what `serve` returned -> what that request answers with.
        choose: (answers, label names) -> the answer for each example: a name, a tuple of names, or a float.
        judge: (`analysis.Shown` examples, target, answers, label names, what stands between several labels) -> these
            answers as a `Judged`.
        confidence: probabilities, a tensor or numpy array [n, L] -> a tensor [n]: the probability of each answer; None
            where there are none.
        right: (answers, target) -> bool [n], whether each answer is right; None where that is a matter of degree.
        has_labels: the numbers are logits of labels, which may be weighed, smoothed and calibrated; else it is a value.
        has_several_labels: an example may have any number of labels.
    """

    target: str
    losses: Callable
    soft_losses: Callable
    example_weights: Callable | None
    answers: Callable
    score: Callable
    default_metrics: tuple[str, ...]
    serve: Callable
    example_method: str
    serve_example: Callable
    choose: Callable
    judge: Callable
    confidence: Callable | None = None
    right: Callable | None = None
    has_labels: bool = True
    has_several_labels: bool = False


def _several_labels(logits, target, weights, smoothing):
    """Mean over the labels of their binary cross-entropies.

    Each label is a question with two answers, so smoothing makes e/2 of 0 and 1 - e/2 of 1; a weight is that of the
    label's question, whatever the answer.
    """
    target = (1 - smoothing) * tf.cast(target, tf.float32) + smoothing / 2
    terms = tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=logits)
    return tf.reduce_mean(terms if weights is None else terms * weights, -1)


def _value(logits, target, weights, smoothing):
    assert weights is None and not smoothing
    return tf.math.squared_difference(logits[:, 0], target)


def _softmax(logits):
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def _serve_labels(squash):
    """Answers with the most probable label and all probabilities; with several labels those over 0.5 hold."""

    def serve(logits, names):
        return {
            "label": tf.gather(names, tf.argmax(logits, -1)),
            "probabilities": squash(logits),
            "labels": tf.tile(names[tf.newaxis], [tf.shape(logits)[0], 1]),
        }

    return serve


def _judge_one(examples, target, answers, names, separator):
    remarks = dict.fromkeys(("f1", "precision", "recall"), metrics.averaging(names))
    return SingleLabelReport(examples=examples, remarks=remarks, gold=target, probabilities=answers, labels=names)


def _judge_several(examples, target, answers, names, separator):
    remarks = dict.fromkeys(("f1", "precision", "recall"), "micro average: of all yeses, whatever their label")
    remarks |= {"accuracy": "the share of right decisions between yes and no"}
    gold = target.astype(bool)
    return MultiLabelReport(examples=examples, remarks=remarks, gold=gold, probabilities=answers, labels=names,
                 separator=separator)  # fmt: skip


def _as_classes(served):
    return {"scores": served["probabilities"], "classes": served["labels"]}


PROBLEMS = {
    "single_label": Problem(
        "label_ids",
        cross_entropy,
        divergence,
        lambda target, weights: tf.gather(weights, target),
        _softmax,
        lambda answers, target, names, n: metrics.classification(target, answers.argmax(-1), names, n),
        ("accuracy", "f1", "precision", "recall", "matthews"),
        _serve_labels(tf.nn.softmax),
        "classify",
        _as_classes,
        lambda answers, names: [names[i] for i in answers.argmax(-1)],
        _judge_one,
        lambda probabilities: tf.reduce_max(probabilities, -1),
        lambda answers, target: answers.argmax(-1) == target,
    ),
    # n * L decisions between no and yes, scored as one list: accuracy is the share of decisions that are right; f1,
    # precision and recall are those of yes, which is their micro-average over the labels.
    "multi_label": Problem(
        "label_ids",
        _several_labels,
        lambda logits, taught, temperature: tf.reduce_mean(yes_no_divergence(logits, taught, temperature), -1),
        lambda target, weights: tf.fill([tf.shape(target)[0]], tf.reduce_mean(weights)),
        lambda logits: np.exp(-np.logaddexp(0, -logits)),
        lambda answers, target, names, n: metrics.classification(target.ravel(), (answers > 0.5).ravel(), names, 2),
        ("accuracy", "f1", "precision", "recall"),
        _serve_labels(tf.sigmoid),
        "classify",
        _as_classes,
        lambda answers, names: [tuple(np.asarray(names, object)[row > 0.5]) for row in answers],
        _judge_several,
        # The answer is a whole set of labels: it is no surer than its least sure one, and right where all are.
        lambda probabilities: tf.reduce_min(tf.maximum(probabilities, 1 - probabilities), -1),
        lambda answers, target: ((answers > 0.5) == (target > 0)).all(-1),
        has_several_labels=True,
    ),
    "regression": Problem(
        "label_values",
        _value,
        lambda logits, taught, temperature: tf.math.squared_difference(logits[:, 0], taught[:, 0]),
        None,
        lambda logits: logits[:, 0],
        lambda answers, target, names, n: metrics.regression(target, answers, names),
        ("pearson", "spearman"),
        lambda logits, names: {"score": logits[:, 0]},
        "regress",
        lambda served: {"outputs": served["score"][:, tf.newaxis]},
        lambda answers, names: answers.tolist(),
        lambda examples, target, answers, names, separator: RegressionReport(
            examples=examples, gold=target, given=answers
        ),
        has_labels=False,
    ),
}


def check_options(problem, num_labels, class_weights, label_smoothing, temperature):
    """Says whether these arguments of `ClassificationTask` fit together.

    Raises:
        ValueError: they do not.
    """
    if problem not in PROBLEMS:
        raise ValueError(f"problem must be one of {sorted(PROBLEMS)}. Received: {problem!r}.")
    given = class_weights is not None or label_smoothing or temperature != 1
    if given and not PROBLEMS[problem].has_labels:
        raise ValueError(
            f"Class weights, label smoothing and a temperature must come with labels. Received them for {problem}; "
            "leave them out."
        )
    weights = (1.0,) * num_labels if class_weights is None else class_weights
    if len(weights) != num_labels or not all(0 < weight < np.inf for weight in weights):
        raise ValueError(
            f"Class weights must be {num_labels} numbers over 0, one for each label. Received {list(weights)}; remove "
            "the examples of a label that is not to count."
        )
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"Label smoothing must be from 0 to 1. Received {label_smoothing}; 0.1 is usual.")
    if not 0 < temperature < np.inf:
        raise ValueError(f"A temperature must be over 0. Received {temperature}; 1 changes no probability.")
