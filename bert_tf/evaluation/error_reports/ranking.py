"""The error reports of retrieval and of ranking, by the rank of what should come first."""

import dataclasses

import numpy as np

from bert_tf.evaluation.error_reports import sections
from bert_tf.evaluation.error_reports.rates import ratio_interval
from bert_tf.evaluation.error_reports.report import ErrorReport
from bert_tf.utils.counts import percent
from bert_tf.utils.html_report import BarCell, Page

_LIMITS = (1, 3, 10, 100)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RetrievalReport(ErrorReport):
    """n texts; `ranks`, int [n] from 1, are those of their matches among all candidates, by similarity."""

    ranks: np.ndarray
    task_name = "Sentence embeddings: retrieval"
    main_metrics = ("mrr",)
    overview_name = "Rank of the matching text"
    match = "match"

    @property
    def severity(self):
        return self.ranks.astype(float)

    def columns(self):
        return {"place": self.ranks.tolist()}

    def interval(self, metric):
        return ratio_interval(1 / self.ranks)

    def show_overview(self, page: Page):
        shares = [(limit, (self.ranks <= limit).mean()) for limit in _LIMITS]
        rows = [(f"top {limit}", BarCell(percent(share), share)) for limit, share in shares]
        page.table(None, rows, (f"rank of the {self.match}", "texts"))
        page.text(f"The median rank is {np.median(self.ranks):,.0f}.")

    def show(self, page: Page):
        wrong = self.ranks > 1
        chosen, columns = self.worst(wrong, sections.MOST), {"rank": [f"{rank:,}" for rank in self.ranks]}
        note = f"For {int(wrong.sum()):,} of {len(wrong):,} texts, a wrong text ranks above the {self.match}."
        sections.add_examples(page, "Lowest-ranked matches", self, chosen, columns, note)
        first, mean = {f"{self.match} ranked first": self.ranks == 1}, {"mean rank": self.ranks}
        sections.add_means_by_length(page, self.examples, first, mean)


class RankingReport(RetrievalReport):
    """n queries; `ranks`, int [n] from 1, are those of their first relevant documents."""

    task_name = "Reranking"
    main_metrics = ("mrr_at_10",)
    overview_name = "Rank of the first relevant document"
    match = "relevant document"

    def interval(self, metric):
        return ratio_interval(np.where(self.ranks <= 10, 1 / self.ranks, 0.0))
