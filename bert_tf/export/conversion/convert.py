"""Converts a checkpoint from one format to another."""

import dataclasses
import os
import re
from collections.abc import Iterable, Sequence

import numpy as np

from bert_tf.checkpoints import writers
from bert_tf.checkpoints.architectures import ARCHITECTURES
from bert_tf.checkpoints.description_files import HEAD_CLASS
from bert_tf.checkpoints.loading import Bert, Description, directory_of, load_description
from bert_tf.checkpoints.locate import locate
from bert_tf.checkpoints.model_arrays import ModelArrays
from bert_tf.checkpoints.names.tf1 import GENERATOR, TF1
from bert_tf.checkpoints.readers import Checkpoint, open_checkpoint
from bert_tf.export.conversion.round_trip import Proof, prove
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import TASK_FILE, task_in
from bert_tf.models.cross_encoder_files import cross_encoder_keys, read_activation
from bert_tf.models.lora import is_adapter
from bert_tf.models.sentence_transformers_files import MODULES
from bert_tf.tasks.registry import read_task
from bert_tf.utils.files import check_free, whole_directory

# === Choice ===
# Weights and settings to leave out of a conversion, as patterns of their names.


class LeaveOut:
    """The weights and settings to leave out, as patterns that must each match something."""

    def __init__(self, patterns: Iterable[str]):
        self._patterns, self.dropped = list(patterns), []
        self._unused = list(self._patterns)
        for pattern in self._patterns:
            _check_pattern(pattern)

    def drops(self, name: str) -> bool:
        """Returns whether a weight or setting is to be left out, and records it."""
        fitting = [pattern for pattern in self._patterns if re.fullmatch(pattern, name)]
        self._unused = [pattern for pattern in self._unused if pattern not in fitting]
        self.dropped += [name] if fitting else []
        return bool(fitting)

    def check(self):
        """Raises ValueError if a pattern matches nothing."""
        if self._unused:
            raise ValueError(
                f"Every pattern of `leave_out` must match a weight or a setting that the format lacks. Pattern "
                f"{self._unused[0]!r} matches none; remove it."
            )


def _check_pattern(pattern):
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(
            f"`leave_out` must list regular expressions; {pattern!r} is not one: {error}. Write `\\.` for a dot."
        ) from error


# === Purpose ===
# The purpose of a model's head: it is in the configuration and task.json, and determines the class in other formats.


# How a task processes the head's outputs in ways that other libraries do not support; in task.json.
_TEMPERATURE = "temperature"
_OF_TASK = (_TEMPERATURE, "windows", "abstention")
_LAST_LAYER = re.compile(r"(recurrent/)?classifier/output_(weights|bias)")
_PROBLEM_TYPES = {"single_label": "single_label_classification", "multi_label": "multi_label_classification",
                  "regression": "regression"}  # fmt: skip


def with_task(model: ModelArrays, form: str, choice: LeaveOut) -> ModelArrays:
    """Returns the model with the purpose of its head, from its configuration or task.json; raises as `with_task`."""
    extra = model.config.extra
    said = [*_texts(extra.get("architectures")), *_texts([extra.get(HEAD_CLASS)])]
    model, trained = dataclasses.replace(model, architectures=tuple(said)), _task_of(model)
    if trained is None:
        activation = model.source_dir and read_activation(model.source_dir, extra)
        return _with_extra(model, cross_encoder_keys(extra, activation)) if activation else model
    model = for_task(model, trained.task, form, choice)
    length = trained.max_seq_length
    return dataclasses.replace(model, recipe=model.recipe and dataclasses.replace(model.recipe, max_seq_length=length))


def for_task(model: ModelArrays, task, form: str, choice: LeaveOut) -> ModelArrays:
    """Returns the model with the purpose of its head according to a task, a `tasks.task.FineTuned`.

    Raises:
        ValueError: the task processes the head's outputs in a way that the format cannot hold.
    """
    options = task.to_dict()
    lost = [name for name in _OF_TASK if name in options and form not in writers.WITH_TASK and not choice.drops(name)]
    if _TEMPERATURE in lost and any(map(_LAST_LAYER.fullmatch, model.arrays)):
        model = _divided(model, options[_TEMPERATURE])
        lost.remove(_TEMPERATURE)
    if lost:
        raise ValueError(
            f"The converted model would predict differently: {lost[0]} in {TASK_FILE} is supported only by "
            f"bert_tf. To drop it, pass `leave_out={lost[0]}`."
        )
    own = [task.architecture] if task.architecture else [each.ending for each in ARCHITECTURES if _is_for(each, task)]
    problem = _PROBLEM_TYPES.get(options.get("problem"))
    extra = {**model.config.extra, **({"problem_type": problem} if problem else {})}
    model = _with_extra(model, cross_encoder_keys(extra, options.get("activation")))
    return dataclasses.replace(model, architectures=(*own, *model.architectures), recipe=task.recipe)


