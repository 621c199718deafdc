"""The steps of the demo: plan, train, serve and predict."""

import dataclasses
import hashlib
import json
import math
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import bert_tf
from bert_tf.experiments.demo import data
from bert_tf.utils import resources
from bert_tf.utils.files import sha256, write_text
from bert_tf.utils.manifest import read_manifest
from bert_tf.utils.ports import free_ports
from bert_tf.utils.progress import clock
from bert_tf.utils.proxies import open_local
from bert_tf.utils.settings import command_line
from bert_tf.utils.subprocesses import display_path, execute_command

# === Plan ===
# Precision and length of the demo's training on this machine, so that it ends within a few minutes.


SENTENCES = 8058  # in train.tsv
MOST, LEAST = 2.0, 1.0  # passes over them: more gain little, fewer are not enough for the demo's stated accuracy
_STEP = 0.25
_PATIENCE = 150.0  # seconds of training: in total, the demo takes under 5 minutes even on a busy machine
# Cost of one pass over the sentences: the time of matrix products with this many billion operations on
# the same machine, in float32. Measured; two thirds of that with bfloat16 instructions, which only matrix products use.
_PASS = 20_400.0
_IN_BFLOAT16 = 0.66
_WIDTH = 768  # of the matrices for measuring the machine's speed
_SECONDS = 0.5  # duration of the measurement


@dataclasses.dataclass(frozen=True)
class DemoPlan:
    """Precision and length of the demo's training.

    Attributes:
        precision: "float32" or "mixed_bfloat16", or the user's choice.
        epochs: passes over the sentences.
    """

    precision: str
    epochs: float


def choose_plan(
    speed: float, best_precision: str, precision: str | None = None, epochs: float | None = None
) -> DemoPlan:
    """Returns the plan for a machine.

    Args:
        speed: result of `matrix_speed`.
        best_precision: as `resources.best_precision`.
        precision, epochs: the user's choices, if any.
    """
    precision = precision or best_precision
    affordable = _PATIENCE / seconds(DemoPlan(precision, 1.0), speed)
    steps = math.floor(affordable / _STEP) * _STEP
    return DemoPlan(precision, min(MOST, max(LEAST, steps)) if epochs is None else epochs)


def seconds(plan: DemoPlan, speed: float) -> float:
    """Estimates the training time of this plan on a machine of this speed."""
    return plan.epochs * _PASS * (1.0 if plan.precision == "float32" else _IN_BFLOAT16) / speed


def tell(plan: DemoPlan, speed: float, best_precision: str) -> str:
    """Returns the line that explains the plan."""
    has = "has no bfloat16 instructions" if best_precision == "float32" else "supports bfloat16"
    passes = "1 pass" if plan.epochs == 1 else f"{plan.epochs:g} passes"
    duration = clock(seconds(plan, speed))
    return (
        f"Plan: {plan.precision}, {passes} over {SENTENCES:,} sentences, about {duration} minutes of training: "
        f"the CPU {has} and currently multiplies matrices at {speed:,.0f} GFLOP/s."
    )


def matrix_speed() -> float:
    """Measures the speed of float32 matrix products in GFLOP/s, under the machine's current load."""
    import numpy as np  # here, because `bert-tf demo --help` does not need it

    matrix = np.full((_WIDTH, _WIDTH), 1 / _WIDTH, np.float32)
    matrix @ matrix  # the first one creates the threads
    count, begin = 0, time.perf_counter()
    while (passed := time.perf_counter() - begin) < _SECONDS:
        matrix @ matrix
        count += 1
    return 2 * _WIDTH**3 * count / passed / 1e9


# === Serve ===
# The last step of the demo: serving the exported model, and querying it over gRPC as any client would.


MODEL_NAME = "reviews"
_SERVE_PATIENCE = 120.0  # seconds until the server must respond


def ask_models(models: pathlib.Path, sentences: Sequence[str], log: pathlib.Path, python: str) -> list[dict]:
    """Starts a server for `models`, queries it with the client and stops it; prints both commands.

    Args:
        models: the model's directory, with one directory per version.
        sentences: the texts to classify.
        log: file for the server's output.
        python: the interpreter, as printed.

    Returns:
        {"text", "label", "probabilities": {label: p}} for each sentence.

    Raises:
        ValueError: the server or the client fails; the message names the log.
    """
    port, rest_port = free_ports(2)
    asked = {"model_name": MODEL_NAME}
    there = {"model_base_path": models, "port": port, "rest_api_port": rest_port}
    server_command = ["-m", "bert_tf", "serve", *command_line(there | asked)]
    client_command = ["-m", "bert_tf", "ask", *command_line({"server": f"localhost:{port}"} | asked)]
    print(f"\n$ {shlex.join([python, *server_command])} &", flush=True)
    with open(log, "wb") as file:
        server = subprocess.Popen([sys.executable, *server_command], stdout=file, stderr=subprocess.STDOUT)
    try:
        _wait_until_ready(server, rest_port, log)
        print(f"$ {shlex.join([python, *client_command, *sentences])}", flush=True)
        command = [sys.executable, *client_command, "--", *sentences]
        in_utf8 = {**os.environ, "PYTHONIOENCODING": "utf-8"}
        client = subprocess.run(command, env=in_utf8, capture_output=True, encoding="utf-8", errors="replace")
        if client.returncode:
            why = client.stderr.strip()
            raise ValueError(f"The client failed with status {client.returncode}: {why}")
        print(client.stdout)
        return [json.loads(line) for line in client.stdout.splitlines()]
    finally:
        server.terminate()
        server.wait()


