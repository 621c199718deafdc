"""Steps of prove_accelerator.py that time training and inference, beside others and with other settings of XLA.

Each takes the `Run` of accelerator_run.py; accelerator_steps.py starts them.
"""

import functools
import json
import os
import shutil
import subprocess
import sys

import kernel_profile
from accelerator_run import FIGURES, Run, config_of, make_batch, make_step, timed
from peers import ROOT, write_batches

_PROFILED_STEPS = 10
_ALL_COMMANDS = "+FUSION,+CUBLAS,+CUBLASLT,+CUDNN,+CUSTOM_CALL"
# Measured alone, in this order, against none; bert_tf sets none of them.
XLA_FLAGS = (
    "",
    f"--xla_gpu_graph_min_graph_size=1 --xla_gpu_enable_command_buffer={_ALL_COMMANDS}",
    "--xla_gpu_enable_triton_gemm=false",
    "--xla_gpu_cudnn_gemm_fusion_level=1",
    "--xla_gpu_cudnn_gemm_fusion_level=2",
    "--xla_gpu_enable_command_buffer=",
    "--xla_gpu_autotune_level=2",
    "--xla_gpu_autotune_level=0",
)


def _operations(config, length, predictions=0):
    """Returns the operations of the forward pass of a row: products in the encoder and in the masked-LM head."""
    h, inner = config.hidden_size, config.intermediate_size
    layer = 2 * length * (4 * h * h + 2 * h * inner + 2 * length * h)
    return config.num_hidden_layers * layer + predictions * 2 * (h * h + h * config.vocab_size)


