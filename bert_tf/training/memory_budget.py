"""Memory needed against memory available: `--dry_run`, and the warning when training starts."""

import resource

import tensorflow as tf
from absl import logging

from bert_tf.models.config import EncoderConfig
from bert_tf.models.parameter_count import encoder_parameters
from bert_tf.training.memory import FLOAT32, StepShape, estimate, largest_micro_batch
from bert_tf.utils.memory import free_memory, group_limits, kilobytes
from bert_tf.utils.tensorflow_internals import gpu_memory_limits

_LESS = "`gradient_checkpointing`, `precision=mixed_bfloat16` or a smaller `max_seq_length` uses less memory"


def available_memory() -> int:
    """Returns the bytes available for training on one device, comparable with `memory.estimate`.

    For GPUs, this is the least that TensorFlow reserved on one. For a CPU, it is the least of what Linux has free or
    would free, the limit of the control group (a container) and RLIMIT_AS. The memory that this process already uses is
    included, as in the estimate. Several logical devices on one CPU share it.
    """
    if tf.config.list_logical_devices("GPU"):
        return min(gpu_memory_limits())
    limits = [free_memory(), *group_limits()]
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:  # of address space, of which a process has more than it uses
        limits.append(limit - kilobytes("/proc/self/status", "VmSize") + kilobytes("/proc/self/status", "VmRSS"))
    return min(limits) // len(tf.config.list_logical_devices("CPU"))


def describe_memory(step: StepShape, available: int) -> str:
    """Returns the memory report that `--dry_run` prints.

    Args:
        available: bytes on a device, of `available_memory`.
    """
    needed, each = estimate(step), step.rows_per_example
    rows_of_step = step.batch_size * each
    rows = [
        ("fits in memory", "yes" if needed.peak <= available else "no; see the last line"),
        ("parameters", f"{step.parameters:,}"),
        ("peak memory, estimated", _size(needed.peak) + (" on each device" if step.replicas > 1 else "")),
        ("  weights", _size(needed.weights) + (", including the teacher's" if step.teacher else "")),
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
    """Raises ValueError, before anything is built, if the encoder's weights alone exceed the memory.

    Args:
        config: configuration of the encoder.
        available: bytes on a device, of `available_memory`.
    """
    numbers = encoder_parameters(config)
    if numbers * FLOAT32 > available:
        fields = ("vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size", "max_position_embeddings")
        raise ValueError(
            f"The model does not fit in memory: {_size(available)} are available, but its {numbers:,} parameters take "
            f"{_size(numbers * FLOAT32)}: {', '.join(f'{name} {getattr(config, name)}' for name in fields)}. Check the "
            "configuration, or use a machine with more memory."
        )


def warn_if_too_large(step: StepShape, available: int):
    """Warns before the first step if training on a CPU will probably not fit in memory.

    When a GPU is full, TensorFlow raises an error, and the step is split (`TrainStep`); Linux
    instead kills the process without a message.
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
    """Formats bytes for people: "87 MB", "2.8 GB"."""
    megabytes = count / 2**20
    return f"{megabytes / 1024:,.1f} GB" if megabytes >= 1000 else f"{megabytes:.0f} MB"
