"""Classification data: from GLUE directories or tables to tokenized examples."""

import collections
import dataclasses

import numpy as np
from absl import logging

from bert_tf.data import columns, glue, glue_tasks, tables, windowed
from bert_tf.data.dataset import EncodedDataset
from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect
from bert_tf.data.list_cells import find_separator
from bert_tf.data.row_errors import excerpt
from bert_tf.data.tables import LabeledTexts
from bert_tf.data.truncation import count_truncated
from bert_tf.data.windowed import Windowing
from bert_tf.tasks.abstention import check_kept
from bert_tf.tasks.base import TaskData
from bert_tf.tasks.classification.options import ClassificationOptions
from bert_tf.tasks.classification.outputs import PROBLEMS
from bert_tf.tasks.options import ACTIONS
from bert_tf.tasks.sequences import pack_sequences

# === Sources ===
# The source of a run's labeled texts: the directory of a GLUE task, or custom files.


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
            f"{examples.where(cells[first])}: labels must be separated by {own!r}. Received {first!r}, and "
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
            raise ValueError(f"`data_dir` requires `task_name`. Received `data_dir={data_dir}` alone.")
        if language:
            raise ValueError(f"`xnli_language` requires `task_name`. Received `xnli_language={language}` alone.")
        return Source(files=files, problem=problem or "single_label", **columns)
    if not data_dir:
        raise ValueError(f"`task_name` requires `data_dir`. Received `task_name={task_name}` alone.")
    task = glue.find_glue_task(task_name)
    if problem not in (None, task.problem):
        raise ValueError(
            f"`problem_type` must be {task.problem} for `task_name={task.name}`. Received: {problem}; omit it."
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
            f"{examples.path}: at least two labels are needed for classification. Received {labels[0]!r} in all "
            f"{len(examples)} examples; check `label_column`, or set `problem_type`."
        )
    return labels


# === Runs ===
# The data of a classification run: the files of one source, and their options.


@dataclasses.dataclass(frozen=True)
class ClassificationData(TaskData):
    """Labeled texts, or texts to predict for.

    Attributes:
        source: where they come from.
    """

    source: Source = dataclasses.field(kw_only=True)


def _problem_of_columns(options, problem):
    """Returns the problem of `label_columns`, after checking that no other option contradicts it."""
    if len(set(options.label_columns)) < len(options.label_columns):
        raise ValueError(f"`label_columns` must name each column once. Received: {','.join(options.label_columns)}.")
    if problem is not None and not PROBLEMS[problem].has_several_labels:
        raise ValueError(
            f"`label_columns` requires `problem_type=multi_label`. Received: {problem}; remove one of them."
        )
    return "multi_label"


def source_from_options(options, trained):
    """Creates the source of a run's texts; `trained`: the existing model, if it is not trained now, or None.

    Raises:
        ValueError: options contradict each other or the model.
    """
    problem, was = options.given_problem_type, trained and trained.task.problem_name
    if options.label_columns:
        problem = _problem_of_columns(options, problem)
    if was and problem not in (None, was):
        raise ValueError(f"`problem_type` must match the trained model's, {was}. Received: {problem}; omit it.")
    source = make_source(
        options.task_name,
        options.data_dir,
        options.files,
        problem=problem if options.task_name else was or problem or options.problem_type,
        language=options.xnli_language,
        separator=options.label_separator,
        separator_given=options.given_label_separator is not None,
        header=options.header,
        text_columns=options.text_column,
        label_column=options.label_column,
        skip_bad_rows=options.skip_bad_rows,
        dialect=options.dialect,
        drop_empty=options.drop_empty,
        label_columns=tuple(options.label_columns or ()),
    )
    if trained and (source.problem, source.text_inputs) != (was, trained.text_inputs):
        raise ValueError(
            f"The trained model does not match the data: it is for {was} with {' and '.join(trained.text_inputs)}, but "
            f"the data is for {source.problem} with {' and '.join(source.text_inputs)}. Use another model, or check "
            "`task_name` and `text_column`."
        )
    return source


def check_label_options(options, source):
    """Raises ValueError if targets are numbers but an option requires labels."""
    if source.has_labels:
        return
    about_labels = {
        "class_weights": options.class_weights,
        "label_smoothing": options.label_smoothing,
        "fit_temperature": options.fit_temperature,
        "fit_thresholds": options.fit_thresholds,
        "fit_abstention": options.fit_abstention,
    }
    if given := [name for name, value in about_labels.items() if value]:
        raise ValueError(f"`{given[0]}` requires labels, but the targets are numbers. Remove it.")


