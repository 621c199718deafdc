"""Runs quick pretraining, from a folder of text to an encoder, resumable."""

import dataclasses
import functools
import json
import pathlib
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Mapping

from absl import logging

from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.quick import commands
from bert_tf.pretraining.quick.commands import WORK, Command, Commands, QuickOptions
from bert_tf.pretraining.quick.plan import SizeRecipe, TrainingPlan, measure_throughput
from bert_tf.tokenization.vocabulary import Vocabulary
from bert_tf.utils.files import check_free, write_text
from bert_tf.utils.folder_lock import alone_in
from bert_tf.utils.manifest import check_same, read_manifest
from bert_tf.utils.resources import best_precision
from bert_tf.utils.subprocesses import execute_command

# === Journal ===
# The steps that are done in an output directory, so that the same command goes on: steps.json.


JOURNAL_FILE = "steps.json"


@dataclasses.dataclass
class Journal:
    """The finished steps of a run.

    Attributes:
        path: of its file.
        run: what the run is made of, JSON values.
        steps: name -> {"command", "seconds"}.
    """

    path: pathlib.Path
    run: dict
    steps: dict[str, dict]

    @classmethod
    def of(cls, folder: str, run: Mapping, open_: Collection[str] = ()) -> "Journal":
        """Returns the journal of the run in a folder, or a new one where nothing is there yet; writes nothing.

        Args:
            folder: the output directory.
            run: see `run`.
            open_: names in it whose values are those of the run which is there, if there is one.

        Raises:
            ValueError: there is something else in the folder, or a run of other settings.
        """
        path = pathlib.Path(folder, JOURNAL_FILE)
        if not path.exists():
            check_free(folder)
            return cls(path, dict(run), {})
        values = read_manifest(path, "name another `output_dir`, or remove it all")
        then = values.get("run", {})
        now = {**run, **{name: then.get(name) for name in open_}}
        check_same(path, then, now, "Name another `output_dir`, or remove it all.")
        return cls(path, then, values.get("steps", {}))

    @property
    def seconds(self) -> float:
        """Seconds that the finished steps took."""
        return sum(step["seconds"] for step in self.steps.values())

    def note(self, step: str, command: str, seconds: float):
        """Writes that a step has ended well."""
        self.steps[step] = {"command": command, "seconds": round(seconds, 3)}
        self.write()

    def write(self):
        """Writes the journal."""
        write_text(self.path, json.dumps({"run": self.run, "steps": self.steps}, indent=1) + "\n")


# === Run ===


def pretrain(
    options: QuickOptions, recipe: SizeRecipe, execute: Callable = execute_command, clock: Callable = time.monotonic
) -> int:
    """Makes the encoder, or what is left to do of it.

    Args:
        options: what is made of what.
        recipe: how it is made.
        execute: as `subprocesses.execute_command`.
        clock: gives seconds.

    Returns:
        how many steps its training has.

    Raises:
        ValueError: what is given is not as it must be, the minutes are too few, or a program failed.
    """
    commands.check_inputs(options, recipe)
    folder = pathlib.Path(options.output_dir)
    journal = _journal(options, recipe)
    if not journal.path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        journal.write()
    (folder / WORK).mkdir(exist_ok=True)
    with alone_in(folder / WORK) as lock:
        journal = _journal(options, recipe)  # of another command that was at work until now, perhaps
        settled = dataclasses.replace(options, precision=journal.run["precision"])
        depth = EncoderConfig.load(options.teacher).num_hidden_layers if options.teacher else 0
        steps = Commands(settled, recipe, depth)
        if "training" not in journal.steps:
            _Run(steps, journal, options.minutes, functools.partial(execute, inherited=[lock]), clock).make()
    return sum(TrainingPlan.read(folder).steps)


def _journal(options, recipe):
    """Returns the `Journal`; where the precision is left to the processor, it is that of the run's first command."""
    run = commands.identity(options, recipe)
    if options.precision != "auto":
        return Journal.of(options.output_dir, run)
    return Journal.of(options.output_dir, run | {"precision": best_precision()}, ("precision",))


@dataclasses.dataclass
class _Run:
    """The steps of one run, not all of them done.

    Attributes:
        commands: of the steps.
        journal: of those that are done.
        minutes: for all.
        execute, clock: as of `pretrain`.
    """

    commands: Commands
    journal: Journal
    minutes: float
    execute: Callable
    clock: Callable

    def make(self):
        """Makes the steps that are left."""
        plan = TrainingPlan.read(self.commands.folder)
        if plan is None:
            self._prepare()
            plan = self._settle()
        elif plan.minutes != self.minutes:
            raise ValueError(
                f"`minutes` must stay as they were once the training is planned. Received {self.minutes:g}, and "
                f"{self.commands.folder} is planned for {plan.minutes:g}; name another `output_dir`."
            )
        shutil.rmtree(self.commands.calibration_folder, ignore_errors=True)
        self._do("training", self.commands.training(plan.steps), is_limited=False)

    def _prepare(self):
        steps = self.commands
        for name, command in steps.before_training().items():
            self._do(name, command)
        if steps.recipe.config is not None:
            size = len(Vocabulary.read(steps.vocab_file).tokens)
            commands.check_vocabulary_size(size, steps.vocab_file, steps.recipe.config["hidden_size"])
            EncoderConfig(vocab_size=size, **steps.recipe.config).save(steps.config_file)
        commands.check_rows(steps.rows(), steps.recipe)
        self._do("calibration", steps.calibration())

    def _settle(self):
        """Returns the plan, and writes it: it stays, so that a run that is interrupted ends as another does."""
        commands, phases = self.commands, self.commands.recipe.phases
        history = (commands.calibration_folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
        seconds = self.journal.steps["calibration"]["seconds"]
        rates = measure_throughput([json.loads(line) for line in history], phases, seconds)
        plan = TrainingPlan.of(phases, rates, self.minutes, self.journal.seconds)
        done = [step["command"] for step in self.journal.steps.values()]
        plan.write(commands.folder, phases, commands.rows(), [*done, str(commands.training(plan.steps))])
        logging.info(
            "Planned: %d steps in %.1f of %g minutes, of which %.1f are used.",
            *(sum(plan.steps), self.minutes - plan.minutes_used, self.minutes, plan.minutes_used),
        )
        if (read := max(plan.times_read(phases, commands.rows()))) < 1:
            logging.warning(
                "The minutes suffice to read %.0f %% of the text. Preparing the rest took time and gains nothing: with "
                "less in `input_file` more of them are left for the training.", 100 * read,
            )  # fmt: skip
        return plan

    def _do(self, name: str, command: Command, is_limited: bool = True):
        """Makes a step that is not done; one that is limited must end while minutes are left."""
        if name in self.journal.steps:
            return
        too_few = ValueError(
            f"`minutes` must be enough for all that comes before the training. Received {self.minutes:g}, which were "
            f"over in the step {name!r}; give more, with which the same command goes on, or begin in another "
            "`output_dir` with less text."
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
