"""The source of a run's labeled texts: the directory of a GLUE task, or custom files."""

import collections
import dataclasses

from absl import logging

from bert_tf.data import columns, glue, glue_tasks, tables
from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect
from bert_tf.data.list_cells import find_separator
from bert_tf.data.row_errors import excerpt
from bert_tf.data.tables import LabeledTexts
from bert_tf.tasks.classification.problems import PROBLEMS
from bert_tf.tasks.options import ACTIONS


@dataclasses.dataclass(frozen=True)
class Source:
    """The source of the texts, and the type of their labels.

    Attributes:
        task: GLUE task; None for files.
        data_dir: directory of the task.
        language: language, for a task with several.
        files: kind of split, such as "train" -> path or None.
        problem: "single_label", "multi_label" or "regression".
        separator: separator of several labels of an example.
        header, text_columns, label_column: settings of the files, as for `tables.read_table`.
        skip_bad_rows, dialect, drop_empty, label_columns: likewise; the last in place of the label column, if there are
            any.
    """

    task: glue_tasks.GlueTask | None = None
    data_dir: str | None = None
    language: str = glue.LANGUAGE
    files: dict = dataclasses.field(default_factory=dict)
    problem: str = "single_label"
    separator: str = ","
    header: bool = True
    text_columns: tuple = ("text",)
    label_column: str | int | None = "label"
    skip_bad_rows: bool = False
    dialect: Dialect = DEFAULT_DIALECT
    drop_empty: bool = False
    label_columns: tuple = ()
    separator_given: bool = False

    @property
    def metrics(self) -> tuple[str, ...] | None:
        """The task's official metrics; None for files."""
        return self.task.metrics if self.task else None

    @property
    def has_labels(self) -> bool:
        """Whether the targets are labels rather than numbers."""
        return PROBLEMS[self.problem].has_labels

    @property
    def has_several_labels(self) -> bool:
        """Whether an example may have any number of labels."""
        return PROBLEMS[self.problem].has_several_labels

    @property
    def text_inputs(self) -> tuple[str, ...]:
        """The names of an example's texts in prediction requests: `text`, or `text_a` and `text_b`."""
        columns = next(iter(self.task.splits.values())).text_columns if self.task else self.text_columns
        return ("text",) if len(columns) == 1 else ("text_a", "text_b")

    def read(self, kinds: list[str]) -> dict[str, LabeledTexts]:
        """Reads all splits of these kinds, of `options.ACTIONS`; "test" without labels.

        Returns:
            {split: examples}; a task with several dev or test files has "dev", "dev_mismatched" and so on.

        Raises:
            ValueError: there is no file for a kind, or a file is invalid.
        """
        if self.task:
            splits = [split for kind in kinds for split in self.task.like(kind) or (kind,)]
            return {s: glue.read_split(self.data_dir, self.task.name, s, self.language) for s in splits}
        return {kind: self._read_file(kind) for kind in kinds}

    def _read_file(self, kind):
        action = ACTIONS[kind]
        if not self.files.get(kind):
            raise ValueError(
                f"{'`do_eval` and `metric_for_best_model` require' if kind == 'dev' else f'`do_{action}` requires'} "
                f"examples. Pass `{action}_file`, or `task_name` with `data_dir`."
            )
        label = columns.several(self.separator) if self.has_several_labels else None
        label = label or (columns.LABEL if self.has_labels else columns.number())
        examples = tables.read_table(
            self.files[kind],
            header=self.header,
            text_columns=self.text_columns,
            label_column=None if kind == "test" or self.label_columns else self.label_column,
            label=label,
            skip_bad_rows=self.skip_bad_rows,
            dialect=self.dialect,
            drop_empty=self.drop_empty and kind != "test",
            label_columns=() if kind == "test" else self.label_columns,
        )
        if self.has_several_labels and not self.separator_given and examples.labels and not self.label_columns:
            _refuse_other_separator(examples, self.separator)
        return examples

    def labels(self, texts: dict[str, LabeledTexts], trained: list[str] | None = None) -> list[str] | None:
        """Returns the label names in the order of their ids, or None for regression.

        They are those of the task, of the training examples, or `trained`, those of an existing model.

        Raises:
            ValueError: there are none, or `trained` does not match the task.
        """
        if not self.has_labels:
            return None
        if "train" not in texts and trained is not None and self.task and trained != list(self.task.labels):
            raise ValueError(
                f"`task_name={self.task.name}` requires a model with the labels {list(self.task.labels)}. The model "
                f"has {trained}; use the output of a task with the same labels."
            )
        if self.task:
            return list(self.task.labels)
        if "train" not in texts and trained is None:
            raise ValueError(
                "`do_eval` and `do_predict` require a trained model, but this one has no labels.txt. "
                "Train it first, with `do_train`."
            )
        return _labels_of(texts["train"], self) if "train" in texts else trained


