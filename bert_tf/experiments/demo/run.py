"""The demo's training, which runs only if its inputs have changed."""

import hashlib
import json
import pathlib
import shutil
import time
from collections.abc import Mapping
from typing import Any

import bert_tf
from bert_tf.experiments.demo.archives import STAMP
from bert_tf.experiments.demo.plan import DemoPlan, choose_plan, matrix_speed, tell
from bert_tf.experiments.demo.serving import MODEL_NAME
from bert_tf.utils import resources
from bert_tf.utils.files import sha256, write_text
from bert_tf.utils.manifest import read_manifest

_PACKAGE = pathlib.Path(bert_tf.__file__).resolve().parent
STATE = "demo.json"  # in the demo's directory: what was trained, and from which inputs


class DemoRun:
    """Paths of the demo, and the settings of its training.

    Args:
        folder: directory of the demo.
        precision, epochs: as in `DemoPlan`.
        seed: random seed of the training.
    """

    def __init__(self, folder: pathlib.Path, precision: str, epochs: float, seed: int):
        self.folder, self.precision, self.epochs, self.seed = folder, precision, epochs, seed
        self.weights, self.data, self.output = folder / "weights" / "minilm", folder / "data", folder / "output"
        self.models, self.state = folder / "models" / MODEL_NAME, folder / STATE

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `bert_tf.finetune`, which fine-tunes, evaluates and exports."""
        return {
            "train": str(self.data / "train.tsv"),
            "eval": str(self.data / "test.tsv"),
            "text_column": "text",
            "label_column": "label",
            "init_checkpoint": str(self.weights),
            "output_dir": str(self.output),
            "export_dir": str(self.models),
            "max_seq_length": 64,
            "precision": self.precision,
            "train_batch_size": 32,
            "learning_rate": 5e-5,
            "num_train_epochs": self.epochs,
            "seed": self.seed,
            "save_checkpoints_steps": 100,  # of about 500: an interruption costs less than a minute
            "keep_checkpoints": 1,
        }


def train_demo(run: DemoRun) -> bool:
    """Fine-tunes, evaluates and exports; returns False if the stored result has the same inputs.

    An interrupted run with the same inputs is resumed; one with other inputs is removed.

    Raises:
        ValueError: training failed, or output/ is not the demo's own.
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
    _finetune(run.arguments())
    _write_state(run.state, {**state, "trained": True})
    return True


def _finetune(arguments):
    """Prints the call to `bert_tf.finetune`, runs it, and prints its duration."""
    lines = "".join(f"    {name}={value!r},\n" for name, value in arguments.items())
    print(f'\n>>> bert_tf.finetune(\n    "classification",\n{lines})\n', flush=True)
    start = time.monotonic()
    bert_tf.finetune("classification", **arguments)
    print(f"({time.monotonic() - start:.0f} s)", flush=True)


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
    """Returns all that the training result depends on: the arguments, the files that it reads, and bert_tf's code."""
    code = [path for path in _PACKAGE.rglob("*.py") if path.parent != pathlib.Path(__file__).resolve().parent]
    return {
        "arguments": run.arguments(),
        "weights": _read_stamp(run.weights),
        "data": _read_stamp(run.data),
        "code": {str(path.relative_to(_PACKAGE)): sha256(path) for path in sorted(code)},
    }


def _read_stamp(folder):
    return (folder / STAMP).read_text(encoding="utf-8")


def _write_state(path, state):
    write_text(path, json.dumps(state, indent=1) + "\n")
