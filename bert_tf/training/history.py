"""The history of a run and its report page, report.html."""

import dataclasses
import datetime
import importlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from absl import logging

from bert_tf.training.learning_rate import RangeTest
from bert_tf.training.run_record import RunRecord, commit
from bert_tf.utils.files import atomic_open, read_text, write_text
from bert_tf.utils.html_report import ACCENT, FILL, INK, PALE, Page, kept
from bert_tf.utils.resources import package_versions

# === Range test of the learning rate ===


def add_range_test(page: Page, test: RangeTest):
    """Adds the curve of a range test to a run's page."""

    def draw(axes):
        axes.plot(test.rates, test.losses, ".", color=PALE, label="of a step's batch")
        axes.plot(test.rates, test.smoothed, color=FILL, linewidth=1.5, label="smoothed")
        axes.axvline(test.edge, color=INK, linewidth=1, linestyle=":", label=f"the edge, {test.edge:.1e}")
        axes.axvline(test.learning_rate, color=ACCENT, linewidth=1.5, label=f"the rate, {test.learning_rate:.1e}")
        axes.set_xscale("log")
        powers = range(math.floor(math.log10(test.rates[0])), math.ceil(math.log10(test.rates[-1])) + 1)
        axes.set_xticks([10.0**n for n in powers], [f"1e{n}" for n in powers])  # else they are formulas
        axes.minorticks_off()
        axes.set_xlim(0.8 * test.rates[0], 1.25 * test.rates[-1])
        axes.set_ylim(0, 3 * float(np.min(test.smoothed)) if np.max(test.losses) > 3 * np.min(test.smoothed) else None)
        axes.set_xlabel("learning rate")
        axes.legend(ncols=2, loc="lower left", bbox_to_anchor=(0, 1))

    page.figure("Range test of the learning rate: the loss", draw, height=2.4)
    page.text(
        f"{len(test.losses)} steps from the weights to start from, each at a higher rate than the one before, and "
        f"then undone. The edge is the last step whose smoothed loss is at most {RangeTest.RISE:g} times the least; "
        f"the run's rate is 1/{RangeTest.BELOW} of the rate there."
    )


# === Page ===


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
_LINES = {_TRAIN: "-", _HELD_OUT: "--", _COMMONEST: ":"}  # the curves can be distinguished without colours too
_OF_COMMONEST = "_of_commonest"  # a score so named belongs to the score whose name comes before
_FEW = 50  # points of a curve that are marked one by one


def build_history_page(lines: Sequence[dict], title: str, shown: Mapping[str, str] | None = None) -> str:
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
        add_range_test(document, RangeTest(test["rates"], test["losses"]))
    origins = [(line["time"], f"after step {line['step']:,}", line["from"] or "random weights") for line in starts]
    document.table("Starts", origins)
    if data := starts[-1].get("data"):
        document.table("Examples", [(name, f"{each['rows']:,}", each["file"]) for name, each in data.items()])
    flags = starts[-1]["flags"]
    document.table("Flags that were given", [(f"--{name}", value) for name, value in flags.items()])
    versions = list(starts[-1]["versions"].items())
    if git := starts[-1].get("git"):
        versions.append(("git commit", git["commit"], "with changes" if git["dirty"] else "as it is"))
    document.table("Versions", versions)


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


# === History ===
# The history of a run, over all its starts: OUTPUT_DIR/history.jsonl, and the page that shows it, report.html.
#
# A line is one JSON object with "kind", "step" and "time" (ISO 8601), and of the kind
# "start": "from" (the checkpoint, or null), "flags" and "versions", each {name: value}, "git" (`run_record.commit`),
#     and where files of examples are read "data", {split: {"file", "rows"}}, and where a range test found the learning
#     rate "range_test" (`RangeTest.to_dict`);
# "train": what `callbacks.ProgressLog` reports: means over the steps since the line before, such as "loss", the rates
#     of these steps, and "skipped", how many of them were;
# "eval": the scores on held-out examples.
# A number that is not finite is null. Of "train" and "eval" there is one line a step, whatever was interrupted and
# when. The rates of a line are null where none of its steps was timed, as the first of a process is not.


HISTORY_FILE = "history.jsonl"
REPORT_FILE = "report.html"
RANGE_TEST = "range_test"

_PACKAGES = ("tensorflow", "keras", "numpy")
_SECONDS = 0.5  # that a page takes to draw, at least
_PAUSE = 1000  # times as long until the next one: pages cost less than 0.1 % of the training


