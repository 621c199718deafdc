"""Losses, metrics and predictions for single-label and multi-label classification and regression.

B or n examples have logits float32 [B, L], and a target of the feature `target`; `answers` are the predictions made
of logits in numpy.
"""

import abc
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_tf.evaluation import metrics
from bert_tf.evaluation.error_reports.multi_label import MultiLabelReport
from bert_tf.evaluation.error_reports.regression import RegressionReport
from bert_tf.evaluation.error_reports.report import DisplayedExamples, ErrorReport
from bert_tf.evaluation.error_reports.single_label import SingleLabelReport
from bert_tf.tasks.divergences import divergence, yes_no_divergence
from bert_tf.tasks.losses import cross_entropy

_AT_RECALL = "precision_at_recall_90"  # of the last of two labels
_WEIGHTED = {"weighted_f1": "mean over the labels, weighted by their numbers of examples"}


class Problem(abc.ABC):
    """A type of classification problem: its losses, metrics and predictions.

    Attributes:
        target: the feature that the loss compares the outputs with: `label_ids` [B], `label_ids` [B, L] of 0 and 1 for
            several labels, or `label_values` [B].
        default_metrics: metrics reported by default.
        example_method: TensorFlow Serving's method on tf.Examples, "classify" or "regress".
        has_labels: whether outputs are logits of labels, which can be weighted, smoothed and calibrated, rather than a
            value.
        has_several_labels: whether an example may have any number of labels.
        fitted_thresholds: the probability above which each of several labels is predicted. If None, none were fitted.
        metrics_note: a note for the model card about the metrics.
    """

    target = "label_ids"
    default_metrics: tuple[str, ...]
    example_method = "classify"
    has_labels = True
    has_several_labels = False
    fitted_thresholds: Sequence[float] | None = None
    metrics_note = ""

    def metrics_of(self, num_labels: int) -> tuple[str, ...]:
        """Returns the metrics that are reported by default; `num_labels`: of the model."""
        return self.default_metrics

    @abc.abstractmethod
    def losses(self, logits, target, weights: tf.Tensor | None, smoothing: float) -> tf.Tensor:
        """Computes the losses, float32 [B]; `weights`: label weights, float32 [L]."""

    @abc.abstractmethod
    def distillation_losses(self, logits, teacher_logits, temperature: float) -> tf.Tensor:
        """Computes the distance of logits to a teacher's, float32 [B]."""

    @abc.abstractmethod
    def answers(self, logits: np.ndarray) -> np.ndarray:
        """Converts logits to probabilities [n, L], or values [n]."""

    @abc.abstractmethod
    def score(self, answers, target, names: Sequence[str], num_labels: int) -> dict[str, float]:
        """Computes {metric: value} for these metrics."""

    @abc.abstractmethod
    def choose(self, answers, labels: Sequence[str]) -> list:
        """Returns the prediction for each example: a label, a tuple of labels, or a float."""

    @abc.abstractmethod
    def serve(self, logits, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the served predictions, in the graph; `labels`: their names, strings [L]."""

    @abc.abstractmethod
    def serve_example(self, served: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the response of `example_method`, from the result of `serve`."""

    @abc.abstractmethod
    def error_report(
        self, examples: DisplayedExamples, target, answers, labels: Sequence[str], separator: str
    ) -> ErrorReport:
        """Returns the report of targets and predictions; `separator` separates several labels."""

    def predicted(self, probabilities: tf.Tensor | np.ndarray) -> dict:
        """Returns {"predicted": bool [n, L]}, which of several labels are predicted; {} if there is only one."""
        return {}

    def card_facts(self, labels: Sequence[str]) -> dict[str, str]:
        """Returns the model card's facts about the outputs; `labels`: their names."""
        return {}


class LabelProblem(Problem):
    """Outputs that are logits of labels."""

    @abc.abstractmethod
    def example_weights(self, target, weights: tf.Tensor) -> tf.Tensor:
        """Returns the weight of each example's loss in the mean, float32 [B]; `weights`: label weights, float32 [L]."""

    @abc.abstractmethod
    def probabilities(self, logits: tf.Tensor) -> tf.Tensor:
        """Returns the labels' probabilities, in the graph."""

    @abc.abstractmethod
    def confidence(self, probabilities: tf.Tensor | np.ndarray) -> tf.Tensor:
        """Returns the probability of each prediction, [n]."""

    @abc.abstractmethod
    def right(self, answers, target) -> np.ndarray:
        """Returns whether each prediction is correct, bool [n]."""

    def serve(self, logits, labels):
        """Returns the most probable label and all probabilities."""
        return {
            "label": tf.gather(labels, tf.argmax(logits, -1)),
            "probabilities": self.probabilities(logits),
            "labels": tf.tile(labels[tf.newaxis], [tf.shape(logits)[0], 1]),
        }

    def serve_example(self, served):
        return {"scores": served["probabilities"], "classes": served["labels"]}


class SingleLabel(LabelProblem):
    """Single-label classification; probabilities are a softmax."""

    default_metrics = ("accuracy", "f1", "weighted_f1", "precision", "recall", "matthews")

    def losses(self, logits, target, weights, smoothing):
        return cross_entropy(logits, target, weights, smoothing)

    def distillation_losses(self, logits, teacher_logits, temperature):
        return divergence(logits, teacher_logits, temperature)

    def example_weights(self, target, weights):
        return tf.gather(weights, target)

    def answers(self, logits):
        shifted = np.exp(logits - logits.max(-1, keepdims=True))
        return shifted / shifted.sum(-1, keepdims=True)

    def probabilities(self, logits):
        return tf.nn.softmax(logits)

    def metrics_of(self, num_labels):
        return (*self.default_metrics, _AT_RECALL) if num_labels == 2 else self.default_metrics

    def score(self, answers, target, names, num_labels):
        chosen = [name for name in names if name != _AT_RECALL]
        scores = metrics.classification(target, answers.argmax(-1), chosen, num_labels)
        if _AT_RECALL in names:
            scores[_AT_RECALL], _ = metrics.precision_at_recall(target, answers[:, 1])
        return scores

    def choose(self, answers, labels):
        return [labels[i] for i in answers.argmax(-1)]

    def confidence(self, probabilities):
        return tf.reduce_max(probabilities, -1)

    def right(self, answers, target):
        return answers.argmax(-1) == target

    def error_report(self, examples, target, answers, labels, separator):
        remarks = dict.fromkeys(("f1", "precision", "recall"), metrics.averaging(labels)) | _WEIGHTED
        return SingleLabelReport(examples=examples, remarks=remarks, gold=target, probabilities=answers, labels=labels)


class MultiLabel(LabelProblem):
    """Multi-label classification: n * L independent yes/no decisions.

    They are evaluated as one list: accuracy is the fraction of correct decisions; f1, precision and recall are those of
    yes, the micro average over the labels. weighted_f1 is the mean over the labels, weighted by their examples.

    Args:
        thresholds: float [L], the probability above which each label is predicted; the metrics are then also computed
            at 0.5, as `f1_at_0.5`. If None, it is 0.5 for all.
    """

    def __init__(self, thresholds: Sequence[float] | None = None):
        self.fitted_thresholds = thresholds
        self.thresholds = np.asarray(0.5 if thresholds is None else thresholds, np.float32)

    default_metrics = ("accuracy", "f1", "weighted_f1", "precision", "recall")
    has_several_labels = True
    metrics_note = (
        "The metrics pool the decisions on all labels: accuracy is the fraction of correct yes/no decisions; f1, "
        "precision and recall are micro averages over all labels."
    )

    def losses(self, logits, target, weights, smoothing):
        """Computes the mean of the labels' binary cross-entropies.

        Smoothing makes e/2 of 0 and 1 - e/2 of 1; a weight applies to the label's decision, yes or no.
        """
        target = (1 - smoothing) * tf.cast(target, tf.float32) + smoothing / 2
        terms = tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=logits)
        return tf.reduce_mean(terms if weights is None else terms * weights, -1)

    def distillation_losses(self, logits, teacher_logits, temperature):
        return tf.reduce_mean(yes_no_divergence(logits, teacher_logits, temperature), -1)

    def example_weights(self, target, weights):
        return tf.fill([tf.shape(target)[0]], tf.reduce_mean(weights))

    def answers(self, logits):
        return np.exp(-np.logaddexp(0, -logits))

    def probabilities(self, logits):
        return tf.sigmoid(logits)

    def score(self, answers, target, names, num_labels):
        scores = self._score(answers > self.thresholds, target, names, num_labels)
        if self.fitted_thresholds:
            at_half = self._score(answers > 0.5, target, names, num_labels)
            scores |= {f"{name}_at_0.5": value for name, value in at_half.items()}
        return scores

    def _score(self, given, target, names, num_labels):
        pooled = metrics.classification(target.ravel(), given.ravel(), [n for n in names if n != "weighted_f1"], 2)
        own = {"weighted_f1": metrics.weighted_f1(target, given, num_labels)}
        return {name: (pooled | own)[name] for name in names}

    def choose(self, answers, labels):
        return [tuple(np.asarray(labels, object)[row]) for row in answers > self.thresholds]

    def predicted(self, probabilities):
        return {"predicted": probabilities > self.thresholds}

    def card_facts(self, labels):
        if not self.fitted_thresholds:
            return {"thresholds": "0.5 for every label"}
        pairs = zip(labels, self.fitted_thresholds, strict=True)
        return {"thresholds": ", ".join(f"{label} {threshold:.4f}" for label, threshold in pairs)}

    def confidence(self, probabilities):
        """Returns the confidence of a set of labels: that of its least confident label."""
        return tf.reduce_min(tf.where(probabilities > self.thresholds, probabilities, 1 - probabilities), -1)

    def right(self, answers, target):
        return ((answers > self.thresholds) == (target > 0)).all(-1)

    def error_report(self, examples, target, answers, labels, separator):
        remarks = dict.fromkeys(("f1", "precision", "recall"), "micro average over all labels")
        remarks |= {"accuracy": "the fraction of correct yes/no decisions"} | _WEIGHTED
        return MultiLabelReport(
            examples=examples,
            remarks=remarks,
            gold=target.astype(bool),
            probabilities=answers,
            labels=labels,
            separator=separator,
            thresholds=self.thresholds,
        )


