"""Training on several machines: joining the cluster, the worker that writes, and sums over all workers."""

import functools
import json
import os
import re

import tensorflow as tf
from absl import logging


def multi_worker(worker_hosts=(), task_index: int | None = None) -> tf.distribute.Strategy:
    """Joins the cluster, waits for all its workers, and returns the strategy over all their devices.

    To be called before TensorFlow has been used for anything else. The cluster is that of the environment variable
    TF_CONFIG, as TensorFlow's guide to multi-worker training has it, unless the arguments describe one.

    Args:
        worker_hosts: "host:port" of every worker, in the same order everywhere; the first is the chief.
        task_index: which of them this one is, from 0.

    Raises:
        ValueError: neither describes a cluster that this process is in.
    """
    if worker_hosts or task_index is not None:
        _check_hosts(worker_hosts, task_index)
        task = {"type": "worker", "index": task_index}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": list(worker_hosts)}, "task": task})
    workers = _check_config(os.environ.get("TF_CONFIG"))
    logging.info("Waiting for %d workers to join: %s", len(workers), ", ".join(workers))
    return tf.distribute.MultiWorkerMirroredStrategy()


def tpu(name: str | None = None, zone: str | None = None, project: str | None = None) -> tf.distribute.Strategy:
    """Connects to a TPU, initializes it (what it held is lost) and returns the strategy over its cores.

    Args:
        name: of a Cloud TPU, or its address "grpc://host:port"; None: the TPUs of this machine, a TPU VM.
        zone, project: of the Cloud TPU, where they are not this machine's own.

    Raises:
        ValueError: there is none.
    """
    logging.info("Connecting to the TPU %s", name or "of this machine")
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(name or "local", zone=zone, project=project)
        if name:
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except (tf.errors.OpError, ImportError, OSError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"`distribution_strategy=tpu` must find a TPU. Received {f'`tpu_name={name}`' if name else 'no `tpu_name`'}"
            f", and: {str(error).splitlines()[0]}; start on a TPU VM, or name a TPU that can be reached."
        ) from error


def num_workers() -> int:
    """Returns how many processes the current strategy trains in."""
    strategy = tf.distribute.get_strategy()
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 1
    return strategy.num_replicas_in_sync // len(strategy.extended.worker_devices)


def is_chief(strategy: tf.distribute.Strategy | None = None) -> bool:
    """Says whether this process is the one that writes, under the strategy given or else the current one."""
    return (strategy or tf.distribute.get_strategy()).extended.should_checkpoint


def total(values) -> list[float]:
    """Returns the sums over all workers of a list of numbers, exact below 2^53; all must call it at the same point."""
    if num_workers() == 1:
        return [float(value) for value in values]
    return _summing(tf.distribute.get_strategy())(tf.cast(values, tf.float64)).numpy().tolist()


def by_chief(function, *args):
    """Lets the chief call function(*args) while the others wait until it is done; all must call it at the same point.

    Raises:
        ValueError: in the others, where it failed in the chief, in which the function's own error is raised.
    """
    error = None
    if is_chief():
        try:
            function(*args)
        except Exception as raised:  # whatever it is, the others must hear of it
            error = raised
    (failed,) = total([error is not None])
    if error is not None:
        raise error
    if failed:
        raise ValueError("The chief of the workers must be able to write. Received an error there; see its log.")


def check_equal_on_workers(value: int, what: str):
    """Raises ValueError unless `value` is that of the chief in every worker; all must call it at the same point.

    Args:
        value: below 2^53.
        what: says in the message what it is.
    """
    (chiefs,) = total([value if is_chief() else 0])
    (differing,) = total([value != chiefs])
    if differing:
        raise ValueError(
            f"All workers must have the same {what}. Received {value} here and {int(chiefs)} at the chief; give them "
            "one `output_dir`, on a disk that all of them share, and the same flags and files."
        )


@functools.cache
def _summing(strategy):
    """Returns a tf.function of float64 [n] -> its sum over the workers; the first device of each speaks for it."""
    devices = len(strategy.extended.worker_devices)

    def replica(values):
        context = tf.distribute.get_replica_context()
        speaks = tf.cast(tf.equal(context.replica_id_in_sync_group % devices, 0), values.dtype)
        return context.all_reduce(tf.distribute.ReduceOp.SUM, values * speaks)

    return tf.function(lambda v: strategy.experimental_local_results(strategy.run(replica, args=(v,)))[0])


def _check_hosts(hosts, index):
    valid = len(hosts) == len(set(hosts)) and all(re.fullmatch(r"\S+:\d+", host) for host in hosts)
    if not hosts or not valid or index is None or not 0 <= index < len(hosts):
        raise ValueError(
            "`worker_hosts` must be different host:port pairs and `task_index` the index of one of them, from 0. "
            f"Received: `worker_hosts={','.join(hosts)}` `task_index={index}`."
        )


def _check_config(text):
    """Returns host:port of all workers, the chief first."""
    try:
        cluster, task = (json.loads(text)[key] for key in ("cluster", "task"))
        jobs = {job: list(cluster.get(job, ())) for job in ("chief", "worker")}
        jobs[task["type"]][task["index"]]  # is this process in it?
        return [*jobs["chief"], *jobs["worker"]]
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(
            "`distribution_strategy=multi_worker` must know its cluster: by `worker_hosts` and `task_index`, or by the "
            'environment variable TF_CONFIG, such as {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": '
            f'"worker", "index": 0}}}}. Received TF_CONFIG={text!r}.'
        ) from error