def _wait_until_ready(server, rest_port, log):
    """Waits until the server reports that its model is loaded."""
    end = time.monotonic() + _SERVE_PATIENCE
    while time.monotonic() < end:
        if server.poll() is not None:
            raise ValueError(f"The server stopped with status {server.returncode}; see {log}.")
        if _is_ready(rest_port):
            return
        time.sleep(0.2)
    raise ValueError(f"The server did not respond within {_SERVE_PATIENCE:.0f} s; see {log}.")


def _is_ready(rest_port):
    try:
        with open_local(f"http://localhost:{rest_port}/readyz", timeout=5) as response:
            return response.status == 200
    except OSError:  # no server is listening yet, or 503
        return False


# === Training ===
# The demo's training: run_classifier is started only if its inputs have changed.


_PACKAGE = pathlib.Path(bert_tf.__file__).resolve().parent
STATE = "demo.json"  # in the demo's directory: what was trained, and from which inputs
PROGRAM = ("-m", "bert_tf", "run_classifier")  # Python's arguments


class DemoRun:
    """Paths of the demo, and the settings of its training.

    Args:
        folder: directory of the demo.
        precision, epochs: as in `DemoPlan`.
        seed: of the training.
    """

    def __init__(self, folder: pathlib.Path, precision: str, epochs: float, seed: int):
        self.folder, self.precision, self.epochs, self.seed = folder, precision, epochs, seed
        self.weights, self.data, self.output = folder / "weights" / "minilm", folder / "data", folder / "output"
        self.models, self.state = folder / "models" / MODEL_NAME, folder / STATE

    def training_command(self) -> list[str]:
        """Returns the command that fine-tunes, evaluates and exports."""
        flags = {
            "train_file": self.data / "train.tsv",
            "eval_file": self.data / "test.tsv",
            "text_column": "text",
            "label_column": "label",
            "init_checkpoint": self.weights,
            "output_dir": self.output,
            "export_dir": self.models,
            "do_train": True,
            "do_eval": True,
            "do_export": True,
            "max_seq_length": 64,
            "precision": self.precision,
            "train_batch_size": 32,
            "learning_rate": "5e-5",
            "num_train_epochs": f"{self.epochs:g}",
            "seed": self.seed,
            "save_checkpoints_steps": 100,  # of about 500: an interruption costs less than a minute
            "keep_checkpoints": 1,
        }
        return [display_path(sys.executable), *PROGRAM, *command_line(flags)]


def train_demo(run: DemoRun) -> bool:
    """Fine-tunes, evaluates and exports; returns False if the stored result has the same inputs.

    An interrupted run with the same inputs is resumed by run_classifier; one with other inputs is removed.

    Raises:
        ValueError: run_classifier failed, or output/ is not the demo's own.
    """
    inputs = json.dumps(_collect_inputs(run), sort_keys=True)
    wanted, state = hashlib.sha256(inputs.encode()).hexdigest(), read_manifest(run.state, "remove it")
    is_complete = (run.output / "eval_results.txt").exists() and run.models.exists()
    if state.get("training") == wanted and state.get("trained") and is_complete:
        return False
    if state.get("training") != wanted and run.output.exists():
        if not state:
            raise ValueError(f"{run.output} was not created by the demo. Pass another `demo_dir`, or remove it.")
        print(f"The inputs have changed since the last demo: creating {run.output} again.")
        shutil.rmtree(run.output)
    state = {"plan": {"precision": run.precision, "epochs": run.epochs}, "training": wanted}
    _write_state(run.state, state)
    execute_command(run.training_command())
    _write_state(run.state, {**state, "trained": True})
    return True


def make_plan(state: pathlib.Path, given: Mapping[str, Any]) -> DemoPlan:
    """Returns and prints the plan: as in an earlier start in this directory, otherwise by this machine's speed.

    Args:
        state: the demo's file, `DemoRun.state`.
        given: "precision" and "epochs" if the user set them, otherwise None; they take precedence.
    """
    before = read_manifest(state, "remove it").get("plan", {})
    wanted = {name: before.get(name) if value is None else value for name, value in given.items()}
    if None not in wanted.values():
        return DemoPlan(**wanted)
    speed, best_precision = matrix_speed(), resources.best_precision()
    plan = choose_plan(speed, best_precision, **wanted)
    print(tell(plan, speed, best_precision), flush=True)
    return plan


def _collect_inputs(run):
    """Returns all that the training result depends on: the command, the files that it reads, and bert_tf's code."""
    code = [path for path in _PACKAGE.rglob("*.py") if path.parent != pathlib.Path(__file__).resolve().parent]
    return {
        "command": run.training_command()[1:],
        "weights": _read_stamp(run.weights),
        "data": _read_stamp(run.data),
        "code": {str(path.relative_to(_PACKAGE)): sha256(path) for path in sorted(code)},
    }


def _read_stamp(folder):
    return (folder / data.STAMP).read_text(encoding="utf-8")


def _write_state(path, state):
    write_text(path, json.dumps(state, indent=1) + "\n")
