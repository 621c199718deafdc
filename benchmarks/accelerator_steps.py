"""A step of prove_accelerator.py: computes on the device, checks the results, and writes its figures.

    python benchmarks/accelerator_steps.py STEP MODE FOLDER

MODE is gpu, tpu or rehearsal, which differ in devices and sizes alone. FOLDER receives figures.json, which is written
after every measurement, so that a step that fails or is stopped leaves what it had. A step that finds a wrong result
ends with a message and status 1.
"""

import dataclasses
import gc
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from peers import ROOT

sys.path.insert(0, str(ROOT))
FIGURES = "figures.json"


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What is computed, in rows of `length` tokens; models are names in `sizes.BERT`.

    Attributes:
        side, products: matrices whose product is the device's best, and how many are timed.
        small: model whose losses are compared.
        base: model that is fine-tuned and asked, with `rows` and 8 rows.
        large: model that is pretrained with `pretraining_rows`, in `accumulation` micro-batches.
        planned, planned_rows: model whose memory is planned, with 128 tokens.
        steps: steps that are timed or compared.
    """

    side: int
    products: int
    small: str
    base: str
    large: str
    length: int
    rows: int
    pretraining_rows: int
    accumulation: int
    planned: str
    planned_rows: int
    steps: int


DEVICE = Sizes(8192, 50, "bert-small", "bert-base", "bert-large", 128, 32, 256, 4, "bert-base", 64, 20)
REHEARSAL = Sizes(512, 5, "bert-tiny", "bert-tiny", "bert-tiny", 32, 8, 16, 2, "bert-mini", 32, 6)


class Run:
    """The mode and the sizes of a step, its folder, and its figures.

    Attributes:
        mode: gpu, tpu or rehearsal.
        folder: of the step.
        sizes: of the mode.
        figures: {name: JSON value}; "summary" is its line in the table, "speeds" its rows in the table of speeds.
    """

    def __init__(self, mode: str, folder: pathlib.Path):
        self.mode, self.folder, self.figures = mode, folder, {}
        self.sizes = REHEARSAL if mode == "rehearsal" else DEVICE

    def note(self, **figures):
        """Adds figures, and writes all."""
        from bert_tf.utils.files import write_text
        from bert_tf.utils.json_files import json_text

        self.figures |= figures
        write_text(self.folder / FIGURES, json_text(self.figures, indent=1))

    def check_device(self):
        """Ends the step if TensorFlow does not see the devices of the mode: nothing must be measured on the CPU."""
        import tensorflow as tf

        if self.mode == "gpu" and not tf.config.list_physical_devices("GPU"):
            raise SystemExit("TensorFlow does not see the GPU; `bert-tf doctor` shows what is missing.")

    def strategy(self):
        """Returns the strategy of the mode: all cores of a TPU, otherwise one device."""
        from bert_tf.training.strategies import make_strategy

        return make_strategy("tpu" if self.mode == "tpu" else "default")

    @property
    def has_xla_switch(self) -> bool:
        """Whether a step can be compiled with XLA or not; a TPU always compiles it."""
        return self.mode != "tpu"

    def half(self) -> str:
        """Returns the 16-bit precision that suits the device."""
        from bert_tf.training.devices import fastest_precision

        if self.mode != "gpu":
            return "mixed_bfloat16"
        return fastest_precision()[0].replace("float32", "mixed_float16")


def config_of(name: str, **changes):
    """Returns the `EncoderConfig` of a published size."""
    from bert_tf.models.config import EncoderConfig
    from bert_tf.models.sizes import BERT

    return EncoderConfig(**{**BERT[name], **changes})


def make_step(task, precision: str, optimizer: str = "adamw", learning_rate: float = 1e-4, **settings):
    """Returns a `TrainStep` of a task's model with seeded random weights; `settings` are of its `StepConfig`."""
    import keras

    from bert_tf.training.optimizers import OPTIMIZERS
    from bert_tf.training.step import StepConfig, TrainStep

    gc.collect()  # a step before this one, to which its own graphs refer, leaves the memory of the device
    keras.config.set_dtype_policy(precision)
    keras.utils.set_random_seed(0)
    model = task.build_model()
    optimizer = OPTIMIZERS[optimizer](learning_rate)
    optimizer.build(model.trainable_variables)
    return TrainStep(task, model, optimizer, StepConfig(scale_loss=precision == "mixed_float16", **settings))


def make_batch(task, rows: int, length: int, **sizes):
    """Returns a random batch of a task, as tensors."""
    import tensorflow as tf

    from tests.fake_batches import fake_batch

    more = ("masked_lm_weights",) if "masked_lm_ids" in task.targets else ("is_real_example",)
    names = dict.fromkeys((*task.features, *task.targets, *more))
    batch = fake_batch(names, rows, length, task.config.vocab_size, **sizes)
    return {name: tf.constant(values) for name, values in batch.items()}


