"""A step of prove_accelerator.py: computes on the device, checks the results, and writes its figures.

    python benchmarks/accelerator_steps.py STEP MODE FOLDER

MODE is gpu, tpu or rehearsal, which differ in devices and sizes alone. FOLDER receives figures.json, which is written
after every measurement, so that a step that fails or is stopped leaves what it had. A step that finds a wrong result
ends with a message and status 1; one that the machine cannot make, with a message and status 77.
"""

import dataclasses
import pathlib
import sys

import numpy as np
from accelerator_run import Run, config_of, make_batch, make_step, timed


def product(run: Run):
    """The product of two matrices, the most that the device computes in a second."""
    import tensorflow as tf

    strategy, side, times, found = run.strategy(), run.sizes.side, run.sizes.products, {}
    for dtype in ("float32", "bfloat16", "float16")[: 3 if run.has_xla_switch else 2]:

        def make(dtype=dtype):
            return tf.cast(tf.random.stateless_normal([side, side], (1, 2)) / side**0.5, dtype)

        def power(matrix):
            _, last = tf.while_loop(
                lambda i, _: i < times, lambda i, x: (i + 1, tf.matmul(x, matrix)), (tf.constant(0), matrix)
            )
            return tf.reduce_sum(tf.cast(last, tf.float32))

        matrix = tf.function(lambda make=make: strategy.run(make))()
        call = tf.function(lambda matrix, power=power: strategy.run(power, args=(matrix,)))
        _, seconds = timed(lambda: strategy.experimental_local_results(call(matrix))[0], 2)  # noqa: B023
        found[dtype] = strategy.num_replicas_in_sync * times * 2 * side**3 / seconds / 1e12
        run.note(tflops=found)
    best = ", ".join(f"{dtype} {each:.3g}" for dtype, each in found.items())
    run.note(side=side, replicas=strategy.num_replicas_in_sync, summary=f"TFLOP/s of the matrix product: {best}")


# At this rate, losses fall from the first step; at 3e-4, they jump around, and rounding makes a large difference.
_STEADY = 2e-5


def precisions(run: Run):
    """The losses of a model in each precision, with XLA and without, against float32 without it; the loss scale."""
    from bert_tf.tasks.classification.task import ClassificationTask

    size, reference = run.sizes, None
    task = ClassificationTask(config_of(size.small, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), 2)
    with run.strategy().scope():
        batch, rows = make_batch(task, size.rows, size.length), []
        for precision in ("float32", "mixed_bfloat16", "mixed_float16")[: 3 if run.has_xla_switch else 2]:
            for use_xla in (False, True)[: 1 + run.has_xla_switch]:
                step = make_step(task, precision, learning_rate=_STEADY, use_xla=use_xla)
                losses = [float(step(batch)["loss"]) for _ in range(size.steps)]
                reference = reference or losses
                difference = float(np.abs(np.subtract(losses, reference)).max())
                rows.append({"precision": precision, "xla": use_xla, "losses": losses, "difference": difference})
                run.note(runs=rows)
                assert losses[-1] < losses[0], f"the loss does not fall in {precision}, XLA {use_xla}: {losses}"
                most = 0.01 if precision == "float32" else 0.05
                assert difference < most, f"{precision}, XLA {use_xla}: losses differ by {difference} from float32"
                if precision == "mixed_float16":
                    rows[-1]["overflow"] = _overflow(step, batch)
    largest = max(row["difference"] for row in rows)
    scaled = "; float16: an overflow is skipped and halves the loss scale" if run.has_xla_switch else ""
    run.note(runs=rows, summary=f"losses of {len(rows)} variants agree with float32 to {largest:.2g}{scaled}")


def _overflow(step, batch):
    """Makes a step whose gradients overflow float16: it only halves the loss scale, and the next step works."""
    usual, large = float(step.loss_scale.numpy()), 2.0**60
    before = [variable.numpy() for variable in step.model.trainable_variables]
    step.loss_scale.assign(large)
    skipped, after = float(step(batch)["skipped"]), float(step.loss_scale.numpy())
    assert skipped == 1 and after == large / 2, f"skipped {skipped}, scale {large} -> {after}"
    for variable, value in zip(step.model.trainable_variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value, err_msg=variable.path)
    step.loss_scale.assign(usual)
    assert not float(step(batch)["skipped"]), "a step with the usual loss scale is skipped, too"
    return {"scale": usual, "scale_at_overflow": large, "scale_after": after}


