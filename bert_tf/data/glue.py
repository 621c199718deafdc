"""GLUE's official layouts as a table: a task is a row, and the code below knows no task by name."""

import dataclasses
import os
import re
from collections.abc import Mapping

from bert_tf.data import tables


@dataclasses.dataclass(frozen=True)
class Split:
    """One file of a task: columns are names, or indexes where the file has no header; test files have no labels."""

    file: str
    text_columns: tuple[str | int, ...]
    label_column: str | int | None = None
    id_column: str | int | None = None
    header: bool = True


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """One task of GLUE (Wang et al. 2018).

    Attributes:
        name: as --task_name gives it.
        directory: what the official download calls the folder that --data_dir points to.
        splits: "train", "dev" and "test" -> the file.
        labels: label names in the order of their ids, sorted as strings.
        metrics: official metrics, names from `bert_tf.evaluation.metrics`.
    """

    name: str
    directory: str
    splits: Mapping[str, Split]
    labels: tuple[str, ...]
    metrics: tuple[str, ...]


_PAIR = ("#1 String", "#2 String")

TASKS = {
    task.name: task
    for task in (
        GlueTask(
            name="sst-2",
            directory="SST-2",
            splits={
                "train": Split("train.tsv", ("sentence",), "label"),
                "dev": Split("dev.tsv", ("sentence",), "label"),
                "test": Split("test.tsv", ("sentence",), id_column="index"),
            },
            labels=("0", "1"),
            metrics=("accuracy",),
        ),
        GlueTask(
            name="cola",
            directory="CoLA",
            splits={  # source, label, the author's own mark, sentence
                "train": Split("train.tsv", (3,), 1, header=False),
                "dev": Split("dev.tsv", (3,), 1, header=False),
                "test": Split("test.tsv", ("sentence",), id_column="index"),
            },
            labels=("0", "1"),
            metrics=("matthews",),
        ),
        GlueTask(
            name="mrpc",
            directory="MRPC",
            splits={
                "train": Split("train.tsv", _PAIR, "Quality"),
                "dev": Split("dev.tsv", _PAIR, "Quality"),
                "test": Split("test.tsv", _PAIR, id_column="index"),
            },
            labels=("0", "1"),
            metrics=("accuracy", "f1"),
        ),
    )
}


def find_task(name: str) -> GlueTask:
    """Returns the row for `name`; case, hyphens and underscores do not matter ("SST-2", "sst2").

    Raises:
        ValueError: no row has that name.
    """
    for task in TASKS.values():
        if _plain(task.name) == _plain(name):
            return task
    raise ValueError(
        f"--task_name must be one of {sorted(TASKS)}. Received: {name!r}; "
        "for data of your own leave it out and give --train_file and --eval_file."
    )


def read_split(data_dir: str | os.PathLike, task: str, split: str) -> tables.Examples:
    """Reads `split` ("train", "dev" or "test") of GLUE's `task` from `data_dir`, which holds the files directly.

    Ids are those that GLUE's server asks back on "test" and the row number elsewhere. Labels come as the file has
    them: hold them against the task's with `tables.check_labels(examples, task.labels)`.

    Raises:
        ValueError: no such task or file, or a file that is not in the official layout.
    """
    row = find_task(task)
    assert split in row.splits, split
    layout = row.splits[split]
    return tables.read_table(
        _find_file(os.fspath(data_dir), row, layout.file),
        header=layout.header,
        text_columns=layout.text_columns,
        label_column=layout.label_column,
        id_column=layout.id_column,
        remedy=f"check that --data_dir holds GLUE's {row.directory}, which --task_name={row.name} reads",
    )


def _find_file(data_dir, task, file):
    """Returns the path of `file`, or raises with the most likely mistake: the folder above the right one."""
    path = os.path.join(data_dir, file)
    if os.path.isfile(path):
        return path
    if not os.path.isdir(data_dir):
        raise ValueError(f"--data_dir must be a directory. Received {data_dir!r}, where there is none; correct it.")
    there = sorted(os.listdir(data_dir))
    remedy = f"put GLUE's {task.directory} there, or correct --data_dir"
    for name in there:
        if _plain(name) == _plain(task.name) and os.path.isfile(os.path.join(data_dir, name, file)):
            remedy = f"say --data_dir={os.path.join(data_dir, name)}"
    raise ValueError(
        f"--data_dir={data_dir} must hold {file} of GLUE's {task.directory}. "
        f"Received a directory with {there[:20]}; {remedy}."
    )


def _plain(name):
    return re.sub("[-_ ]", "", name).lower()
