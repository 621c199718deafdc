"""Conversion of a checkpoint from one format to another."""

import dataclasses
import os
import re
from collections.abc import Iterable, Sequence

from bert_tf.checkpoints import writers
from bert_tf.checkpoints.hub_models import resolve_model
from bert_tf.checkpoints.loading import Bert, ModelDescription, directory_of, load_description
from bert_tf.checkpoints.locate import locate
from bert_tf.checkpoints.model_arrays import ModelArrays
from bert_tf.checkpoints.names.tf1 import GENERATOR, TF1
from bert_tf.checkpoints.readers import Checkpoint, open_checkpoint
from bert_tf.export.conversion.head_purpose import for_task, with_task
from bert_tf.export.conversion.leave_out import LeaveOut
from bert_tf.export.conversion.round_trip import ConversionReport, prove
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import TASK_FILE
from bert_tf.models.lora import is_adapter
from bert_tf.models.sentence_transformers_files import MODULES
from bert_tf.utils.files import check_free, whole_directory

_SHARED = "bert/embeddings/"  # what a generator shares with the discriminator


def convert_model(
    source: str | os.PathLike,
    target: str | os.PathLike,
    form: str,
    leave_out: Sequence[str] = (),
    with_optimizer: bool = False,
    overwrite: bool = False,
    do_lower_case: bool | None = None,
) -> ConversionReport:
    """Converts the model at `source` to another format, atomically, and verifies the result.

    Args:
        source: a checkpoint, as in `bert_tf.load`.
        target: output directory; must not exist or must be empty.
        form: a key of `writers.FORMATS`.
        leave_out: regular expressions, each matched against the whole of our path of a weight (the source's name
            if there is none) or the name of a setting; what matches may be lost.
        with_optimizer: also convert Adam's moments and the step; a bert_tf directory also gets the rest of the run's
            state.
        overwrite: replace the model at `target`, once the new directory is complete.
        do_lower_case: if None, as in the source.

    Raises:
        ValueError: the source is incomplete, the format cannot represent all of it, or verification fails.
        OSError: a file cannot be written.
    """
    _check_target(source, target, overwrite)
    checkpoint, description = open_checkpoint(source), load_description([source], do_lower_case=do_lower_case)
    choice = LeaveOut(leave_out)
    arrays = {path: checkpoint.stored(path) for path in checkpoint.names if not choice.drops(path)}
    if unknown := [name for name in checkpoint.unknown if not choice.drops(name)]:
        raise ValueError(
            f"Unknown weights: {len(unknown)} names in "
            f"{checkpoint.path} are not known: {', '.join(unknown[:10])}{', ...' if len(unknown) > 10 else ''}"
            f". To leave them out, pass patterns to `leave_out`, such as {re.escape(unknown[0].rpartition('.')[0])}.*"
        )
    checkpoint.check_twins(arrays)
    parts = description.config, arrays, description.tokenizer, description.labels
    model = with_task(ModelArrays(*parts, source_dir=directory_of(source)), form, choice)
    model = dataclasses.replace(model, optimizer=_optimizer(checkpoint, form, arrays) if with_optimizer else {})
    without_meaning = tuple(name for name in checkpoint.left_out if name not in model.optimizer)
    return _write(model, target, form, choice, overwrite, checkpoint.path, without_meaning)


def _check_target(source, target, overwrite):
    """Raises ValueError unless `target` can be written: it is empty, or may be overwritten."""
    check_free(target, overwrite, "to")
    if not (overwrite and os.path.isdir(target) and os.listdir(target)):
        return
    try:
        locate(target)  # a directory without weights is not a model
    except ValueError as error:
        raise ValueError(
            f"`overwrite` only replaces a directory that contains a model; {target} does not: {error}"
        ) from error
    old, needed = os.path.realpath(target), os.path.realpath(directory_of(source))
    if os.path.commonpath([old, needed]) == old:
        raise ValueError(f"Cannot convert a model onto itself: {source} to {target}. Choose a new target directory.")


def save(
    bert: Bert | str | os.PathLike, path: str | os.PathLike, format: str = "bert_tf", leave_out: Sequence[str] = ()
) -> ConversionReport:
    """Saves a loaded model (encoder and all heads) in another format, and verifies it by reading it back.

    Args:
        bert: the model, or the path of one.
        path: output directory; must not exist or must be empty.
        format: "bert_tf", "tf1", "huggingface", "sentence_transformers" or "keras_hub".
        leave_out: as in `convert_model`.

    Returns:
        the result of the verification; `str` of it is a report.

    Raises:
        ValueError: the format cannot represent all of it, or something is at `path`.
        OSError: a file cannot be written.
    """
    check_free(path, parameter="path")
    if isinstance(bert, str | os.PathLike):
        return convert_model(resolve_model(bert, "bert"), path, format, leave_out)
    if not isinstance(bert, Bert):
        raise ValueError(
            "`bert` must be a model from `bert_tf.load`, or the path of one; got an object of class "
            f"{type(bert).__name__}."
        )
    if bert.tokenizer is None:
        raise ValueError(
            "A model without a tokenizer cannot be saved. This one came from a KerasHub backbone; "
            "load it with a `vocab_file`."
        )
    choice = LeaveOut(leave_out)
    arrays = {name: array for name, array in bert.arrays().items() if not choice.drops(name)}
    beside = bert.path and directory_of(bert.path)
    whole = ModelArrays(bert.config, arrays, bert.tokenizer, bert.labels, source_dir=beside)
    model = with_task(whole, format, choice)
    return _write(model, path, format, choice, False, "a model in memory", ())