def timed(call, times: int) -> tuple[float, float]:
    """Returns the seconds of the first call, which compiles, and of each later one; a call returns a scalar."""
    begin = time.perf_counter()
    assert np.isfinite(float(call())), "the result is not finite"
    first = time.perf_counter() - begin
    float(call())
    begin = time.perf_counter()
    for _ in range(times):
        last = call()
    assert np.isfinite(float(last)), "the result is not finite"  # waits for the device
    return first, (time.perf_counter() - begin) / times


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


# === Throughput ===


def _operations(config, length, predictions=0):
    """Returns the operations of the forward pass of a row: products in the encoder and in the masked-LM head."""
    h, inner = config.hidden_size, config.intermediate_size
    layer = 2 * length * (4 * h * h + 2 * h * inner + 2 * length * h)
    return config.num_hidden_layers * layer + predictions * 2 * (h * h + h * config.vocab_size)


def _add_speed(run, what, config, rows, operations, precision, use_xla, call, length=None):
    """Times a call on `rows` rows of `operations` each, and notes its row of the table of speeds."""
    first, seconds = timed(call, run.sizes.steps)
    speed = {
        "what": what,
        "size": f"{config.num_hidden_layers} x {config.hidden_size}",
        "rows": rows,
        "length": length or run.sizes.length,
        "precision": precision,
        "xla": use_xla,
        "sequences_per_second": rows / seconds,
        "tflops": rows * operations / seconds / 1e12,
        "first_seconds": first,
    }
    run.note(speeds=[*run.figures.get("speeds", []), speed])


def _summarize_speeds(run):
    best = max(run.figures["speeds"], key=lambda speed: speed["sequences_per_second"])
    run.note(summary=f"{best['sequences_per_second']:,.0f} sequences per second in {best['precision']}")


def fine_tuning(run: Run):
    """Steps of fine-tuning a classifier: forward, backward, AdamW."""
    from bert_tf.tasks.classification.task import ClassificationTask

    size, half = run.sizes, run.half()
    task = ClassificationTask(config_of(size.base), 2)
    variants = ((half, True), (half, False), ("float32", True))
    with run.strategy().scope():
        batch = make_batch(task, size.rows, size.length)
        for precision, use_xla in variants if run.has_xla_switch else ((half, False), ("float32", False)):
            step = make_step(task, precision, use_xla=use_xla)
            operations = 3 * _operations(task.config, size.length)
            _add_speed(run, "fine-tuning", task.config, size.rows, operations, precision, use_xla,
                       lambda step=step: step(batch)["loss"])  # fmt: skip
    _summarize_speeds(run)


def pretraining(run: Run):
    """Steps of pretraining as in phase 1 of the LAMB recipe: 20 predictions per row, micro-batches, LAMB."""
    from bert_tf.pretraining.objectives.language_modeling import PretrainingTask

    size, half, predictions = run.sizes, run.half(), 20
    task = PretrainingTask(config_of(size.large))
    with run.strategy().scope():
        batch = make_batch(task, size.pretraining_rows, size.length, max_predictions=predictions)
        for use_xla in (False, True)[: 1 + run.has_xla_switch]:  # what compiles for minutes comes last
            step = make_step(task, half, "lamb", use_xla=use_xla, accumulation=size.accumulation, fixed_shapes=True)
            operations = 3 * _operations(task.config, size.length, predictions)
            _add_speed(run, "pretraining, LAMB", task.config, size.pretraining_rows, operations, half, use_xla,
                       lambda step=step: step(batch)["loss"])  # fmt: skip
            run.note(micro_batches=step.config.accumulation)  # more where memory ran out
            del step
    _summarize_speeds(run)


def inference(run: Run):
    """The forward pass of a classifier on 8 rows, its weights in the precision of an export."""
    import keras
    import tensorflow as tf

    from bert_tf.export.precision import dtype_policy
    from bert_tf.tasks.classification.task import ClassificationTask

    size, half = run.sizes, run.half().removeprefix("mixed_")
    task = ClassificationTask(config_of(size.base), 2)
    batch = {name: value for name, value in make_batch(task, 8, size.length).items() if name in task.features}
    for dtype, use_xla in ((half, True), (half, False), ("float32", True), ("float32", False)):
        keras.utils.set_random_seed(0)
        with dtype_policy(dtype):
            model = task.build_model()

        def forward(features, model=model):
            return tf.reduce_sum(tf.cast(model(features, training=False), tf.float32))

        call = tf.function(forward, jit_compile=use_xla or None, autograph=False)
        _add_speed(run, "inference", task.config, 8, _operations(task.config, size.length), dtype, use_xla,
                   lambda call=call: call(batch))  # fmt: skip
    _summarize_speeds(run)


# === Memory, several devices ===


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

    name, mode, folder = sys.argv[1:]
    own = (product, precisions, fine_tuning, pretraining, inference, memory, mirrored)
    steps = {step.__name__: step for step in (*own, commands.resume, commands.exports, commands.tests, commands.bench)}
    run = Run(mode, pathlib.Path(folder))
    run.check_device()
    steps[name](run)


if __name__ == "__main__":
    main()
