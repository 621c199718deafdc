"""Tasks whose answer may be none: those below a probability, chosen on scored examples, are not to be relied on."""

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
from bert_tf.models.config_files import TASK_FILE
from bert_tf.tasks.base import FineTuningTask, SplitPredictions
from bert_tf.utils.files import with_suffix
from bert_tf.utils.settings import Settings

_FEW = 30  # answers, too few to say how many of the next ones will be right


class Abstaining(FineTuningTask):
    """A task that may be sure of an answer or not.

    Attributes:
        abstention: which answers it is sure of; None: that was not asked.
    """

    files = (with_suffix(CURVE_FILE, "*"),)
    abstention: Abstention | None = None

    @abc.abstractmethod
    def certainty(self, outcome: SplitPredictions) -> tuple[np.ndarray, np.ndarray]:
        """Returns each answer's probability, float [n], and whether it is right, bool [n]."""

    def take_abstention(self, given: Abstention | dict[str, float] | None):
        """Sets `abstention`, as it is or as `abstention_as_option` wrote it; raises ValueError for what is none."""
        self.abstention = Abstention(**given) if isinstance(given, dict) else given

    def abstention_as_option(self) -> dict[str, Any]:
        """Returns what `to_dict` says of it: {} where it was not asked."""
        return {"abstention": dataclasses.asdict(self.abstention)} if self.abstention else {}

    def confident(self, probability: tf.Tensor | np.ndarray) -> dict[str, Any]:
        """Returns {"confident": bool [n]} of answers with these probabilities, [n]; {} where it was not asked."""
        return {"confident": probability >= self.abstention.threshold} if self.abstention else {}

    def evaluate(self, outcomes, settings):
        scores = super().evaluate(outcomes, settings)
        if share := self._share(settings):
            self.abstention = _fit(share, outcomes[0].examples.path, *self.certainty(outcomes[0]))
        if share or self.abstention:
            scores |= self._scores(outcomes)
        return scores

    def write_scored(self, directory: str, outcomes: Sequence[SplitPredictions], settings: Settings, suffix: str = ""):
        """Writes how many answers are given at which threshold, where that was asked."""
        if settings.get("fit_abstention") or self.abstention:
            RiskCoverageCurve.of(*self.certainty(outcomes[0])).write(directory, suffix)

    def show_more(self, page, outcomes, settings):
        share = settings.get("fit_abstention") or (self.abstention and self.abstention.share)
        if share:
            abstention.add_abstention(page, RiskCoverageCurve.of(*self.certainty(outcomes[0])), self.abstention, share)

    def _share(self, settings):
        """Returns the share to fit to: a new temperature moves all probabilities, and the threshold must follow."""
        kept = self.abstention.share if self.abstention and settings.get("fit_temperature") else None
        return settings.get("fit_abstention") or kept

    def _scores(self, outcomes):
        if self.abstention is None:
            return {"coverage": 0.0}
        threshold, scores = self.abstention.threshold, {"abstention_threshold": self.abstention.threshold}
        for outcome in outcomes:
            values = abstention.scores(*self.certainty(outcome), threshold)
            scores |= {f"{name}{outcome.suffix}": value for name, value in values.items()}
        return scores


def check_settings(settings: Settings):
    """Raises ValueError where what `fit_abstention` asks for contradicts the other settings."""
    if settings.get("fit_abstention") == 0:
        raise ValueError("`fit_abstention` must be over 0 and at most 1. Received: 0; 0.95 asks for 19 of 20.")
    check_scored_examples(settings, "fit_abstention")


def check_scored_examples(settings: Settings, name: str):
    """Raises ValueError where a setting fits something on scored examples and none are scored."""
    if settings.get(name) and not settings.do_eval:
        raise ValueError(f"`{name}` must come with `do_eval`. Received it alone; add `do_eval`.")


def check_kept(settings: Settings, name: str):
    """Raises ValueError where what a setting fits to a trained model cannot be kept with it."""
    if settings.get(name) and not os.path.exists(os.path.join(settings.output_dir, TASK_FILE)):
        raise ValueError(
            f"`{name}` must find the trained model in `output_dir`, with which it is kept. Received "
            f"{settings.output_dir}, which holds none; name the folder that it was trained into."
        )


def _fit(share, path, confidence, right) -> Abstention | None:
    """Returns the threshold that the examples of a file ask for; where none does, None, and a warning."""
    curve = RiskCoverageCurve.of(confidence, right)
    threshold = curve.threshold(share)
    if threshold is None:
        best = int(np.argmax(curve.accuracy))
        logging.warning(
            "`fit_abstention=%g` must be a share that some threshold reaches on %s. Received one that none does: the "
            "most is %.1f %%, of the %s surest answers. No threshold is kept, and no answer says if it is confident; "
            "ask for a smaller share, or train a better model.",
            *(share, path, 100 * curve.accuracy[best], f"{curve.coverage[best] * len(right):,.0f}"),
        )  # fmt: skip
        return None
    given = confidence >= threshold
    n, rate = int(given.sum()), float(np.mean(right[given]))
    low, high = abstention.interval(rate, n)
    logging.info(
        "Of %s, %s of %s answers (%.1f %%) have a probability of %.4f or more; %.1f %% of them are right (95 %% "
        "interval %.1f to %.1f %%, and %.1f %% of all).",
        *(path, f"{n:,}", f"{len(right):,}", 100 * n / len(right), threshold, 100 * rate, 100 * low, 100 * high),
        100 * np.mean(right),
    )  # fmt: skip
    if n < _FEW:
        logging.warning("Only %d answers are given, too few to say how many of the next will be right.", n)
    return Abstention(share, threshold)
