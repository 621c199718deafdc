"""One training step: batch -> loss -> gradients -> clipped -> applied, on one replica of one or of many."""

import dataclasses
import functools

import tensorflow as tf
from absl import logging

from bert_tf.data.packed_rows import lay_out
from bert_tf.models.encoder_replacement import replace_encoder
from bert_tf.models.training_ops import seed_scope
from bert_tf.training import cluster
from bert_tf.training.loss_spike_guard import Guard, GuardConfig, first_broken
from bert_tf.utils.names import STRATEGIES

# === Distribution ===
# Devices: which strategy a name stands for, and how a batch is dealt out to the replicas.


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


def replica_share(batch):
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
    are all alike: where a graph knows them, `models/layers.py` makes it faster.
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
    """Puts the replicas' rows back together, those of other workers too: the inverse of `replica_share`, as numpy.

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

    A sum, in which each has zeros at the others' indices: TensorFlow does not promise in what order it gathers.
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


# === Out of memory ===
# The first step of a run that does not fit: the same batch, in smaller parts.


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


# === Step ===


_FIRST_LOSS_SCALE = 2.0**15
_STEPS_TO_GROW = 2000  # after so many finite steps the loss scale doubles (Micikevicius et al. 2018, section 3.2)


@dataclasses.dataclass(frozen=True)
class StepConfig:
    """The settings of a training step that no task decides.

    Attributes:
        seed: of every dropout mask; masks are a function of (seed, step, replica, micro-batch).
        accumulation: micro-batches that one step is cut into; the step's result does not depend on it but for rounding.
        clip_norm: the gradients' global norm is at most this (BERT: 1.0); 0: they are taken as they are.
        use_xla: compile forward and backward, as one XLA program inside each replica.
        scale_loss: multiply the loss so that float16 gradients do not vanish, and skip the steps where they overflow.
        fixed_shapes: batches are all of one shape, or of a few, and the graph may be made for it.
        guard: which losses are so bad that their step is skipped; None: every step is made.
        pack_examples: encoders put the short texts of a batch into common rows, where a fifth of it is padding.
    """

    seed: int = 0
    accumulation: int = 1
    clip_norm: float = 1.0
    use_xla: bool = False
    scale_loss: bool = False
    fixed_shapes: bool = False
    guard: GuardConfig | None = None
    pack_examples: bool = False


def _packing(encoder):
    """Returns an encoder's training pass in which short texts share rows."""

    def encode(features):
        rows = lay_out(features)
        packed = {name: values for name, values in rows.features.items() if name != "position_ids"}
        packed["sentence_ids"] += tf.zeros_like(packed["input_ids"])  # of rows with one text it is [R, 1]
        outputs = encoder(packed, training=True)
        outputs = tf.nest.map_structure(
            lambda x: rows.to_batch(tf.reshape(x, [-1, x.shape[-1]])) if x.shape.rank == 3 else x, outputs
        )
        vectors = encoder.text_vector(outputs["sequence_output"], features["input_mask"])
        return outputs | {"pooled_output": encoder.pooled(vectors, training=True)}

    return encode