def _add_speed(run, what, config, shape, operations, precision, use_xla, first, seconds):
    """Notes a row of the table of speeds: a call on rows of `operations` each takes so many seconds."""
    rows, length = shape
    speed = {
        "what": what,
        "size": f"{config.num_hidden_layers} x {config.hidden_size}",
        "rows": rows,
        "length": length,
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


def _classifier(run, **changes):
    from bert_tf.tasks.classification.task import ClassificationTask

    return ClassificationTask(config_of(run.sizes.base, **changes), 2)


def _add_fine_tuning(run, task, shape, precision, use_xla):
    """Times steps of fine-tuning: forward, backward, AdamW."""
    batch, step = make_batch(task, *shape), make_step(task, precision, use_xla=use_xla)
    times = timed(lambda: step(batch)["loss"], run.sizes.steps)
    operations = 3 * _operations(task.config, shape[1])
    _add_speed(run, "fine-tuning", task.config, shape, operations, precision, use_xla, *times)


def fine_tuning(run: Run):
    """Steps of fine-tuning a classifier, the batches of all shapes compiled, the first also without XLA."""
    shapes, half = run.sizes.shapes, run.half()
    compiled, plain = [(shape, half, True) for shape in shapes], (shapes[0], half, False)
    variants = [*compiled, plain] if run.has_xla_switch else [plain, (shapes[0], "float32", False)]
    with run.strategy().scope():
        for variant in variants:
            _add_fine_tuning(run, _classifier(run), *variant)
            _summarize_speeds(run)


def few_layers(run: Run):
    """Steps of fine-tuning a model of few layers, compiled: a child process of `xla_flags`."""
    task = _classifier(run, num_hidden_layers=run.sizes.few_layers)
    _add_fine_tuning(run, task, run.sizes.shapes[0], run.half(), True)


def profile(run: Run):
    """What the device does in the steps of fine-tuning: the largest kernels, launches, and the time without work.

    A process of its own shows whether programs that the last one compiled are loaded.
    """
    for shape in run.sizes.shapes[:2]:
        task, title = _classifier(run), "{} x {}".format(*shape)
        batch, step = make_batch(task, *shape), make_step(task, run.half(), use_xla=True)
        call = functools.partial(_loss, step, batch)
        first, _ = timed(call, 2)
        space = kernel_profile.record(call, _PROFILED_STEPS, run.folder / title.replace(" ", ""))
        found = {"first_seconds": first, **kernel_profile.summarize(space, _PROFILED_STEPS)}
        assert run.mode != "gpu" or "GPU" in found["device"], f"the profile has no GPU, but {found['device']}"
        run.note(profiles={**run.figures.get("profiles", {}), title: found})
        columns = ("Largest kernels", "Times a step", "Microseconds a step", "Fraction of the busy time")
        for name, times, microseconds, share in found["largest"]:
            row = f"`{name}`", times, microseconds, f"{share:.0%}"
            run.note_row(f"Profile of fine-tuning, {title}", columns, *row)
        launches = f" in {found['launches']:,.0f} launches" if found["launches"] else ""
        said = f"{title}: {found['kernels']:,.0f} kernels a step{launches}, {found['idle']:.0%} idle"
        said += f", {found['milliseconds']:.3g} ms, first step {first:.0f} s"
        run.note(summary="; ".join(filter(None, (run.figures.get("summary"), said))))


def _loss(step, batch):
    return step(batch)["loss"]


def pretraining(run: Run):
    """Steps of pretraining as in phase 1 of the LAMB recipe: 20 predictions per row, micro-batches, LAMB."""
    from bert_tf.pretraining.objectives.language_modeling import PretrainingTask

    size, half, predictions = run.sizes, run.half(), 20
    task, shape = PretrainingTask(config_of(size.large)), (size.pretraining_rows, size.length)
    with run.strategy().scope():
        batch = make_batch(task, *shape, max_predictions=predictions)
        for use_xla in (True, False) if run.has_xla_switch else (False,):
            step = make_step(task, half, "lamb", use_xla=use_xla, accumulation=size.accumulation, fixed_shapes=True)
            times = timed(lambda step=step: step(batch)["loss"], size.steps // 2)
            operations = 3 * _operations(task.config, size.length, predictions)
            _add_speed(run, "pretraining, LAMB", task.config, shape, operations, half, use_xla, *times)
            run.note(micro_batches=step.config.accumulation)  # more where memory ran out
            _summarize_speeds(run)
            del step


def inference(run: Run):
    """The forward pass of a classifier on 8 rows, its weights in the precision of an export."""
    import keras
    import tensorflow as tf

    from bert_tf.export.precision import dtype_policy

    size, half, task = run.sizes, run.half().removeprefix("mixed_"), _classifier(run)
    batch = {name: value for name, value in make_batch(task, 8, size.length).items() if name in task.features}
    for dtype, use_xla in ((half, True), (half, False), ("float32", True)):
        keras.utils.set_random_seed(0)
        with dtype_policy(dtype):
            model = task.build_model()

        def forward(features, model=model):
            return tf.reduce_sum(tf.cast(model(features, training=False), tf.float32))

        call = tf.function(forward, jit_compile=use_xla or None, autograph=False)
        times = timed(lambda call=call: call(batch), size.steps)
        operations = _operations(task.config, size.length)
        _add_speed(run, "inference", task.config, (8, size.length), operations, dtype, use_xla, *times)
        _summarize_speeds(run)


def torch(run: Run):
    """The steps of `fine_tuning` by PyTorch and Transformers on the same batches: autocast, sdpa, torch.compile."""
    python = _torch_python()
    if not python:
        run.skip("No Python with torch and transformers was found; --peer_python names one.")
    if run.half() != "mixed_bfloat16":
        run.skip("PyTorch's step is in bfloat16, and this device computes in float16.")
    task, files = _classifier(run), []
    task.config.save(run.folder / "bert_config.json")
    for rows, length in run.sizes.shapes:
        batch = {name: values.numpy() for name, values in make_batch(task, rows, length).items()}
        files.append(run.folder / f"{rows}x{length}.npz")
        write_batches(files[-1], [batch])
    command = [python, "benchmarks/torch_fine_tuning.py", run.folder / "bert_config.json", run.half(), run.sizes.steps]
    command = [*map(str, (*command, *files))]
    # A rehearsal shares its cores: threads that wait must not spin.
    environment = {**os.environ, "PYTHONPATH": "", "OMP_WAIT_POLICY": "PASSIVE"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:  # one of each file
            _add_peer(run, task.config, run.sizes.shapes[len(run.figures.get("speeds", []))], json.loads(line))
    assert not child.returncode, f"torch_fine_tuning.py ended with status {child.returncode}"


def _torch_python():
    """Returns the first Python that has torch and Transformers: that of --peer_python, this one, or the system's."""
    named = os.environ.get("BERT_TF_TORCH_PYTHON")
    code = "import importlib.util as u, sys; sys.exit(not (u.find_spec('torch') and u.find_spec('transformers')))"
    for python in [named] if named else filter(None, (sys.executable, shutil.which("python3"))):
        if not subprocess.run([python, "-c", code], env={**os.environ, "PYTHONPATH": ""}, check=False).returncode:
            return python
    return None


def _add_peer(run, config, shape, answer):
    """Notes the speed of the peer, and how many times as fast ours was in the same precision, compiled."""
    operations, precision = 3 * _operations(config, shape[1]), run.half()
    _add_speed(run, "fine-tuning, PyTorch", config, shape, operations, precision, False, *answer["times"])
    path, theirs = run.folder.parent / "fine_tuning" / FIGURES, run.figures["speeds"][-1]
    speeds = json.loads(path.read_text(encoding="utf-8")).get("speeds", []) if path.exists() else []
    same = [s for s in speeds if s["xla"] and (s["rows"], s["length"], s["precision"]) == (*shape, precision)]
    title, columns = "Beside PyTorch", ("Batch", "bert_tf, XLA", "PyTorch, torch.compile", "Ratio")
    if same:
        ours = same[0]["sequences_per_second"], theirs["sequences_per_second"]
        run.note_row(title, columns, "{} x {}".format(*shape), *ours, ours[0] / ours[1])
        ratios = ", ".join(f"{row[-1]:.2f} with {row[0]}" for row in run.figures["tables"][title]["rows"])
        run.note(torch=answer["versions"], summary=f"ours {ratios} times as fast as PyTorch")


def xla_flags(run: Run):
    """Steps of fine-tuning a model of few layers with each of XLA's flags alone, in a process that compiles anew."""
    title = "XLA's flags, each alone"
    columns = ("XLA_FLAGS", "Sequences per second", "Times none", "First step, seconds", "Error")
    speeds = {}
    for number, flags in enumerate(XLA_FLAGS[: 3 if run.mode == "rehearsal" else None]):
        speed, error = _speed_with_flags(run, run.folder / str(number), flags)
        if error:
            run.note_row(title, columns, flags or "none", "", "", "", error)
            continue
        speeds[flags] = speed["sequences_per_second"]
        ratio = speeds[flags] / speeds[""] if "" in speeds else ""
        run.note_row(title, columns, flags or "none", speeds[flags], ratio, speed["first_seconds"], "")
        best = max(speeds, key=speeds.get)
        run.note(summary=f"{len(speeds)} of {number + 1} ran; fastest: {best or 'none'}")
    assert speeds, "no process with any flags has made a step"


def _speed_with_flags(run, folder, flags):
    """Returns the speed of `few_layers` with these flags and None, or None and the last line of its log."""
    folder.mkdir()
    # The keys of kept programs and of kept choices of kernels do not tell all flags apart.
    environment = {**os.environ, "XLA_FLAGS": flags, "TF_XLA_FLAGS": ""}
    command = [sys.executable, "benchmarks/accelerator_steps.py", few_layers.__name__, run.mode, str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    print(flags, done.stderr[-3000:], sep="\n", flush=True)
    if done.returncode:
        return None, done.stderr.strip().split("\n")[-1][:200] or f"status {done.returncode}"
    (speed,) = json.loads((folder / FIGURES).read_text(encoding="utf-8"))["speeds"]
    return speed, None


def fused_attention(run: Run):
    """cuDNN's fused attention, called from a compiled function, against the plain form: values, gradients, speed."""
    if run.mode != "gpu":
        run.skip("cuDNN's fused attention needs a GPU.")
    import fused_attention as spike

    title = "cuDNN's fused attention, forward and backward"
    columns = ("Tokens", "Padding", "Plain, ms", "Fused, ms", "Times as fast", "Largest difference", "Error")
    for length, padded in spike.CASES:
        _, _, *numbers, ratio, difference, error = spike.compare(length, padded)
        kind = "yes" if padded else "no"
        run.note_row(title, columns, length, kind, *numbers, ratio, difference, error)
        said = error[:100] or f"{ratio:.2f} times as fast, {difference:.2g} off"
        said = f"{length} tokens{', padded' * padded}: {said}"
        run.note(summary="; ".join(filter(None, (run.figures.get("summary"), said))))
