"""One training step: a batch -> loss -> gradients -> summed over replicas -> clipped -> applied."""

import dataclasses
import time

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data.fixed_rows import LAYOUT, SHARES, fixed_layout
from bert_tf.models.training_ops import program_scope, seed_scope
from bert_tf.training.loss_spike_guard import Guard, GuardConfig, first_broken
from bert_tf.training.micro_batches import join_results, more_parts, split_batch
from bert_tf.training.packing import PackingModel
from bert_tf.training.replicas import build_graphs, replica_share
from bert_tf.training.workers import num_workers

_FIRST_LOSS_SCALE = 2.0**15
_STEPS_TO_GROW = 2000  # after so many finite steps the loss scale doubles (Micikevicius et al. 2018, section 3.2)


@dataclasses.dataclass(frozen=True)
class StepConfig:
    """Settings of a training step that do not depend on the task.

    Attributes:
        seed: random seed of all dropout masks, which are a function of (seed, step, replica, micro-batch).
        accumulation: number of micro-batches per step; apart from rounding, it does not affect the step's result.
        clip_norm: maximum global norm of the gradients (BERT: 1.0); 0 for no clipping.
        use_xla: compile the step as one XLA program or, with a distribution strategy, as three on each replica: forward
            and backward pass, clipping, and update.
        scale_loss: multiply the loss so that float16 gradients do not vanish, and skip steps in which they overflow.
        fixed_shapes: batches have one shape, or a few, and graphs may be specialized for them.
        guard: which losses are bad, so that their step is skipped; if None, no step is skipped.
        pack_examples: encoders pack the short texts of a batch into shared sequences if at least a fifth of it is
            padding, or, with `use_xla`, of all batches.
        packed_shares: with `use_xla`, the possible numbers of packed sequences; see `fixed_rows.fixed_layout`. XLA
            compiles a program for each.
    """

    seed: int = 0
    accumulation: int = 1
    clip_norm: float = 1.0
    use_xla: bool = False
    scale_loss: bool = False
    fixed_shapes: bool = False
    guard: GuardConfig | None = None
    pack_examples: bool = False
    packed_shares: tuple[float, ...] = SHARES


