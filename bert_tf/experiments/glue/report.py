"""The results of a grid of runs: results.json, results.tsv and report.html."""

import collections
import dataclasses
import os
import pathlib
import statistics
from collections.abc import Iterable, Sequence

from bert_tf.data import glue_tasks
from bert_tf.experiments.glue.runs import GlueResult, GlueRun, Point, best
from bert_tf.utils.counts import number_of
from bert_tf.utils.files import write_text
from bert_tf.utils.html_report import ACCENT, FILL, Page
from bert_tf.utils.json_files import json_text
from bert_tf.utils.progress import clock


@dataclasses.dataclass(frozen=True)
class Spread:
    """Numbers of several seeds: their mean, standard deviation (of a sample: n - 1; None for one), best and count."""

    mean: float
    deviation: float | None
    best: float
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), deviation, max(values), len(values))

    def __str__(self):
        return f"{100 * self.mean:.2f}" + (f" ± {100 * self.deviation:.2f}" if self.deviation is not None else "")


@dataclasses.dataclass(frozen=True)
class SettingScores:
    """One setting of one task.

    Attributes:
        task, settings: which.
        score: the task's single score (`GlueResult.score`).
        metrics: of each metric and file, by the names in eval_results.txt.
        values: the scores one by one.
        learned: those of the runs that give more than one answer.
    """

    task: str
    settings: Point
    score: Spread
    metrics: dict[str, Spread]
    values: tuple[float, ...]
    learned: tuple[float, ...]

    @property
    def one_answers(self) -> int:
        """The number of runs that give one answer to all examples."""
        return len(self.values) - len(self.learned)


def summarize_results(results: Iterable[GlueResult]) -> dict[str, list[SettingScores]]:
    """Returns task -> a row for each setting, in the order of the results."""
    groups = collections.defaultdict(list)
    for result in results:
        groups[result.run.task, result.run.settings].append(result)
    rows = collections.defaultdict(list)
    for (task, settings), group in groups.items():
        values = tuple(result.score for result in group)
        metrics = {name: Spread.of([result.scores[name] for result in group]) for name in group[0].scores}
        learned = tuple(result.score for result in group if result.one_answer is None)
        rows[task].append(SettingScores(task, settings, Spread.of(values), metrics, values, learned))
    return dict(rows)


def best_setting(rows: Sequence[SettingScores]) -> SettingScores:
    """Returns the row with the highest mean, in ties the first; a row whose runs all learned nothing comes last.

    The mean is that of all runs: those that learned nothing are part of what a setting gives.
    """
    return max(rows, key=lambda row: (bool(row.learned), row.score.mean))


def glue_average(rows: dict[str, list[SettingScores]]) -> tuple[float, list[str], list[str]] | None:
    """Returns the mean over GLUE's tasks of the best setting's mean, those tasks, and the missing ones.

    Every task counts once, however many metrics and files it has. None where there is none of GLUE's.
    """
    tasks = [name for name, task in glue_tasks.TASKS.items() if task.like("train") and task.leaderboard_files]
    here = [name for name in tasks if name in rows]
    if not here:
        return None
    mean = statistics.fmean(best_setting(rows[name]).score.mean for name in here)
    return mean, here, [name for name in tasks if name not in rows]


def write_glue_report(
    output_dir: str | os.PathLike,
    results: Sequence[GlueResult],
    missing: dict[GlueRun, str] | None = None,
    made_with: dict | None = None,
    compared: Sequence = (),
):
    """Writes the three files, each all of it or nothing.

    Args:
        output_dir: where.
        results: the finished runs.
        missing: the others of the grid -> why they are.
        made_with: what all runs have alike, {name: value}.
        compared: what `grid_comparison.compare_grids` and `compare_seeds` found.

    Raises:
        OSError: one cannot be written; it is unchanged.
    """
    folder, missing = pathlib.Path(output_dir), missing or {}
    contents = as_json(output_dir, results, missing, compared)
    write_text(folder / "results.json", json_text(contents, indent=2) + "\n")
    write_text(folder / "results.tsv", format_results(results))
    write_text(
        folder / "report.html", build_glue_page(results, missing, made_with or {}, compared, f"GLUE: {folder.name}")
    )


def as_json(output_dir, results, missing=None, compared=()) -> dict:
    """Returns what results.json contains; scores are from -1.0 to 1.0."""
    rows = summarize_results(results)
    average = glue_average(rows)
    return {
        "runs": [
            {
                **dataclasses.asdict(r.run),
                "folder": os.path.relpath(r.folder, output_dir),
                "score": r.score,
                **r.scores,
                "one_answer": r.one_answer,
            }
            for r in results
        ],
        "settings": [
            {
                "task": row.task,
                "settings": dataclasses.asdict(row.settings),
                "score": dataclasses.asdict(row.score),
                "metrics": {name: dataclasses.asdict(spread) for name, spread in row.metrics.items()},
                "runs_of_one_answer": row.one_answers,
                "best_mean_of_task": row is best_setting(rows[row.task]),
            }
            for group in rows.values()
            for row in group
        ],
        "best_runs": {task: os.path.relpath(result.folder, output_dir) for task, result in best(results).items()},
        "average": average and dict(zip(("mean", "tasks", "missing_tasks"), average, strict=True)),
        "unfinished": [{**dataclasses.asdict(run), "why": why} for run, why in (missing or {}).items()],
        "compared": [each.to_dict() for each in compared],
    }


