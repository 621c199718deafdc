"""The data of a classification run: the texts of a source, and the options about them."""

import dataclasses

from bert_tf.data.windowed import Windowing
from bert_tf.tasks.abstention import check_kept
from bert_tf.tasks.base import TaskData
from bert_tf.tasks.classification.options import ClassificationOptions
from bert_tf.tasks.classification.problems import PROBLEMS
from bert_tf.tasks.classification.sources import Source, make_source


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
        raise ValueError(f"`label_columns` must name each column once; got {','.join(options.label_columns)}.")
    if problem is not None and not PROBLEMS[problem].has_several_labels:
        raise ValueError(
            f"`label_columns` requires `problem_type=multi_label`; got {problem}; remove one of them."
        )
    return "multi_label"


def source_from_options(options, trained):
    """Creates the source of a run's texts; `trained`: the existing model, if it is not trained now, or None.

    Raises:
        ValueError: options contradict each other or the model.
    """
    problem, was = options.where_given("problem_type"), trained and trained.task.problem_name
    if options.label_columns:
        problem = _problem_of_columns(options, problem)
    if was and problem not in (None, was):
        raise ValueError(f"`problem_type` must match the trained model's, {was}; got {problem}; omit it.")
    source = make_source(
        options.task_name,
        options.data_dir,
        options.files,
        problem=problem if options.task_name else was or problem or options.problem_type,
        language=options.xnli_language,
        separator=options.label_separator,
        separator_given=options.where_given("label_separator") is not None,
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
            f"the data is for {source.problem} with {' and '.join(source.text_inputs)}. Pass a model for such data, or "
            "check `task_name` and `text_column`."
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
        if given := [f"`{name}`" for name in ("doc_stride", "max_windows") if name in options.given]:
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
    if options.where_given("long_text") and (asked := windows_of(options)) != windows:
        raise ValueError(
            "`long_text`, `doc_stride` and `max_windows` must match the trained model's, "
            f"{_text(windows)}; got {_text(asked)}; omit them."
        )
    check_kept("fit_temperature", options.fit_temperature, options.output_dir)
    check_kept("fit_thresholds", options.fit_thresholds, options.output_dir)
    check_kept("fit_abstention", options.fit_abstention, options.output_dir)


def _text(windows):
    return f"a stride of {windows.stride} and {windows.max_windows} windows" if windows else "no windows"
