"""Parts of a run's page that show a model's predictions, whatever the task: fragments for `Page.keep`."""

from collections.abc import Mapping

from bert_tf.evaluation.error_reports.report import ErrorReport
from bert_tf.utils.files import file_names
from bert_tf.utils.html_report import Page

_ELSEWHERE = {"ece", "abstention_threshold"}  # metrics in sections of their own: calibration, selective prediction
_TITLES = {
    "exact": "exact match",
    "f1": "F1",
    "mae": "mean absolute error (MAE)",
    "map": "mean average precision (MAP)",
    "matthews": "Matthews correlation",
    "mrr": "mean reciprocal rank (MRR)",
    "ndcg": "nDCG",
    "pearson": "Pearson correlation",
    "rmse": "root mean squared error (RMSE)",
    "spearman": "Spearman correlation",
}


def render_headline(reports: Mapping[str, ErrorReport], scores: Mapping[str, float], step: int | None = None) -> str:
    """Returns a card with the main metric and its confidence interval, and all other metrics.

    Args:
        reports: {split, such as "dev" or "dev_mismatched": the predictions}.
        scores: {metric: value} over all of them; those of one split end in "_mismatched" like it.
        step: the training step of the evaluated checkpoint; None if unknown.
    """
    page, first = Page(""), next(iter(reports.values()), None)
    files = ", ".join(file_names(each.examples.path) for each in reports.values())
    rest = {name: value for name, value in sorted(scores.items()) if name.removeprefix("eval_") not in _ELSEWHERE}
    with page.card(f"{first.task_name} on {files}" if first else "Evaluation"):
        for each in reports.values():
            if each.warning:
                page.warning(f"Warning: {each.warning}")
        if main := _main_metric(first, scores):
            metric, value = main.removeprefix("eval_"), rest.pop(main)
            interval = first.interval(metric) if first.is_of(metric, value) else None
            remark = "95% confidence interval {:.4g} to {:.4g}".format(*interval) if interval else ""
            page.metric(_title(main), f"{value:.4g}", remark)
        page.table(None, [(_title(name), f"{value:.4g}") for name, value in rest.items()])
        notes = {}
        for name in scores:
            notes.setdefault(_remark(name, reports), []).append(_title(name))
        lines = [f"{', '.join(names)}: {remark}." for remark, names in notes.items() if remark]
        page.text("\n".join(lines + ([checkpoint_sentence(step)] if step is not None else [])))
    return page.fragment()


def checkpoint_sentence(step: int) -> str:
    """Returns the sentence of a headline that names the checkpoint of its metrics."""
    return f"Checkpoint after step {step:,}."


def render_overview(reports: Mapping[str, ErrorReport], salt: str = "") -> str:
    """Returns a card for each file with its confusion matrix, or what the task has instead; as `render_headline`."""
    page = Page("", salt=f"{salt}overview ")
    for each in reports.values():
        if each.overview_name:
            suffix = f" on {file_names(each.examples.path)}" if len(reports) > 1 else ""
            with page.card(each.overview_name + suffix):
                each.show_overview(page)
    return page.fragment()


def render_errors(reports: Mapping[str, ErrorReport], salt: str = "") -> str:
    """Returns the error analysis of each file.

    Args:
        reports: as of `render_headline`.
        salt: as of `Page`, if a page has several such parts.
    """
    page = Page("", salt=f"{salt}errors ")
    for each in reports.values():
        page.heading(f"Error analysis: {file_names(each.examples.path)}")
        each.show(page)
    return page.fragment()


def _main_metric(report, scores):
    """Returns the name of a report's main metric among the scores, or None."""
    names = (f"{prefix}{name}" for name in (report.main_metrics if report else ()) for prefix in ("eval_", ""))
    return next((name for name in names if name in scores), None)


def _title(name):
    """Returns a metric's name as people write it; the rest of the name, such as the split, is kept."""
    return " ".join(_TITLES.get(word, word) for word in name.removeprefix("eval_").split("_"))


def _remark(name, reports):
    """Returns the note next to a metric, from the first report that has one of that name."""
    metric = name.removeprefix("eval_")
    for split, each in reports.items():
        suffix = split.partition("_")[2]
        if remark := each.remarks.get(metric.removesuffix(f"_{suffix}") if suffix else metric):
            return remark
    return ""
