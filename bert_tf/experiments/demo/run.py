"""The demo's training: run_classifier is started only where its inputs have changed."""

import dataclasses
import hashlib
import json
import pathlib
import shutil
import sys
from collections.abc import Mapping
from typing import Any

import bert_tf
from bert_tf.experiments.demo import fetch
from bert_tf.experiments.demo import plan as plans
from bert_tf.experiments.demo import serve as demo_serve
from bert_tf.experiments.demo.plan import Plan
from bert_tf.utils import processor
from bert_tf.utils.child_programs import execute, shown
from bert_tf.utils.files import write_text
from bert_tf.utils.settings import command_line

_PACKAGE = pathlib.Path(bert_tf.__file__).resolve().parent
STATE = "demo.json"  # in the demo's folder: what was trained, from what
PROGRAM = ("-m", "bert_tf", "run_classifier")  # what Python is started with


@dataclasses.dataclass(frozen=True)
class Run:
    """Where the demo's things lie, and how it trains."""

    folder: pathlib.Path
    precision: str
    epochs: float
    seed: int

    @property
    def weights(self) -> pathlib.Path:
        return self.folder / "weights" / "minilm"

    @property
    def data(self) -> pathlib.Path:
        return self.folder / "data"

    @property
    def output(self) -> pathlib.Path:
        return self.folder / "output"

    @property
    def models(self) -> pathlib.Path:
        return self.folder / "models" / demo_serve.MODEL_NAME

    @property
    def state(self) -> pathlib.Path:
        return self.folder / STATE

    def training_command(self) -> list[str]:
        """Returns the command that fine-tunes, scores and exports."""
        return [shown(sys.executable), *PROGRAM, *command_line(self._flags())]

    def _flags(self):
        return {
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


def train(run: Run) -> bool:
    """Fine-tunes, scores and exports; True if that was done now, False if the stored result is of these very inputs.

    A run that was interrupted with the same inputs is continued by run_classifier; one with other inputs is removed.

    Raises:
        ValueError: run_classifier failed, or output/ is not the demo's own.
    """
    wanted, state = _digest(_inputs(run)), _read_state(run.state)
    is_complete = (run.output / "eval_results.txt").exists() and run.models.exists()
    if state.get("training") == wanted and state.get("trained") and is_complete:
        return False
    if state.get("training") != wanted and run.output.exists():
        if not state:
            raise ValueError(f"{run.output} must be a folder of the demo's own. Received one that it did not make.")
        print(f"Something changed since the last demo: {run.output} is made anew.")
        shutil.rmtree(run.output)
    state = {"plan": {"precision": run.precision, "epochs": run.epochs}, "training": wanted}
    _write_state(run.state, state)
    execute(run.training_command())
    _write_state(run.state, {**state, "trained": True})
    return True


def make_plan(state: pathlib.Path, given: Mapping[str, Any]) -> Plan:
    """Returns how to train: as it was begun or done here before, else as this machine allows; it says so.

    Args:
        state: the demo's file, `Run.state`.
        given: "precision" and "epochs" where the user gave them, else None: they count before all else.
    """
    before = _read_state(state).get("plan", {})
    wanted = {name: before.get(name) if value is None else value for name, value in given.items()}
    if None not in wanted.values():
        return Plan(**wanted)
    speed, best_precision = plans.matrix_speed(), processor.best_precision()
    plan = plans.choose(speed, best_precision, **wanted)
    print(plans.tell(plan, speed, best_precision), flush=True)
    return plan


def _inputs(run):
    """Returns all that the training result depends on: what is run, the files that it reads, and our own code."""
    code = [path for path in _PACKAGE.rglob("*.py") if path.parent != pathlib.Path(__file__).resolve().parent]
    return {
        "command": run.training_command()[1:],
        "weights": _stamp(run.weights),
        "data": _stamp(run.data),
        "code": {str(path.relative_to(_PACKAGE)): fetch.sha256(path) for path in sorted(code)},
    }


def _stamp(folder):
    return (folder / fetch.STAMP).read_text(encoding="utf-8")


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _read_state(path):
    """Returns what `_write_state` wrote, or {} where it never did."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _write_state(path, state):
    write_text(path, json.dumps(state, indent=1) + "\n")