def _with_extra(model, extra):
    return dataclasses.replace(model, config=dataclasses.replace(model.config, extra=extra))


def _divided(model, temperature):
    """Returns the model with the temperature T folded into the last layer: W x / T + b / T.

    This is equivalent for any later step: a softmax, a sigmoid per label or a mean over windows. What is before the
    last layer stays as it is. 16 bits would round the quotients, so they become float32.
    """
    divided = {path: np.asarray(array, np.float32) / np.float32(temperature)
               for path, array in model.arrays.items() if _LAST_LAYER.fullmatch(path)}  # fmt: skip
    remark = f"The temperature {temperature:.6g} of {TASK_FILE} is folded into the weights: "
    remark += f"{' and '.join(sorted(divided))} are divided by it."
    return dataclasses.replace(model, arrays={**model.arrays, **divided}, remarks=(*model.remarks, remark))


def _task_of(model):
    """Returns the model's `TrainedTask`, if it is known and its head, if any, is converted too."""
    if not model.source_dir or task_in(model.source_dir) is None:
        return None
    trained = read_task(model.source_dir, model.config)
    task = trained.task
    return trained if task.recipe or any(_matches(task.head, path) for path in model.arrays) else None


def _is_for(architecture, task):
    heads = [_matches(task.head, f"{head}/output_weights") for head in architecture.heads]
    return bool(heads) and all(heads) and architecture.reads_pooler == task.uses_pooler


def _matches(patterns, path):
    return any(re.fullmatch(pattern, path) for pattern in patterns)


def _texts(values):
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


# === Convert ===


_SHARED = "bert/embeddings/"  # what a generator shares with the discriminator


def convert_model(
    source: str | os.PathLike,
    target: str | os.PathLike,
    form: str,
    leave_out: Sequence[str] = (),
    with_optimizer: bool = False,
    overwrite: bool = False,
    do_lower_case: bool | None = None,
) -> Proof:
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
        do_lower_case: None: as in the source.

    Raises:
        ValueError: the source is incomplete, the format cannot hold all of it, or verification fails.
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
            f"`overwrite` only replaces a directory that holds a model; {target} does not: {error}"
        ) from error
    old, needed = os.path.realpath(target), os.path.realpath(directory_of(source))
    if os.path.commonpath([old, needed]) == old:
        raise ValueError(f"Cannot convert a model onto itself: {source} to {target}. Use another target.")


def save(
    bert: Bert | str | os.PathLike, path: str | os.PathLike, format: str = "bert_tf", leave_out: Sequence[str] = ()
) -> Proof:
    """Saves a loaded model (encoder and all heads) in another format, and verifies it by reading it back.

    Args:
        bert: the model, or the path of one.
        path: output directory; must not exist or must be empty.
        format: "bert_tf", "tf1", "huggingface", "sentence_transformers" or "keras_hub".
        leave_out: as in `convert_model`.

    Returns:
        the result of the verification; `str` of it is a report.

    Raises:
        ValueError: the format cannot hold all of it, or something is at `path`.
        OSError: a file cannot be written.
    """
    check_free(path, parameter="path")
    if isinstance(bert, str | os.PathLike):
        return convert_model(bert, path, format, leave_out)
    if not isinstance(bert, Bert):
        raise ValueError(
            "`bert` must be a model from `bert_tf.load`, or the path of one. Received an object of class "
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


def save_generator(source: str | os.PathLike, target: str | os.PathLike, config: EncoderConfig) -> Proof:
    """Extracts the generator next to a discriminator as a model of its own, with a masked-LM head.

    Args:
        source: the discriminator's directory, as written by run_pretraining.
        target: the directory to write, in the format bert_tf; an existing one is replaced.
        config: of the generator.

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
            "run_pretraining with replaced-token detection."
        )
    arrays = shared | {path.removeprefix(GENERATOR): array for path, array in own.items()}
    model = ModelArrays(dataclasses.replace(config, has_pooler=False), arrays, tokenizer)
    return _write(model, target, "bert_tf", LeaveOut(()), True, checkpoint.path, ())


def check_format(form: str, description: Description, variables: Iterable, task=None):
    """Checks, before a model is trained, whether a format can hold it.

    Args:
        form: a key of `writers.FORMATS`.
        description: of the model.
        variables: the model's variables.
        task: the task to train for, a `tasks.task.FineTuned`; None: nothing that task.json describes.

    Raises:
        ValueError: the format cannot hold the model.
    """
    arrays = {variable.path: variable for variable in variables if not is_adapter(variable.path)}  # they get merged
    model = ModelArrays(description.config, arrays, description.tokenizer)
    model = model if task is None else for_task(model, task, form, LeaveOut(()))
    try:
        writers.CHECKS[form](model)
    except ValueError as error:
        raise ValueError(
            f"{error}\n`save_format={form}` cannot hold everything that this training produces. Remove it, and "
            "run `bert-tf convert` on the result, which can leave components out."
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
    return Proof(source, os.fspath(target), form, **stays, **found)


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
