"""The report page of a run, report.html: evaluation, curves, and how the run was started."""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence

from bert_tf.evaluation.error_reports.page_parts import checkpoint_sentence
from bert_tf.training.learning_rate_range import RangeTest
from bert_tf.training.range_test_section import add_range_test
from bert_tf.utils.files import file_names
from bert_tf.utils.html_report import ACCENT, FILL, INK, PALE, Page

HEADLINE, OVERVIEW = "headline", "overview"  # how names of fragments begin that belong to the first screen
_ABOUT = {"kind", "step", "time"}  # keys of a line that are no values
_SKIPPED = "skipped"
_HEADINGS = {
    "loss": "Loss",
    "examples_per_second": "Examples per second",
    "tokens_per_second": "Tokens per second",
    "learning_rate": "Learning rate",
    "gradient_norm": "Gradient norm before clipping",
    _SKIPPED: "Skipped steps, cumulative",
}
_ABBREVIATIONS = {"lm": "LM"}  # words of names that are written in capitals
_LATEST = {"loss", "examples_per_second"}  # values of training whose last one is on the first screen
_SPLITS = {"train": "Training data", "dev": "Evaluation data", "final": "Test data", "test": "Prediction data"}
_TRAIN, _HELD_OUT, _BASELINE = "training", "evaluation", "majority baseline"
_COLOURS = {_TRAIN: FILL, _HELD_OUT: ACCENT, _BASELINE: INK}
_LINES = {_TRAIN: "-", _HELD_OUT: "--", _BASELINE: ":"}  # the curves can also be distinguished without colors
_MAJORITY_BASELINE = "_majority_baseline"  # a score so named belongs to the score whose name comes before
_FEW = 50  # points of a curve that are marked one by one


def build_history_page(lines: Sequence[dict], title: str, shown: Mapping[str, str] | None = None) -> str:
    """Returns the page as one HTML file. The same lines make the same bytes.

    Args:
        lines: lines of the history, at least one of them a "start", or none; see `history.py`.
        title: title of the page.
        shown: {name: fragment} of the evaluation. Those whose names begin with HEADLINE or OVERVIEW are on the first
            screen, next to the loss curve.
    """
    starts, train, held_out = ([line for line in lines if line["kind"] == kind] for kind in ("start", "train", "eval"))
    shown, document = dict(shown or {}), Page(title)
    curves = {_TRAIN: _curves(_counted(train)), **_scores(_curves(held_out))} if starts else {}
    names = [name for name in _in_order(curves) if max(len(group.get(name, ())) for group in curves.values()) > 1]
    is_stated = bool(held_out) and _has_headline_of(held_out[-1]["step"], shown)
    with document.cards():
        _keep(document, shown, HEADLINE)
        if starts:
            with document.card("Run"):
                document.table(None, _summary(starts, train, held_out, is_stated))
        if "loss" in names:
            with document.card("Loss"):
                _add_figure(document, "loss", curves, starts)
                names.remove("loss")
        _keep(document, shown, OVERVIEW)
    _keep(document, shown)
    if names:
        document.heading("Training curves")
        with document.cards():
            for name in names:
                with document.card(_heading(name)):
                    _add_figure(document, name, curves, starts)
    if starts:
        _add_details(document, starts)
    return document.html()


def _heading(name):
    """Returns the name of a curve as people write it, at the beginning of a line."""
    words = _words(name)
    return _HEADINGS.get(name, words[:1].upper() + words[1:])


def _words(name):
    return " ".join(_ABBREVIATIONS.get(word, word) for word in name.split("_"))


def _has_headline_of(step, shown):
    """Returns whether a headline already has the metrics of a step, which are then not on the first screen twice."""
    sentence = checkpoint_sentence(step)
    return any(name.startswith(HEADLINE) and sentence in fragment for name, fragment in shown.items())


def _keep(document, shown, begin=""):
    """Moves the fragments whose names begin so from `shown` to the page."""
    for name in [name for name in shown if name.startswith(begin)]:
        document.keep(name, shown.pop(name))


def _add_details(document, starts):
    """Adds how the run was started: with which flags, on which data, with which versions."""
    last = starts[-1]
    versions = list(last["versions"].items())
    if git := last.get("git"):
        versions.append(("git commit", git["commit"], "with uncommitted changes" if git["dirty"] else ""))
    tables = {
        "Flags": [(f"--{name}", value) for name, value in last["flags"].items()],
        "Starts": [(_minute(each["time"]), f"from step {each['step']:,}", each["from"] or "random weights")
                   for each in starts],
        "Data files": [(_SPLITS.get(name, name), each["file"]) for name, each in (last.get("data") or {}).items()],
        "Versions": versions,
    }  # fmt: skip
    document.heading("Details")
    if test := last.get("range_test"):
        add_range_test(document, RangeTest(test["rates"], test["losses"]))
    with document.cards():
        for heading, rows in tables.items():
            if rows:
                with document.card(heading):
                    document.table(None, rows)


