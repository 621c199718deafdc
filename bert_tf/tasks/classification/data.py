"""What a classifier reads for a run: the files of one source, and what the settings say of them."""

import dataclasses

from bert_tf.data.checks.samples import Sample, Table
from bert_tf.data.tables import Examples
from bert_tf.data.windowed import Windowing
from bert_tf.tasks.abstention import check_kept, check_scores, check_settings
from bert_tf.tasks.classification.source import Source, make_source
from bert_tf.tasks.task import TrainedTask
from bert_tf.utils.settings import Settings

_OF_LABELS = ("class_weights", "label_smoothing", "fit_temperature", "fit_abstention")


@dataclasses.dataclass(frozen=True)
class ClassificationData:
    """Labelled texts, or texts to answer for; see `task.TaskData`.

    Attributes:
        source: where they are from.
        examples: split -> examples.
    """

    source: Source
    examples: dict[str, Examples]

    @property
    def text_inputs(self) -> tuple[str, ...]:
        return self.source.text_inputs


def read_data(settings: Settings, kinds, trained: TrainedTask | None) -> ClassificationData:
    """Returns what the settings ask for; see `FineTuned.read_data`.

    Raises:
        ValueError: settings contradict each other or the model, or a file is not as described.
    """
    source = _source(settings, trained)
    _check(settings, source)
    return ClassificationData(source, source.read(kinds))


def samples(data: ClassificationData) -> dict[str, Sample]:
    """Returns what is checked of the examples; see `FineTuned.samples`."""
    source = data.source
    table = None if source.task else Table(source.header, source.text_columns, source.label_column)

    def sample(examples):
        texts = zip(source.text_inputs, (examples.text_a, examples.text_b), strict=False)
        targets = examples.labels
        if targets is not None and source.has_several_labels:
            targets = list(map(frozenset, targets))
        labels = examples.labels if source.has_labels else None
        bad = {"bad_labels": examples.bad_labels, "bad_texts": examples.bad_texts}
        return Sample(examples.path, examples.where, dict(texts), targets, labels, table=table, **bad)

    return {split: sample(examples) for split, examples in data.examples.items()}


def _source(settings, trained):
    problem, was = settings.where_given("problem_type"), trained and trained.task.problem_name
    if was and problem not in (None, was):
        raise ValueError(f"`problem_type` must be the trained model's, {was}. Received: {problem}; leave it out.")
    source = make_source(
        settings.task_name,
        settings.data_dir,
        {"train": settings.train_file, "dev": settings.eval_file, "test": settings.predict_file},
        problem=problem if settings.task_name else was or settings.problem_type,
        language=settings.xnli_language,
        separator=settings.label_separator,
        header=settings.header,
        text_columns=settings.text_column,
        label_column=settings.label_column,
        skip_bad_rows=settings.get("skip_bad_rows", False),
    )
    if trained and (source.problem, source.text_inputs) != (was, trained.text_inputs):
        raise ValueError(
            f"The trained model must be one for {source.problem} with {' and '.join(source.text_inputs)}. Received one "
            f"for {was} with {' and '.join(trained.text_inputs)}; name another model, or check `task_name` and "
            "`text_column`."
        )
    return source


def _check(settings, source):
    """Raises ValueError where settings do not fit what the labels are."""
    for_labels = {name: settings.get(name) for name in _OF_LABELS}
    if not source.has_labels and (given := [name for name, value in for_labels.items() if value]):
        raise ValueError(f"Targets must be labels for `{given[0]}`. Received numbers; leave it out.")
    check_scores(settings, "fit_temperature")
    check_settings(settings)
    if "label_separator" in settings.given and not source.has_several_labels:
        raise ValueError(
            "`label_separator` must come with `problem_type=multi_label`. Received it for "
            f"{source.problem}; leave it out."
        )


def windows_of(settings: Settings) -> Windowing | None:
    """Returns how long texts are read; None: they are cut.

    Raises:
        ValueError: settings of windows without windows, or windows with gaps between them.
    """
    if settings.long_text == "truncate":
        if given := [f"`{name}`" for name in ("doc_stride", "max_windows") if name in settings.given]:
            raise ValueError(
                f"`doc_stride` and `max_windows` must come with `long_text=window`. Received {' and '.join(given)} "
                "alone; add it, or leave them out."
            )
        return None
    windows = Windowing(settings.doc_stride or max(1, settings.max_seq_length // 2), settings.max_windows)
    windows.check(settings.max_seq_length - 2)
    return windows


def check_trained(settings: Settings, windows: Windowing | None):
    """Raises ValueError where settings ask a trained model, which reads through `windows`, for what it cannot do."""
    if "long_text" in settings.given and (asked := windows_of(settings)) != windows:
        raise ValueError(
            f"`long_text`, `doc_stride` and `max_windows` must be what the model was trained with, {_text(windows)}. "
            f"Received: {_text(asked)}; leave them out."
        )
    for name in ("fit_temperature", "fit_abstention"):
        check_kept(settings, name)


def _text(windows):
    return f"a stride of {windows.stride} and {windows.max_windows} windows" if windows else "no windows"
