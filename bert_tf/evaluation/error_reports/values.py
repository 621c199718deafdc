"""The error reports of regression and of retrieval."""

import dataclasses

import numpy as np

from bert_tf.evaluation.error_reports import common
from bert_tf.evaluation.error_reports.common import ErrorReport
from bert_tf.evaluation.metrics import share_below
from bert_tf.utils.names import percent
from bert_tf.utils.report import BarCell, Page

# === Values ===
# A number to each example.


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegressionReport(ErrorReport):
    """n examples.

    Attributes:
        gold: float [n], the right numbers.
        given: float [n], the answers.
        given_name: what an answer is called.
        is_same_scale: both measure the same; otherwise only their order is compared.
    """

    gold: np.ndarray
    given: np.ndarray
    given_name: str = "given"
    is_same_scale: bool = True

    @property
    def errors(self) -> np.ndarray:
        """float [n], given less right; where only the order counts, of the shares of examples that lie below."""
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

    def show(self, page: Page):
        errors, off = self.errors, np.abs(self.errors)
        if not np.isfinite(errors).all():
            page.text("Some answers are no numbers; the training has gone astray.")
            return
        with page.section("Given and right"):
            if self.is_same_scale:
                mean, square = self.gold.mean(), np.sqrt((errors**2).mean())
                page.table(None, [("mean absolute error", f"{off.mean():.4g}", "by how much an answer is off"),
                                  ("root of the mean square", f"{square:.4g}", "great errors count more"),
                                  ("mean error", f"{errors.mean():+.4g}", "over 0: answers are too high"),
                                  ("always the mean", f"{np.abs(self.gold - mean).mean():.4g}",
                                   "the mean absolute error of that answer")])  # fmt: skip
            drawn = (self.gold, self.given, "right", self.given_name, self.is_same_scale)
            page.figure(None, lambda axes: common.draw_scatter(axes, *drawn), 3.2, label="Given against right numbers")
        if self.is_same_scale:
            common.add_means_by_length(page, self.examples, {}, {"absolute error": off, "mean error": errors})
            self._draw_by_length(page, errors)
        else:
            common.add_means_by_length(page, self.examples, {"places off": off})
        note = "" if self.is_same_scale else "Places are the shares of all examples that lie below, in percent."
        columns = {"right": [f"{each:.4g}" for each in self.gold], self.given_name: [f"{v:.4g}" for v in self.given]}
        columns |= {"off by" if self.is_same_scale else "places off": list(map(self._off, errors))}
        common.add_examples(page, "Greatest errors", self, self.in_order("errors")[: common.MOST], columns, note)

    def _draw_by_length(self, page, errors):
        lengths, unit = self.examples.lengths, self.examples.unit
        with page.section("Errors by length"):
            page.figure(None, lambda axes: common.draw_residuals(axes, lengths, errors, unit), label="Errors by length")

    def _off(self, error):
        return f"{error:+.4g}" if self.is_same_scale else f"{100 * error:+.0f}"


# === Places ===
# Retrieval: at which rank each text finds the one that belongs to it.


_LIMITS = (1, 3, 10, 100)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RetrievalReport(ErrorReport):
    """n texts; `ranks`, int [n] from 1, says where what each looks for is among all candidates by nearness."""

    ranks: np.ndarray

    @property
    def severity(self):
        return self.ranks.astype(float)

    def columns(self):
        return {"place": self.ranks.tolist()}

    def show(self, page: Page):
        shares = [(f"among the first {limit}", (self.ranks <= limit).mean()) for limit in _LIMITS]
        with page.section("Places"):
            page.text(f"At which place a text finds what belongs to it; the median is {np.median(self.ranks):,.0f}.")
            rows = [(name, BarCell(percent(share), share)) for name, share in shares]
            page.table(None, rows, ("what belongs to a text is", "of the texts"))
        first, mean = {"found at the first place": self.ranks == 1}, {"mean place": self.ranks}
        common.add_means_by_length(page, self.examples, first, mean)
        wrong = self.ranks > 1
        chosen, columns = self.worst(wrong, common.MOST), {"place": [f"{place:,}" for place in self.ranks]}
        note = f"{int(wrong.sum()):,} of {len(wrong):,} texts find another one first."
        common.add_examples(page, "Furthest from what belongs to them", self, chosen, columns, note)
