"""What a grid of runs came to: results.json, results.tsv and report.html."""

import collections
import dataclasses
import os
import pathlib
import statistics
from collections.abc import Iterable, Sequence

from bert_tf.data import glue
from bert_tf.files import write_text
from bert_tf.glue.runs import Point, Result, Run, best
from bert_tf.json_files import json_text
from bert_tf.progress import clock
from bert_tf.report import ACCENT, FILL, Page


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
class Row:
    """One setting of one task.

    Attributes:
        task, settings: which.
        score: of the task's one number (`Result.score`).
        metrics: of each metric and file, by the names in eval_results.txt.
        values: the scores one by one.
    """

    task: str
    settings: Point
    score: Spread
    metrics: dict[str, Spread]
    values: tuple[float, ...]


def summary(results: Iterable[Result]) -> dict[str, list[Row]]:
    """Returns task -> a row for each setting, in the order of the results."""
    groups = collections.defaultdict(list)
    for result in results:
        groups[result.run.task, result.run.settings].append(result)
    rows = collections.defaultdict(list)
    for (task, settings), group in groups.items():
        values = tuple(result.score for result in group)
        metrics = {name: Spread.of([result.scores[name] for result in group]) for name in group[0].scores}
        rows[task].append(Row(task, settings, Spread.of(values), metrics, values))
    return dict(rows)


def best_setting(rows: Sequence[Row]) -> Row:
    """Returns the row with the highest mean, of equal ones the first."""
    return max(rows, key=lambda row: row.score.mean)


def glue_average(rows: dict[str, list[Row]]) -> tuple[float, list[str], list[str]] | None:
    """Returns the mean over GLUE's tasks of the best setting's mean, those tasks, and those that are not here.

    Every task counts once, however many metrics and files it has. None where there is none of GLUE's.
    """
    tasks = [name for name, task in glue.TASKS.items() if task.like("train") and task.leaderboard_files]
    here = [name for name in tasks if name in rows]
    if not here:
        return None
    mean = statistics.fmean(best_setting(rows[name]).score.mean for name in here)
    return mean, here, [name for name in tasks if name not in rows]


def write(
    output_dir: str | os.PathLike,
    results: Sequence[Result],
    missing: dict[Run, str] | None = None,
    made_with: dict | None = None,
    compared: Sequence = (),
):
    """Writes the three files, each all of it or nothing.

    Args:
        output_dir: where.
        results: the finished runs.
        missing: the others of the grid -> why they are.
        made_with: what all runs have alike, {name: value}.
        compared: what `comparison.compare` and `seeds.compare_seeds` found.

    Raises:
        OSError: one cannot be written; it is unchanged.
    """
    folder, missing = pathlib.Path(output_dir), missing or {}
    contents = as_json(output_dir, results, missing, compared)
    write_text(folder / "results.json", json_text(contents, indent=2) + "\n")
    write_text(folder / "results.tsv", as_table(results))
    write_text(folder / "report.html", page(results, missing, made_with or {}, compared, f"GLUE: {folder.name}"))


def as_json(output_dir, results, missing=None, compared=()) -> dict:
    """Returns what results.json holds; scores are from -1.0 to 1.0."""
    rows = summary(results)
    average = glue_average(rows)
    return {
        "runs": [
            {**dataclasses.asdict(r.run), "folder": os.path.relpath(r.folder, output_dir), "score": r.score, **r.scores}
            for r in results
        ],
        "settings": [
            {
                "task": row.task,
                "settings": dataclasses.asdict(row.settings),
                "score": dataclasses.asdict(row.score),
                "metrics": {name: dataclasses.asdict(spread) for name, spread in row.metrics.items()},
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


def as_table(results: Sequence[Result]) -> str:
    """Returns results.tsv: a line for each run; metrics that its task does not have are empty."""
    metrics = list(dict.fromkeys(name for result in results for name in result.scores))
    settings = [field.name for field in dataclasses.fields(Point)]
    lines = [["task", *settings, "seed", "score", *metrics]]
    for r in results:
        point = [f"{value:g}" for value in dataclasses.astuple(r.run.settings)]
        scores = [str(r.scores[name]) if name in r.scores else "" for name in metrics]
        lines.append([r.run.task, *point, str(r.run.seed), str(r.score), *scores])
    return "".join("\t".join(line) + "\n" for line in lines)


def page(results, missing, made_with, compared, title) -> str:
    """Returns the page as one HTML file. The same results make the same bytes."""
    document, rows = Page(title), summary(results)
    document.text(
        "Scores on dev, times 100. A task's score is the mean of its metrics and files; ± is the standard deviation "
        "over seeds. What was chosen on dev is better there than elsewhere."
    )
    document.table("So far", _overview(results, missing, rows))
    if compared:
        document.table("Against the other", [each.row() for each in compared])
    chosen = best(results)
    for task, group in rows.items():
        document.table(task, [_setting(row, best_setting(group)) for row in group])
        document.text(f"Best run: {chosen[task].run.settings}, seed {chosen[task].run.seed}.")
        if len(group) > 1 or len(group[0].values) > 1:
            document.figure(f"{task}: a dot for each seed", _strips(group), height=1 + 0.25 * len(group))
    if missing:
        document.table("Not finished", [(run, why) for run, why in missing.items()])
    document.table("What all runs have alike", made_with.items())
    return document.html()


def _overview(results, missing, rows):
    seconds = sum(result.seconds for result in results)
    lines = [("runs", f"{len(results)} of {len(results) + len(missing)}", f"{clock(seconds)} of computing")]
    for task, group in rows.items():
        row = best_setting(group)
        lines.append((task, str(row.score), f"{row.settings}; {_seeds(row.score.seeds)}"))
    if average := glue_average(rows):
        mean, here, missing_tasks = average
        without = f", without {', '.join(missing_tasks)}" if missing_tasks else ""
        lines.append((f"average of {len(here)}", f"{100 * mean:.2f}", f"of GLUE's tasks, at their best means{without}"))
    return lines


def _setting(row, chosen):
    remarks = [f"best {100 * row.score.best:.2f}", _seeds(row.score.seeds)]
    if len(row.metrics) > 1:
        remarks += [f"{name.removeprefix('eval_')} {spread}" for name, spread in row.metrics.items()]
    if row is chosen:
        remarks.append("the best mean")
    return row.settings, row.score, "; ".join(remarks)


def _seeds(count):
    return f"{count} seed{'s' if count > 1 else ''}"


def _strips(group):
    """Returns what draws a line of dots for each setting, the first on top, with a stroke at the mean."""

    def draw(axes):
        places = range(len(group))
        for place, row in zip(places, group, strict=True):
            axes.plot([100 * v for v in row.values], [place] * len(row.values), "o", color=FILL, alpha=0.6)
            axes.plot([100 * row.score.mean], [place], "|", color=ACCENT, markersize=14, markeredgewidth=2)
        axes.set_yticks(list(places), [str(row.settings) for row in group])
        axes.set_ylim(len(group) - 0.5, -0.5)
        axes.set_xlabel("score on dev")

    return draw
