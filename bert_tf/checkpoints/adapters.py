"""Reads and writes LoRA adapters in the format of Hugging Face's PEFT: adapter_config.json and adapter weights.

The directory also contains what is trained with the adapters, the head and the pooler, as PEFT's `modules_to_save`, and
labels.txt and task.json, which PEFT ignores.
"""

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from absl import logging
from safetensors.numpy import save

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.architectures import ARCHITECTURES, architecture_of
from bert_tf.checkpoints.description_files import LABELS_FILE, write_labels
from bert_tf.checkpoints.head_first_layers import WITH_FIRST_LAYERS, first_layers
from bert_tf.checkpoints.loading import default_labels, read_labels
from bert_tf.checkpoints.model_directory import ModelDirectory
from bert_tf.checkpoints.names import family_mappings
from bert_tf.checkpoints.peft_files import CONFIG, LORA_ENDS, PREFIX, WEIGHTS, read_peft
from bert_tf.models import family_registry
from bert_tf.models.config_files import task_in
from bert_tf.models.lora import NAMES, Lora, is_adapter
from bert_tf.utils.files import atomic_open, whole_directory, write_text

_FROZEN = "bert/(embeddings|encoder)/"  # what is never trained with adapters


def write_adapters(directory: str, variables: Iterable, task: Any, base: str | None, also: Callable[[str], None]):
    """Writes the adapters and heads trained by a run, replacing those of an earlier run in `directory`.

    Args:
        directory: output directory in PEFT's format.
        variables: all variables of the task's model, Keras or TensorFlow.
        task: see `tasks/base.py`; its configuration has `lora`.
        base: the checkpoint that the adapters belong to, or None.
        also: called with the temporary directory, to write more files to it.

    Raises:
        ValueError: a variable has no name in the family's files.
        OSError: it cannot be written.
    """
    unused = heads.unused(task)
    trained = [v for v in variables if is_adapter(v.path) or not re.match(_FROZEN, v.path)]
    trained = [v for v in trained if not any(re.fullmatch(pattern, v.path) for pattern in unused)]
    arrays = {v.path: np.asarray(v) for v in trained}
    architecture = _architecture(arrays, task)
    weight_mapping = _name_map(task.config, [architecture.ending])
    named = _peft(weight_mapping, arrays, task.config.lora.rank)
    classes = family_registry.family(task.config.model_type).classes
    kind = f"{classes}{architecture.ending}" if architecture.heads else None
    settings = json.dumps(_settings(task.config.lora, named, base, kind), indent=2) + "\n"
    with whole_directory(directory, replace=True) as folder:
        write_text(os.path.join(folder, CONFIG), settings)
        with atomic_open(os.path.join(folder, WEIGHTS), "wb") as file:
            file.write(save(named, {"format": "pt"}))
        write_labels(folder, task.labels)
        also(folder)


def merge_adapters(model: ModelDirectory, directory: str) -> ModelDirectory:
    """Merges the adapters of a directory into a model's kernels, and takes over their head.

    Args:
        model: the model that the adapters were trained on.
        directory: PEFT directory, written by bert_tf or another library.

    Raises:
        ValueError: files are missing or damaged, the adapters are of another kind, or do not match the model.
    """
    if os.path.realpath(directory) == os.path.realpath(model.path):
        raise ValueError(
            f"The adapters in {directory} are merged whenever this directory is loaded. Omit `adapter`, or pass the "
            "file of the weights as `model`."
        )
    peft = read_peft(directory, model.config.model_type, model.config.tie_word_embeddings)
    peft.check({name: array.shape for name, array in model.arrays.items()}, model.path)
    arrays = {**model.arrays, **peft.others} | _first_layers(model, peft.others, peft.path)
    arrays |= {kernel: peft.merge_into(kernel, arrays[kernel]) for kernel in peft.pairs}
    logging.info(
        "Merged %d adapters from %s; loaded %d other weights from it.",
        *(len(peft.pairs), peft.path, len(peft.others)),
    )
    model = dataclasses.replace(model, arrays=arrays)
    return model if all(name.startswith("bert/") for name in peft.others) else _with_head(model, directory)


