"""The purpose of a model's head.

It is in the configuration and task.json, and determines the class in other formats.
"""

import dataclasses
import re

import numpy as np

from bert_tf.checkpoints import writers
from bert_tf.checkpoints.architectures import ARCHITECTURES
from bert_tf.checkpoints.description_files import HEAD_CLASS
from bert_tf.checkpoints.model_arrays import ModelArrays
from bert_tf.export.conversion.leave_out import LeaveOut
from bert_tf.models.config_files import TASK_FILE, task_in
from bert_tf.models.cross_encoder_files import cross_encoder_keys, read_activation
from bert_tf.tasks.registry import read_task

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
    """Returns the model with the purpose of its head according to a task, a `FineTuningTask`.

    Raises:
        ValueError: the task processes the head's outputs in a way that the format cannot represent.
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
