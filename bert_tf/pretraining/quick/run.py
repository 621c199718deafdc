"""Runs quick pretraining, resumably: from a directory of text to an encoder with the commands of other programs."""

import dataclasses
import functools
import json
import math
import pathlib
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from absl import logging

from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.quick import inputs
from bert_tf.pretraining.quick.inputs import QuickOptions
from bert_tf.pretraining.quick.plan import (
    CHECKPOINTS,
    TRIAL_CHECKPOINTS,
    TRIAL_STEPS,
    SizeRecipe,
    TrainingPlan,
    measure_throughput,
    spread_layers,
)
from bert_tf.pretraining.record_metadata import number_of_rows
from bert_tf.tokenization.vocabulary import VOCAB_FILE, Vocabulary, vocabulary_in
from bert_tf.utils.files import check_free, write_text
from bert_tf.utils.folder_lock import alone_in
from bert_tf.utils.manifest import check_same, read_manifest
from bert_tf.utils.resources import best_precision
from bert_tf.utils.settings import command_line
from bert_tf.utils.subprocesses import display_path, execute_command

# === Commands ===
# The commands of a run: programs with flags.


WORK = "work"  # in the output directory: everything but the result


@dataclasses.dataclass(frozen=True)
class Command:
    """A program with its flags.

    Attributes:
        program, flags: the program's name and its flags.
        fresh: a directory that must not exist when it starts.
    """

    program: str
    flags: Mapping[str, Any]
    fresh: pathlib.Path | None = None

    def words(self) -> list[str]:
        """Returns the command line: lists joined by commas, false as text, and true as the flag's name only."""
        texts = {}
        for name, value in self.flags.items():
            value = ",".join(map(str, value)) if isinstance(value, list) else value
            texts[name] = "false" if value is False else value
        return [display_path(sys.executable), "-m", "bert_tf", self.program, *command_line(texts)]

    def __str__(self):
        """Returns the command on one line, for a shell."""
        return shlex.join(self.words())


