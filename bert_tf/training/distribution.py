"""Devices: which strategy a name stands for, and how a batch is dealt out to the replicas."""

import functools

import tensorflow as tf
from absl import logging

from bert_tf.training import cluster
from bert_tf.utils.names import STRATEGIES


def make_strategy(name: str = "default", worker_hosts=(), task_index=None, tpu=()) -> tf.distribute.Strategy:
    """Returns the tf.distribute strategy called `name`.

    "default" is one device; "mirrored" every GPU of this machine (every CPU without); "multi_worker" those of several
    machines, and "tpu" the cores of a TPU, both to be made before TensorFlow is used for anything else.

    Args:
        name: one of STRATEGIES.
        worker_hosts, task_index: of "multi_worker", as `cluster.multi_worker` takes them.
        tpu: (name, zone, project) of "tpu", as `cluster.tpu` takes them.

    Raises:
        ValueError: no strategy has that name, or its machines cannot be had.
    """
    if name == "default":
        return tf.distribute.get_strategy()
    if name == "multi_worker":
        return cluster.multi_worker(worker_hosts, task_index)
    if name == "tpu":
        return cluster.tpu(*tpu)
    if name != "mirrored":
        raise ValueError(f"The distribution strategy must be one of {STRATEGIES}. Received: {name!r}.")
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(devices) == 1:
        logging.warning("`distribution_strategy=mirrored` has one device to mirror on: %s.", devices[0].name)
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def xla_by_default() -> bool:
    """Says whether XLA pays on this machine: yes with a GPU; on a CPU oneDNN is faster in bfloat16.

    To be called after `make_strategy`, which must be the first to use TensorFlow.
    """
    return bool(tf.config.list_logical_devices("GPU"))


def check_batch_size(batch_size: int, parts: int, flag: str):
    """Raises ValueError where a global batch cannot be dealt out evenly."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if batch_size < 1 or batch_size % (replicas * parts):
        raise ValueError(
            f"{flag} must be a multiple of {replicas} (replicas) x {parts} (`gradient_accumulation_steps`). "
            f"Received: {batch_size}."
        )


def share(batch):
    """Inside a replica: returns its equal share of the rows of the global batch, in order.

    Replicas are counted over all workers, each of which is given the whole global batch.
    """
    context = tf.distribute.get_replica_context()
    replicas, this = context.num_replicas_in_sync, context.replica_id_in_sync_group
    if replicas == 1:
        return batch

    def part(values):
        parts = tf.reshape(values, tf.concat([[replicas, -1], tf.shape(values)[1:]], 0))
        return tf.ensure_shape(parts[this], [None, *values.shape[1:]])

    return {name: part(values) for name, values in batch.items()}


def traced_once(function, fixed_shapes=False):
    """Makes a tf.function of function(batch) with one graph for all batches, whatever their rows and width.

    Left alone, tf.function makes a graph for the first batch's own width, and another for all other widths. The two
    round differently, so what a batch gives would depend on which batch came first: a run that was resumed would part
    from one that never stopped.

    On a TPU each shape has its own graph all the same: XLA must know it. So it is with `fixed_shapes`, for batches that
    are all alike: where a graph knows them, `models/numerics.py` makes it faster.
    """
    graphs, fixed = {}, fixed_shapes or isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)

    def call(batch):
        shapes = {name: tuple(v.shape) if fixed else (None,) * len(v.shape) for name, v in sorted(batch.items())}
        key = tuple(shapes.items())
        if key not in graphs:
            spec = {name: tf.TensorSpec(shape, batch[name].dtype) for name, shape in shapes.items()}
            graphs[key] = tf.function(function, input_signature=[spec])
        return graphs[key](batch)

    return call


def collect(values):
    """Puts the replicas' rows back together, those of other workers too: the inverse of `share`, as numpy.

    With several workers all must call it at the same point.
    """
    strategy = tf.distribute.get_strategy()
    if cluster.num_workers() > 1:
        values = _gathering(strategy)(values)
        return strategy.experimental_local_results(values)[0].numpy()
    return tf.concat(strategy.experimental_local_results(values), 0).numpy()


@functools.cache
def _gathering(strategy):
    """Returns a tf.function of per-replica rows [b, ...] -> all rows [replicas * b, ...] in the order of the replicas.

    A sum, in which each puts zeros in the others' places: TensorFlow does not promise in what order it gathers.
    """

    def replica(values):
        context, shape = tf.distribute.get_replica_context(), tf.shape(values)
        this, last = context.replica_id_in_sync_group, context.num_replicas_in_sync - 1
        before, after = (
            tf.zeros(tf.concat([[count * shape[0]], shape[1:]], 0), values.dtype) for count in (this, last - this)
        )
        placed = tf.concat([before, values, after], 0)
        return context.all_reduce(tf.distribute.ReduceOp.SUM, placed)

    return tf.function(lambda values: strategy.run(replica, args=(values,)), reduce_retracing=True)
