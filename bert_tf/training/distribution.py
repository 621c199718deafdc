"""Distribution strategies, the chief worker, sums over workers, and splitting a batch among replicas."""

import functools
import json
import os
import re

import tensorflow as tf
from absl import logging

from bert_tf.utils.names import AUTO, STRATEGIES, number_of
from bert_tf.utils.proxies import describe_proxy, exempt_local
from bert_tf.utils.resources import best_precision, has_nvidia_gpu

_BFLOAT16_GPU = (8, 0)  # the lowest compute capability of an NVIDIA GPU that multiplies in bfloat16 (Ampere)

# === Strategy ===
# Strategy names and the devices that each needs.


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


def warn_of_unused_gpu():
    """Logs a warning if the machine has an NVIDIA GPU that TensorFlow does not use, as without CUDA's libraries.

    Call it after `make_strategy`, which must be the first to use TensorFlow.
    """
    if has_nvidia_gpu() and not tf.config.list_physical_devices("GPU"):
        logging.warning(
            "This machine has an NVIDIA GPU, but TensorFlow does not find it: everything runs on the CPU. "
            "`bert-tf doctor` says what is missing."
        )


# From this number of examples on, XLA saves more time on a GPU than it takes to compile: on an H200, 74 s for a step of
# BERT-base with each of up to four sequence lengths, and then 1,355 rows of 128 tokens a second instead of 600.
_EXAMPLES_FOR_XLA = 400_000


def uses_xla(use_xla: str, examples: float) -> bool:
    """Returns whether steps are compiled with XLA; "auto": if that pays off. On a CPU, oneDNN is faster in bfloat16.

    Call it after `make_strategy`, which must be the first to use TensorFlow.

    Args:
        use_xla: one of `names.USE_XLA`.
        examples: how many the run trains on, over all epochs, or else evaluates and predicts.
    """
    if use_xla != AUTO:
        return use_xla == "true"
    if not examples or not tf.config.list_logical_devices("GPU"):
        return False
    pays = examples >= _EXAMPLES_FOR_XLA
    logging.info(
        "`use_xla=auto`: XLA is %s because %s examples are %s to make up for the compilation time.",
        *("on" if pays else "off", f"{examples:,.0f}", "enough" if pays else "too few"),
    )
    return pays


def fastest_precision(is_tpu: bool = False) -> tuple[str, str]:
    """Returns the precision that is fastest on this machine's devices without scaling the loss, and the reason.

    It is "mixed_bfloat16" where the devices multiply in bfloat16, otherwise "float32". That depends on the hardware
    alone, so that the same command computes the same on the same machine.
    """
    if is_tpu:
        return "mixed_bfloat16", "because a TPU multiplies in bfloat16"
    if not (gpus := tf.config.list_physical_devices("GPU")):
        best = best_precision()
        return best, f"because the CPU {'multiplies' if best != 'float32' else 'does not multiply'} in bfloat16"
    details = tf.config.experimental.get_device_details
    oldest = min(details(gpu).get("compute_capability") or (0, 0) for gpu in gpus)
    if oldest >= _BFLOAT16_GPU:
        return "mixed_bfloat16", "because the GPU multiplies in bfloat16"
    return "float32", "because the GPU does not multiply in bfloat16; `precision=mixed_float16` may be faster"


def check_batch_size(batch_size: int, parts: int, flag: str):
    """Raises ValueError if a global batch cannot be split evenly."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if batch_size < 1 or batch_size % (replicas * parts):
        raise ValueError(
            f"{flag} must be a positive multiple of {replicas * parts}: {number_of(replicas, 'replica')} times "
            f"`gradient_accumulation_steps={parts}`. Got {batch_size}."
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
        name: name of a Cloud TPU, or its address "grpc://host:port"; None: the TPUs of this machine, a TPU VM.
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
            "`worker_hosts` must be different host:port pairs and `task_index` the index of one of them, from 0. "
            f"Got `worker_hosts={','.join(hosts)}` `task_index={index}`."
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


# === Workers ===
# Several processes of one run: the chief, and values that must be equal on all.


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
            f"All workers must have the same {what}: {value} here, {int(chiefs)} on the chief. Start all of them "
            "with the same flags and files, and with one `output_dir` on a shared disk."
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


# === Replicas ===
# Splitting a global batch among replicas, and joining their results.


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


def build_graphs(function, fixed_shapes=False):
    """Returns a function that maps a batch to the tf.function of `function` for batches with its structure.

    One graph serves all batches, regardless of batch size and width. By default, tf.function would make one graph for
    the first batch's width, and another for all other widths. The two round differently, so a batch's results would
    depend on which batch came first, and a resumed run would diverge from one that never stopped.

    On a TPU, each shape still gets its own graph, because XLA must know the shape. The same goes for `fixed_shapes`,
    for batches that are all alike: `models/layers.py` is faster in a graph with known shapes.
    """
    graphs, fixed = {}, fixed_shapes or isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)

    def graph_of(batch):
        shapes = {name: tuple(v.shape) if fixed else (None,) * len(v.shape) for name, v in sorted(batch.items())}
        key = tuple(shapes.items())
        if key not in graphs:
            spec = {name: tf.TensorSpec(shape, batch[name].dtype) for name, shape in shapes.items()}
            graphs[key] = tf.function(function, input_signature=[spec], autograph=False)
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
