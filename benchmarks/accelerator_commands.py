"""Steps of prove_accelerator.py that run commands as a user does: training, resuming, export, serving, tests.

Each takes the `Run` of accelerator_run.py; accelerator_steps.py starts them.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
from peers import ROOT

from tools import versions

_STEP = re.compile(r"step (\d+)/\d+  loss")
_PLAN = ("fits in memory", "peak memory, estimated", "memory available", "micro-batch that fits", "time per step")
# Fast tests of what runs on a device: layers, steps, loops, precision, exports.
TESTS = (
    "tests/models/attention_test.py",
    "tests/models/encoder_test.py",
    "tests/models/heads_test.py",
    "tests/models/layers_test.py",
    "tests/models/precision_test.py",
    "tests/training/lamb_test.py",
    "tests/training/loop_test.py",
    "tests/training/adamw_test.py",
    "tests/training/step_test.py",
    "tests/export/gpu_test.py",
    "tests/runs/devices_test.py",
)


def _run(*words):
    """Runs `bert-tf WORDS`; its log goes into that of the step. Returns what it prints."""
    command = [sys.executable, "-m", "bert_tf", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, flush=True)
    assert not done.returncode, f"bert-tf {words[0]} ended with status {done.returncode}"
    return done.stdout


def _texts(path, rows, sentences):
    """Writes a file of training examples of so many short sentences each."""
    from tests import tiny

    examples = [(" ".join([text] * sentences), label) for text, label in tiny.texts(rows)]
    return tiny.write_tsv(path, examples)


def _shape(run):
    """Returns the sizes of a small encoder whose words are those of the tests."""
    hidden = 32 if run.mode == "rehearsal" else 256
    return {
        "hidden_size": hidden,
        "num_hidden_layers": 1 if run.mode == "rehearsal" else 4,
        "num_attention_heads": hidden // 16,
        "intermediate_size": 4 * hidden,
    }


def dry_run(run, config, precision: str, rows: int, length: int) -> dict[str, str]:
    """Returns the lines of `train classifier --dry_run` about memory, for an encoder with random weights."""
    from tests import tiny

    config.save(run.folder / "bert_config.json")
    pieces = [*tiny.VOCAB, *(f"w{n}" for n in range(len(tiny.VOCAB), config.vocab_size))]
    (run.folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    said = _run(
        "run_classifier", "--dry_run", f"--train_file={_texts(run.folder / 'train.tsv', 4 * rows, 20)}",
        f"--bert_config_file={run.folder / 'bert_config.json'}", f"--vocab_file={run.folder / 'vocab.txt'}",
        f"--output_dir={run.folder / 'out'}", f"--precision={precision}", f"--train_batch_size={rows}",
        f"--max_seq_length={length}",
    )  # fmt: skip
    lines = [line for line in said.splitlines() if line.startswith(_PLAN)]
    return {line[:26].strip(): line[26:].strip() for line in lines}


def resume(run):
    """A run with --deterministic that is stopped by SIGTERM and resumed ends with the weights of one that is not."""
    from bert_tf.checkpoints.tf1 import read_tensors
    from tests import tiny

    init = tiny.checkpoint(run.folder / "init", **_shape(run))
    command = [
        "run_classifier", "--do_train", "--deterministic", "--precision=auto", f"--init_checkpoint={init}",
        f"--train_file={_texts(run.folder / 'train.tsv', 64, 1)}", "--train_batch_size=16", "--max_seq_length=16",
        "--num_train_epochs=75", "--bucket_by_length=false",
        *({"tpu": ["--distribution_strategy=tpu"], "gpu": ["--use_xla=true"]}.get(run.mode, [])),  # as long runs are
    ]  # fmt: skip
    _run(*command, f"--output_dir={run.folder / 'whole'}")
    parts = [*command, f"--output_dir={run.folder / 'parts'}"]
    stopped_at = _stop(parts, 100)
    run.note(steps=300, stopped_at=stopped_at)
    _run(*parts)
    whole, resumed = (read_tensors(str(run.folder / name / "model.ckpt-300")) for name in ("whole", "parts"))
    assert whole.keys() == resumed.keys(), whole.keys() ^ resumed.keys()
    differing = [name for name in whole if not np.array_equal(whole[name], resumed[name])]
    assert not differing, f"{len(differing)} of {len(whole)} tensors differ, such as {differing[0]}"
    run.note(tensors=len(whole), summary=f"stopped after step {stopped_at} of 300 and resumed: weights bit-identical")


def _stop(words, step):
    """Runs a training command until it has made `step` steps, and ends it with SIGTERM; returns where it stopped."""
    command, sent = [sys.executable, "-m", "bert_tf", *map(str, words)], False
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            print(line, end="", flush=True)
            if (found := _STEP.search(line)) and int(found[1]) >= step and not sent:
                process.send_signal(signal.SIGTERM)
                sent = True
            if found := re.search(r"SIGTERM: stopped after step (\d+)", line):
                step = int(found[1])
    assert process.returncode == 143, f"the stopped run ended with status {process.returncode}, not 143"
    return step


def exports(run):
    """Exports a trained model for GPUs in each data type and serves it, bfloat16 also with XLA: the same answers."""
    from bert_tf.export.export_options import ExportOptions
    from bert_tf.export.trained_model import export_trained
    from tests import tiny

    kind = "cpu" if run.mode == "rehearsal" else "gpu"
    init, trained = tiny.checkpoint(run.folder / "init", **_shape(run)), run.folder / "trained"
    train = _texts(run.folder / "train.tsv", 64, 1)
    _run("run_classifier", "--do_train", "--do_eval", f"--init_checkpoint={init}", f"--train_file={train}",
         f"--eval_file={train}", "--num_train_epochs=2", "--max_seq_length=16", f"--output_dir={trained}",
         "--do_export", "--export_for=gpu", f"--export_dir={run.folder / 'float32'}")  # fmt: skip
    names = ["float32", "bfloat16", "float16"]
    for dtype in names[1:]:
        export_trained(str(trained), str(run.folder / dtype), ExportOptions(dtype, "gpu"))
    _serve(run, names, "without XLA", [])
    os.environ["TF_XLA_FLAGS"] = "--tf_xla_auto_jit=2" + " --tf_xla_cpu_global_jit" * (kind == "cpu")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"  # says what is compiled
    # Each of the 18 programs that the warmup file needs takes seconds to compile.
    log = _serve(run, ["bfloat16"], "with XLA", [f"--xla_{kind}_compilation_enabled"])
    assert "Compiled cluster using XLA!" in log, "the server with XLA has compiled nothing"
    largest = max(model["difference"] for served in run.figures["served"].values() for model in served.values())
    run.note(summary=f"{', '.join(names)} served, bfloat16 also with XLA: within {largest:.1g} of the model")


def _serve(run, names, title, flags):
    """Serves the models, compares their answers with the recorded ones, and times requests; returns the log."""
    from bert_tf.serving import Client, verification
    from tests.serving.server_process import running

    found, log, config = {}, run.folder / f"{title.replace(' ', '-')}.log", run.folder / "models.config"
    models = (f'config {{ name: "{n}" base_path: "{run.folder / n}" model_platform: "tensorflow" }}' for n in names)
    config.write_text(f"model_config_list {{ {' '.join(models)} }}\n", encoding="utf-8")
    with running(None, log, f"--model_config_file={config}", *flags) as server:
        for name in names:
            address = f"localhost:{server.port}"
            verdicts = verification.verify(str(run.folder / name), address, name)
            problems = [problem for verdict in verdicts for problem in verdict.problems]
            assert verdicts and not problems, f"{name}, {title}: {problems}"
            with Client(address, name, timeout=60) as client:
                texts = {"text": ["the film is a warm story"] * 8}
                client.ask(texts)
                begin = time.perf_counter()
                for _ in range(20):
                    client.ask(texts)
                seconds = (time.perf_counter() - begin) / 20
            found[name] = {"difference": max(each.largest for each in verdicts), "milliseconds_of_8": 1000 * seconds}
            run.note(served={**run.figures.get("served", {}), title: found})
        return server.log()


def tests(run):
    """The fast tests of what runs on a device, in float32 without TF32, and with deterministic operations: they compare
    losses and weights as closely as a CPU reproduces them."""
    report = run.folder / "tests.xml"
    command = ["-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", "not slow", f"--junitxml={report}", *TESTS]
    settings = {"NVIDIA_TF32_OVERRIDE": "0", "TF_DETERMINISTIC_OPS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
    done = subprocess.run([sys.executable, *command], cwd=ROOT, env={**os.environ, **settings}, check=False)
    counts = versions.read_report(report, done.returncode)
    passed, failed, skipped = counts["passed"], counts["failed"], sum(counts["skipped"].values())
    run.note(**counts, files=list(TESTS), summary=f"{passed} passed, {skipped} skipped")
    assert passed and not failed, f"{len(failed)} tests failed, {passed} passed: {', '.join(failed[:3])}"


def bench(run):
    """`make bench`, short: training and inference next to KerasHub, and to PyTorch if it is installed."""
    from accelerator_run import config_of

    import bert_tf
    from bert_tf.utils.json_files import read_json
    from tests import tiny

    config = config_of("bert-tiny" if run.mode == "rehearsal" else "minilm-L6-H384")
    sizes = {name: value for name, value in config.to_dict().items() if name in _SIZES}
    vocab = [*tiny.VOCAB, *(f"w{n}" for n in range(len(tiny.VOCAB), config.vocab_size))]
    random = tiny.checkpoint(run.folder / "random", vocab=vocab, **sizes)
    bert_tf.save(bert_tf.load(str(random)), str(run.folder / "model"), "huggingface")
    out = run.folder / "out"
    command = [
        "benchmarks/bench.py", f"--checkpoint={run.folder / 'model'}", f"--output_dir={out}", "--rounds=1",
        "--parts=training,inference",
        f"--train_file={_texts(run.folder / 'train.tsv', 2000, 2)}",
        *(["--dtypes=float32", "--threads=1"] if run.mode == "rehearsal" else []),
    ]  # fmt: skip
    done = subprocess.run([sys.executable, *command], cwd=ROOT, check=False)
    assert not done.returncode, f"make bench ended with status {done.returncode}"
    (path,) = pathlib.Path(out).glob("*/bench.json")
    ratios = read_json(path)
    every = [ratio for row in ratios.values() for ratio, *_ in row.values()]
    run.note(ratios=ratios, summary=f"{len(every)} comparisons: {min(every):.2f} to {max(every):.2f} times the fastest")


_SIZES = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size",
    "max_position_embeddings",
)  # fmt: skip
