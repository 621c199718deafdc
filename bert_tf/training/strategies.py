"""Distribution strategies by name, and the devices and machines that each needs."""

import json
import os
import re

import tensorflow as tf
from absl import logging

from bert_tf.utils.counts import number_of
from bert_tf.utils.names import STRATEGIES
from bert_tf.utils.proxies import describe_proxy, exempt_local


def make_strategy(name: str = "default", worker_hosts=(), task_index=None, tpu=()) -> tf.distribute.Strategy:
    """Returns the tf.distribute strategy called `name`.

    "default" is one device; "mirrored" uses every GPU of this machine (every CPU if it has no GPU); "multi_worker" uses
    the GPUs of several machines, and "tpu" the cores of a TPU. Create the last two before any other use of TensorFlow.

    Args:
        name: one of STRATEGIES.
        worker_hosts, task_index: for "multi_worker"; see `multi_worker`.
        tpu: (name, zone, project) for "tpu"; see `tpu_strategy`.

    Raises:
        ValueError: the name is unknown, or its machines cannot be reached.
    """
    if name == "default":
        return tf.distribute.get_strategy()
    if name == "multi_worker":
        return multi_worker(worker_hosts, task_index)
    if name == "tpu":
        return tpu_strategy(*tpu)
    if name != "mirrored":
        raise ValueError(f"The distribution strategy must be one of {STRATEGIES}; got {name!r}.")
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(devices) == 1:
        logging.warning("`distribution_strategy=mirrored` found only one device: %s.", devices[0].name)
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def check_batch_size(batch_size: int, parts: int, flag: str):
    """Raises ValueError if a global batch cannot be split evenly."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if batch_size < 1 or batch_size % (replicas * parts):
        raise ValueError(
            f"{flag} must be a positive multiple of {replicas * parts}: {number_of(replicas, 'replica')} times "
            f"`gradient_accumulation_steps={parts}`; got {batch_size}."
        )


def multi_worker(worker_hosts=(), task_index: int | None = None) -> tf.distribute.Strategy:
    """Joins the cluster, waits for all its workers, and returns the strategy over all their devices.

    Call it before any other use of TensorFlow. The cluster comes from the environment variable
    TF_CONFIG, as described in TensorFlow's guide to multi-worker training, unless the arguments describe one.

    Args:
        worker_hosts: "host:port" of every worker, in the same order everywhere; the first is the chief.
        task_index: this worker's index in `worker_hosts`, from 0.

    Raises:
        ValueError: neither describes a cluster that includes this process.
    """
    if worker_hosts or task_index is not None:
        _check_hosts(worker_hosts, task_index)
        task = {"type": "worker", "index": task_index}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": list(worker_hosts)}, "task": task})
    workers = _check_config(os.environ.get("TF_CONFIG"))
    exempt_local()
    logging.info("Waiting for %d workers to join: %s", len(workers), ", ".join(workers))
    for worker in workers:
        if via := describe_proxy(worker):  # a proxy that does not respond is waited for without a word
            logging.warning("Worker %s: %s", worker, via.strip())
    return tf.distribute.MultiWorkerMirroredStrategy()


def tpu_strategy(
    name: str | None = None, zone: str | None = None, project: str | None = None
) -> tf.distribute.Strategy:
    """Connects to a TPU, initializes it (erasing its state) and returns the strategy over its cores.

    Args:
        name: name of a Cloud TPU, or its address "grpc://host:port"; None for the TPUs of this machine, a TPU VM.
        zone, project: of the Cloud TPU, if they differ from this machine's.

    Raises:
        ValueError: no TPU was found.
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
            f"No TPU found for `distribution_strategy=tpu` with {f'`tpu_name={name}`' if name else 'no `tpu_name`'}: "
            f"{str(error).splitlines()[0]}. Start the command on a TPU VM, or name a TPU that can be reached."
        ) from error


def _check_hosts(hosts, index):
    valid = len(hosts) == len(set(hosts)) and all(re.fullmatch(r"\S+:\d+", host) for host in hosts)
    if not hosts or not valid or index is None or not 0 <= index < len(hosts):
        raise ValueError(
            "`worker_hosts` must be different host:port pairs and `task_index` the index of one of them, from 0; "
            f"got `worker_hosts={','.join(hosts)}` `task_index={index}`."
        )


def _check_config(text):
    """Returns host:port of all workers, the chief first."""
    try:
        cluster, task = (json.loads(text)[key] for key in ("cluster", "task"))
        jobs = {job: list(cluster.get(job, ())) for job in ("chief", "worker")}
        jobs[task["type"]][task["index"]]  # raises if this process is not in it
        return [*jobs["chief"], *jobs["worker"]]
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(
            "`distribution_strategy=multi_worker` requires `worker_hosts` and `task_index`, or the environment "
            'variable TF_CONFIG, such as {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": '
            f'"worker", "index": 0}}}}; got TF_CONFIG={text!r}.'
        ) from error
