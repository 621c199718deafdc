"""The trials of a search: where they lie, how far they are, what they scored, and which of them go on."""

import dataclasses
import functools
import json
import math
import os
import pathlib
from collections.abc import Iterable, Mapping

from absl import logging

from bert_tf.evaluation.metrics import higher_is_better
from bert_tf.evaluation.one_answer import only_answer_in
from bert_tf.evaluation.results import RESULTS_FILE, read_results
from bert_tf.utils.child_runs import drop_checkpoints
from bert_tf.utils.files import read_text, write_text
from bert_tf.utils.json_files import json_text

FINISHED_FILE = "finished.json"  # written when a trial has ended well


@dataclasses.dataclass(frozen=True)
class Trial:
    """One combination of values.

    Attributes:
        number: from 1, in the order of the search.
        values: (flag, value) of what is searched.
    """

    number: int
    values: tuple[tuple[str, str], ...]

    def __str__(self):
        return f"trial {self.number}: {self.shown()}"

    def shown(self) -> str:
        """Returns its values for the reader."""
        return ", ".join(f"{name} {value}" for name, value in self.values)


@dataclasses.dataclass(frozen=True)
class Result:
    """A trial that ended well.

    Attributes:
        trial: which.
        stage: of successive halving, from 1.
        folder: where it lies.
        score: by which it is judged; it may be NaN.
        scores: all that eval_results.txt says.
        seconds: that it took, since it was last started.
        one_answer: what its model answers to every example, so that it has learned nothing; None: it does not.
    """

    trial: Trial
    stage: int
    folder: pathlib.Path
    score: float
    scores: dict[str, float]
    seconds: float
    one_answer: str | None = None

    @property
    def is_of_use(self) -> bool:
        """Whether its score says something: it is a number, and the model gives more than one answer."""
        return self.one_answer is None and not math.isnan(self.score)


@dataclasses.dataclass(frozen=True)
class Stages:
    """Successive halving (Jamieson and Talwalkar 2016, arXiv 1502.07943): cheap looks at all, dear ones at the best.

    Every stage trains anew, with a schedule of its own that ends at rate 0: a run that is cut short would be judged in
    the midst of its schedule.

    Attributes:
        count: of stages.
        factor: one of so many trials goes on, with so many times the epochs.
    """

    count: int = 1
    factor: int = 2

    def epochs(self, whole: float, stage: int) -> float:
        """Returns the epochs of a stage, from 1 on, where the last one has `whole`."""
        return whole / self.factor ** (self.count - stage)

    def trials(self, whole: int, stage: int) -> int:
        """Returns how many trials a stage has, where the first one has `whole`."""
        return -(-whole // self.factor ** (stage - 1))


class Folder:
    """What lies below the folder of a search.

    Args:
        path: the folder.
        stages: of the search.
        metric: by which trials are judged, as eval_results.txt names it, with or without "eval_".

    Raises:
        ValueError: no program has a score of that name.
    """

    def __init__(self, path: str | os.PathLike, stages: Stages, metric: str):
        self.path, self.stages = pathlib.Path(path), stages
        self.metric = f"eval_{metric.removeprefix('eval_')}"  # trials are scored by do_eval alone
        try:
            self.higher = higher_is_better(self.metric)
        except ValueError as error:
            raise ValueError(
                "`tuning_metric` must be a score of eval_results.txt, such as accuracy, f1 or loss. "
                f"Received: {metric!r}; name one."
            ) from error

    def of(self, trial: Trial, stage: int) -> pathlib.Path:
        """Returns the folder of a trial."""
        parent = self.path / f"stage-{stage}" if self.stages.count > 1 else self.path
        return parent / f"trial-{trial.number}"

    def result(self, trial: Trial, stage: int) -> Result | None:
        """Returns what a trial came to; None: it has not ended well, or the note that it did is damaged.

        Raises:
            ValueError: it was not scored by the metric.
        """
        folder = self.of(trial, stage)
        note, scores = folder / FINISHED_FILE, read_results(folder)
        if not note.exists() or scores is None:
            return None
        if self.metric not in scores:
            raise ValueError(
                f"`tuning_metric` must be a score of {folder / RESULTS_FILE}. Received {self.metric!r}, and there are "
                f"{', '.join(sorted(scores))}; name one of them."
            )
        try:
            seconds = float(json.loads(read_text(note))["seconds"])
        except (OSError, ValueError, KeyError, TypeError) as error:  # which must not end the other trials
            _warn_of_damage(os.fspath(note), str(error) or type(error).__name__)
            return None
        return Result(trial, stage, folder, scores[self.metric], scores, seconds, only_answer_in(folder))

    def results(self, trials: Iterable[Trial]) -> list[Result]:
        """Returns what trials came to, in all stages that they have been through: by stage, then as they come."""
        trials = list(trials)
        found = [self.result(trial, stage) for stage in range(1, self.stages.count + 1) for trial in trials]
        return [result for result in found if result]

    def mark_finished(self, trial: Trial, stage: int, seconds: float):
        """Notes that a trial ended well."""
        values = {"trial": trial.number, "stage": stage, "values": dict(trial.values), "seconds": round(seconds, 1)}
        write_text(self.of(trial, stage) / FINISHED_FILE, json_text(values, indent=2) + "\n")

    def ranked(self, results: Iterable[Result]) -> list[Result]:
        """Returns results from the best to the worst; of equal ones the first comes first.

        Behind them come those whose model gives one answer to all examples, whatever they score, and NaN comes last.
        """
        sign = -1 if self.higher else 1

        def place(result):
            is_none = math.isnan(result.score)
            return is_none, result.one_answer is not None, 0.0 if is_none else sign * result.score

        return sorted(results, key=place)

    def best(self, results: Iterable[Result]) -> Result | None:
        """Returns the best of those that came furthest; None: there is none whose score is a number."""
        results = [result for result in results if not math.isnan(result.score)]
        furthest = max((result.stage for result in results), default=0)
        return next(iter(self.ranked(r for r in results if r.stage == furthest)), None)

    def as_good(self, results: Iterable[Result]) -> list[Result]:
        """Returns the results beside the best one that have its score at its stage: it is named for coming first."""
        results = list(results)
        best = self.best(results)
        equal = [r for r in results if best and r != best and (r.stage, r.score) == (best.stage, best.score)]
        return [r for r in equal if r.is_of_use == best.is_of_use]

    def drop_models(self, results: Iterable[Result], keep: Result | None):
        """Removes the checkpoints of finished trials but for one."""
        for result in results:
            if result != keep:
                drop_checkpoints(result.folder)


@functools.lru_cache(maxsize=1024)
def _warn_of_damage(note, problem):  # once, though trials are read after each trial
    logging.warning("A trial counts as not finished: its %s is damaged: %s", note, problem)


def names(trials: Iterable[Trial]) -> str:
    """Returns which trials there are, for the reader: "trial 2, trial 4"."""
    return ", ".join(f"trial {trial.number}" for trial in trials)


def numbered(points: Iterable[Mapping[str, str]]) -> list[Trial]:
    """Returns trials of combinations of values."""
    return [Trial(number, tuple(point.items())) for number, point in enumerate(points, 1)]
