"""Devices: which strategy a name stands for, and how a batch is dealt out to the replicas."""

import tensorflow as tf
from absl import logging

STRATEGIES = ("default", "mirrored")


def make_strategy(name: str = "default") -> tf.distribute.Strategy:
    """Returns the tf.distribute strategy called `name`: one device, or every GPU of this machine (every CPU without).

    Raises:
        ValueError: no strategy has that name.
    """
    if name == "default":
        return tf.distribute.get_strategy()
    if name != "mirrored":
        raise ValueError(f"The distribution strategy must be one of {STRATEGIES}. Received: {name!r}.")
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(devices) == 1:
        logging.warning("--distribution_strategy=mirrored has one device to mirror on: %s.", devices[0].name)
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def xla_by_default() -> bool:
    """Says whether XLA pays on this machine: yes with a GPU or TPU; on a CPU oneDNN is faster in bfloat16."""
    return bool(tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("TPU"))


def check_batch_size(batch_size: int, parts: int, flag: str):
    """Raises ValueError where a global batch cannot be dealt out evenly."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if batch_size < 1 or batch_size % (replicas * parts):
        raise ValueError(
            f"{flag} must be a multiple of {replicas} (replicas) x {parts} (--gradient_accumulation_steps). "
            f"Received: {batch_size}."
        )


def share(batch):
    """Inside a replica: returns its equal share of the rows of the global batch, in order."""
    context = tf.distribute.get_replica_context()
    replicas, this = context.num_replicas_in_sync, context.replica_id_in_sync_group
    if replicas == 1:
        return batch

    def part(values):
        rows = tf.shape(values)[0] // replicas
        return values[this * rows : (this + 1) * rows]

    return {name: part(values) for name, values in batch.items()}


def traced_once(function):
    """Makes a tf.function of function(batch) with one graph for all batches, whatever their rows and width.

    Left alone, tf.function makes a graph for the first batch's own width, and another for all other widths. The two
    round differently, so what a batch gives would depend on which batch came first: a run that was resumed would part
    from one that never stopped.
    """
    graphs = {}

    def call(batch):
        names = tuple(sorted(batch))
        if names not in graphs:
            spec = {name: tf.TensorSpec([None] * len(v.shape), v.dtype) for name, v in batch.items()}
            graphs[names] = tf.function(function, input_signature=[spec])
        return graphs[names](batch)

    return call


def collect(values):
    """Puts the replicas' rows back together: the inverse of `share`, as numpy."""
    return tf.concat(tf.distribute.get_strategy().experimental_local_results(values), 0).numpy()