def memory(run: Run):
    """The memory that the plan of --dry_run expects of a step, against the most that it takes."""
    import accelerator_commands
    import tensorflow as tf

    from bert_tf.tasks.classification.task import ClassificationTask
    from bert_tf.training.memory import StepShape, estimate
    from bert_tf.training.memory_budget import available_memory
    from bert_tf.utils.memory import kilobytes

    size, half, length, on_gpu = run.sizes, run.half(), 128, run.mode == "gpu"
    task = ClassificationTask(config_of(size.planned), 2)
    run.note(dry_run=accelerator_commands.dry_run(run, task.config, half, size.planned_rows, length))
    step = make_step(task, half)
    parameters = step.model.count_params()
    plan = estimate(StepShape(task.config, parameters, size.planned_rows, length, precision=half))
    # What TensorFlow itself takes on the host is no part of the GPU's memory.
    planned = plan.peak - (plan.runtime if on_gpu else 0)
    batch, peaks = make_batch(task, size.planned_rows, length), {}
    for name in ("without XLA", "with XLA")[: 1 + on_gpu]:  # a process on the CPU has but one peak
        if name == "with XLA":
            step = None
            step = make_step(task, half, use_xla=True)
            tf.config.experimental.reset_memory_stats("GPU:0")
        timed(lambda step=step: step(batch)["loss"], 2)
        on_device = tf.config.experimental.get_memory_info("GPU:0")["peak"] if on_gpu else 0
        peaks[name] = on_device or kilobytes("/proc/self/status", "VmHWM")
    run.note(planned=planned, parts=dataclasses.asdict(plan), peaks=peaks, available=available_memory())
    ratio = peaks["without XLA"] / planned
    of_plan = ", ".join(f"{peak / 2**20:,.0f} MB {name}" for name, peak in peaks.items())
    run.note(summary=f"planned {planned / 2**20:,.0f} MB; peak {of_plan}", ratio=ratio)
    assert 0.5 < ratio < 1.15, f"the peak is {ratio:.2f} of the plan"


def mirrored(run: Run):
    """Training on all GPUs, or on two halves of a single one, or of the CPU: the losses are those of one device."""
    import tensorflow as tf

    from bert_tf.tasks.classification.task import ClassificationTask
    from bert_tf.training.strategies import make_strategy

    kind = "CPU" if run.mode == "rehearsal" else "GPU"
    physical = tf.config.list_physical_devices(kind)
    if len(physical) == 1:
        half = tf.config.LogicalDeviceConfiguration(memory_limit=4096 if kind == "GPU" else None)
        tf.config.set_logical_device_configuration(physical[0], [half, half])
    tf.config.experimental.enable_tensor_float_32_execution(False)
    size, one, all_ = run.sizes, make_strategy("default"), make_strategy("mirrored")
    replicas = all_.num_replicas_in_sync
    assert replicas > 1, f"there must be several devices; got {replicas}"
    task = ClassificationTask(config_of(size.small, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), 2)
    rows, found = size.rows * replicas, {}
    for name, strategy, use_xla in (("one", one, False), ("all", all_, False), ("all, XLA", all_, True)):
        with strategy.scope():
            batch = make_batch(task, rows, size.length)
            step = make_step(task, "float32", use_xla=use_xla)
            losses = [float(step(batch)["loss"]) for _ in range(size.steps)]
            _, seconds = timed(lambda step=step, batch=batch: step(batch)["loss"], size.steps)
        found[name] = {"losses": losses, "sequences_per_second": rows / seconds}
        difference = float(np.abs(np.subtract(losses, found["one"]["losses"])).max())
        run.note(physical=len(physical), replicas=replicas, runs=found)
        assert difference < 1e-3, f"{name}: losses differ by {difference} from those of one device"
    gain = max(found[name]["sequences_per_second"] for name in ("all", "all, XLA"))
    gain /= found["one"]["sequences_per_second"]
    virtual = f" (virtual, on one {kind})" if len(physical) == 1 else f", {gain:.2f} times as fast as one"
    run.note(gain=gain, summary=f"{replicas} devices{virtual}: losses as on one, with and without XLA")


def main():
    import accelerator_commands as commands
    import accelerator_speeds as speeds

    name, mode, folder = sys.argv[1:]
    own = (product, precisions, memory, mirrored)
    timings = (speeds.fine_tuning, speeds.profile, speeds.pretraining, speeds.inference, speeds.torch, speeds.xla_flags,
               speeds.few_layers, speeds.fused_attention)  # fmt: skip
    others = (commands.resume, commands.exports, commands.tests, commands.bench)
    steps = {step.__name__: step for step in (*own, *timings, *others)}
    run = Run(mode, pathlib.Path(folder))
    run.check_device()
    steps[name](run)


if __name__ == "__main__":
    main()
