"""The steps of the demo: plan, train, serve and ask."""

import dataclasses
import hashlib
import json
import math
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

import bert_tf
from bert_tf.experiments.demo import data
from bert_tf.utils import resources
from bert_tf.utils.files import sha256, write_text
from bert_tf.utils.manifest import read_manifest
from bert_tf.utils.progress import clock
from bert_tf.utils.settings import command_line
from bert_tf.utils.subprocesses import display_path, execute_command

# === Plan ===
# How the demo trains on this machine: in which precision, and how long, so that it ends within a few minutes.


SENTENCES = 8058  # in train.tsv
MOST, LEAST = 2.0, 1.0  # passes over them: more gains little, fewer are not enough for what the demo promises
_STEP = 0.25
_PATIENCE = 150.0  # seconds of training: with all else, and on a machine that is busy, the demo stays below 5 minutes
# What a pass over the sentences costs: as much time as a product of matrices with so many billion operations takes on
# the same machine, in float32. Measured; two thirds of it with instructions for bfloat16, which only products have.
_PASS = 20_400.0
_IN_BFLOAT16 = 0.66
_WIDTH = 768  # of the matrices that are multiplied to know the machine
_SECONDS = 0.5  # so long


@dataclasses.dataclass(frozen=True)
class DemoPlan:
    """Precision and length of the demo's training.

    Attributes:
        precision: "float32" or "mixed_bfloat16", or what the user gave.
        epochs: passes over the sentences.
    """

    precision: str
    epochs: float


def choose_plan(
    speed: float, best_precision: str, precision: str | None = None, epochs: float | None = None
) -> DemoPlan:
    """Returns the plan for a machine.

    Args:
        speed: of `matrix_speed`.
        best_precision: as `resources.best_precision`.
        precision, epochs: what the user gave, which is kept; None: nothing.
    """
    precision = precision or best_precision
    affordable = _PATIENCE / seconds(DemoPlan(precision, 1.0), speed)
    steps = math.floor(affordable / _STEP) * _STEP
    return DemoPlan(precision, min(MOST, max(LEAST, steps)) if epochs is None else epochs)


def seconds(plan: DemoPlan, speed: float) -> float:
    """Returns how long training by this plan will take, about, on a machine of this speed."""
    return plan.epochs * _PASS * (1.0 if plan.precision == "float32" else _IN_BFLOAT16) / speed


def tell(plan: DemoPlan, speed: float, best_precision: str) -> str:
    """Returns the line that says what was chosen, and why."""
    has = "has no use for bfloat16" if best_precision == "float32" else "computes in bfloat16"
    passes = "1 pass" if plan.epochs == 1 else f"{plan.epochs:g} passes"
    duration = clock(seconds(plan, speed))
    return (
        f"Plan: {plan.precision}, {passes} over {SENTENCES:,} sentences, about {duration} minutes of training: "
        f"the processor {has} and multiplies matrices at {speed:,.0f} GFLOP/s now."
    )


def matrix_speed() -> float:
    """Returns how many billion operations in float32 a product of matrices makes a second here, with what else runs."""
    import numpy as np  # here: `bert-tf demo --help` does without

    matrix = np.full((_WIDTH, _WIDTH), 1 / _WIDTH, np.float32)
    matrix @ matrix  # the first one makes the threads
    count, begin = 0, time.perf_counter()
    while (passed := time.perf_counter() - begin) < _SECONDS:
        matrix @ matrix
        count += 1
    return 2 * _WIDTH**3 * count / passed / 1e9


# === Serve ===
# The demo's last act: the exported model behind a server, asked over gRPC as any program would ask it.


MODEL_NAME = "reviews"
_SERVE_PATIENCE = 120.0  # seconds until the server must answer


def ask_models(models: pathlib.Path, sentences: Sequence[str], log: pathlib.Path, python: str) -> list[dict]:
    """Starts the server on `models`, asks it through the client, stops it; prints both commands.

    Args:
        models: the model's directory, with a folder for each version.
        sentences: what to ask.
        log: file for what the server says.
        python: the interpreter, as it is to be printed.

    Returns:
        {"text", "label", "probabilities": {label: p}} for each sentence.

    Raises:
        ValueError: the server or the client fails; the message says where to look.
    """
    port, rest_port = _free_ports(2)
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
        client = subprocess.run([sys.executable, *client_command, "--", *sentences], capture_output=True, text=True)
        if client.returncode:
            why = client.stderr.strip()
            raise ValueError(f"The client failed with status {client.returncode}: {why}")
        print(client.stdout)
        return [json.loads(line) for line in client.stdout.splitlines()]
    finally:
        server.terminate()
        server.wait()


def _wait_until_ready(server, rest_port, log):
    """Returns when the server says that its model is loaded."""
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
        with urllib.request.urlopen(f"http://localhost:{rest_port}/readyz", timeout=5) as response:
            return response.status == 200
    except OSError:  # nobody listens yet, or 503
        return False


def _free_ports(count):
    """Returns ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


# === Training ===
# The demo's training: run_classifier is started only where its inputs have changed.


_PACKAGE = pathlib.Path(bert_tf.__file__).resolve().parent
STATE = "demo.json"  # in the demo's folder: what was trained, from what
PROGRAM = ("-m", "bert_tf", "run_classifier")  # what Python is started with


class DemoRun:
    """Paths of the demo's things, and the settings of its training.

    Args:
        folder: of the demo.
        precision, epochs: as of `DemoPlan`.
        seed: of the training.
    """

    def __init__(self, folder: pathlib.Path, precision: str, epochs: float, seed: int):
        self.folder, self.precision, self.epochs, self.seed = folder, precision, epochs, seed
        self.weights, self.data, self.output = folder / "weights" / "minilm", folder / "data", folder / "output"
        self.models, self.state = folder / "models" / MODEL_NAME, folder / STATE

    def training_command(self) -> list[str]:
        """Returns the command that fine-tunes, scores and exports."""
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
    """Fine-tunes, scores and exports; True if that was done now, False if the stored result is of these very inputs.

    A run that was interrupted with the same inputs is continued by run_classifier; one with other inputs is removed.

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
        print(f"Something changed since the last demo: {run.output} is made again.")
        shutil.rmtree(run.output)
    state = {"plan": {"precision": run.precision, "epochs": run.epochs}, "training": wanted}
    _write_state(run.state, state)
    execute_command(run.training_command())
    _write_state(run.state, {**state, "trained": True})
    return True


def make_plan(state: pathlib.Path, given: Mapping[str, Any]) -> DemoPlan:
    """Returns how to train: as it was begun or done here before, else as this machine allows; it says so.

    Args:
        state: the demo's file, `DemoRun.state`.
        given: "precision" and "epochs" where the user gave them, else None: they count before all else.
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
    """Returns all that the training result depends on: what is run, the files that it reads, and our own code."""
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
