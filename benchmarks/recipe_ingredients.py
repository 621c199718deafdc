"""What each ingredient of `pretrain quick` gives: its recipe, and the recipe with something else, at equal time.

    python benchmarks/recipe_ingredients.py wikitext2/train.raw.gz,gutenberg/ wikitext2/valid.raw.gz sst2-tutorial \\
        --seconds=260 --num_examples=1000 --teacher=minilm --output_dir=out

Each variant is pretrained by `pretrain quick` for the steps that --seconds suffice for (vocabulary, records and
checkpoints take none of them), and scored on the held-out text; then it is fine-tuned on train.tsv of the third
argument (text, tab, label) by each rate with each seed, and scored on test.tsv by the rate that is best on dev.tsv.
Losses can be compared where vocabulary, rows and share of masks are alike. How fast each variant is, is measured before
the first is trained: meanwhile nothing else should run on the machine, and afterwards it may. The same command goes on
where it was stopped; --variants names some of them, so that several commands can share the work.
"""

import argparse
import contextlib
import hashlib
import json
import pathlib
import shutil
import time

import fine_tuned
import scripts

from bert_tf.pretraining.quick.inputs import QuickOptions
from bert_tf.pretraining.quick.plan import PLAN_FILE
from bert_tf.pretraining.quick.recipe import SizeRecipe
from bert_tf.pretraining.quick.run import pretrain_small
from bert_tf.runs import pretraining_recipes
from bert_tf.utils.subprocesses import execute_command

_ENOUGH = 15.0  # minutes, for a plan

# What differs from the recipe: its parts by name, of which the mappings are joined; and flags of pretrain_small.
VARIANTS = {
    "recipe": {},
    "word embeddings move": {"pretraining": {"embedding_lr_factor": 1.0}},
    "word embeddings move slowly": {"pretraining": {"embedding_lr_factor": 0.1}},
    "word embeddings begin at random": {"pretraining": {"start_embeddings": "random", "embedding_lr_factor": 1.0}},
    "positions begin at random": {"pretraining": {"start_positions": "random"}},
    "norms last": {"config": {"norm_first": False}},
    "dropout of 0.1": {"pretraining": {"dropout_prob": 0.1}},
    "15% masked": {"pretraining": {"masked_lm_prob": 0.15}},
    "rows of 128": {"phases": ((128, 1.0, 16),)},
    "batch grows": {"phases": ((32, 0.3, 16), (32, 0.3, 32), (32, 0.4, 64))},
    "linear schedule": {"pretraining": {"schedule": "linear"}},
    "no mean of the weights": {"pretraining": {"average_weights": 0.0}},
    "vocabulary of 8000": {"flags": {"vocab_size": 8000}},
    "classifiers read [CLS]": {"config": {"classifier_pooling": "cls"}},
    "two layers": {"config": {"num_hidden_layers": 2}},
    "replaced tokens (ELECTRA)": {"pretraining": {"objective": "electra", "embedding_lr_factor": 1.0}},
    "taught by --teacher": {"recipe": pretraining_recipes.SMALL_TAUGHT, "teacher": True},
}


def recipe_of(changes) -> SizeRecipe:
    """Returns the recipe of a variant."""
    values = dict(changes.get("recipe", pretraining_recipes.SMALL))
    for name in ("config", "pretraining"):
        if name in changes:
            values[name] = {**values[name], **changes[name]}
    return SizeRecipe.of({**values, "phases": changes.get("phases", values["phases"])})


def options_of(options, changes, folder) -> QuickOptions:
    """Returns what `pretrain quick` makes of its flags."""
    given = {"input_file": options.texts, "eval_file": options.held_out, "output_dir": str(folder)}
    given |= {"minutes": _ENOUGH, "precision": options.precision, **changes.get("flags", {})}
    given |= {"teacher": options.teacher} if changes.get("teacher") else {}
    return QuickOptions().give(given)


class Planned(Exception):
    """All is done but the training."""