def _summary(starts, train, held_out, is_stated):
    """Returns rows: the model, the data, how far the run is, and the latest values."""
    last = max((*train, *held_out, *starts), key=lambda line: (line["step"], line["time"]))
    origin = starts[0]["from"]
    rows = [("Initial weights", os.path.basename(os.path.abspath(origin)) if origin else "random")]
    for name, each in (starts[-1].get("data") or {}).items():
        rows.append((_SPLITS.get(name, f"{name} data"), f"{each['rows']:,} examples, {file_names(each['file'])}"))
    rows.append(("Training steps", f"{last['step']:,}, until {_minute(last['time'])}"))
    if skipped := sum(line.get(_SKIPPED) or 0 for line in train):
        rows.append(("Skipped steps", f"{skipped:,.0f} (non-finite gradients)"))
    for kind, line in (("Training", train[-1:]), ("Evaluation", [] if is_stated else held_out[-1:])):
        for name, value in _values(*line).items() if line else ():
            if kind == "Evaluation" or name in _LATEST:
                name = _words(name.replace(_MAJORITY_BASELINE, f" ({_BASELINE})"))
                rows.append((f"{kind} {name}", _shown(value)))
    return rows


def _minute(stamp):
    """Returns a time of the history, in UTC, as people write it."""
    return f"{stamp[:10]} {stamp[11:16]} UTC"


def _values(line):
    return {name: value for name, value in line.items() if name not in _ABOUT | {_SKIPPED}}


def _shown(value):
    return "not finite" if value is None else f"{value:.4g}"


def _counted(train):
    """Returns the lines with the steps skipped since the start; without them if there are none."""
    counted, count = [], 0.0
    for line in train:
        count += line.get(_SKIPPED) or 0.0
        counted.append({**line, _SKIPPED: count})
    return counted if count else [{k: v for k, v in line.items() if k != _SKIPPED} for line in train]


def _curves(lines):
    """Returns {name: {step: value}}, ascending; of several lines of a step the last."""
    curves = {}
    for line in sorted(lines, key=lambda line: line["step"]):
        for name, value in line.items():
            if name not in _ABOUT:
                curves.setdefault(name, {})[line["step"]] = math.nan if value is None else value
    return curves


def _scores(curves):
    """Returns the curves of scores in two groups: those of the model, and those of the majority baseline."""
    baseline = {name: points for name, points in curves.items() if name.endswith(_MAJORITY_BASELINE)}
    own = {name: points for name, points in curves.items() if name not in baseline}
    return {_HELD_OUT: own, _BASELINE: {name.removesuffix(_MAJORITY_BASELINE): p for name, p in baseline.items()}}


def _in_order(curves):
    """Returns the names of all curves: the loss, scores, then how the run went."""
    names = list(dict.fromkeys(name for group in curves.values() for name in group))
    known = list(_HEADINGS)
    return sorted(names, key=lambda name: (name != known[0], known.index(name) if name in known else 0))


def _add_figure(document, name, curves, starts):
    """Adds the curves of one name in a plot, with a pale line where the run was resumed."""
    curves = {kind: group[name] for kind, group in curves.items() if name in group}
    points = tuple((kind, tuple(values.items())) for kind, values in curves.items())
    end = max(step for values in curves.values() for step in values)
    again = tuple(line["step"] for line in starts if 0 < line["step"] < end)
    document.figure(None, _Drawing(points, again), height=2.2, label=_heading(name))


@dataclasses.dataclass(frozen=True)
class _Drawing:
    """Draws curves.

    Attributes:
        curves: (kind, points) each; a point is a step and its value.
        again: steps at which the run was resumed.
    """

    curves: tuple[tuple[str, tuple[tuple[int, float], ...]], ...]
    again: tuple[int, ...]

    def __call__(self, axes):
        for step in self.again:
            axes.axvline(step, color=PALE, linewidth=1, zorder=0)
        for kind, points in self.curves:
            marker = "." if len(points) <= _FEW else None
            style = {"color": _COLOURS[kind], "linestyle": _LINES[kind], "linewidth": 1, "marker": marker}
            axes.plot(*zip(*points, strict=True), label=kind, **style)
        axes.set_xlabel("step")
        if len(self.curves) > 1 or _HELD_OUT in dict(self.curves):
            axes.legend()
