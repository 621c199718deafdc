"""Runs quick pretraining, resumably: from a directory of text to an encoder with the commands of other programs."""

import dataclasses
import functools
import json
import pathlib
import shutil
import subprocess
import time
from collections.abc import Callable

from absl import logging

from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.quick import inputs
from bert_tf.pretraining.quick.commands import WORK, Command, Commands
from bert_tf.pretraining.quick.journal import Journal
from bert_tf.pretraining.quick.plan import TrainingPlan, measure_throughput
from bert_tf.pretraining.quick.recipe import SizeRecipe
from bert_tf.pretraining.settings import QuickOptions
from bert_tf.utils.folder_lock import alone_in
from bert_tf.utils.resources import best_precision
from bert_tf.utils.subprocesses import execute_command


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
                f"`minutes` cannot be changed once the training is planned; got {self.minutes:g}, but "
                f"{self.commands.folder} is planned for {plan.minutes:g}; choose a new `output_dir`."
            )
        shutil.rmtree(self.commands.calibration_folder, ignore_errors=True)
        self._do("training", self.commands.training(plan.steps), is_limited=False)

    def _prepare(self):
        steps = self.commands
        for name, command in steps.before_training().items():
            self._do(name, command)
        if steps.recipe.config is not None:
            config, source = steps.config, steps.tokenizer_directory or steps.vocab_file
            inputs.check_vocabulary_size(config.vocab_size, source, config.embedding_width)
            config.save(steps.config_file)
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
                "The time budget only covers %.0f%% of the text. Preparing the rest takes time without benefit: use "
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
