"""Where a run's labelled texts are: the folder of a GLUE task, or files of one's own."""

import collections
import dataclasses

from absl import logging

from bert_tf.data import cells, glue, tables
from bert_tf.data.rows import excerpt
from bert_tf.data.tables import Examples
from bert_tf.tasks.classification.problems import PROBLEMS
from bert_tf.tasks.task import ACTIONS


@dataclasses.dataclass(frozen=True)
class Source:
    """Texts, and what their labels are.

    Attributes:
        task: row of `glue_tasks.TASKS`, or None for files.
        data_dir: the task's folder.
        language: of a task in several.
        files: "train", "dev" and "test" -> path or None.
        problem: "single_label", "multi_label" or "regression".
        separator: what stands between the labels of an example with several.
        header, text_columns, label_column: of the files, as `tables.read_table` takes them.
        skip_bad_rows: likewise.
    """

    task: glue.GlueTask | None = None
    data_dir: str | None = None
    language: str = glue.LANGUAGE
    files: dict = dataclasses.field(default_factory=dict)
    problem: str = "single_label"
    separator: str = ","
    header: bool = True
    text_columns: tuple = ("text",)
    label_column: str | int | None = "label"
    skip_bad_rows: bool = False

    @property
    def metrics(self) -> tuple[str, ...] | None:
        """The task's official metrics; None for files."""
        return self.task.metrics if self.task else None

    @property
    def has_labels(self) -> bool:
        """Whether the targets are labels, and no numbers."""
        return PROBLEMS[self.problem].has_labels

    @property
    def has_several_labels(self) -> bool:
        """Whether an example may have any number of labels."""
        return PROBLEMS[self.problem].has_several_labels

    @property
    def text_inputs(self) -> tuple[str, ...]:
        """What the texts of an example are called where they are asked for: one is `text`, two `text_a`, `text_b`."""
        columns = next(iter(self.task.splits.values())).text_columns if self.task else self.text_columns
        return ("text",) if len(columns) == 1 else ("text_a", "text_b")

    def read(self, kinds: list[str]) -> dict[str, Examples]:
        """Reads all splits of these kinds, "train", "dev" and "test"; the last without labels.

        Returns:
            {split: examples}; a task with several dev or test files has "dev", "dev_mismatched" and so on.

        Raises:
            ValueError: there is no file for a kind, or a file is not as described.
        """
        if self.task:
            splits = [split for kind in kinds for split in self.task.like(kind) or (kind,)]
            return {s: glue.read_split(self.data_dir, self.task.name, s, self.language) for s in splits}
        return {kind: self._read_file(kind) for kind in kinds}

    def _read_file(self, kind):
        action = ACTIONS[kind]
        if not self.files.get(kind):
            raise ValueError(
                f"{'`do_eval` and `keep_best`' if kind == 'dev' else f'`do_{action}`'} must have examples. "
                f"Received no `{action}_file`, and no `task_name` with `data_dir`."
            )
        label = cells.several(self.separator) if self.has_several_labels else None
        label = label or (cells.NAME if self.has_labels else cells.number())
        return tables.read_table(
            self.files[kind],
            header=self.header,
            text_columns=self.text_columns,
            label_column=None if kind == "test" else self.label_column,
            label=label,
            skip_bad_rows=self.skip_bad_rows,
        )

    def labels(self, texts: dict[str, Examples], trained: list[str] | None = None) -> list[str] | None:
        """Returns the label names in the order of their ids; None where labels are numbers.

        They are the task's, those of the training examples, or `trained`: those of a model that was trained before.

        Raises:
            ValueError: there is none of these, or `trained` is not what the task has.
        """
        if not self.has_labels:
            return None
        if "train" not in texts and trained is not None and self.task and trained != list(self.task.labels):
            raise ValueError(
                f"`task_name={self.task.name}` must have a model with the labels {list(self.task.labels)}. "
                f"Received one with {trained}; name the output of a task with the same labels."
            )
        if self.task:
            return list(self.task.labels)
        if "train" not in texts and trained is None:
            raise ValueError(
                "`do_eval` and `do_predict` must have a trained model. Received one without labels.txt; "
                "train it first, with `do_train`."
            )
        return _labels_of(texts["train"], self.has_several_labels) if "train" in texts else trained


def make_source(
    task_name: str | None,
    data_dir: str | None,
    files: dict,
    problem: str | None = None,
    language: str | None = None,
    **columns,
) -> Source:
    """Returns the source that the flags describe.

    Args:
        task_name, data_dir: a GLUE task and its folder, or None.
        files: "train", "dev" and "test" -> path or None.
        problem: None: the task's, or "single_label".
        language: None: English.
        columns: `separator`, `header`, `text_columns`, `label_column` and `skip_bad_rows` of `Source`, of files.

    Raises:
        ValueError: an unknown task, or flags that contradict each other.
    """
    if not task_name:
        if data_dir:
            raise ValueError(f"`data_dir` must come with `task_name`. Received `data_dir={data_dir}` alone.")
        if language:
            raise ValueError(f"`xnli_language` must come with `task_name`. Received `xnli_language={language}` alone.")
        return Source(files=files, problem=problem or "single_label", **columns)
    if given := [path for path in files.values() if path]:
        raise ValueError(
            f"Examples must come from `task_name` or from files. Received `task_name={task_name}` and {given}."
        )
    if not data_dir:
        raise ValueError(f"`task_name` must come with `data_dir`. Received `task_name={task_name}` alone.")
    task = glue.find_task(task_name)
    if problem not in (None, task.problem):
        raise ValueError(
            f"`problem_type` must be {task.problem} for `task_name={task.name}`. Received: {problem}; leave it out."
        )
    return Source(task, data_dir, glue.check_language(task, language), problem=task.problem)


def _labels_of(examples, several):
    """Returns the labels of the training examples, and logs how many examples each has."""
    labels = tables.label_list(examples)
    each = [(label,) if isinstance(label, str) else label for label in examples.labels]
    counts = collections.Counter(name for names in each for name in names)
    shown = ", ".join(f"{excerpt(name)} {counts[name]}" for name in labels[:20])
    logging.info("%s: %d labels: %s%s", examples.path, len(labels), shown, ", ..." if len(labels) > 20 else "")
    if len(labels) == 1 and not several:
        raise ValueError(
            f"{examples.path}: there must be two labels to tell apart. Received {labels[0]!r} in all {len(examples)} "
            "examples; check `label_column`, or say `problem_type`."
        )
    return labels


def leaderboard(task_name: str | None, split: str) -> tuple[str, tuple[float, float] | None] | None:
    """Returns what GLUE's server calls the answers for a test split, and their scale; None: it wants none.

    Args:
        task_name: of GLUE, or None.
        split: such as "test_mismatched".
    """
    task = glue.find_task(task_name) if task_name else None
    name = task and task.splits[split].leaderboard
    return (name, task.scale) if name else None
