"""The part of a page that shows what a model does: the one place that draws it, whatever the task."""

import os
from collections.abc import Mapping

from bert_tf.evaluation.error_reports.judged import Judged
from bert_tf.utils.report import Page


def scored(judged: Mapping[str, Judged], scores: Mapping[str, float], step: int | None = None, salt: str = "") -> str:
    """Returns the fragment for `Page.keep`: the scores, and for each file of examples what was answered.

    Args:
        judged: {split, such as "dev" or "dev_mismatched": the answers}.
        scores: {metric: score} over all of them; those of one split end in "_mismatched" like it.
        step: after which training step; None: that is not known.
        salt: as of `Page`, where several such parts stand on a page.
    """
    page = Page("", salt=f"{salt}scored ")
    page.heading(f"Scores on {', '.join(os.path.basename(each.examples.path) for each in judged.values())}"
                 if judged else "Scores")  # fmt: skip
    for each in judged.values():
        if each.warning:
            page.text(f"Warning: {each.warning}")
    if step is not None:
        page.text(f"Of the model after step {step:,}.")
    page.table(None, [(name, f"{value:.5g}", _remark(name, judged)) for name, value in sorted(scores.items())])
    for each in judged.values():
        page.heading(f"What it does on {os.path.basename(each.examples.path)}")
        page.text(f"{len(each.examples):,} examples of {each.examples.path}.")
        each.show(page)
    return page.fragment()


def _remark(name, judged):
    """Returns what is to be said beside a score: what any of the files says of a metric of that name."""
    metric = name.removeprefix("eval_")
    for split, each in judged.items():
        suffix = split.partition("_")[2]
        if remark := each.remarks.get(metric.removesuffix(f"_{suffix}") if suffix else metric):
            return remark
    return ""
