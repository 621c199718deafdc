"""The error report of regression: scores compared with true ones."""

import dataclasses

import numpy as np

from bert_tf.evaluation.error_reports import figures, sections
from bert_tf.evaluation.error_reports.rates import NORMAL_QUANTILE
from bert_tf.evaluation.error_reports.report import ErrorReport
from bert_tf.evaluation.metrics import pearson, share_below, spearman
from bert_tf.utils.html_report import Page


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegressionReport(ErrorReport):
    """n examples.

    Attributes:
        gold: float [n], the true values.
        given: float [n], the predictions.
        given_name: what a prediction is called.
        is_same_scale: both have the same scale; otherwise only their ranks are compared.
    """

    gold: np.ndarray
    given: np.ndarray
    given_name: str = "predicted"
    is_same_scale: bool = True
    main_metrics = ("pearson", "spearman")
    overview_name = "Predicted and true values"

    @property
    def errors(self) -> np.ndarray:
        """float [n], predicted minus true; if only ranks are compared, the difference of the quantiles."""
        if self.is_same_scale:
            return self.given - self.gold
        return share_below(self.given) - share_below(self.gold)

    @property
    def warning(self):
        is_one = np.isfinite(self.given).all() and len(np.unique(self.given)) == 1 < len(np.unique(self.gold))
        return self.learned_nothing(f"{self.given[0]:.5g}") if is_one else ""

    @property
    def severity(self):
        return np.abs(self.errors)

    def columns(self):
        answers = [float(str(value)) for value in self.given]  # of a float32 as many digits as it has
        return {"label": [float(str(value)) for value in self.gold], "prediction": answers}

    @property
    def task_name(self):
        return "Text regression" if self.is_same_scale else "Semantic similarity"

    def interval(self, metric):
        """By Fisher's transformation, with Bonett and Wright's (2000) variance for Spearman's correlation."""
        n = len(self.gold)
        if n < 4 or not np.isfinite(self.given).all():
            return None
        value = (pearson if metric == "pearson" else spearman)(self.gold, self.given)
        if not abs(value) < 1:
            return None
        half = NORMAL_QUANTILE * np.sqrt((1 if metric == "pearson" else 1 + value**2 / 2) / (n - 3))
        return float(np.tanh(np.arctanh(value) - half)), float(np.tanh(np.arctanh(value) + half))

    def show_overview(self, page: Page):
        if not np.isfinite(self.errors).all():
            page.warning("Some predictions are not finite numbers: training diverged.")
            return
        drawn = (self.gold, self.given, "true", self.given_name, self.is_same_scale)
        page.figure(None, lambda axes: figures.draw_scatter(axes, *drawn), 2.6, label="Predicted and true values")

    def show(self, page: Page):
        errors, off = self.errors, np.abs(self.errors)
        if not np.isfinite(errors).all():
            return
        note = "" if self.is_same_scale else "Ranks are in percent: the percentage of examples with a lower value."
        columns = {"true": [f"{each:.4g}" for each in self.gold], self.given_name: [f"{v:.4g}" for v in self.given]}
        columns |= {"error" if self.is_same_scale else "rank difference": list(map(self._off, errors))}
        sections.add_examples(page, "Largest errors", self, self.in_order("errors")[: sections.MOST], columns, note)
        if not self.is_same_scale:
            sections.add_means_by_length(page, self.examples, {"rank difference": off})
            return
        with page.section("Error measures"):
            mean, square = self.gold.mean(), np.sqrt((errors**2).mean())
            page.table(None, [("mean absolute error (MAE)", f"{off.mean():.4g}"),
                              ("root mean squared error (RMSE)", f"{square:.4g}"),
                              ("mean error", f"{errors.mean():+.4g}", "positive: predictions are too high"),
                              ("MAE of the baseline", f"{np.abs(self.gold - mean).mean():.4g}",
                               "a model that always predicts the mean")])  # fmt: skip
        sections.add_means_by_length(page, self.examples, {}, {"mean absolute error": off, "mean error": errors})
        lengths, unit = self.examples.lengths, self.examples.unit
        with page.section("Residuals by length"):
            page.figure(None, lambda axes: figures.draw_residuals(axes, lengths, errors, unit), label="Residuals")

    def _off(self, error):
        return f"{error:+.4g}" if self.is_same_scale else f"{100 * error:+.0f}"