def _refuse_other_separator(examples, own):
    """Raises ValueError if no example has several labels, but another separator seems to separate them."""
    if any(len(names) > 1 for names in examples.labels):
        return
    cells = {names[0]: i for i, names in reversed(list(enumerate(examples.labels))) if names}
    if separator := find_separator(cells, own):
        first = next(cell for cell in cells if separator in cell)
        names = {part.strip() for cell in cells for part in cell.split(separator)}
        raise ValueError(
            f"{examples.where(cells[first])}: labels must be separated by {own!r}; got {first!r}, and "
            f"{len(cells)} different cells that consist of {len(names)} names separated by {separator!r}; set "
            f"`label_separator={separator}`, or `label_separator={own}` if each cell is one name."
        )


def make_source(
    task_name: str | None,
    data_dir: str | None,
    files: dict,
    problem: str | None = None,
    language: str | None = None,
    **columns,
) -> Source:
    """Creates the source described by the flags.

    Args:
        task_name, data_dir: a GLUE task and its directory, or None.
        files: kind of split, such as "train" -> path or None.
        problem: type of the labels. If None, that of the task, or "single_label".
        language: language of the task. If None, English.
        columns: `separator`, `header`, `text_columns`, `label_column` and so on of `Source`, for files.

    Raises:
        ValueError: an unknown task, or flags that contradict each other.
    """
    if not task_name:
        if data_dir:
            raise ValueError(f"`data_dir` requires `task_name`; got `data_dir={data_dir}` alone.")
        if language:
            raise ValueError(f"`xnli_language` requires `task_name`; got `xnli_language={language}` alone.")
        return Source(files=files, problem=problem or "single_label", **columns)
    if not data_dir:
        raise ValueError(f"`task_name` requires `data_dir`; got `task_name={task_name}` alone.")
    task = glue.find_glue_task(task_name)
    if problem not in (None, task.problem):
        raise ValueError(
            f"`problem_type` must be {task.problem} for `task_name={task.name}`; got {problem}; omit it."
        )
    return Source(task, data_dir, glue.check_language(task, language), problem=task.problem)


def _labels_of(examples, source):
    """Returns the labels of the training examples, and logs the number of examples per label."""
    labels = sorted(source.label_columns) or tables.list_labels(examples)
    each = [(label,) if isinstance(label, str) else label for label in examples.labels]
    counts = collections.Counter(name for names in each for name in names)
    shown = ", ".join(f"{excerpt(name)} {counts[name]}" for name in labels[:20])
    logging.info("%s: %d labels: %s%s", examples.path, len(labels), shown, ", ..." if len(labels) > 20 else "")
    if len(labels) == 1 and not source.has_several_labels:
        raise ValueError(
            f"{examples.path}: at least two labels are needed for classification; got {labels[0]!r} in all "
            f"{len(examples)} examples; check `label_column`, or set `problem_type`."
        )
    return labels
