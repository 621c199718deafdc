"""Texts that look for the ones that belong to them: at which place each finds it."""

import dataclasses

import numpy as np

from bert_tf.evaluation.error_reports import parts
from bert_tf.evaluation.error_reports.judged import Judged
from bert_tf.utils.counts import percent
from bert_tf.utils.report import Bar, Page

_LIMITS = (1, 3, 10, 100)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Places(Judged):
    """n texts; `places`, int [n] from 1, says where what each looks for stands among all candidates by nearness."""

    places: np.ndarray

    @property
    def badness(self):
        return self.places.astype(float)

    def columns(self):
        return {"place": self.places.tolist()}

    def show(self, page: Page):
        shares = [(f"among the first {limit}", (self.places <= limit).mean()) for limit in _LIMITS]
        with page.section("Places"):
            page.text(f"At which place a text finds what belongs to it; the median is {np.median(self.places):,.0f}.")
            rows = [(name, Bar(percent(share), share)) for name, share in shares]
            page.table(None, rows, ("what belongs to a text is", "of the texts"))
        first, mean = {"found at the first place": self.places == 1}, {"mean place": self.places}
        parts.by_length(page, self.examples, first, mean)
        wrong = self.places > 1
        chosen, columns = self.worst(wrong, parts.MOST), {"place": [f"{place:,}" for place in self.places]}
        note = f"{int(wrong.sum()):,} of {len(wrong):,} texts find another one first."
        parts.listed(page, "Furthest from what belongs to them", self, chosen, columns, note)
