"""`finetune` and `evaluate`: training and evaluation of any task from Python."""

import difflib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras

from bert_tf.checkpoints.hub_models import resolve_model
from bert_tf.checkpoints.loading import load_description
from bert_tf.runs.callbacks import check_callbacks
from bert_tf.runs.custom_objectives import Loss, Metric, with_objectives
from bert_tf.runs.finished_run import Run
from bert_tf.runs.in_memory import as_files
from bert_tf.runs.keywords import read_keywords
from bert_tf.runs.process import run_in_process
from bert_tf.runs.run_task import run_task
from bert_tf.runs.task_flags import task_flags, task_settings
from bert_tf.tasks.base import FineTuningTask
from bert_tf.tasks.options import ACTIONS
from bert_tf.tasks.registry import TASKS_BY_NAME, load_custom_task, task_of

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in `typing` from Python 3.11 on

    from bert_tf.runs.keyword_types import FineTuningKeywords

# Names for a task with one of its settings.
_VARIANTS = {
    "regression": ("classification", {"problem_type": "regression"}),
    "multi_label": ("classification", {"problem_type": "multi_label"}),
}
# Argument -> the setting with its file.
_FILES = {"train": "train_file", "eval": "eval_file", "test": "test_file", "predict": "predict_file"}
_ACTIONS = tuple(f"do_{action}" for action in (*ACTIONS.values(), "export"))
_ARGUMENTS = (*_FILES, "callbacks", "loss", "metrics", "verbose")


def finetune(
    task: str | type[FineTuningTask],
    train: Any = None,
    eval: Any = None,  # noqa: A002  as the flag --eval_file
    test: Any = None,
    predict: Any = None,
    *,
    output_dir: str | os.PathLike | None = None,
    callbacks: Sequence[Callable | keras.callbacks.Callback] = (),
    loss: str | Loss | None = None,
    metrics: Mapping[str, Metric] | None = None,
    verbose: bool = True,
    **settings: "Unpack[FineTuningKeywords]",
) -> Run:
    """Fine-tunes a model for a task, evaluates it and returns the run: metrics, model, predictions, report.

        run = bert_tf.finetune("classification", train=frame, eval="dev.csv", init_checkpoint="demo/weights/minilm")
        run.metrics["eval_accuracy"], run.predict("A warm, funny film.")

    The same examples and settings give the same weights as the command, and the same files in `output_dir`, so that one
    resumes a run that the other began.

    Args:
        task: "classification", "regression", "multi_label", "tagging", "question_answering", "multiple_choice",
            "embedding", "reranking", the name of a task that another package provides, or its class.
        train: examples to train on: a path, several paths, a pandas or Polars DataFrame, a pyarrow Table, a Hugging
            Face Dataset, a list of dictionaries, or a dictionary of columns. If None, nothing is trained.
        eval: examples to evaluate on, likewise; `metric_for_best_model` and `early_stopping` select by them.
        test: examples to evaluate the final model on, by which nothing is selected.
        predict: examples to write predictions for.
        output_dir: directory of the run; an interrupted run resumes from it. If None, a temporary directory, which is
            deleted together with the returned object.
        callbacks: functions of (step, logs), which are called after every step, and Keras callbacks.
        loss: function of (targets, outputs) that returns the loss of each example, float32 [B], in place of the task's
            loss; or the name of one of the task's losses.
        metrics: {name: function of (targets, outputs) that returns a number}, in addition to the task's metrics. A
            name ends in `_score` if higher is better, in `_error` or `_loss` if lower is.
        verbose: log the progress of the run.
        settings: all other settings by the names of the command's flags, such as `init_checkpoint`, `learning_rate`,
            `num_train_epochs`, `text_column`, `metric_for_best_model` or `export_dir`, which also exports; see
            docs/reference/cli.

    Returns:
        the run.

    Raises:
        TypeError: an argument is unknown or has the wrong type.
        ValueError: a setting is out of range, settings contradict each other, or examples are invalid.
        KeyboardInterrupt: Ctrl-C; a checkpoint was saved first, and the same call resumes from it.
    """
    kind, own = find_kind(task)
    check_callbacks(callbacks)
    if isinstance(loss, str) and "loss" not in {flag.name for flag in task_flags(kind)}:
        raise TypeError(f"`loss` must be a function for the task {kind.name}; got {loss!r}.")
    data = {"train": train, "eval": eval, "test": test, "predict": predict}
    given: dict[str, Any] = own | {**settings} | ({"loss": loss} if isinstance(loss, str) else {})
    folder = None if output_dir is not None else tempfile.TemporaryDirectory(prefix="bert_tf_run_")
    given["output_dir"] = folder.name if folder else output_dir
    read = _read_settings(kind, data, given)
    function = None if isinstance(loss, str) else loss

    def adapt(task):
        return with_objectives(task, function, metrics or {})

    with as_files(kind, **data) as files, run_in_process(verbose, files.name_arguments):
        named = {file: files.paths[name] for name, file in _FILES.items() if files.paths[name] is not None}
        finished = run_task(kind, read.give(named), callbacks=callbacks, adapt=adapt)
    assert finished is not None, "only a dry run has no result"
    return Run(finished, folder)


