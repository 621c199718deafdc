"""A grid of GLUE runs: their settings, folders, progress and scores."""

import dataclasses
import itertools
import os
import pathlib
import statistics
from collections.abc import Iterable, Sequence

from bert_tf.data import glue, glue_tasks
from bert_tf.experiments.child_runs import FINISHED_FILE, read_finished

GRID_FILE = "grid.json"  # the manifest of a grid
# "paper": the grid of Devlin et al. 2018, appendix A.3, for every task.
AXES = {
    "single": {"train_batch_size": ["32"], "learning_rate": ["5e-5"], "num_train_epochs": ["3"]},
    "paper": {
        "train_batch_size": ["16", "32"],
        "learning_rate": ["5e-5", "3e-5", "2e-5"],
        "num_train_epochs": ["2", "3", "4"],
    },
}


@dataclasses.dataclass(frozen=True, order=True)
class Point:
    """One point of the grid."""

    train_batch_size: int
    learning_rate: float
    num_train_epochs: float

    @property
    def folder(self) -> str:
        return f"batch-{self.train_batch_size}_rate-{self.learning_rate:g}_epochs-{self.num_train_epochs:g}"

    def __str__(self):
        return f"batch {self.train_batch_size}, rate {self.learning_rate:g}, epochs {self.num_train_epochs:g}"


@dataclasses.dataclass(frozen=True, order=True)
class GlueRun:
    """One fine-tuning: a task of `glue_tasks.TASKS`, settings, a seed."""

    task: str
    settings: Point
    seed: int

    def folder(self, output_dir: str | os.PathLike) -> pathlib.Path:
        return pathlib.Path(output_dir, self.task, self.settings.folder, f"seed-{self.seed}")

    def __str__(self):
        return f"{self.task}, {self.settings}, seed {self.seed}"


@dataclasses.dataclass(frozen=True)
class GlueResult:
    """A finished run.

    Attributes:
        run: the run.
        folder: its directory.
        scores: official metrics on every dev file, with the names of eval_results.txt, from -1.0 to 1.0.
        seconds: duration in seconds.
        table: the user's own table (`ScoreTable.to_dict`); None for a GLUE task.
        one_answer: the model's constant prediction, with which it learned nothing; if None, predictions vary.
    """

    run: GlueRun
    folder: pathlib.Path
    scores: dict[str, float]
    seconds: float
    table: dict | None = None
    one_answer: str | None = None

    @property
    def score(self) -> float:
        """The task's one number, as GLUE counts it: the mean of its metrics and files."""
        return statistics.fmean(self.scores.values())


def axis(name: str, values: Sequence[str], kind=float) -> list:
    """Returns the distinct numbers of a setting, in order.

    Raises:
        ValueError: there are none, or one is not a positive number; a seed may be 0.
    """
    try:
        numbers = list(dict.fromkeys(map(kind, values)))
    except ValueError:
        numbers = []
    if numbers and all(0 <= n < float("inf") and (n or name == "seeds") for n in numbers):
        return numbers
    must = f"{'whole ' if kind is int else ''}numbers {'from 0 on' if name == 'seeds' else 'above 0'}"
    raise ValueError(
        f"`{name}` must be comma-separated {must}; got {','.join(values) or 'nothing'}."
    )


def grid(tasks: Iterable[str], seeds: Iterable[int], batches, rates, epochs) -> list[GlueRun]:
    """Returns the runs of a grid: task by task, setting by setting, seed by seed."""
    settings = [Point(*point) for point in itertools.product(batches, rates, epochs)]
    return [GlueRun(*point) for point in itertools.product(tasks, settings, seeds)]


def find_tasks(names: Sequence[str] | None, glue_dir: str | None, tables: Iterable[str] = ()) -> list[str]:
    """Returns the names of the tasks as in `glue_tasks.TASKS`; without `names`, all with training examples.

    Args:
        names: the requested names, or None.
        glue_dir: GLUE's data directory; if None, there are only tables.
        tables: names names of the user's tables, which may be in `names`; without `names`, they follow GLUE's tasks.

    Raises:
        ValueError: there is no such task, no such directory, or no task at all.
    """
    tables = list(tables)
    asked_tables = tables if names is None else [name for name in dict.fromkeys(names) if name in tables]
    if tables and (glue_dir is None or names is not None):
        names = [name for name in names or () if name not in tables]
        if not names:
            return asked_tables
    if glue_dir is None or not os.path.isdir(glue_dir):
        raise ValueError(f"`glue_dir` not found: {glue_dir!r} is not a directory.")
    return [*_find_glue_tasks(names, glue_dir), *asked_tables]


