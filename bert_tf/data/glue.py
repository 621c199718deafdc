"""Reads the official files of GLUE and XNLI, whose layouts are in `glue_tasks.TASKS`."""

import os
import re

from bert_tf.data import columns, tables
from bert_tf.data.glue_tasks import TASKS, GlueTask

LANGUAGE = "en"


def find_glue_task(name: str) -> GlueTask:
    """Returns the GLUE task called `name`; case, hyphens and underscores are ignored ("SST-2", "sst2").

    Raises:
        ValueError: there is no task of that name.
    """
    for task in TASKS.values():
        if _plain(task.name) == _plain(name):
            return task
    raise ValueError(
        f"`task_name` must be one of {sorted(TASKS)}; got {name!r}; "
        "for your own data, omit it and pass `train_file` and `eval_file`."
    )


def check_language(task: GlueTask, language: str | None) -> str:
    """Returns the language to read; English by default.

    Raises:
        ValueError: the task has no data in that language.
    """
    if language is not None and language not in task.languages:
        must = f"one of {', '.join(task.languages)}" if task.languages else "omitted for a task that is English only"
        raise ValueError(f"`xnli_language` must be {must}; got {language!r} with `task_name={task.name}`.")
    return language or LANGUAGE


def read_split(data_dir: str | os.PathLike, task: str, split: str, language: str = LANGUAGE) -> tables.LabeledTexts:
    """Reads one split ("train", "dev", "dev_mismatched", ...) of a GLUE task from `data_dir`, which contains its files.

    Ids are those that GLUE's server expects on "test", and row numbers on the other splits. Labels are the task's
    names, or floats on its scale.

    Raises:
        ValueError: no such task or file, a file that is not in the official layout, or a label that is not the task's.
    """
    row = find_glue_task(task)
    if split not in row.splits:
        raise ValueError(
            f"`task_name={row.name}` only has the splits {', '.join(row.splits)}; got {split}; train on a task "
            "with the same labels, and pass that run's `output_dir` as `init_checkpoint`."
        )
    layout = row.splits[split]
    remedy = f"check that `data_dir` contains GLUE's {row.directory}, which `task_name={row.name}` reads"
    examples = tables.read_table(
        _find_file(os.fspath(data_dir), row, layout.file.format(language=language)),
        header=layout.header,
        text_columns=layout.text_columns,
        label_column=layout.label_column,
        id_column=layout.id_column,
        label=columns.number(*row.scale) if row.scale else columns.NAME,
        remedy=remedy,
        only=None if layout.language_column is None else (layout.language_column, language),
        skip_short=layout.skip_short,
    )
    if examples.labels is not None and row.labels:
        examples.labels = [layout.renamed.get(label, label) for label in examples.labels]
        tables.check_labels(examples, row.labels, f"one of those of {row.directory}", f"or {remedy}")
    return examples


def _find_file(data_dir, task, file):
    """Returns the path of `file`, or raises with the most likely mistake: the folder above the right one."""
    path = os.path.join(data_dir, file)
    if os.path.isfile(path):
        return path
    if not os.path.isdir(data_dir):
        raise ValueError(f"`data_dir` is not a directory: {data_dir!r}. Set it to GLUE's {task.directory}.")
    there = sorted(os.listdir(data_dir))
    remedy = f"set `data_dir` to the directory that contains {file}"
    for name in there:
        if _plain(name) in map(_plain, (task.name, task.directory)) and os.path.isfile(
            os.path.join(data_dir, name, file)
        ):
            remedy = f"set `data_dir={os.path.join(data_dir, name)}`"
    raise ValueError(
        f"`data_dir={data_dir}` does not contain {file} of GLUE's {task.directory}. "
        f"It contains {there[:20]}; {remedy}."
    )


def _plain(name):
    return re.sub("[-_ ]", "", name).lower()
