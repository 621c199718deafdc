"""Splitting a global batch among replicas, and joining their results."""

import functools

import tensorflow as tf

from bert_tf.training.workers import num_workers


def replica_share(batch):
    """Returns a replica's equal share of the global batch, in order; call it inside the replica.

    Replicas are counted across all workers, and every worker gets the whole global batch.
    """
    context = tf.distribute.get_replica_context()
    replicas, this = context.num_replicas_in_sync, context.replica_id_in_sync_group
    if replicas == 1:
        return batch

    def part(values):
        parts = tf.reshape(values, tf.concat([[replicas, -1], tf.shape(values)[1:]], 0))
        return tf.ensure_shape(parts[this], [None, *values.shape[1:]])

    return {name: part(values) for name, values in batch.items()}


def build_graphs(function, fixed_shapes=False, use_xla=False):
    """Returns a function that maps a batch to the tf.function of `function` for batches with its structure.

    One graph serves all batches, regardless of batch size and width. By default, tf.function would make one graph for
    the first batch's width, and another for all other widths. The two round differently, so a batch's results would
    depend on which batch came first, and a resumed run would diverge from one that never stopped.

    On a TPU, each shape still gets its own graph, because XLA must know the shape. The same goes for `fixed_shapes`,
    for batches that are all alike: `models/layers.py` is faster in a graph with known shapes. With `use_xla`, the graph
    is compiled as one program for each shape that it meets.
    """
    graphs, fixed = {}, fixed_shapes or isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)

    def graph_of(batch):
        shapes = {name: tuple(v.shape) if fixed else (None,) * len(v.shape) for name, v in sorted(batch.items())}
        key = tuple(shapes.items())
        if key not in graphs:
            spec = {name: tf.TensorSpec(shape, batch[name].dtype) for name, shape in shapes.items()}
            graphs[key] = tf.function(function, input_signature=[spec], autograph=False, jit_compile=use_xla or None)
        return graphs[key]

    return graph_of


def collect(values):
    """Joins the rows of all replicas, on all workers, as numpy arrays: the inverse of `replica_share`.

    With several workers, all must call it at the same point.
    """
    strategy = tf.distribute.get_strategy()
    if num_workers() > 1:
        values = _gathering(strategy)(values)
        return strategy.experimental_local_results(values)[0].numpy()
    return tf.concat(strategy.experimental_local_results(values), 0).numpy()


@functools.cache
def _gathering(strategy):
    """Returns a tf.function of per-replica rows [b, ...] -> all rows [replicas * b, ...] in the order of the replicas.

    Computed as a sum with zeros at the others' indices, because TensorFlow does not guarantee the order of a gather.
    """

    def replica(values):
        context, shape = tf.distribute.get_replica_context(), tf.shape(values)
        this, last = context.replica_id_in_sync_group, context.num_replicas_in_sync - 1
        before, after = (
            tf.zeros(tf.concat([[count * shape[0]], shape[1:]], 0), values.dtype) for count in (this, last - this)
        )
        placed = tf.concat([before, values, after], 0)
        return context.all_reduce(tf.distribute.ReduceOp.SUM, placed)

    return tf.function(lambda values: strategy.run(replica, args=(values,)), reduce_retracing=True, autograph=False)