def windows_of(options: ClassificationOptions) -> Windowing | None:
    """Returns the windowing of long texts, or None if they are truncated.

    Raises:
        ValueError: window options without windows, or windows with gaps between them.
    """
    if options.long_text == "truncate":
        of_windows = {"doc_stride": options.given_doc_stride, "max_windows": options.given_max_windows}
        if given := [f"`{name}`" for name, value in of_windows.items() if value is not None]:
            raise ValueError(
                f"{' and '.join(given)} {'requires' if len(given) == 1 else 'require'} `long_text=window`. Add it, or "
                f"remove {' and '.join(given)}."
            )
        return None
    windows = Windowing(options.doc_stride or max(1, options.max_seq_length // 2), options.max_windows)
    windows.check(options.max_seq_length - 2)
    return windows


def check_trained(options: ClassificationOptions, windows: Windowing | None):
    """Raises ValueError if the options contradict a trained model with these `windows`."""
    if options.given_long_text and (asked := windows_of(options)) != windows:
        raise ValueError(
            "`long_text`, `doc_stride` and `max_windows` must match the trained model's, "
            f"{_text(windows)}. Received: {_text(asked)}; omit them."
        )
    check_kept("fit_temperature", options.fit_temperature, options.output_dir)
    check_kept("fit_thresholds", options.fit_thresholds, options.output_dir)
    check_kept("fit_abstention", options.fit_abstention, options.output_dir)


def _text(windows):
    return f"a stride of {windows.stride} and {windows.max_windows} windows" if windows else "no windows"


# === Examples ===
# Labeled texts to tokenized examples.


_CHUNK = 10_000  # examples tokenized at a time: few enough to keep memory small


def targets(examples: LabeledTexts, labels: list[str] | None, problem: str = "single_label") -> dict[str, np.ndarray]:
    """Returns the targets of examples for training, or {} if they have no labels.

    Args:
        examples: n examples.
        labels: all L label names in the order of their ids; None for "regression".
        problem: "single_label": `label_ids` int32 [n]; "multi_label": `label_ids` int32 [n, L] of 0 and 1;
            "regression": `label_values` float32 [n].

    Raises:
        ValueError: an example's label is not among `labels`.
    """
    if examples.labels is None:
        return {}
    kind = PROBLEMS[problem]
    if not kind.has_labels:
        return {kind.target: np.asarray(examples.labels, np.float32)}
    label_ids = tables.check_labels(examples, labels)
    if not kind.has_several_labels:
        return {kind.target: np.asarray(label_ids, np.int32)}
    several = np.zeros([len(examples), len(labels)], np.int32)
    for row, own in zip(several, label_ids, strict=True):
        row[own] = 1
    return {kind.target: several}


def tokenize_examples(
    tokenizer,
    examples: LabeledTexts,
    max_seq_length: int,
    labels: list[str] | None = None,
    problem: str = "single_label",
    windows: windowed.Windowing | None = None,
) -> EncodedDataset | windowed.Windowed:
    """Tokenizes texts into `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, truncated as in google-research/bert.

    Args:
        tokenizer: a `Tokenizer`.
        examples: the texts, and their labels if they have any.
        max_seq_length: maximum sequence length.
        labels, problem: as in `targets`.
        windows: how to split longer texts into several sequences. If None, they are truncated.

    Raises:
        ValueError: an example's label is not among `labels`.
    """
    found = targets(examples, labels, problem)  # first, because this is where a file may be invalid
    texts = [*examples.texts.values()]
    if windows is not None:
        return windowed.tokenize_windows(tokenizer, texts, max_seq_length, windows, found, examples.path)
    starts = range(0, len(examples), _CHUNK)
    tokens = ([tokenizer.tokenize(text[start : start + _CHUNK]) for text in texts] for start in starts)
    sequences, needed = pack_sequences(tokenizer, tokens, max_seq_length)
    cut = count_truncated(needed, max_seq_length)
    logging.info(
        "%s: %d examples, %.1f tokens each; %d exceed max_seq_length=%d and were truncated.",
        *(examples.path, len(examples), sequences.lengths.mean(), len(cut.examples), max_seq_length),
    )
    return dataclasses.replace(sequences, targets=found, truncation=cut)
