"""Selective prediction: predictions below a threshold fitted on the evaluation examples are not confident."""

import abc
import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.evaluation import abstention
from bert_tf.evaluation.abstention import CURVE_FILE, Abstention, RiskCoverageCurve
from bert_tf.evaluation.abstention_report import add_abstention
from bert_tf.models.config_files import TASK_FILE
from bert_tf.tasks.base import FineTuningTask, SplitPredictions
from bert_tf.tasks.options import AbstentionOptions
from bert_tf.utils.files import with_suffix

_FITTED = {"abstention_threshold", "coverage", "selective_accuracy"}
_FEW = 30  # predictions, too few to estimate accuracy


class Abstaining(FineTuningTask):
    """A task that can mark each prediction as confident or not.

    Attributes:
        abstention: the threshold of confident predictions. If None, predictions are not marked.
    """

    options: AbstentionOptions
    files = (with_suffix(CURVE_FILE, "*"),)
    abstention: Abstention | None = None

    @abc.abstractmethod
    def certainty(self, outcome: SplitPredictions) -> tuple[np.ndarray, np.ndarray]:
        """Returns the probability of each prediction, float [n], and whether it is correct, bool [n]."""

    def take_abstention(self, given: Abstention | dict[str, float] | None):
        """Sets `abstention`, given as such or as written by `abstention_as_option`; raises ValueError if invalid."""
        self.abstention = Abstention(**given) if isinstance(given, dict) else given

    def abstention_as_option(self) -> dict[str, Any]:
        """Returns the entry of `to_dict` for it; {} if there is none."""
        return {"abstention": dataclasses.asdict(self.abstention)} if self.abstention else {}

    def confident(self, probability: tf.Tensor | np.ndarray) -> dict[str, Any]:
        """Returns {"confident": bool [n]} for predictions with these probabilities, [n]; {} without abstention."""
        return {"confident": probability >= self.abstention.threshold} if self.abstention else {}

    def evaluate(self, outcomes):
        scores = super().evaluate(outcomes)
        if share := self.share_to_fit():
            self.abstention = _fit(share, outcomes[0].examples.path, *self.certainty(outcomes[0]))
        if share or self.abstention:
            scores |= self._scores(outcomes)
        return scores

    def share_to_fit(self) -> float | None:
        """Returns the target accuracy to fit the threshold to, or None to fit none."""
        return self.options.fit_abstention

    def fitted_metrics(self):
        return super().fitted_metrics() | (_FITTED if self.share_to_fit() else set())

    def write_scored(self, directory: str, outcomes: Sequence[SplitPredictions], suffix: str = ""):
        """Writes the risk-coverage curve, if requested."""
        if self.options.fit_abstention or self.abstention:
            RiskCoverageCurve.of(*self.certainty(outcomes[0])).write(directory, suffix)

    def extra_report_sections(self, page, outcomes):
        share = self.options.fit_abstention or (self.abstention and self.abstention.share)
        if share:
            add_abstention(page, RiskCoverageCurve.of(*self.certainty(outcomes[0])), self.abstention, share)

    def _scores(self, outcomes):
        if self.abstention is None:
            return {"coverage": 0.0}
        threshold, scores = self.abstention.threshold, {"abstention_threshold": self.abstention.threshold}
        for outcome in outcomes:
            values = abstention.scores(*self.certainty(outcome), threshold)
            scores |= {f"{name}{outcome.suffix}": value for name, value in values.items()}
        return scores


def check_abstention(options: AbstentionOptions):
    """Raises ValueError if `fit_abstention` contradicts the other options."""
    if options.fit_abstention == 0:
        raise ValueError("`fit_abstention` must be above 0 and at most 1; got 0. Example: 0.95.")
    check_fitted("fit_abstention", options.fit_abstention, options.do_eval)


def check_fitted(name: str, value: float | None, do_eval: bool):
    """Raises ValueError if the option `name` needs evaluation examples and there is no evaluation."""
    if value and not do_eval:
        raise ValueError(f"`{name}` requires `do_eval`. Add `do_eval`, or remove `{name}`.")


def check_kept(name: str, value: float | None, output_dir: str):
    """Raises ValueError if the value fitted by option `name` cannot be stored with a trained model."""
    if value and not os.path.exists(os.path.join(output_dir, TASK_FILE)):
        raise ValueError(
            f"`{name}` is stored with the trained model, but `output_dir`, {output_dir}, contains no trained model. "
            "Pass the directory that the model was trained in."
        )


def _fit(share, path, confidence, right) -> Abstention | None:
    """Fits the threshold on the examples of a file; if none reaches the share, returns None and logs a warning."""
    curve = RiskCoverageCurve.of(confidence, right)
    threshold = curve.threshold(share)
    if threshold is None:
        best = int(np.argmax(curve.accuracy))
        logging.warning(
            "No threshold reaches `fit_abstention=%g` on %s: the highest accuracy is %.1f%%, on the %s most confident "
            "predictions. No threshold is stored, and predictions are not marked as confident. Use a lower "
            "`fit_abstention`, or train a better model.",
            *(share, path, 100 * curve.accuracy[best], f"{curve.coverage[best] * len(right):,.0f}"),
        )  # fmt: skip
        return None
    given = confidence >= threshold
    n, rate = int(given.sum()), float(np.mean(right[given]))
    low, high = abstention.interval(rate, n)
    logging.info(
            "%s: %s of %s predictions (%.1f%%) have a probability of %.4f or more; %.1f%% of them are correct (95%% "
            "interval %.1f to %.1f%%; %.1f%% without a threshold).",
        *(path, f"{n:,}", f"{len(right):,}", 100 * n / len(right), threshold, 100 * rate, 100 * low, 100 * high),
        100 * np.mean(right),
    )  # fmt: skip
    if n < _FEW:
        logging.warning("Only %d predictions pass the threshold, too few to estimate the accuracy on new data.", n)
    return Abstention(share, threshold)
