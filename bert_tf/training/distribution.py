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


def deal(batch):
    """Gives each replica of the current strategy its equal share of the rows of `batch`, in order."""
    strategy = tf.distribute.get_strategy()
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        return batch

    def share(context):
        r = context.replica_id_in_sync_group
        return {k: v[r * len(v) // replicas : (r + 1) * len(v) // replicas] for k, v in batch.items()}

    return strategy.experimental_distribute_values_from_function(share)


def collect(values):
    """Puts the replicas' rows back together: the inverse of `deal`, as numpy."""
    return tf.concat(tf.distribute.get_strategy().experimental_local_results(values), 0).numpy()
