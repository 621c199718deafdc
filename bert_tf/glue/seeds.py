"""Two sets of seeds held against each other: the scores of each task's best setting, one for each seed."""

import dataclasses
import os
from typing import Any

from bert_tf.evaluation.permutation import Permuted, permutation_test
from bert_tf.glue import runs as glue_runs
from bert_tf.glue.comparison import is_run
from bert_tf.glue.report import Row, best_setting, summary


@dataclasses.dataclass(frozen=True)
class ComparedSeeds:
    """The scores of a task in two grids.

    Attributes:
        what: the task.
        here, there: its best setting in each, of those with at least two seeds.
        comparison: what the permutation test says; its difference is here - there.
    """

    what: str
    here: Row
    there: Row
    comparison: Permuted

    def __str__(self):
        name, difference, remark = self.row()
        return f"{name}: {difference}, {remark}"

    def row(self) -> tuple[str, str, str]:
        """Returns what the page shows: a name, the difference, and how sure it is."""
        c, (ours, theirs) = self.comparison, (self.here, self.there)
        kind = "exact" if c.is_exact else f"of {c.ways:,} ways"
        remark = (
            f"p = {c.p_value:.4f} ({kind}; the least that so many seeds can give is {c.least_p_value:.4f}); "
            f"{ours.score} here, {theirs.score} there"
        )
        if ours.settings != theirs.settings:
            remark += f"; {ours.settings} here, {theirs.settings} there"
        name = f"{self.what}, {len(ours.values)} seeds against {len(theirs.values)}"
        return name, f"{100 * c.difference:+.2f}", remark

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON values; scores are from -1.0 to 1.0."""
        sides = {
            side: {"settings": dataclasses.asdict(row.settings), "scores": list(row.values)}
            for side, row in (("here", self.here), ("there", self.there))
        }
        return {"test": "permutation", "what": self.what, **sides, **dataclasses.asdict(self.comparison)}


def compare_seeds(here: str | os.PathLike, there: str | os.PathLike) -> list[ComparedSeeds]:
    """Compares the tasks of which both folders of run_glue have a setting with two seeds at least; others are left out.

    A task's score is its one number (`runs.Result.score`). Where a folder is that of one run, there is nothing to do.
    """
    if is_run(here) or is_run(there):
        return []
    ours, theirs = _best_settings(here), _best_settings(there)
    return [
        ComparedSeeds(task, ours[task], theirs[task], permutation_test(ours[task].values, theirs[task].values))
        for task in ours
        if task in theirs
    ]


def _best_settings(folder) -> dict[str, Row]:
    rows = summary(glue_runs.all_finished(folder))
    several = {task: [row for row in group if len(row.values) > 1] for task, group in rows.items()}
    return {task: best_setting(group) for task, group in several.items() if group}
