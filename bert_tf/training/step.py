"""One training step: batch -> loss -> gradients -> clipped -> applied, on one replica of one or of many."""

import dataclasses

import tensorflow as tf

from bert_tf.models.graph_forms import ROW_PACKING, graph_forms
from bert_tf.models.layers import seed_scope
from bert_tf.training import distribution
from bert_tf.training.guard import Guard, GuardConfig, first_broken

_FIRST_LOSS_SCALE = 2.0**15
_STEPS_TO_GROW = 2000  # after so many finite steps the loss scale doubles (Micikevicius et al. 2018, section 3.2)


@dataclasses.dataclass(frozen=True)
class StepConfig:
    """What a step does besides the task.

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

    @property
    def forms(self) -> tuple[str, ...]:
        """Returns which `graph_forms` the model is computed in."""
        return (ROW_PACKING,) if self.pack_examples else ()


class TrainStep:
    """Calls `task.loss` on the model and moves the variables; an instance is called with a batch.

    Args:
        task: gives `denominators(batch)` and `loss(outputs, batch, denominators)`, or `loss_weights` and `loss_parts`
            in its place; see `tasks/protocols.py`.
        model: a Keras model that takes the batch's features, built in the strategy's scope.
        optimizer: one of `optimizers.OPTIMIZERS`, built in the strategy's scope.
        config: a `StepConfig`.
        average: a `WeightAverage` that takes the weights in after each step, or None.

    Calling it with a batch (a dict of tensors [B, ...], for all replicas together) returns float32 scalars: `loss`, its
    parts by their names where the task has some, `gradient_norm` before clipping, `skipped` (1 where nothing moved:
    gradients overflowed, or the guard found the step bad), and with a guard `skipped_in_a_row` (its count); and int32
    scalars: `examples` and `tokens` of the batch, padding not counted, and `broken`, what `guard.first_broken` gives.
    """

    def __init__(self, task, model, optimizer, config: StepConfig, average=None):
        self.task = task
        self.model = model
        self.optimizer = optimizer
        self.config = config
        self.average = average
        self.strategy = tf.distribute.get_strategy()
        scale = _FIRST_LOSS_SCALE if config.scale_loss else 1.0
        self.loss_scale = tf.Variable(scale, trainable=False, name="loss_scale")
        self.finite_steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="finite_steps")
        self.guard = Guard(config.guard) if config.guard else None
        self._moving = tf.Variable(False, trainable=False, name="moving")
        self._micro_step = tf.function(self._loss_and_gradients, jit_compile=config.use_xla or None)
        self._step = distribution.traced_once(self._distributed, config.fixed_shapes)

    def __call__(self, batch):
        return self._step(batch)

    def accumulate(self, parts: int):
        """Cuts the steps from here on into so many micro-batches; all variables stay as they are."""
        self.config = dataclasses.replace(self.config, accumulation=parts)
        self._step = distribution.traced_once(self._distributed, self.config.fixed_shapes)

    def has_moved(self) -> bool:
        """Says whether a step has ever begun to move variables, even if it did not end; see `out_of_memory.py`."""
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
        context, batch = tf.distribute.get_replica_context(), distribution.share(batch)

        def over_replicas(values):
            return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

        denominators = over_replicas(self.task.denominators(batch))
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
        place = step * context.num_replicas_in_sync + context.replica_id_in_sync_group
        seed = self.config.seed
        seed = self.guard.dropout_seed(seed) if self.guard else tf.constant(seed, tf.int32)

        def micro(part, index):
            return self._micro_step(
                part, denominators, tf.stack([seed, place * parts + index]), self.loss_scale.read_value()
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
        with seed_scope(seed), graph_forms(*self.config.forms), tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            outputs = self.model({k: batch[k] for k in self.task.features}, training=True)
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
