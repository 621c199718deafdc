"""Compares two GLUE runs, or the best runs of two grids, on the dev examples that both predicted."""

import dataclasses
import json
import os
import pathlib
from typing import Any

from bert_tf.evaluation import significance
from bert_tf.evaluation.constant_predictions import only_answer_in
from bert_tf.evaluation.results import read_results
from bert_tf.experiments.child_runs import FINISHED_FILE
from bert_tf.experiments.comparison import compare_runs
from bert_tf.experiments.glue import runs as glue_runs
from bert_tf.utils.files import read_text

_ANSWERS = "eval_predictions"  # and for further dev files eval_predictions_<name>; .tsv


@dataclasses.dataclass(frozen=True)
class MetricComparison:
    """One metric of two runs.

    Attributes:
        what: the task, or the directory's name if the task is unknown.
        metric: as in eval_results.txt.
        here, there: the directories of the runs.
        comparison: result of the bootstrap; its difference is `here` - `there`.
    """

    what: str
    metric: str
    here: pathlib.Path
    there: pathlib.Path
    comparison: significance.BootstrapResult

    def __str__(self):
        c = self.comparison
        return (
            f"{self.what}, {self.metric.removeprefix('eval_')}: {100 * c.a:.2f} against {100 * c.b:.2f}: "
            f"{100 * c.difference:+.2f} (95% interval {100 * c.low:+.2f} to {100 * c.high:+.2f}), p = {c.p_value:.4f}"
        )

    def row(self) -> tuple[str, str, str]:
        """Returns what the page shows: a name, the difference, and how sure it is."""
        c = self.comparison
        interval = f"95% interval {100 * c.low:+.2f} to {100 * c.high:+.2f}, p = {c.p_value:.4f}"
        name = f"{self.what}: {self.metric.removeprefix('eval_')}"
        return name, f"{100 * c.difference:+.2f}", f"{interval}; {100 * c.a:.2f} against {100 * c.b:.2f}"

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON values; scores are from -1.0 to 1.0."""
        sides = {"here": str(self.here), "there": str(self.there)}
        about = {"test": "bootstrap", "what": self.what, "metric": self.metric}
        return {**about, **sides, **dataclasses.asdict(self.comparison)}


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A comparison that was left out because too few runs learned anything.

    Attributes:
        what: what would have been compared.
        here, there: for each side, the number of runs with a constant prediction, and the number of runs.
    """

    what: str
    here: tuple[int, int]
    there: tuple[int, int]

    def __str__(self):
        return ": ".join(self.row()[::2])

    def row(self) -> tuple[str, str, str]:
        """Returns what the page shows: a name, no difference, and why."""
        counts = [f"{nothing} of {runs}" for nothing, runs in (self.here, self.there)]
        said = " and ".join(counts)
        why = f"not compared, because models that give one answer to all examples have learned nothing: {said}"
        return self.what, "", why

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON values."""
        counts = {side: dict(zip(("runs_of_one_answer", "runs"), count, strict=True))
                  for side, count in self._sides().items()}  # fmt: skip
        return {"test": None, "what": self.what, **counts}

    def _sides(self):
        return {"here": self.here, "there": self.there}


def is_run(path: str | os.PathLike) -> bool:
    """Returns whether a directory is that of one evaluated run rather than of many."""
    return any(pathlib.Path(path).glob(f"{_ANSWERS}*.tsv"))


def compare_grids(here: str | os.PathLike, there: str | os.PathLike) -> list[MetricComparison | LeftOut]:
    """Compares all metrics of the best runs of the tasks in both directories; a directory may also be a single run.

    If a side's best run of a task has a constant prediction, the task is a `LeftOut`.

    Raises:
        ValueError: a directory has no run, there is no common task, or the dev examples differ.
    """
    ours, theirs = best_runs(here), best_runs(there)
    if None in {*ours, *theirs} and len(ours) == len(theirs) == 1:  # compare the examples
        name = next(iter(ours)) or next(iter(theirs)) or pathlib.Path(here).name
        ours, theirs = ({name: folder} for side in (ours, theirs) for folder in side.values())
    common = [task for task in ours if task in theirs and task is not None]
    if not common:
        raise ValueError(
            f"The runs have no task in common: {there} has {_name_runs(theirs)}, {here} has {_name_runs(ours)}. To "
            "compare two runs on different tasks, pass the directory of each run as `output_dir` and `compare`."
        )
    return [compared for task in common for compared in _compare_runs(task, ours[task], theirs[task])]


def _name_runs(runs):
    return ", ".join(task or "one run of an unknown task" for task in runs)


def best_runs(path) -> dict[str | None, pathlib.Path]:
    """Returns task -> directory of its best run; the task is None for a run that is not from `benchmark glue`."""
    if is_run(path):
        note = pathlib.Path(path, FINISHED_FILE)
        return {json.loads(read_text(note))["task"] if note.exists() else None: pathlib.Path(path)}
    runs = {task: best.folder for task, best in glue_runs.best(glue_runs.all_finished(path)).items()}
    if not runs:
        raise ValueError(
            f"Nothing to compare in {path}: it has no {_ANSWERS}.tsv and no run of `benchmark glue`. "
            "Pass the `output_dir` of `train classifier` with `do_eval`, or of `benchmark glue`."
        )
    return runs


def _compare_runs(what, here, there):
    scores = [glue_runs.official(read_results(folder) or {}, significance.METRICS) for folder in (here, there)]
    common = [key for key in scores[0] if key in scores[1]]
    if not common:
        raise ValueError(
            f"The two runs have no metric in common: {here} has {sorted(scores[0])}, {there} has "
            f"{sorted(scores[1])}. Evaluate both with `do_eval`."
        )
    nothing = [int(only_answer_in(folder) is not None) for folder in (here, there)]
    if any(nothing):
        yield LeftOut(f"{what}, best run against best run", *((count, 1) for count in nothing))
        return
    of_file = {each.file: each for each in compare_runs(os.fspath(there), os.fspath(here))}
    for key in common:
        metric, file = glue_runs.metric_and_file(key, significance.METRICS)
        name = f"{_ANSWERS}_{file}.tsv" if file else f"{_ANSWERS}.tsv"
        if name not in of_file:
            raise ValueError(f"Runs with {key} need {name}: {here} and {there}. Evaluate both again.")
        yield MetricComparison(what, key, here, there, of_file[name].scores[metric])
