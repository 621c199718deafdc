"""The first step of a run that does not fit: the same batch, in smaller pieces."""

import tensorflow as tf
from absl import logging

from bert_tf.training import cluster


def micro_batches(rows: int) -> list[int]:
    """Returns the sizes that a replica's `rows` can be cut into evenly, the largest, `rows` itself, first."""
    return [size for size in range(rows, 0, -1) if rows % size == 0]


def first_step(step, batch) -> dict:
    """Makes the first step of this process, and where memory runs out, makes it again with half the micro-batch.

    The global batch stays what it was: a step's result does not depend on how it is cut but for rounding and for the
    dropout masks. Where a run that was cut smaller is resumed, its first step runs out of memory again and is cut
    again: with the same memory it makes the same steps.

    Nothing has moved when a step is made again. A step whose gradients are not all there moves nothing, since
    `TrainStep` lets everything that it assigns wait for their norm; and one that ran out of memory later, while
    variables moved, is not made again.

    Args:
        step: a `TrainStep`.
        batch: for it, dict of tensors [B, ...].

    Returns:
        What `step` returns.

    Raises:
        ValueError: not even micro-batches of one row fit.
        tf.errors.ResourceExhaustedError: memory ran out in one of several workers, which must all cut alike, or while
            variables moved.
    """
    while True:
        try:
            results = step(batch)
            float(results["loss"])  # waits for the device, whose errors come late
            return results
        except tf.errors.ResourceExhaustedError as error:
            if cluster.num_workers() > 1 or step.has_moved():
                raise
            _cut(step, next(iter(batch.values())).shape[0], error)


def _cut(step, batch_size, error):
    """Makes the micro-batch half as large, or somewhat less than half where the rows cannot be dealt out so."""
    replicas = step.strategy.num_replicas_in_sync
    rows, parts = batch_size // replicas, step.config.accumulation
    smaller = [size for size in micro_batches(rows) if size < rows // parts and size <= (rows // parts + 1) // 2]
    if not smaller:
        raise ValueError(
            f"A step must fit in memory. Received: out of memory with one row at a time; {_how(error)}"
            "shorten the rows, pass `rematerialize` or `precision=mixed_bfloat16`, or take a smaller model."
        ) from error
    logging.warning(
        "Out of memory in the first step, with %d rows at a time on each device (%s). Trying again with %d: as with "
        "`gradient_accumulation_steps=%d` instead of %d. The global batch stays %d rows.",
        *(rows // parts, _how(error).rstrip("; "), smaller[0], rows // smaller[0], parts, batch_size),
    )
    step.accumulate(rows // smaller[0])


def _how(error):
    """Returns TensorFlow's own words, which name the tensor that did not fit, or nothing where it has none."""
    lines = [line.strip() for line in str(error.message).splitlines() if "OOM" in line or "ut of memory" in line]
    return f"{lines[0][:200]}; " if lines else ""