class History:
    """Appends to the history of a run and now and then draws its page: a callback of `Trainer`, the last of its own.

    Until it is started it does nothing, and of several workers only the chief's is started.

    Args:
        output_dir: of the run; it must be there when the run starts.
        flags: {name: value} that the user gave: `Settings.given_values`.
        data: {split: {"file": path, "rows": number of examples}} of what is read; None: that is not known.
        record: of the run, to be written when it starts; None: there is none.
        range_test: by which its learning rate was found, JSON values; None: it was given.
    """

    def __init__(
        self,
        output_dir: str,
        flags: dict,
        data: dict[str, dict] | None = None,
        record: RunRecord | None = None,
        range_test: dict | None = None,
    ):
        self._directory, self._record = output_dir, record
        self._flags = {
            name: ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            for name, value in flags.items()
        }
        self._data = ({} if data is None else {"data": data}) | ({RANGE_TEST: range_test} if range_test else {})
        self._title = f"Run {os.path.basename(os.path.abspath(output_dir))}"
        self._path = os.path.join(output_dir, HISTORY_FILE)
        self._page_path = os.path.join(output_dir, REPORT_FILE)
        self._lines, self._due = [], math.inf
        self._shown = {}

    def __call__(self, step, results, state):
        """Draws the page if it is time."""
        if time.monotonic() >= self._due:
            self.write_page()

    def start(self, step: int, origin: str | None):
        """Takes the history up as it was at `step`: what an interrupted run did after that it does again.

        Args:
            step: the last one that is done.
            origin: the checkpoint with it, or the one with another model's weights, or None.

        Raises:
            ValueError: the history is no such file, or a file of the data is not as it was when the run began.
            OSError: it cannot be written; it is unchanged.
        """
        if self._record:
            self._record.check(self._directory, step)
        lines = [line for line in read_history(self._path) if line["step"] <= step or line["kind"] == "start"]
        values = {
            "from": origin,
            "flags": self._flags,
            "versions": package_versions(_PACKAGES),
            "git": commit(),
            **self._data,
        }
        self._lines = [*lines, _line("start", step, values)]
        self._write_all()
        if self._record:
            self._record.write(self._directory, step, origin)
        importlib.import_module("matplotlib.figure")  # now, for it takes as long as a page, and steps wait for nothing
        self.write_page()

    def trained(self, step: int, values: dict):
        """Writes the "train" line of a step. Raises OSError if it cannot."""
        self._write("train", step, values)

    def evaluated(self, step: int, scores: dict):
        """Writes the "eval" line of a step, instead of an earlier one. Raises OSError if it cannot."""
        self._write("eval", step, scores)

    def has(self, kind: str, step: int) -> bool:
        """Returns whether there is a line of this kind, "train" or "eval", of this step."""
        return self._find(kind, step) is not None

    def concluded(self, step: int, scores: dict):
        """Does the same with the scores of the run's result, if there are some of its own files; draws the page."""
        if scores:
            self.evaluated(step, scores)
        self.write_page()

    def show(self, name: str, make: Callable[[], str]):
        """Adds a section to the page when it is next drawn, replacing any section of that name.

        It stays when the run goes on, in this process or in another. With it the page is drawn also where no training
        was started in this process. If it cannot be made, the log says why.

        Args:
            name: of the part.
            make: returns a fragment of a `Page`, whose `salt` no other part has.
        """
        try:
            self._shown[name] = make()
        except Exception:
            logging.exception("%s is missing its section %r, which could not be drawn.", self._page_path, name)

    def write_page(self):
        """Draws the page now. If that fails, the error is logged and the run continues."""
        if not self._lines and not self._shown:
            return
        begin = time.monotonic()
        try:
            lines = self._lines or read_history(self._path)
            write_text(self._page_path, build_history_page(lines, self._title, {**self._kept(), **self._shown}))
        except OSError as error:  # the disk is full: what needs no traceback
            logging.warning("Could not write %s: %s. Training continues.", self._page_path, error)
        except Exception:
            logging.exception("Could not write %s. Training continues and will try again later.", self._page_path)
        end = time.monotonic()
        self._due = end + _PAUSE * max(_SECONDS, end - begin)

    def _kept(self):
        """Returns the parts that are on the page already, by name."""
        return kept(read_text(self._page_path)) if os.path.exists(self._page_path) else {}

    def _write(self, kind, step, values):
        """Writes the one line of a kind and a step: at the end, or where the earlier one stands."""
        if not self._lines:
            return
        finite = {name: float(value) if math.isfinite(value) else None for name, value in values.items()}
        line = _line(kind, step, finite)
        index = self._find(kind, step)
        if index is not None:
            self._lines[index] = line
            self._write_all()
            return
        self._lines.append(line)
        with open(self._path, "a", encoding="utf-8", newline="\n") as file:
            file.write(_as_text(line))

    def _write_all(self):
        with atomic_open(self._path) as file:
            file.writelines(map(_as_text, self._lines))

    def _find(self, kind, step):
        """Returns the index of a line, or None."""
        found = (index for index, line in enumerate(self._lines) if (line["kind"], line["step"]) == (kind, step))
        return next(found, None)


def read_history(path: str | os.PathLike) -> list[dict]:
    """Returns the lines of a history, or none if the file does not exist. A last line that was cut short is left out.

    Raises:
        ValueError: another line is not one of a history.
    """
    if not os.path.exists(path):
        return []
    with open(path, "rb") as file:
        *whole, _ = file.read().split(b"\n")
    return [_parse(text, f"{path}, line {number}") for number, text in enumerate(whole, 1)]


def _parse(text, where):
    try:
        line = json.loads(text)
        if isinstance(line, dict) and isinstance(line["step"], int) and line["kind"] in ("start", "train", "eval"):
            return line
        problem = text[:80]
    except (ValueError, KeyError) as error:
        problem = error
    raise ValueError(
        f"{where}: expected a JSON object with `kind` and `step`; got {problem}. "
        "Delete the line, or the file to start a new history."
    )


def _line(kind, step, values):
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"kind": kind, "step": int(step), "time": now, **values}


def _as_text(line):
    return json.dumps(line, allow_nan=False) + "\n"