class Commands:
    """The command of each step.

    Args:
        options: options of the run, with the precision determined.
        recipe: the recipe of the encoder.
        depth: number of the teacher's layers, if there is one.

    Attributes:
        options, recipe: as given.
        folder: directory of the result.
        work: directory of everything else.
        config_file: configuration of a randomly initialized encoder.
        calibration_folder: directory of the calibration run.
        vocab_file: the user's, the teacher's or the learned vocabulary.
    """

    def __init__(self, options: QuickOptions, recipe: SizeRecipe, depth: int = 0):
        self.options, self.recipe, self._depth = options, recipe, depth
        self.folder = pathlib.Path(options.output_dir)
        self.work = self.folder / WORK
        self.config_file = self.work / "bert_config.json"
        self.calibration_folder = self.work / "calibration"
        given = vocabulary_in(options.teacher) if options.teacher else options.vocab_file
        self.vocab_file = pathlib.Path(given or self.work / VOCAB_FILE)
        self._first_folder = self.work / "first_weights"
        self._record_files = {length: self.work / f"records-{length}.tfrecord" for length in recipe.row_lengths}
        self._held_out_file = self.work / "held_out.tfrecord"
        self._case = {} if options.do_lower_case is None else {"do_lower_case": options.do_lower_case}

    def before_training(self) -> dict[str, Command]:
        """Returns the steps that create the records and the initial weights, by name and in order."""
        options, steps = self.options, {}
        if not (options.teacher or options.vocab_file):
            flags = {"input_file": options.input_file, "output_file": self.vocab_file, "vocab_size": options.vocab_size}
            steps["vocabulary"] = Command("train_vocabulary", {**flags, **options.text_flags, **self._case})
        for length, path in self._record_files.items():
            steps[f"records of {length}"] = self._records(options.input_file, path, length)
        if options.eval_file:
            length = self.recipe.phases[-1].row_length
            steps["held-out records"] = self._records(options.eval_file, self._held_out_file, length)
        if options.teacher:
            layers = spread_layers(self.recipe.layers, self._depth)
            flags = {"model": options.teacher, "layers": layers, "output_dir": self._first_folder}
            steps["first weights"] = Command("surgery", {**flags, **self._case}, fresh=self._first_folder)
        return steps

    def rows(self) -> dict[int, int]:
        """Returns the number of rows of each length, once the records exist."""
        return {length: number_of_rows(path) for length, path in self._record_files.items()}

    def calibration(self) -> Command:
        """Returns the command that trains `TRIAL_STEPS` in each phase."""
        steps = [TRIAL_STEPS] * len(self.recipe.phases)
        return self._training(steps, self.calibration_folder, TRIAL_CHECKPOINTS, fresh=self.calibration_folder)

    def training(self, steps: Sequence[int]) -> Command:
        """Returns the command that trains the given number of steps in each phase."""
        return self._training(steps, self.folder, CHECKPOINTS)

    def _records(self, texts, path, length):
        flags = {"input_file": texts, "output_file": path, "vocab_file": self.vocab_file, "max_seq_length": length}
        flags |= {**self.recipe.records, "random_seed": self.options.seed}
        return Command("create_pretraining_data", {**flags, **self.options.text_flags, **self._case})

    def _training(self, steps, folder, checkpoints, fresh=None):
        recipe, options, total = self.recipe, self.options, sum(steps)
        phases = zip(recipe.phases, steps, strict=True)
        if options.teacher:
            start = {"init_checkpoint": self._first_folder, "teacher": options.teacher}
        else:
            start = {"bert_config_file": self.config_file, "vocab_file": self.vocab_file}
        masked = recipe.pretraining.get("masked_lm_prob")  # for the shortest rows; proportional for longer ones
        most = {"max_predictions_per_seq": math.ceil(masked * recipe.row_lengths[0])} if masked else {}
        flags = {
            "input_file": list(self._record_files.values()),
            "output_dir": folder,
            "do_train": True,
            **start,
            **self._case,
            "phases": ",".join(f"{phase.row_length}x{count}@{phase.batch_size}" for phase, count in phases),
            "num_warmup_steps": max(1, min(recipe.warmup_steps, total // 5)),
            **most,
            **recipe.pretraining,
            "precision": options.precision,
            "seed": options.seed,
            "save_checkpoints_steps": -(-total // checkpoints),
            "keep_checkpoints": 1,
        }
        scored = {"eval_file": self._held_out_file, "do_eval": True} if options.eval_file else {}
        return Command("run_pretraining", flags | scored, fresh)


# === Journal ===
# The completed steps in an output directory, so that the same command resumes: steps.json.


JOURNAL_FILE = "steps.json"


@dataclasses.dataclass
class Journal:
    """The completed steps of a run.

    Attributes:
        path: path of its file.
        run: identity of the run, JSON values.
        steps: name -> {"command", "seconds"}.
    """

    path: pathlib.Path
    run: dict
    steps: dict[str, dict]

    @classmethod
    def of(cls, folder: str, run: Mapping, open_: Collection[str] = ()) -> "Journal":
        """Reads the journal of the run in a directory, or returns a new one if it is empty; writes nothing.

        Args:
            folder: the output directory.
            run: as in the attribute.
            open_: names in `run` whose values are taken from an existing run.

        Raises:
            ValueError: the directory has other contents, or a run with other settings.
        """
        path = pathlib.Path(folder, JOURNAL_FILE)
        if not path.exists():
            check_free(folder)
            return cls(path, dict(run), {})
        values = read_manifest(path, "choose another `output_dir`, or remove this one")
        then = values.get("run", {})
        now = {**run, **{name: then.get(name) for name in open_}}
        check_same(path, then, now, "Choose another `output_dir`, or remove this one.")
        return cls(path, then, values.get("steps", {}))

    @property
    def seconds(self) -> float:
        """Returns the total duration of the completed steps."""
        return sum(step["seconds"] for step in self.steps.values())

    def note(self, step: str, command: str, seconds: float):
        """Records that a step completed successfully."""
        self.steps[step] = {"command": command, "seconds": round(seconds, 3)}
        self.write()

    def write(self):
        """Writes the journal."""
        write_text(self.path, json.dumps({"run": self.run, "steps": self.steps}, indent=1) + "\n")


# === Run ===


def pretrain_small(
    options: QuickOptions, recipe: SizeRecipe, execute: Callable = execute_command, clock: Callable = time.monotonic
) -> int:
    """Runs quick pretraining, or its remaining steps.

    Args:
        options: options of the run.
        recipe: the recipe of the encoder.
        execute: runs a command, like `subprocesses.execute_command`.
        clock: returns the time in seconds.

    Returns:
        The number of training steps.

    Raises:
        ValueError: an input is not valid, the time limit is too short, or a program failed.
    """
    inputs.check_inputs(options, recipe)
    folder = pathlib.Path(options.output_dir)
    journal = _journal(options, recipe)
    if not journal.path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        journal.write()
    (folder / WORK).mkdir(exist_ok=True)
    with alone_in(folder / WORK) as lock:
        journal = _journal(options, recipe)  # perhaps of another command that was running until now
        settled = dataclasses.replace(options, precision=journal.run["precision"])
        depth = EncoderConfig.load(options.teacher).num_hidden_layers if options.teacher else 0
        steps = Commands(settled, recipe, depth)
        if "training" not in journal.steps:
            _Run(steps, journal, options.minutes, functools.partial(execute, inherited=[lock]), clock).make()
    return sum(TrainingPlan.read(folder).steps)


def _journal(options, recipe):
    """Returns the `Journal`; an automatic precision is the one of the run's first command."""
    run = inputs.identity(options, recipe)
    if options.precision != "auto":
        return Journal.of(options.output_dir, run)
    return Journal.of(options.output_dir, run | {"precision": best_precision()}, ("precision",))


@dataclasses.dataclass
class _Run:
    """The steps of a run, some of them not completed.

    Attributes:
        commands: commands of the steps.
        journal: journal of the completed steps.
        minutes: time limit of the whole run.
        execute, clock: as in `pretrain`.
    """

    commands: Commands
    journal: Journal
    minutes: float
    execute: Callable
    clock: Callable

    def make(self):
        """Runs the remaining steps."""
        plan = TrainingPlan.read(self.commands.folder)
        if plan is None:
            self._prepare()
            plan = self._settle()
        elif plan.minutes != self.minutes:
            raise ValueError(
                f"`minutes` cannot be changed once the training is planned. Received {self.minutes:g}, but "
                f"{self.commands.folder} is planned for {plan.minutes:g}; choose another `output_dir`."
            )
        shutil.rmtree(self.commands.calibration_folder, ignore_errors=True)
        self._do("training", self.commands.training(plan.steps), is_limited=False)

    def _prepare(self):
        steps = self.commands
        for name, command in steps.before_training().items():
            self._do(name, command)
        if steps.recipe.config is not None:
            size = len(Vocabulary.read(steps.vocab_file).tokens)
            inputs.check_vocabulary_size(size, steps.vocab_file, steps.recipe.config["hidden_size"])
            EncoderConfig(vocab_size=size, **steps.recipe.config).save(steps.config_file)
        inputs.check_rows(steps.rows(), steps.recipe)
        self._do("calibration", steps.calibration())

    def _settle(self):
        """Creates, writes and returns the plan: it is kept, so that an interrupted run gives the same result."""
        commands, phases = self.commands, self.commands.recipe.phases
        history = (commands.calibration_folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
        seconds = self.journal.steps["calibration"]["seconds"]
        rates = measure_throughput([json.loads(line) for line in history], phases, seconds)
        plan = TrainingPlan.of(phases, rates, self.minutes, self.journal.seconds)
        done = [step["command"] for step in self.journal.steps.values()]
        plan.write(commands.folder, phases, commands.rows(), [*done, str(commands.training(plan.steps))])
        logging.info(
            "Plan: %d steps in %.1f of %g minutes, of which %.1f are used.",
            *(sum(plan.steps), self.minutes - plan.minutes_used, self.minutes, plan.minutes_used),
        )
        if (read := max(plan.times_read(phases, commands.rows()))) < 1:
            logging.warning(
                "The time budget only covers %.0f %% of the text. Preparing the rest takes time without benefit: use "
                "less text in `input_file` to leave more time for training.", 100 * read,
            )  # fmt: skip
        return plan

    def _do(self, name: str, command: Command, is_limited: bool = True):
        """Runs a step unless it is completed; a limited one must end within the time limit."""
        if name in self.journal.steps:
            return
        too_few = ValueError(
            f"`minutes` is too short for the steps before the training: {self.minutes:g} minutes ended in the step "
            f"{name!r}. Use more minutes and run the same command again to resume, or start in another `output_dir` "
            "with less text."
        )
        left = 60 * self.minutes - self.journal.seconds if is_limited else None
        if is_limited and left <= 0:
            raise too_few
        if command.fresh:
            shutil.rmtree(command.fresh, ignore_errors=True)
        begin = self.clock()
        try:
            self.execute(command.words(), left)
        except subprocess.TimeoutExpired as error:
            raise too_few from error
        self.journal.note(name, str(command), self.clock() - begin)