def evaluate(
    model: str | os.PathLike | Run,
    data: Any,
    *,
    task: str | type[FineTuningTask] | None = None,
    output_dir: str | os.PathLike | None = None,
    metrics: Mapping[str, Metric] | None = None,
    verbose: bool = False,
    **settings: "Unpack[FineTuningKeywords]",
) -> dict[str, float]:
    """Evaluates a trained model on examples with labels and returns {metric: score}, such as {"accuracy": 0.93}.

    Args:
        model: directory of a trained model, or a run of `finetune`.
        data: the examples, as `eval` of `finetune`.
        task: as in `finetune`; if None, as in the files of the model.
        output_dir: directory for eval_results.txt and the report. If None, neither is kept.
        metrics: further metrics, as in `finetune`.
        verbose: log the progress.
        settings: as in `finetune`.

    Raises:
        TypeError, ValueError: as in `finetune`; or the files of the model do not define its task.
    """
    path = model.output_dir if isinstance(model, Run) else resolve_model(model, "model")
    task = task or type(task_of(path, load_description([path])).task)
    if isinstance(task, type) and not issubclass(task, FineTuningTask):
        raise ValueError(
            f"`model` must be a model that `finetune` can train. {path} is for {task.name}, which has no evaluation."
        )
    with tempfile.TemporaryDirectory(prefix="bert_tf_run_") as folder:
        run = finetune(
            task, eval=data, output_dir=output_dir or folder, init_checkpoint=path, metrics=metrics, verbose=verbose,
            **settings,
        )  # fmt: skip
    return {name.removeprefix("eval_"): score for name, score in run.metrics.items()}


def find_kind(task: str | type[FineTuningTask]) -> tuple[type[FineTuningTask], dict[str, Any]]:
    """Returns the class of a task, and the settings that its name implies.

    Raises:
        ValueError: there is no such task.
    """
    if isinstance(task, type) and issubclass(task, FineTuningTask):
        return task, {}
    name, implied = _VARIANTS.get(task, (task, {}))
    if name in TASKS_BY_NAME:
        return TASKS_BY_NAME[name], dict(implied)
    try:
        return load_custom_task(name), {}
    except ValueError as error:
        known = [*TASKS_BY_NAME, *_VARIANTS]
        near = difflib.get_close_matches(name, known, 1)
        hint = f"Did you mean {near[0]!r}?" if near else str(error)
        raise ValueError(f"`task` must be one of {', '.join(known)}, or a custom task. {hint}") from error


def _read_settings(kind, data, settings):
    """Returns the settings, with what the given examples imply: do_train and so on."""
    for argument, file in _FILES.items():
        if file in settings:
            raise TypeError(f"finetune() has no argument `{file}`. Pass the file as `{argument}`.")
    if set_action := next((name for name in _ACTIONS if name in settings), None):
        raise TypeError(
            f"finetune() has no argument `{set_action}`: it trains if there are `train` examples, evaluates if there "
            "are `eval` examples, predicts for `predict`, and exports to `export_dir`."
        )
    if "dry_run" in settings:
        raise TypeError("finetune() has no argument `dry_run`. Use the command, which prints what training needs.")
    names = ("train", "eval", "predict")
    actions = {f"do_{name}": True for name in names if data[name] is not None}
    actions |= {"do_export": True} if settings.get("export_dir") is not None else {}
    if not actions:
        raise ValueError("finetune() has nothing to do: pass `train`, `eval` or `predict` examples.")
    implied = (*_FILES.values(), *_ACTIONS)
    flags = [flag for flag in task_flags(kind) if flag.name not in implied]
    return task_settings(kind)().give(read_keywords("finetune", flags, settings, _ARGUMENTS).given_values() | actions)
