"""What a model's head is for: its configuration and task.json say it, and the class in the other format follows."""

import dataclasses
import re

import numpy as np

from bert_tf.checkpoints import writers
from bert_tf.checkpoints.writers.architectures import ARCHITECTURES
from bert_tf.checkpoints.writers.description import HEAD_CLASS
from bert_tf.export.conversion.choice import Choice
from bert_tf.models.config_files import TASK_FILE, task_in
from bert_tf.tasks.registry import read_task

# What a task makes of the head's numbers that no other program knows of; in task.json.
_TEMPERATURE = "temperature"
_OF_TASK = (_TEMPERATURE, "windows", "abstention")
_LAST_LAYER = re.compile(r"(recurrent/)?classifier/output_(weights|bias)")
_PROBLEM_TYPES = {"single_label": "single_label_classification", "multi_label": "multi_label_classification",
                  "regression": "regression"}  # fmt: skip


def with_task(model: writers.Model, form: str, choice: Choice) -> writers.Model:
    """Returns the model with what its configuration, or task.json beside it, says about its head; raises as below."""
    extra = model.config.extra
    said = [*_texts(extra.get("architectures")), *_texts([extra.get(HEAD_CLASS)])]
    model, trained = dataclasses.replace(model, architectures=tuple(said)), _task_of(model)
    if trained is None:
        return model
    model = for_task(model, trained.task, form, choice)
    length = trained.max_seq_length
    return dataclasses.replace(model, recipe=model.recipe and dataclasses.replace(model.recipe, max_seq_length=length))


def for_task(model: writers.Model, task, form: str, choice: Choice) -> writers.Model:
    """Returns the model with what a task, a `tasks.task.FineTuned`, says about its head.

    Raises:
        ValueError: the task does something with the head's numbers that the format has no place for.
    """
    options = task.to_dict()
    lost = [name for name in _OF_TASK if name in options and form not in writers.WITH_TASK and not choice.drops(name)]
    if _TEMPERATURE in lost and any(map(_LAST_LAYER.fullmatch, model.arrays)):
        model = _divided(model, options[_TEMPERATURE])
        lost.remove(_TEMPERATURE)
    if lost:
        raise ValueError(
            f"A model must give the same answers in the other format. Received {lost[0]} in {TASK_FILE}, which only "
            f"bert_tf knows of; give it up with `leave_out={lost[0]}`."
        )
    own = [task.architecture] if task.architecture else [each.ending for each in ARCHITECTURES if _is_for(each, task)]
    problem = _PROBLEM_TYPES.get(options.get("problem"))
    extra = {**model.config.extra, **({"problem_type": problem} if problem else {})}
    config = dataclasses.replace(model.config, extra=extra)
    return dataclasses.replace(model, config=config, architectures=(*own, *model.architectures), recipe=task.recipe)


def _divided(model, temperature):
    """Returns the model whose logits are those that its temperature made: W x / T + b / T, W and b of the last layer.

    That is the same whatever follows, a softmax, a sigmoid for each label or a mean over windows. What is before the
    last layer stays as it is. 16 bits would round the quotients, so they become float32.
    """
    divided = {path: np.asarray(array, np.float32) / np.float32(temperature)
               for path, array in model.arrays.items() if _LAST_LAYER.fullmatch(path)}  # fmt: skip
    remark = f"The temperature {temperature:.6g} of {TASK_FILE} is in the weights: {' and '.join(sorted(divided))} are "
    remark += "divided by it."
    return dataclasses.replace(model, arrays={**model.arrays, **divided}, remarks=(*model.remarks, remark))


def _task_of(model):
    """Returns the `TrainedTask` that the model is, if that is known and its head, if it has one, comes along."""
    if not model.beside or task_in(model.beside) is None:
        return None
    trained = read_task(model.beside, model.config)
    task = trained.task
    return trained if task.recipe or any(_matches(task.head, path) for path in model.arrays) else None


def _is_for(architecture, task):
    heads = [_matches(task.head, f"{head}/output_weights") for head in architecture.heads]
    return bool(heads) and all(heads) and architecture.reads_pooler == task.uses_pooler


def _matches(patterns, path):
    return any(re.fullmatch(pattern, path) for pattern in patterns)


def _texts(values):
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
