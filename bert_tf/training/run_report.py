"""The page of a run: its history as curves and tables."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from bert_tf.training import rate_choice
from bert_tf.utils.report import ACCENT, FILL, INK, PALE, Page

_ABOUT = {"kind", "step", "time"}  # keys of a line that are no values
_SKIPPED = "skipped"
_HEADINGS = {
    "loss": "Loss",
    "examples_per_second": "Examples per second",
    "tokens_per_second": "Tokens per second",
    "learning_rate": "Learning rate",
    "gradient_norm": "Gradient norm, before clipping",
    _SKIPPED: "Skipped steps, all together",
}
_TRAIN, _HELD_OUT, _COMMONEST = "train", "held out", "always the commonest answer"
_COLOURS = {_TRAIN: FILL, _HELD_OUT: ACCENT, _COMMONEST: INK}
_LINES = {_TRAIN: "-", _HELD_OUT: "--", _COMMONEST: ":"}  # the curves are told apart without colours too
_OF_COMMONEST = "_of_commonest"  # a score so named belongs to the score whose name comes before
_FEW = 50  # points of a curve that are marked one by one


def page(lines: Sequence[dict], title: str, shown: Mapping[str, str] | None = None) -> str:
    """Returns the page as one HTML file. The same lines make the same bytes.

    Args:
        lines: of the history, at least one of them a "start", or none; see `history.py`.
        title: of the page.
        shown: {name: fragment} of what else is to be seen, such as what the model does; it comes first.
    """
    starts, train, held_out = ([line for line in lines if line["kind"] == kind] for kind in ("start", "train", "eval"))
    document = Page(title)
    if starts:
        document.table("So far", _summary(starts, train, held_out))
    for name, fragment in (shown or {}).items():
        document.keep(name, fragment)
    if starts:
        _add_run(document, starts, train, held_out)
    return document.html()


def _add_run(document, starts, train, held_out):
    """Adds how the run went, and what was asked of it."""
    curves = {_TRAIN: _curves(_counted(train)), **_scores(_curves(held_out))}
    for name in _in_order(curves):
        _add_figure(document, name, {kind: group[name] for kind, group in curves.items() if name in group}, starts)
    if test := starts[-1].get("range_test"):
        rate_choice.add_to(document, rate_choice.from_dict(test))
    origins = [(line["time"], f"after step {line['step']:,}", line["from"] or "random weights") for line in starts]
    document.table("Starts", origins)
    if data := starts[-1].get("data"):
        document.table("Examples", [(name, f"{each['rows']:,}", each["file"]) for name, each in data.items()])
    flags = starts[-1]["flags"]
    document.table("Flags that were given", [(f"--{name}", value) for name, value in flags.items()])
    document.table("Versions", [*starts[-1]["versions"].items(), *_commit(starts[-1].get("git"))])


def _commit(git):
    return [("git commit", git["commit"], "with changes" if git["dirty"] else "as it is")] if git else []


def _summary(starts, train, held_out):
    """Returns rows: how far the run is, and the latest values."""
    last = max((*starts, *train, *held_out), key=lambda line: line["step"])
    rows = [("steps", f"{last['step']:,}", f"at {last['time']}")]
    rows.append(("skipped steps", f"{sum(line.get(_SKIPPED) or 0 for line in train):,.0f}"))
    for kind, line in ((_TRAIN, train[-1:]), (_HELD_OUT, held_out[-1:])):
        for name, value in _values(*line).items() if line else ():
            rows.append((f"{kind}: {name}", _shown(value), f"at step {line[0]['step']:,}"))
    return rows


def _values(line):
    return {name: value for name, value in line.items() if name not in _ABOUT | {_SKIPPED}}


def _shown(value):
    return "not finite" if value is None else f"{value:.5g}"


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
    """Returns the curves of scores in two groups: those of the model, and those of the commonest answer."""
    commonest = {name: points for name, points in curves.items() if name.endswith(_OF_COMMONEST)}
    own = {name: points for name, points in curves.items() if name not in commonest}
    return {_HELD_OUT: own, _COMMONEST: {name.removesuffix(_OF_COMMONEST): p for name, p in commonest.items()}}


def _in_order(curves):
    """Returns the names of all curves: the loss, scores, then how the run went."""
    names = list(dict.fromkeys(name for group in curves.values() for name in group))
    known = list(_HEADINGS)
    return sorted(names, key=lambda name: (name != known[0], known.index(name) if name in known else 0))


def _add_figure(document, name, curves, starts):
    """Adds the curves of one name in a plot, with a pale line where the run was taken up again."""
    if max(map(len, curves.values())) < 2:
        return  # the summary has the number
    points = tuple((kind, tuple(values.items())) for kind, values in curves.items())
    again = tuple(line["step"] for line in starts if line["step"])
    document.figure(_HEADINGS.get(name, name), _Drawing(points, again), height=2.2)


@dataclasses.dataclass(frozen=True)
class _Drawing:
    """Draws curves.

    Attributes:
        curves: (kind, points) each; a point is a step and its value.
        again: steps at which the run was taken up again.
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
        if _HELD_OUT in dict(self.curves):
            axes.legend()