class TrainStep:
    """Calls `task.loss` on the model and moves the variables; an instance is called with a batch.

    Args:
        task: gives `loss_normalizers(batch)` and `loss(outputs, batch, normalizers)`, or `loss_weights` and
            `loss_parts` instead; see `tasks/base.py`.
        model: a Keras model that takes the batch's features, built in the strategy's scope.
        optimizer: one of `optimizers.OPTIMIZERS`, built in the strategy's scope.
        config: a `StepConfig`.
        average: a `WeightAverage` that takes the weights in after each step, or None.

    Calling it with a batch (a dict of tensors [B, ...], for all replicas together) returns float32 scalars: `loss`, its
    parts by their names where the task has some, `gradient_norm` before clipping, `skipped` (1 where nothing moved:
    gradients overflowed, or the guard found the step bad), and with a guard `skipped_in_a_row` (its count); and int32
    scalars: `examples` and `tokens` of the batch, padding not counted, and `broken`, what
    `loss_spike_guard.first_broken` gives.
    """

    def __init__(self, task, model, optimizer, config: StepConfig, average=None):
        self.task = task
        self.model = model
        self.optimizer = optimizer
        self.config = config
        self.average = average
        self._forward = replace_encoder(model, _packing) if config.pack_examples else model
        self.strategy = tf.distribute.get_strategy()
        scale = _FIRST_LOSS_SCALE if config.scale_loss else 1.0
        self.loss_scale = tf.Variable(scale, trainable=False, name="loss_scale")
        self.finite_steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="finite_steps")
        self.guard = Guard(config.guard) if config.guard else None
        self._moving = tf.Variable(False, trainable=False, name="moving")
        self._micro_step = tf.function(self._loss_and_gradients, jit_compile=config.use_xla or None)
        self._step = traced_once(self._distributed, config.fixed_shapes)

    def __call__(self, batch):
        return self._step(batch)

    def accumulate(self, parts: int):
        """Cuts the steps from here on into so many micro-batches; all variables stay as they are."""
        self.config = dataclasses.replace(self.config, accumulation=parts)
        self._step = traced_once(self._distributed, self.config.fixed_shapes)

    def has_moved(self) -> bool:
        """Says whether a step has ever begun to move variables, even if it did not end; see `first_step`."""
        return bool(self._moving.numpy())

    def variables(self):
        """Returns {name: variable}: what a resumed run needs besides the model's and the optimizer's variables."""
        scaling = {"loss_scale": self.loss_scale, "finite_steps": self.finite_steps}
        return scaling | (self.guard.variables() if self.guard else {})

    def _distributed(self, batch):
        results = self.strategy.run(self._replica, args=(batch,))
        results = {name: self.strategy.experimental_local_results(value)[0] for name, value in results.items()}
        if self.average:
            self.average.update(self.strategy, self.optimizer.iterations.value, 1 - results["skipped"])
        mask = batch["input_mask"]
        return results | {"examples": tf.shape(mask)[0], "tokens": tf.reduce_sum(mask)}

    def _replica(self, batch):
        context, batch = tf.distribute.get_replica_context(), replica_share(batch)

        def over_replicas(values):
            return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

        denominators = over_replicas(self.task.loss_normalizers(batch))
        losses, gradients = over_replicas(self._accumulate(batch, denominators, context))
        gradients = self.optimizer.moving(gradients, self.model.trainable_variables)
        squares = tf.stack([tf.nn.l2_loss(g) for g in gradients])
        norm = tf.sqrt(2 * tf.reduce_sum(squares))  # tf.linalg.global_norm, to the bit
        if self.config.clip_norm:
            shrink = self.config.clip_norm / tf.maximum(norm, self.config.clip_norm)
            gradients = [g * shrink for g in gradients]
        broken = first_broken(losses["loss"], squares, norm, self.loss_scale > 1)
        return losses | {"gradient_norm": norm, "broken": broken} | self._move(gradients, losses["loss"], norm, broken)

    def _move(self, gradients, loss, norm, broken):
        """Applies the gradients, unless the step is to be skipped, and returns what the results say of that."""
        finite, bad = tf.math.is_finite(norm), tf.constant(False)
        if self.guard:
            bad = self.guard.is_bad(loss, broken == -1)
        moved = finite & ~bad
        can_skip = self.guard or self.config.scale_loss
        # Left alone, TensorFlow counts the step and decays the weights before it has the gradients, for they need none.
        with tf.control_dependencies(gradients):
            moving = self._moving.assign(True)
        with tf.control_dependencies([moving]):
            self.optimizer.apply_reduced(gradients, self.model.trainable_variables, when=moved if can_skip else None)
        if self.config.scale_loss:
            self._adapt_loss_scale(finite)
        skipped = {"skipped": tf.cast(~moved, tf.float32) if can_skip else tf.zeros([])}
        if self.guard:
            self.guard.note(loss, bad, moved)
            skipped["skipped_in_a_row"] = tf.cast(self.guard.skipped_in_a_row, tf.float32)
        return skipped

    def _accumulate(self, batch, denominators, context):
        """Returns the replica's share of the losses, by name, and of the gradients, summed over its micro-batches."""
        parts, step = self.config.accumulation, tf.cast(self.optimizer.iterations.value, tf.int32)
        replica_step = step * context.num_replicas_in_sync + context.replica_id_in_sync_group
        seed = self.config.seed
        seed = self.guard.dropout_seed(seed) if self.guard else tf.constant(seed, tf.int32)

        def micro(part, index):
            return self._micro_step(
                part, denominators, tf.stack([seed, replica_step * parts + index]), self.loss_scale.read_value()
            )

        if parts == 1:
            return micro(batch, 0)
        split = {k: tf.reshape(v, tf.concat([[parts, -1], tf.shape(v)[1:]], 0)) for k, v in batch.items()}
        zeros = [tf.zeros(v.shape) for v in self.model.trainable_variables]

        def add(index, *sums):
            part = {k: tf.ensure_shape(v[index], [None, *batch[k].shape[1:]]) for k, v in split.items()}
            return index + 1, *tf.nest.map_structure(tf.add, sums, micro(part, index))

        no_losses = {name: tf.zeros([]) for name in ("loss", *self.task.loss_weights)}
        start = (tf.constant(0), no_losses, zeros)
        _, losses, gradients = tf.while_loop(lambda i, *_: i < parts, add, start, parallel_iterations=1)
        return losses, gradients

    def _loss_and_gradients(self, batch, denominators, seed, loss_scale):
        variables = [v.value for v in self.model.trainable_variables]
        # A tape that watched all variables would make a backward pass through the frozen ones too.
        with seed_scope(seed), tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            outputs = self._forward({k: batch[k] for k in self.task.features}, training=True)
            losses = self._losses(outputs, batch, denominators)
            scaled = losses["loss"] * loss_scale
        gradients = tape.gradient(scaled, variables)
        gradients = [tf.cast(tf.convert_to_tensor(g), tf.float32) for g in gradients]
        return losses, [g / loss_scale for g in gradients] if self.config.scale_loss else gradients

    def _losses(self, outputs, batch, denominators):
        """Returns the loss and its parts, by name."""
        weights = self.task.loss_weights
        if not weights:
            return {"loss": self.task.loss(outputs, batch, denominators)}
        parts = self.task.loss_parts(outputs, batch, denominators)
        loss = tf.add_n([weight * parts[name] for name, weight in weights.items()])
        return {"loss": loss} | {name: parts[name] for name in weights}

    def _adapt_loss_scale(self, finite):
        """Halves the scale after an overflow, doubles it after many steps without one."""
        steps = tf.where(finite, self.finite_steps + 1, 0)
        grow = steps >= _STEPS_TO_GROW
        scale = tf.where(finite, self.loss_scale, tf.maximum(self.loss_scale / 2, 1.0))
        self.loss_scale.assign(tf.where(grow, scale * 2, scale))
        self.finite_steps.assign(tf.where(grow, tf.zeros_like(steps), steps))
