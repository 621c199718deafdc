"""Recipes and options for tests, and children that do nothing but note how they were called."""

import json
import pathlib
import subprocess

from bert_tf.cli.commands import find
from bert_tf.pretraining.quick.plan import TRIAL_CHECKPOINTS, TRIAL_STEPS
from bert_tf.pretraining.quick.recipe import SizeRecipe
from bert_tf.pretraining.settings import QuickOptions
from bert_tf.runs import pretraining_recipes
from tests import tiny

_TINY = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
VOCAB = (*tiny.VOCAB, *"01234567")  # more pieces than the network is wide
_EXACT = {"deterministic": True}
SMALL = {
    **pretraining_recipes.SMALL,
    "phases": ((16, 0.6, 8), (32, 0.4, 4)),
    "config": pretraining_recipes.SMALL["config"] | _TINY | {"max_position_embeddings": 32},
    "pretraining": pretraining_recipes.SMALL["pretraining"] | _EXACT,
}
SMALL_TAUGHT = {
    **pretraining_recipes.SMALL_TAUGHT,
    "phases": ((16, 1.0, 8),),
    "layers": 2,
    "pretraining": pretraining_recipes.SMALL_TAUGHT["pretraining"] | _EXACT,
}


def options(**given) -> QuickOptions:
    """Returns what the program makes of these flags."""
    return QuickOptions().give(given)


def recipe(taught=False) -> SizeRecipe:
    return SizeRecipe.of(SMALL_TAUGHT if taught else SMALL)


def history(phases, rates, seconds=2, slow=3.0) -> list[dict]:
    """Returns the history of a calibration whose first steps are slower, and whose last checkpoint takes `seconds`."""
    end, lines = TRIAL_STEPS * len(phases), []
    for step in range(2, end + 1, 2):
        rate = rates[(step - 1) // TRIAL_STEPS]
        rate /= slow if (step - 1) % TRIAL_STEPS < 6 else 1
        late = seconds if step == end else 0
        lines.append({"kind": "train", "step": step, "time": _time(late), "examples_per_second": rate})
    end = {**lines[-1], "kind": "eval", "time": _time(seconds + 40)}  # of the run: no checkpoint waits so long
    return [{"kind": "start", "step": 0, "time": _time(0)}, *lines, {**lines[-1], "kind": "eval"}, end]


def _time(second):
    return f"2026-01-01T00:00:{second:02d}+00:00"


class Children:
    """Stands for `child_programs.execute`, and for the clock.

    Attributes:
        called: (program, its flags) of each call; a flag without a value is "".
        rows: that the records of each length have.
        seconds: that each program takes.
        fails: the program that ends badly.
    """

    def __init__(self, phases, rates=(80.0, 40.0), **seconds):
        self.called, self.now, self.fails = [], 0.0, None
        self.phases, self.rates, self.rows, self.seconds = phases, rates, 10_000, seconds

    def clock(self) -> float:
        return self.now

    def execute(self, command, limit, inherited):
        assert len(inherited) == 1, "the lock"
        program, _, words = find(command[3:])
        flags = {name: value for name, _, value in (word.removeprefix("--").partition("=") for word in words)}
        self.called.append((program, flags))
        seconds = self.seconds.get(program, 1.0)
        if limit is not None and seconds > limit:
            raise subprocess.TimeoutExpired(command, limit)
        if program == self.fails:
            raise ValueError("The command above failed with status")
        self.now += seconds
        getattr(self, f"_{program}", lambda flags: None)(flags)

    def _train_vocabulary(self, flags):
        pathlib.Path(flags["output_file"]).write_text("".join(f"{piece}\n" for piece in VOCAB), encoding="utf-8")

    def _create_pretraining_data(self, flags):
        description = pathlib.Path(flags["output_file"].replace(".tfrecord", "_records.json"))
        description.write_text(json.dumps({"rows": self.rows}), encoding="utf-8")

    def _run_pretraining(self, flags):
        folder = pathlib.Path(flags["output_dir"])
        folder.mkdir(exist_ok=True)
        lines = map(json.dumps, history(self.phases, self.rates, seconds=0))
        (folder / "history.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def programs(self) -> list[str]:
        return [program for program, _ in self.called]


assert TRIAL_CHECKPOINTS > 1, "the last checkpoint is one that builds no graph"
