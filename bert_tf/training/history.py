"""The history of a run, over all its starts: OUTPUT_DIR/history.jsonl, and the page that shows it, report.html.

A line is one JSON object with "kind", "step" and "time" (ISO 8601), and of the kind
"start": "from" (the checkpoint, or null), "flags" and "versions", each {name: value}, "git" (`run_record.commit`),
    and where files of examples are read "data", {split: {"file", "rows"}}, and where a range test found the learning
    rate "range_test" (`RangeTest.to_dict`), and where the head started from another model's, by label,
    "retrained_from" (`LabelRows.to_dict`);
"train": what `callbacks.ProgressLog` reports: means over the steps since the line before, such as "loss", the rates
    of these steps, and "skipped", how many of them were;
"eval": the scores on held-out examples.
A number that is not finite is null. Of "train" and "eval" there is one line a step, whatever was interrupted and
when. The rates of a line are null where none of its steps was timed, as the first of a process is not.
"""

import datetime
import json
import math
import os
import time
from collections.abc import Callable

from absl import logging

from bert_tf.training.report_page import build_history_page
from bert_tf.training.run_record import RunRecord, commit
from bert_tf.utils.files import atomic_open, read_text, write_text
from bert_tf.utils.html_report import can_plot, kept
from bert_tf.utils.package_versions import package_versions

HISTORY_FILE = "history.jsonl"
REPORT_FILE = "report.html"
RANGE_TEST = "range_test"
RETRAINED_FROM = "retrained_from"

_PACKAGES = ("tensorflow", "keras", "numpy")
_SECONDS = 0.5  # that a page takes to draw, at least
_PAUSE = 1000  # times as long until the next one: pages cost less than 0.1% of the training


class History:
    """Appends to the history of a run and now and then draws its page: a callback of `Trainer`, the last of its own.

    Until it is started it does nothing, and of several workers only the chief's is started.

    Args:
        output_dir: output directory of the run; it must exist when the run starts.
        flags: {name: value} that the user gave: `Settings.given_values`.
        data: {split: {"file": path, "rows": number of examples}} of what is read; if None, that is not known.
        record: record of the run, to be written when it starts; if None, there is none.
        range_test: by which its learning rate was found, JSON values; if None, it was given.
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
        self._title = f"Training report: {os.path.basename(os.path.abspath(output_dir))}"
        self._path = os.path.join(output_dir, HISTORY_FILE)
        self._page_path = os.path.join(output_dir, REPORT_FILE)
        self._lines, self._due = [], math.inf
        self._shown = {}

    def __call__(self, step, results, state):
        """Draws the page if it is time."""
        if time.monotonic() >= self._due:
            self.write_page()

    def start(self, step: int, origin: str | None, retrained_from: dict | None = None):
        """Takes the history up as it was at `step`: what an interrupted run did after that it does again.

        Args:
            step: the last one that is done.
            origin: the checkpoint with it, or the one with another model's weights, or None.
            retrained_from: which rows of that model's head the head starts from, JSON values; None if there are none,
                or the run resumes.

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
            **({RETRAINED_FROM: retrained_from} if retrained_from else {}),
        }
        self._lines = [*lines, _line("start", step, values)]
        self._write_all()
        if self._record:
            self._record.write(self._directory, step, origin, first_start(self._lines).get(RETRAINED_FROM))
        can_plot()  # importing matplotlib is slow, so it is done now and not between steps
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
        was started in this process. If it cannot be made, the reason is logged.

        Args:
            name: name of the part.
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
        """Writes the one line of a kind and a step: at the end, or in place of the earlier one."""
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


def first_start(lines: list[dict]) -> dict:
    """Returns the "start" line of a history from which its first step was made; {} if there is none."""
    starts = [line for line in lines if line["kind"] == "start"]
    return next((line for line in reversed(starts) if line["step"] == 0), starts[0] if starts else {})


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
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return {"kind": kind, "step": int(step), "time": now, **values}


def _as_text(line):
    return json.dumps(line, allow_nan=False) + "\n"