def format_results(results: Sequence[GlueResult]) -> str:
    """Returns results.tsv: a line for each run; metrics that its task does not have are empty.

    `one_answer` contains the answer of a run that gives the same one to all examples.
    """
    metrics = list(dict.fromkeys(name for result in results for name in result.scores))
    settings = [field.name for field in dataclasses.fields(Point)]
    lines = [["task", *settings, "seed", "score", *metrics, "one_answer"]]
    for r in results:
        point = [f"{value:g}" for value in dataclasses.astuple(r.run.settings)]
        scores = [str(r.scores[name]) if name in r.scores else "" for name in metrics]
        lines.append([r.run.task, *point, str(r.run.seed), str(r.score), *scores, r.one_answer or ""])
    return "".join("\t".join(line) + "\n" for line in lines)


def build_glue_page(results, missing, made_with, compared, title) -> str:
    """Returns the page as one HTML file. The same results make the same bytes."""
    document, rows = Page(title), summarize_results(results)
    document.text(
        "Scores on the development set, times 100. A task's score is the mean of its metrics and files; ± is the "
        "standard deviation over seeds. The best setting was selected on this set, so its score is optimistic. A run "
        "that predicts the same for all examples has learned nothing: it counts in the means, but not in comparisons."
    )
    with document.cards():
        with document.card("Results"):
            document.table(None, _list_overview(results, missing, rows))
        if compared:
            with document.card("Comparison"):
                document.table(None, [each.row() for each in compared])
    chosen = best(results)
    for task, group in rows.items():
        document.table(task, [_describe_setting(row, best_setting(group)) for row in group])
        document.text(f"Best run: {_name_run(chosen[task])}.")
        if none := [result for result in results if result.run.task == task and result.one_answer is not None]:
            shown = "; ".join(f"{_name_run(result)} (always {result.one_answer!r})" for result in none)
            document.text(f"Learned nothing (one prediction for all examples): {shown}.")
        if len(group) > 1 or len(group[0].values) > 1:
            heading = f"{task}: score by setting, one dot per seed"
            document.figure(heading, _make_strips(group), height=1 + 0.25 * len(group))
    if missing:
        document.table("Unfinished runs", [(run, why) for run, why in missing.items()])
    document.table("Common settings", made_with.items())
    return document.html()


def _list_overview(results, missing, rows):
    seconds = sum(result.seconds for result in results)
    lines = [("runs", f"{len(results)} of {len(results) + len(missing)}", f"{clock(seconds)} of compute")]
    for task, group in rows.items():
        row = best_setting(group)
        lines.append((task, str(row.score), f"{row.settings}; {_count_seeds(row)}"))
    if average := glue_average(rows):
        mean, here, missing_tasks = average
        without = f", without {', '.join(missing_tasks)}" if missing_tasks else ""
        remark = f"GLUE tasks, each at its best setting{without}{_count_constant_runs(rows, here)}"
        lines.append((f"average of {len(here)}", f"{100 * mean:.2f}", remark))
    return lines


def _count_constant_runs(rows, tasks):
    """Returns of which of these tasks the best setting has runs that learned nothing, "" for none."""
    counts = {task: best_setting(rows[task]).one_answers for task in tasks}
    shown = ", ".join(f"{count} of {task}" for task, count in counts.items() if count)
    return f"; includes runs that learned nothing: {shown}" if shown else ""


def _describe_setting(row, chosen):
    remarks = [f"best {100 * row.score.best:.2f}", _count_seeds(row)]
    if len(row.metrics) > 1:
        remarks += [f"{name.removeprefix('eval_')} {spread}" for name, spread in row.metrics.items()]
    if row is chosen:
        remarks.append("best mean")
    return row.settings, row.score, "; ".join(remarks)


def _count_seeds(row):
    """Returns how many seeds there are, and how many of them learned nothing."""
    nothing = f", {row.one_answers} of which learned nothing (one prediction for all)" if row.one_answers else ""
    return number_of(row.score.seeds, "seed") + nothing


def _name_run(result):
    return f"{result.run.settings}, seed {result.run.seed}"


def _make_strips(group):
    """Returns what draws a line of dots for each setting, the first on top, with a stroke at the mean."""

    def draw(axes):
        heights = range(len(group))
        for height, row in zip(heights, group, strict=True):
            axes.plot([100 * v for v in row.values], [height] * len(row.values), "o", color=FILL, alpha=0.6)
            axes.plot([100 * row.score.mean], [height], "|", color=ACCENT, markersize=14, markeredgewidth=2)
        axes.set_yticks(list(heights), [str(row.settings) for row in group])
        axes.set_ylim(len(group) - 0.5, -0.5)
        axes.set_xlabel("score on the development set")

    return draw
