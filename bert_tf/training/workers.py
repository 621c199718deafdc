"""The workers of a run, its processes: the chief, and values that must be equal on all."""

import functools

import tensorflow as tf


def num_workers() -> int:
    """Returns the number of worker processes of the current strategy."""
    strategy = tf.distribute.get_strategy()
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 1
    return strategy.num_replicas_in_sync // len(strategy.extended.worker_devices)


def is_chief(strategy: tf.distribute.Strategy | None = None) -> bool:
    """Returns whether this process is the chief, which writes the files; by default under the current strategy."""
    return (strategy or tf.distribute.get_strategy()).extended.should_checkpoint


def total(values) -> list[float]:
    """Returns the sums over all workers of a list of numbers, exact below 2^53; all must call it at the same point."""
    if num_workers() == 1:
        return [float(value) for value in values]
    return _summing(tf.distribute.get_strategy())(tf.cast(values, tf.float64)).numpy().tolist()


def by_chief(function, *args):
    """Lets the chief call function(*args) while the others wait until it is done; all must call it at the same point.

    Raises:
        ValueError: on the other workers, if it failed on the chief; the chief raises the function's own error.
    """
    error = None
    if is_chief():
        try:
            function(*args)
        except Exception as raised:  # any error: the other workers must be notified
            error = raised
    (failed,) = total([error is not None])
    if error is not None:
        raise error
    if failed:
        raise ValueError("The chief worker could not write its output; see its log.")


def check_equal_on_workers(value: int, what: str):
    """Raises ValueError unless all workers have the chief's `value`; all must call it at the same point.

    Args:
        value: below 2^53.
        what: name of the value for the message.
    """
    (chiefs,) = total([value if is_chief() else 0])
    (differing,) = total([value != chiefs])
    if differing:
        raise ValueError(
            f"All workers must have the same {what}: {value} on this worker, {int(chiefs)} on the chief. Start all of "
            "them with the same flags and files, and with one `output_dir` on a shared disk."
        )


@functools.cache
def _summing(strategy):
    """Returns a tf.function of float64 [n] -> its sum over the workers; only each worker's first device contributes."""
    devices = len(strategy.extended.worker_devices)

    def replica(values):
        context = tf.distribute.get_replica_context()
        speaks = tf.cast(tf.equal(context.replica_id_in_sync_group % devices, 0), values.dtype)
        return context.all_reduce(tf.distribute.ReduceOp.SUM, values * speaks)

    return tf.function(
        lambda v: strategy.experimental_local_results(strategy.run(replica, args=(v,)))[0], autograph=False
    )
