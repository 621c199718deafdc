"""Micro-batches: a batch split into smaller ones, whose results are joined.

If the first step does not fit in memory, the same batch is split into smaller micro-batches.
"""

import tensorflow as tf
from absl import logging


def split_batch(values, parts):
    """Returns a function from a micro-batch's index to its share of tensors [B, ...]."""
    split = tf.nest.map_structure(lambda v: tf.reshape(v, tf.concat([[parts, -1], tf.shape(v)[1:]], 0)), values)
    return lambda index: tf.nest.map_structure(
        lambda v, whole: tf.ensure_shape(v[index], [None, *whole.shape[1:]]), split, values
    )


def join_results(micro_step, parts, like):
    """Returns the results of micro_step(index) of all `parts` micro-batches, [B, ...], in the structure of `like`."""
    kinds = tf.nest.map_structure(lambda each: tf.TensorSpec([None] * len(each.shape), each.dtype), like)
    found = tf.map_fn(micro_step, tf.range(parts), fn_output_signature=kinds, parallel_iterations=1)

    def join(values, whole):
        joined = tf.reshape(values, tf.concat([[-1], tf.shape(values)[2:]], 0))
        return tf.ensure_shape(joined, [None, *whole.shape[1:]])

    return tf.nest.map_structure(join, found, like)


def micro_batches(rows: int) -> list[int]:
    """Returns the micro-batch sizes that divide a replica's `rows`, largest first, starting with `rows` itself."""
    return [size for size in range(rows, 0, -1) if rows % size == 0]


def more_parts(batch_size, replicas, parts, error):
    """Returns the number of micro-batches for a retry, with micro-batches at most half as large.

    Raises:
        ValueError: micro-batches already have only one sequence.
    """
    rows = batch_size // replicas
    smaller = [size for size in micro_batches(rows) if size < rows // parts and size <= (rows // parts + 1) // 2]
    if not smaller:
        raise ValueError(
            f"Out of memory even with one sequence at a time; {_how(error)}"
            "shorten the sequences, pass `gradient_checkpointing` or `precision=mixed_bfloat16`, or use a smaller "
            "model."
        ) from error
    logging.warning(
        "Out of memory in the first step, with %d sequences at a time on each device (%s). Trying again with %d, as "
        "with `gradient_accumulation_steps=%d` instead of %d. The global batch size stays %d.",
        *(rows // parts, _how(error).rstrip("; "), smaller[0], rows // smaller[0], parts, batch_size),
    )
    return rows // smaller[0]


def _how(error):
    """Returns TensorFlow's own message about the tensor that did not fit, or an empty string."""
    lines = [line.strip() for line in str(error.message).splitlines() if "OOM" in line or "ut of memory" in line]
    return f"{lines[0][:200]}; " if lines else ""
