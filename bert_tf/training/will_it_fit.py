"""Will it fit? What a step needs beside what the device has: `--dry_run`, and the warning when training begins."""

import resource

import tensorflow as tf
from absl import logging
from tensorflow.python.client import device_lib

from bert_tf.models.config import EncoderConfig
from bert_tf.training.memory import FLOAT32, StepShape, encoder_parameters, estimate, largest_micro_batch
from bert_tf.utils.memory_limits import free_memory, group_limits, kilobytes

_LESS = "`rematerialize`, `precision=mixed_bfloat16` or a smaller `max_seq_length` need less"


def available_memory() -> int:
    """Returns the bytes that training may take on one device, counted as `memory.estimate` counts them.

    Of GPUs the least that TensorFlow reserved on one. Of a CPU the least of what Linux has free or would free, of what
    the control group (a container) allows and of RLIMIT_AS; what this process has already is counted in, as it is in
    the estimate. Several devices made of one CPU share it.
    """
    if tf.config.list_logical_devices("GPU"):
        return min(d.memory_limit for d in device_lib.list_local_devices() if d.device_type == "GPU")
    limits = [free_memory(), *group_limits()]
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:  # of addresses, of which a process has more than it uses
        limits.append(limit - kilobytes("/proc/self/status", "VmSize") + kilobytes("/proc/self/status", "VmRSS"))
    return min(limits) // len(tf.config.list_logical_devices("CPU"))


def describe(step: StepShape, available: int) -> str:
    """Returns the lines that `--dry_run` prints.

    Args:
        available: bytes on a device, of `available_memory`.
    """
    needed, each = estimate(step), step.rows_per_example
    rows_of_step = step.batch_size * each
    rows = [
        ("does it fit?", "yes" if needed.peak <= available else "no: see the last line"),
        ("parameters", f"{step.parameters:,}"),
        ("peak memory, estimated", _size(needed.peak) + (" on each device" if step.replicas > 1 else "")),
        ("  weights", _size(needed.weights) + (", the teacher's too" if step.teacher else "")),
        ("  optimizer", _size(needed.optimizer)),
        ("  gradients", _size(needed.gradients)),
        ("  activations", f"{_size(needed.activations)}, of {step.micro_batch * each:,} rows at a time"),
        ("  TensorFlow itself", _size(needed.runtime)),
        ("memory available", _size(available)),
        (
            "tokens per step",
            f"{rows_of_step * step.max_seq_length:,}: {rows_of_step:,} rows of {step.max_seq_length}",
        ),
        ("micro-batch that fits", _fitting(step, available)),
    ]
    return "\n".join(f"{name:<26}{value}" for name, value in rows)


def _fitting(step, available):
    rows = largest_micro_batch(step, available)
    if not rows:
        return f"none, not even one row; {_LESS}"
    parts = step.with_micro_batch(rows).accumulation
    return f"{rows * step.rows_per_example:,} rows: `gradient_accumulation_steps={parts}`"


def check_weights(config: EncoderConfig, available: int):
    """Raises ValueError where the encoder's weights alone are more than the memory, before anything is built.

    Args:
        config: of the encoder.
        available: bytes on a device, of `available_memory`.
    """
    numbers = encoder_parameters(config)
    if numbers * FLOAT32 > available:
        fields = ("vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size", "max_position_embeddings")
        raise ValueError(
            f"The weights of a model must fit the memory, of which {_size(available)} are available. Received a "
            f"configuration of {numbers:,} numbers, {_size(numbers * FLOAT32)}: "
            f"{', '.join(f'{name} {getattr(config, name)}' for name in fields)}; correct it, or take a larger machine."
        )


def warn_if_too_large(step: StepShape, available: int):
    """Warns before the first step of a training on a CPU that will hardly fit.

    A GPU that is full makes TensorFlow raise an error, after which the step is cut smaller (`out_of_memory.py`); Linux
    kills the process instead, without a word.
    """
    needed = estimate(step).peak
    if tf.config.list_logical_devices("GPU") or needed <= available:
        return
    rows = largest_micro_batch(step, available)
    logging.warning(
        "A step is estimated to need %s of memory and %s are available: Linux may kill this process. %s",
        *(_size(needed), _size(available)),
        f"Set `gradient_accumulation_steps={step.with_micro_batch(rows).accumulation}`." if rows else f"{_LESS}.",
    )


def _size(count):
    """Returns bytes as a person reads them: "87 MB", "2.8 GB"."""
    megabytes = count / 2**20
    return f"{megabytes / 1024:,.1f} GB" if megabytes >= 1000 else f"{megabytes:.0f} MB"