def _first_layers(model, others, path):
    """Returns the first layers of the adapter's head, if it lacks them because the model's masked-LM head has them."""
    head = next((head for head in WITH_FIRST_LAYERS if f"{head}/output_weights" in others), None)
    kernel = f"{head}/dense/kernel"
    if not model.config.head_norm or head is None or kernel in others or kernel in model.arrays:
        return {}
    sources = first_layers(model.arrays)
    if not sources:
        raise ValueError(
            f"{path} must contain every head layer that the base model lacks. Neither has {kernel}; pass the "
            "checkpoint that the adapter was trained on as `model`, or train it with `head` in `modules_to_save`."
        )
    return {name: model.arrays[source] for name, source in sources.items() if name.startswith(f"{head}/")}


def _name_map(config, classes=()):
    return family_mappings.hugging_face(config.model_type, config.tie_word_embeddings, classes)


def _architecture(paths, task):
    """Returns the Transformers class with the heads at our `paths`, the task's own if several have them."""
    fitting = [each.ending for each in ARCHITECTURES if each.reads_pooler == task.uses_pooler]
    return architecture_of(paths, [task.architecture] if task.architecture else fitting)


def _peft(weight_mapping, arrays, rank):
    """Returns {PEFT's name: array in torch's orientation} for our weights.

    In PEFT, a weight that contains several of ours has one adapter. Below each other, our A are its A; its B has ours
    on its diagonal. All adapters of a file have one rank, to which the others are filled up with zeros.
    """
    named, modules = {}, {}
    for path, array in arrays.items():
        if not is_adapter(path):
            array = array.T if weight_mapping.transposed(path) else array
            named[f"{PREFIX}{weight_mapping.from_ours(path)}"] = np.ascontiguousarray(array)
        elif path.endswith(NAMES[0]):
            kernel = f"{path.rpartition('/')[0]}/kernel"
            modules.setdefault(weight_mapping.from_ours(kernel).removesuffix(".weight"), []).append(kernel)
    whole = rank * max(map(len, modules.values()), default=0)
    for module, kernels in modules.items():
        kernels = sorted(kernels, key=lambda kernel: weight_mapping.transform(kernel).part)
        pairs = [[arrays[f"{kernel.rpartition('/')[0]}/{name}"] for name in NAMES] for kernel in kernels]
        (width, _), (_, size) = (array.shape for array in pairs[0])
        a = np.zeros((whole, width), np.float32)
        b = np.zeros((weight_mapping.transform(kernels[0]).parts * size, whole), np.float32)
        for n, (kernel, pair) in enumerate(zip(kernels, pairs, strict=True)):
            start, own = weight_mapping.transform(kernel).part * size, slice(n * rank, (n + 1) * rank)
            a[own], b[start : start + size, own] = (array.T for array in pair)
        named |= {f"{PREFIX}{module}.{name}.weight": array for name, array in zip(NAMES, (a, b), strict=True)}
    return named


def _settings(lora: Lora, named: Mapping[str, np.ndarray], base, kind: str | None) -> dict[str, Any]:
    """Returns adapter_config.json; modules are named by their ends, which is how PEFT looks for them.

    `kind` is the class of Transformers with the model's head, or None.
    """
    rank = next(len(array) for name, array in named.items() if name.endswith(LORA_ENDS[0]))
    modules = {name.removeprefix(PREFIX).rpartition(".")[0] for name in named}
    adapted = {module.rpartition(".")[0] for module in modules if module.endswith(NAMES)}
    ends = {re.split(r"\.\d+\.", module)[-1] for module in adapted}  # behind the layer's number
    return {
        "peft_type": "LORA",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": lora.alpha * (rank // lora.rank),
        "lora_dropout": 0.0,
        "target_modules": sorted(ends),
        "modules_to_save": sorted(module for module in modules if not module.endswith(NAMES)),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "task_type": None,
        "auto_mapping": kind and {"base_model_class": kind, "parent_library": "transformers"},
    }


def _with_head(model, directory):
    """Takes labels and task from the adapter directory, whose head replaces the model's.

    PEFT writes no labels: the model's are kept if they match the head's outputs; otherwise there are none.
    """
    bias, labels = model.arrays.get("classifier/output_bias"), model.labels
    if os.path.exists(os.path.join(directory, LABELS_FILE)):
        labels = read_labels(directory, model.config)
    elif bias is None:
        labels = None
    elif len(bias) != len(labels or ()):
        labels = default_labels(len(bias)) if len(bias) > 1 else None
    extra = {name: value for name, value in model.config.extra.items() if name not in ("id2label", "label2id")}
    config = dataclasses.replace(model.config, extra=extra)
    return dataclasses.replace(model, config=config, labels=labels, task=task_in(directory))