def save_generator(source: str | os.PathLike, target: str | os.PathLike, config: EncoderConfig) -> ConversionReport:
    """Extracts the generator next to a discriminator as a separate model, with a masked-LM head.

    Args:
        source: the discriminator's directory, as written by `pretrain run`.
        target: the directory to write, in the format bert_tf; an existing one is replaced.
        config: configuration of the generator.

    Raises:
        ValueError: there is no generator, or its configuration differs.
        OSError: a file cannot be written.
    """
    checkpoint, tokenizer = open_checkpoint(source), load_description([source]).tokenizer
    shared = {path: checkpoint.get(path) for path in checkpoint.names if path.startswith(_SHARED)}
    own = {path: checkpoint.get(path) for path in checkpoint.names if path.startswith(GENERATOR)}
    if not own:
        raise ValueError(
            f"{checkpoint.path} has no generator next to it. Pass the output of "
            "`pretrain run` with replaced-token detection."
        )
    arrays = shared | {path.removeprefix(GENERATOR): array for path, array in own.items()}
    model = ModelArrays(dataclasses.replace(config, has_pooler=False), arrays, tokenizer)
    return _write(model, target, "bert_tf", LeaveOut(()), True, checkpoint.path, ())


def check_format(form: str, description: ModelDescription, variables: Iterable, task=None):
    """Checks, before a model is trained, whether a format can represent it.

    Args:
        form: a key of `writers.FORMATS`.
        description: of the model.
        variables: the model's variables.
        task: the task to train for, a `FineTuningTask`; None for a model without a task.

    Raises:
        ValueError: the format cannot represent the model.
    """
    arrays = {variable.path: variable for variable in variables if not is_adapter(variable.path)}  # they get merged
    model = ModelArrays(description.config, arrays, description.tokenizer)
    model = model if task is None else for_task(model, task, form, LeaveOut(()))
    try:
        writers.CHECKS[form](model)
    except ValueError as error:
        raise ValueError(
            f"{error}\n`save_format={form}` cannot store everything that this training produces. Remove it, and run "
            "`bert-tf convert` on the result, which can leave components out."
        ) from error


def _write(model, target, form, choice, overwrite, source, without_meaning):
    model = writers.adapted(form, model)
    implied = writers.implied(form, model.config)
    given_up = {name: value for name, value in implied.items()
                if getattr(model.config, name) != value and choice.drops(name)}  # fmt: skip
    choice.check()
    adapted = dataclasses.replace(model, config=dataclasses.replace(model.config, **given_up))
    with whole_directory(target, overwrite) as aside:
        written = writers.write_model(aside, form, adapted)
        written = dataclasses.replace(written, remarks=(*written.remarks, *model.remarks, *_stays_behind(model, aside)))
        found = prove(aside, model, written, tuple(given_up))
    stays = {"left_out": tuple(choice.dropped), "without_meaning": without_meaning}
    return ConversionReport(source, os.fspath(target), form, **stays, **found)


def _stays_behind(model, directory):
    """Returns remarks on files of the source that the target format has no equivalent for."""
    files = (MODULES, TASK_FILE)
    if model.recipe and os.path.exists(os.path.join(directory, MODULES)):  # all that task.json has for the model
        return []
    lost = [name for name in files if model.source_dir and os.path.exists(os.path.join(model.source_dir, name))
            and not os.path.exists(os.path.join(directory, name))]  # fmt: skip
    return [f"{name} of the source and its settings were not converted." for name in lost]


def _optimizer(checkpoint: Checkpoint, form, paths):
    """Returns the training state to convert: the optimizer's moments and the step; for our format, all of it."""
    of = {TF1.from_ours(path) for path in paths}
    slots = [name for name in checkpoint.left_out if name.rpartition("/adam_")[0] in of]
    if not slots:
        raise ValueError(
            "`with_optimizer` requires a checkpoint with optimizer state, which "
            f"{checkpoint.path} does not have. Train with `keep_optimizer` to keep it at the end of a run."
        )
    rest = [name for name in checkpoint.left_out if name == "global_step" or name.startswith("training/")]
    rest = [name for name in rest if form in writers.WITH_TASK or name == "global_step"]
    return {name: checkpoint.read_left_out(name) for name in [*slots, *rest]}
