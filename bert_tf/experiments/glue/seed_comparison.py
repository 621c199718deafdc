"""Compares two sets of seeds: the scores of each task's best setting, one per seed."""

import dataclasses
import os
from typing import Any

from bert_tf.evaluation.permutation import Permuted, permutation_test
from bert_tf.experiments.glue import runs as glue_runs
from bert_tf.experiments.glue.grid_comparison import LeftOut, is_run
from bert_tf.experiments.glue.report import SettingScores, Spread, best_setting, summarize_results


@dataclasses.dataclass(frozen=True)
class ComparedSeeds:
    """The scores of a task in two grids.

    Attributes:
        what: the task.
        here, there: its best setting in each, among those with at least two seeds that learned something.
        comparison: result of the permutation test; its difference is `here` - `there`.
    """

    what: str
    here: SettingScores
    there: SettingScores
    comparison: Permuted

    def __str__(self):
        name, difference, remark = self.row()
        return f"{name}: {difference}, {remark}"

    def row(self) -> tuple[str, str, str]:
        """Returns what the page shows: a name, the difference, and how sure it is."""
        c, (ours, theirs) = self.comparison, (self.here, self.there)
        kind = "exact" if c.is_exact else f"of {c.ways:,} ways"
        remark = (
            f"p = {c.p_value:.4f} ({kind}; the smallest possible with this many seeds is {c.least_p_value:.4f}); "
            f"{Spread.of(ours.learned)} against {Spread.of(theirs.learned)}"
        )
        if ours.settings != theirs.settings:
            remark += f"; {ours.settings} against {theirs.settings}"
        if ours.one_answers or theirs.one_answers:
            remark += f"; left out, for giving one answer to all: {ours.one_answers} and {theirs.one_answers}"
        name = f"{self.what}, {len(ours.learned)} seeds against {len(theirs.learned)}"
        return name, f"{100 * c.difference:+.2f}", remark

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON values; scores are from -1.0 to 1.0."""
        sides = {
            side: {
                "settings": dataclasses.asdict(row.settings),
                "scores": list(row.learned),
                "runs_of_one_answer": row.one_answers,
            }
            for side, row in (("here", self.here), ("there", self.there))
        }
        return {"test": "permutation", "what": self.what, **sides, **dataclasses.asdict(self.comparison)}


def compare_seeds(here: str | os.PathLike, there: str | os.PathLike) -> list[ComparedSeeds | LeftOut]:
    """Compares the tasks for which both `benchmark glue` directories have a setting with at least two seeds.

    A task's score is its one number (`GlueResult.score`). Runs with a constant prediction are left out;
    a task with too few other runs is a `LeftOut`. If a directory is that of a single run, the result is empty.
    """
    if is_run(here) or is_run(there):
        return []
    ours, theirs = _list_repeated_settings(here), _list_repeated_settings(there)
    return [_compare_task_seeds(task, ours[task], theirs[task]) for task in ours if task in theirs]


def _compare_task_seeds(task, ours, theirs):
    learned = [[row for row in rows if len(row.learned) > 1] for rows in (ours, theirs)]
    if not all(learned):
        counts = [(sum(row.one_answers for row in rows), sum(len(row.values) for row in rows))
                  for rows in (ours, theirs)]  # fmt: skip
        return LeftOut(f"{task}, seeds against seeds", *counts)
    here, there = map(best_setting, learned)
    return ComparedSeeds(task, here, there, permutation_test(here.learned, there.learned))


def _list_repeated_settings(folder) -> dict[str, list[SettingScores]]:
    """Returns task -> its rows with at least two runs."""
    rows = summarize_results(glue_runs.all_finished(folder))
    several = {task: [row for row in group if len(row.values) > 1] for task, group in rows.items()}
    return {task: group for task, group in several.items() if group}