class Preparation:
    """How the steps of a run are made: no time passes while text is read, and what reads it alike is made once."""

    def __init__(self, folder: pathlib.Path, shared: pathlib.Path):
        self.folder, self.shared, self.hidden, self.trains = folder, shared, 0.0, False

    def clock(self) -> float:
        """Returns seconds without those of vocabulary and records."""
        return time.monotonic() - self.hidden

    def execute(self, words, limit=None, inherited=()):
        """Makes a step, as `child_programs.execute` does; the training only where `trains`."""
        targets = [word.partition("=")[2] for word in words if word.startswith("--output_file=")]
        if f"--output_dir={self.folder}" in words and not self.trains:
            raise Planned
        if not targets:
            return execute_command(words, limit, inherited)
        start, target = time.monotonic(), pathlib.Path(targets[0])
        kept = self.shared / self._key(words)
        if not kept.exists():
            before = {path.name for path in target.parent.iterdir()}
            execute_command(words)
            shutil.rmtree(aside := kept.with_suffix(".aside"), ignore_errors=True)
            shutil.copytree(target.parent, aside, ignore=lambda *_: before)
            aside.rename(kept)
        shutil.copytree(kept, target.parent, dirs_exist_ok=True)
        self.hidden += time.monotonic() - start

    def _key(self, words):
        vocabulary = self.folder / "work" / "vocab.txt"
        read = vocabulary.read_bytes() if vocabulary.exists() else b""
        return hashlib.sha256("\n".join(words[3:]).replace(f"{self.folder}", "").encode() + read).hexdigest()[:16]


def equal_time(folder: pathlib.Path, seconds: float):
    """Plans the training anew: so many seconds at the speed that was measured, whatever else took time."""
    path = folder / PLAN_FILE
    plan = json.loads(path.read_text(encoding="utf-8"))
    if plan.get("seconds") == seconds:
        return
    plan["seconds"], phases = seconds, plan["phases"]
    taken = sum(phase["num_train_steps"] * phase["train_batch_size"] / phase["rows_per_second"] for phase in phases)
    for phase in phases:
        phase["num_train_steps"] = round(phase["num_train_steps"] * seconds / taken)
    path.write_text(json.dumps(plan), encoding="utf-8")


def main():
    options, folder = _options()
    files = {split: f"{options.task}/{split}.tsv" for split in ("train", "dev", "test")}
    task, steps = fine_tuned.TASKS["texts"], {}
    for name in options.variants:
        out, changes = folder / name.replace(" ", "_"), VARIANTS[name]
        steps[name] = Preparation(out, folder / "shared")
        with contextlib.suppress(Planned):
            of_step = steps[name].execute, steps[name].clock
            pretrain_small(options_of(options, changes, out), recipe_of(changes), *of_step)
        equal_time(out, options.seconds)
    print(fine_tuned.header("Recipe", "Steps", "Held-out loss"))
    for name in options.variants:
        out, changes, steps[name].trains = folder / name.replace(" ", "_"), VARIANTS[name], True
        pretrain_small(options_of(options, changes, out), recipe_of(changes), steps[name].execute, steps[name].clock)
        found = scripts.scores(out)
        trial = fine_tuned.trial_of(task, files, folder, options, ["--train_batch_size=16"])
        rate, dev, test = trial.row(out.name, [f"--init_checkpoint={out}"])
        cells = [name, f"{found['global_step']:.0f}", f"{found.get('masked_lm_loss', found['loss']):.3f}"]
        print(fine_tuned.shown(cells, rate, dev, test), flush=True)


def _options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=fine_tuned.comma_separated, help="files and folders, with commas between them")
    parser.add_argument("held_out", type=fine_tuned.comma_separated, help="text to score on")
    parser.add_argument("task", help="a folder with train.tsv, dev.tsv and test.tsv")
    parser.add_argument("--seconds", type=float, default=260, help="of training")
    parser.add_argument("--teacher", help="a model's folder")
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--variants", type=fine_tuned.comma_separated, default=[*VARIANTS])
    fine_tuned.add_arguments(parser, rates="3e-5,1e-4,3e-4", seeds="1,2,3", epochs="5")
    options = parser.parse_args()
    if not options.teacher:
        options.variants = [name for name in options.variants if not VARIANTS[name].get("teacher")]
    return options, pathlib.Path(options.output_dir).resolve()


if __name__ == "__main__":
    main()