class TrainStep:
    """One training step: computes the task's loss and updates the variables; call the instance with a batch.

    Args:
        task: has `loss_normalizers(batch)`, `loss_of_batch`, `extra_targets(batch)`, and either
            `loss(outputs, batch, normalizers)` or `loss_weights` and `loss_parts`; see `tasks/trainable_task.py`.
        model: a Keras model that takes the batch's features, built in the strategy's scope.
        optimizer: one of `optimizers.OPTIMIZERS`, built in the strategy's scope.
        config: a `StepConfig`.
        average: a `WeightAverage` that is updated after each step, or None.

    Calling it with a batch (a dict of tensors [B, ...], for all replicas together) returns float32 scalars: `loss`, its
    components by name if the task has any, `gradient_norm` before clipping, `skipped` (1 if nothing was updated:
    gradients overflowed, or the guard found the step bad), and, with a guard, `skipped_in_a_row` (its count); and int32
    scalars: `examples` and `tokens` of the batch, without padding, and `broken`, the result of
    `loss_spike_guard.first_broken`.

    If the first step does not fit in memory, it is retried with micro-batches of half the size. The global batch stays
    the same: apart from rounding and dropout masks, a step's result does not depend on how it is split. When such a run
    is resumed, its first step runs out of memory and is split again, so with the same memory it makes the same steps.
    No variable has changed when a step is retried, because all assignments wait for the gradients.

    Raises:
        ValueError: not even micro-batches of one sequence fit.
        tf.errors.ResourceExhaustedError: memory ran out on one of several workers, which must all split alike; while
            variables were being updated; or after the first step.
    """

    def __init__(self, task, model, optimizer, config: StepConfig, average=None):
        self.task = task
        self.model = model
        self.optimizer = optimizer
        self.config = config
        self.average = average
        self._forward = PackingModel(model) if config.pack_examples else model
        self._needs_layout = config.pack_examples and config.use_xla
        self._inputs = (*task.features, *(LAYOUT if self._needs_layout else ()))
        self.strategy = tf.distribute.get_strategy()
        self._is_one_program = config.use_xla and not tf.distribute.has_strategy()
        self._has_programs = config.use_xla and not self._is_one_program  # several a step, on each replica
        scale = _FIRST_LOSS_SCALE if config.scale_loss else 1.0
        self.loss_scale = tf.Variable(scale, trainable=False, name="loss_scale")
        self.finite_steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="finite_steps")
        self.guard = Guard(config.guard) if config.guard else None
        self._moving = tf.Variable(False, trainable=False, name="moving")
        self._micro_step, self._micro_outputs, self._micro_targets, self._micro_gradients = (
            tf.function(each, jit_compile=self._has_programs or None, autograph=False)
            for each in (self._loss_and_gradients, self._outputs, task.extra_targets, self._gradients_of_outputs)
        )
        compiled_clip = tf.function(self._clip_gradients, jit_compile=True, autograph=False)
        self._clip = compiled_clip if self._has_programs else self._clip_gradients
        self._graph_of = self._build_graphs()
        self._is_compiled = False

    def __call__(self, batch):
        if self._is_compiled:
            return self._run(batch)
        further = ", or loading it from the cache, as for each further length" if self._has_programs else ""
        logging.info("Compiling the first step%s; other steps take a fraction of its time.", further)
        begin = time.perf_counter()
        while not self._is_compiled:
            try:
                results = self._run(batch)
                float(results["loss"])  # waits for the device, whose errors arrive late
                self._is_compiled = True
            except tf.errors.ResourceExhaustedError as error:
                if num_workers() > 1 or self.has_moved():
                    raise
                rows = next(iter(batch.values())).shape[0]
                self.accumulate(more_parts(rows, self.strategy.num_replicas_in_sync, self.config.accumulation, error))
        logging.info("The first step took %.1f s.", time.perf_counter() - begin)
        return results

    def _run(self, batch):
        batch = self._with_layout(batch)
        return self._graph_of(batch)(batch)

    def _with_layout(self, batch):
        """Returns the batch and, for programs in which encoders pack, the places of its tokens."""
        if not self._needs_layout:
            return batch
        parts = self.strategy.num_replicas_in_sync * self.config.accumulation
        layout = fixed_layout(np.asarray(batch["input_mask"]), parts, self.config.packed_shares)
        return batch | {name: tf.constant(each) for name, each in layout.items()}

    def accumulate(self, parts: int):
        """Splits later steps into this many micro-batches; no variable changes."""
        self.config = dataclasses.replace(self.config, accumulation=parts)
        self._graph_of = self._build_graphs()

    def _build_graphs(self):
        return build_graphs(self._global_step, self.config.fixed_shapes, self._is_one_program)

    def has_moved(self) -> bool:
        """Returns whether any step has started to update variables, even if it did not finish."""
        return bool(self._moving.numpy())

    def variables(self):
        """Returns {name: variable}: the state that a resumed run needs besides model and optimizer."""
        scaling = {"loss_scale": self.loss_scale, "finite_steps": self.finite_steps}
        return scaling | (self.guard.variables() if self.guard else {})

    def _global_step(self, batch):
        """Builds the graph of a step across all replicas."""
        results = self.strategy.run(self._replica_step, args=(batch,))
        results = {name: self.strategy.experimental_local_results(value)[0] for name, value in results.items()}
        if self.average:
            self.average.update(self.strategy, self.optimizer.iterations.value, 1 - results["skipped"])
        mask = batch["input_mask"]
        return results | {"examples": tf.shape(mask)[0], "tokens": tf.reduce_sum(mask)}

    def _replica_step(self, batch):
        """Runs one replica: forward and backward over its share of the batch, then an update with all gradients."""
        context, batch = tf.distribute.get_replica_context(), replica_share(batch)

        def over_replicas(values):
            return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

        normalizers, parts = over_replicas(self.task.loss_normalizers(batch)), self.config.accumulation
        seed, scale = self._dropout_seed(context, parts), self.loss_scale.read_value()
        if parts == 1:
            sums = self._micro_step(batch, normalizers, seed(0), scale)
        elif self.task.loss_of_batch:
            sums = self._cache_gradients(batch, parts, normalizers, seed, scale)
        else:
            sums = self._accumulate(batch, parts, lambda part, i: self._micro_step(part, normalizers, seed(i), scale))
        losses, gradients = over_replicas(sums)
        gradients, squares, norm = self._clip(gradients)
        broken = first_broken(losses["loss"], squares, norm, self.loss_scale > 1)
        return losses | {"gradient_norm": norm, "broken": broken} | self._apply(gradients, losses["loss"], norm, broken)

    def _clip_gradients(self, gradients):
        """Returns the clipped gradients, half the sum of squares of each before clipping, and the norm of all."""
        gradients = self.optimizer.mask_frozen_gradients(gradients, self.model.trainable_variables)
        squares = tf.stack([tf.nn.l2_loss(g) for g in gradients])
        norm = tf.sqrt(2 * tf.reduce_sum(squares))  # bit-identical to tf.linalg.global_norm
        if self.config.clip_norm:
            shrink = self.config.clip_norm / tf.maximum(norm, self.config.clip_norm)
            gradients = [g * shrink for g in gradients]
        return gradients, squares, norm

    def _loss_and_gradients(self, batch, normalizers, seed, loss_scale):
        """Runs forward and backward over one micro-batch; returns its share of losses, by name, and gradients."""
        variables = [v.value for v in self.model.trainable_variables]
        batch = {**batch, **self.task.extra_targets(batch)}
        # A tape that watched all variables would also run a backward pass through the frozen ones.
        with seed_scope(seed), program_scope(self.config.use_xla):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                outputs = self._forward({k: batch[k] for k in self._inputs}, training=True)
                losses = self._losses(outputs, batch, normalizers)
                scaled = losses["loss"] * loss_scale
            gradients = tape.gradient(scaled, variables)
        return losses, self._unscaled(gradients, loss_scale)

    def _unscaled(self, gradients, loss_scale):
        gradients = [tf.cast(tf.convert_to_tensor(g), tf.float32) for g in gradients]
        return [g / loss_scale for g in gradients] if self.config.scale_loss else gradients

    def _losses(self, outputs, batch, normalizers):
        """Returns the loss and its components, by name."""
        weights = self.task.loss_weights
        if not weights:
            return {"loss": self.task.loss(outputs, batch, normalizers)}
        parts = self.task.loss_parts(outputs, batch, normalizers)
        loss = tf.add_n([weight * parts[name] for name, weight in weights.items()])
        return {"loss": loss} | {name: parts[name] for name in weights}

    def _dropout_seed(self, context, parts):
        """Returns a function from a micro-batch's index to the seed of its dropout masks, int32 [2]."""
        step = tf.cast(self.optimizer.iterations.value, tf.int32)
        replica_step = step * context.num_replicas_in_sync + context.replica_id_in_sync_group
        seed = self.config.seed
        seed = self.guard.dropout_seed(seed) if self.guard else tf.constant(seed, tf.int32)
        return lambda index: tf.stack([seed, replica_step * parts + index])

    def _accumulate(self, batch, parts, micro_step):
        """Returns the sums of micro_step(micro-batch, index) over all `parts` micro-batches."""
        part, zeros = split_batch(batch, parts), [tf.zeros(v.shape) for v in self.model.trainable_variables]

        def add(index, *sums):
            return index + 1, *tf.nest.map_structure(tf.add, sums, micro_step(part(index), index))

        no_losses = {name: tf.zeros([]) for name in ("loss", *self.task.loss_weights)}
        start = (tf.constant(0), no_losses, zeros)
        _, losses, gradients = tf.while_loop(lambda i, *_: i < parts, add, start, parallel_iterations=1)
        return losses, gradients

    def _cache_gradients(self, batch, parts, normalizers, seed, loss_scale):
        """Returns the losses and gradients of a loss of the whole batch, whose micro-batches run sequentially.

        GradCache (Gao et al. 2021): they run forward for their outputs, from which the loss and its gradients by the
        outputs follow, and then again, with the same dropout masks, to propagate these gradients to the variables.
        """
        part = split_batch(batch, parts)
        outputs = join_results(lambda index: self._micro_outputs(part(index), seed(index)), parts, self.model.output)
        kinds = self._micro_targets.get_concrete_function(part(0)).structured_outputs
        targets = join_results(lambda index: self._micro_targets(part(index)), parts, kinds) if kinds else {}
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(outputs)
            losses = self._losses(outputs, {**batch, **targets}, normalizers)
            scaled = losses["loss"] * loss_scale
        by_outputs = tape.gradient(scaled, outputs, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        output_gradients = split_batch(by_outputs, parts)

        def add(index, sums):
            gradients = self._micro_gradients(part(index), output_gradients(index), seed(index), loss_scale)
            return index + 1, tf.nest.map_structure(tf.add, sums, gradients)

        start = tf.constant(0), [tf.zeros(v.shape) for v in self.model.trainable_variables]
        return losses, tf.while_loop(lambda i, _: i < parts, add, start, parallel_iterations=1)[1]

    def _outputs(self, batch, seed):
        """Returns the model's outputs for one micro-batch in training."""
        with seed_scope(seed), program_scope(self.config.use_xla):
            return self._forward({k: batch[k] for k in self._inputs}, training=True)

    def _gradients_of_outputs(self, batch, by_outputs, seed, loss_scale):
        """Returns the gradients of one micro-batch, given those of the loss by its outputs."""
        variables = [v.value for v in self.model.trainable_variables]
        with program_scope(self.config.use_xla):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                outputs = self._outputs(batch, seed)
            gradients = tape.gradient(outputs, variables, output_gradients=by_outputs)
        return self._unscaled(gradients, loss_scale)

    def _apply(self, gradients, loss, norm, broken):
        """Applies the gradients unless the step is skipped, and returns the results that describe this."""
        finite, bad = tf.math.is_finite(norm), tf.constant(False)
        if self.guard:
            bad = self.guard.is_bad(loss, broken == -1)
        moved = finite & ~bad
        can_skip = self.guard or self.config.scale_loss
        # Without this, TensorFlow counts the step and decays the weights before the gradients are known.
        with tf.control_dependencies(gradients):
            moving = self._moving.assign(True)
        with tf.control_dependencies([moving]):
            when = moved if can_skip else None
            if self._is_one_program:
                self.optimizer.apply_in_program(gradients, self.model.trainable_variables, when)
            else:
                self.optimizer.apply_reduced(gradients, self.model.trainable_variables, when, self._has_programs)
        if self.config.scale_loss:
            self._adapt_loss_scale(finite)
        skipped = {"skipped": tf.cast(~moved, tf.float32) if can_skip else tf.zeros([])}
        if self.guard:
            self.guard.note(loss, bad, moved)
            skipped["skipped_in_a_row"] = tf.cast(self.guard.skipped_in_a_row, tf.float32)
        return skipped

    def _adapt_loss_scale(self, finite):
        """Halves the scale after an overflow, doubles it after many steps without one."""
        steps = tf.where(finite, self.finite_steps + 1, 0)
        grow = steps >= _STEPS_TO_GROW
        scale = tf.where(finite, self.loss_scale, tf.maximum(self.loss_scale / 2, 1.0))
        self.loss_scale.assign(tf.where(grow, scale * 2, scale))
        self.finite_steps.assign(tf.where(grow, tf.zeros_like(steps), steps))