class Regression(Problem):
    """Regression: one value per example."""

    target = "label_values"
    default_metrics = ("pearson", "spearman", "mae", "rmse")
    example_method = "regress"
    has_labels = False

    def losses(self, logits, target, weights, smoothing):
        assert weights is None and not smoothing
        return tf.math.squared_difference(logits[:, 0], target)

    def distillation_losses(self, logits, teacher_logits, temperature):
        return tf.math.squared_difference(logits[:, 0], teacher_logits[:, 0])

    def answers(self, logits):
        return logits[:, 0]

    def score(self, answers, target, names, num_labels):
        return metrics.regression(target, answers, names)

    def choose(self, answers, labels):
        return answers.tolist()

    def serve(self, logits, labels):
        return {"score": logits[:, 0]}

    def serve_example(self, served):
        return {"outputs": served["score"][:, tf.newaxis]}

    def error_report(self, examples, target, answers, labels, separator):
        return RegressionReport(examples=examples, gold=target, given=answers)


PROBLEMS: dict[str, Problem] = {
    "single_label": SingleLabel(),
    "multi_label": MultiLabel(),
    "regression": Regression(),
}


def check_options(problem, num_labels, class_weights, label_smoothing, temperature, thresholds):
    """Checks that these arguments of `ClassificationTask` are consistent.

    Raises:
        ValueError: they are not.
    """
    if problem not in PROBLEMS:
        raise ValueError(f"problem must be one of {sorted(PROBLEMS)}; got {problem!r}.")
    given = class_weights is not None or label_smoothing or temperature != 1
    if given and not PROBLEMS[problem].has_labels:
        raise ValueError(
            f"Class weights, label smoothing and a temperature require labels, but the problem is {problem}. "
            "Remove them."
        )
    weights = (1.0,) * num_labels if class_weights is None else class_weights
    if len(weights) != num_labels or not all(0 < weight < np.inf for weight in weights):
        raise ValueError(
            f"Class weights must be {num_labels} numbers above 0, one per label; got {list(weights)}; to exclude "
            "a label, remove its examples."
        )
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"Label smoothing must be from 0 to 1; got {label_smoothing}; 0.1 is a common choice.")
    if not 0 < temperature < np.inf:
        raise ValueError(f"The temperature must be above 0; got {temperature}; 1 leaves probabilities unchanged.")
    if thresholds is None:
        return
    if not PROBLEMS[problem].has_several_labels:
        raise ValueError(f"Thresholds require several labels per example, but the problem is {problem}. Remove them.")
    if len(thresholds) != num_labels or not all(0 <= threshold < 1 for threshold in thresholds):
        raise ValueError(
            f"Thresholds must be {num_labels} numbers from 0 to below 1, one per label; got {list(thresholds)}; "
            "fit them again with `fit_thresholds`."
        )