def _find_glue_tasks(names, glue_dir):
    there = [name for name in glue_tasks.TASKS if training_size(name, glue_dir)]
    asked = there if names is None else list(dict.fromkeys(map(_find_task, names)))
    lacking = [glue_tasks.TASKS[name].directory for name in asked if name not in there]
    if missing := lacking or ([] if asked else ["RTE"]):
        raise ValueError(
            f"`glue_dir={glue_dir}` must contain the training examples of the tasks, such as {missing[0]}/train.tsv. "
            f"It contains {sorted(os.listdir(glue_dir))[:20]}. Set `glue_dir` to the directory of GLUE's data, or "
            "leave out the missing `tasks`."
        )
    return asked


def _find_task(name):
    try:
        return glue.find_glue_task(name).name
    except ValueError as error:
        must = ", ".join(name for name, row in glue_tasks.TASKS.items() if row.like("train"))
        raise ValueError(f"`tasks` must be among {must}; got {name!r}.") from error


def training_size(task: str, glue_dir: str) -> int:
    """Returns the size of the training examples in bytes, 0 if missing, to estimate a run's duration."""
    row = glue_tasks.TASKS[task]
    files = [row.splits[name].file.format(language="*") for name in row.like("train")]
    folder = pathlib.Path(glue_dir, row.directory)
    return sum(path.stat().st_size for file in files for path in folder.glob(file))


def finished(folder: str | os.PathLike) -> GlueResult | None:
    """Returns the result of the run in `folder`, or None if it has not succeeded; see `read_finished`."""
    folder = pathlib.Path(folder)

    def build(note, scores, one_answer):
        run, table = GlueRun(note["task"], Point(**note["settings"]), note["seed"]), note.get("table")
        metrics = table["metrics"] if table else glue_tasks.TASKS[run.task].metrics
        return GlueResult(run, folder, official(scores, metrics), note["seconds"], table, one_answer)

    return read_finished(folder, build)


def all_finished(output_dir: str | os.PathLike) -> list[GlueResult]:
    """Returns every finished run below `output_dir`, including those of earlier commands, in the order of `grid`."""
    results = map(finished, sorted(path.parent for path in pathlib.Path(output_dir).glob(f"*/*/*/{FINISHED_FILE}")))
    order = {name: index for index, name in enumerate(glue_tasks.TASKS)}  # then the user's own, by name

    def sort_key(result):
        run = result.run
        return order.get(run.task, len(order)), run.task, run.settings, run.seed

    return sorted(filter(None, results), key=sort_key)


def note_of(run: GlueRun, seconds: float, table: dict | None = None) -> dict:
    """Returns the contents of FINISHED_FILE for a run, JSON values."""
    return {**dataclasses.asdict(run), "seconds": round(seconds, 1)} | ({"table": table} if table else {})


def official(scores: dict[str, float], metrics: Iterable[str]) -> dict[str, float]:
    """Returns those of `scores` for these metrics on every dev file: f1 is eval_f1 and eval_f1_<file>."""
    return {key: value for key, value in scores.items() if metric_and_file(key, metrics)}


def metric_and_file(key: str, metrics: Iterable[str]) -> tuple[str, str] | None:
    """Returns the metric and the name of the dev file, "" for the first, of a key of eval_results.txt.

    None if the key is of none of these metrics: eval_precision_at_recall_90 is not the precision on some file.
    """
    name = key.removeprefix("eval_")
    metric = max((each for each in metrics if name == each or name.startswith(f"{each}_")), key=len, default=None)
    if metric is None or name.startswith(f"{metric}_at_"):
        return None
    return metric, name[len(metric) + 1 :]


def best(results: Iterable[GlueResult]) -> dict[str, GlueResult]:
    """Returns the best run on dev of each task; in ties, the first.

    A run with a constant prediction is the best only if all runs have one.
    """
    winners = {}
    for result in results:
        before = winners.get(result.run.task)
        if before is None or _rank(result) > _rank(before):
            winners[result.run.task] = result
    return winners


def _rank(result):
    return result.one_answer is None, result.score
