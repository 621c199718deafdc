"""A search is made: its trials trained one after the other, the best of each stage once more, all of them reported."""

import dataclasses
import math
import shlex
import time
from collections.abc import Sequence

from absl import logging

from bert_tf.experiments.tuning import report
from bert_tf.experiments.tuning.trials import Folder, Result, Trial, names
from bert_tf.utils import child_runs
from bert_tf.utils.child_runs import UNLESS_GIVEN, name_of
from bert_tf.utils.progress import clock
from bert_tf.utils.settings import command_line

# What a search sets for each trial, or leaves to the best one's command.
OURS = (
    "output_dir", "overwrite_output_dir", "do_train", "do_eval", "do_predict", "predict_file", "do_export",
    "export_dir",
)  # fmt: skip
_READ = ("train_file", "eval_file", "data_dir", "init_checkpoint", "bert_config_file", "vocab_file")


@dataclasses.dataclass
class Tuner:
    """Trials below one folder. What fails is told and noted in `failed`; the rest goes on, unless all share the error.

    Attributes:
        program: that makes each trial, as `bert-tf` knows it.
        others: its flags that all trials have alike.
        epochs: of a trial, where they are not searched.
        trials: that are wanted.
        folder: where they lie, and by what they are judged.
        keep_all: whether the weights of all trials stay, not only those of the best.
        claim: of `folder_lock.alone_in`.
    """

    program: str
    others: Sequence[str]
    epochs: float
    trials: Sequence[Trial]
    folder: Folder
    keep_all: bool
    claim: int

    def __post_init__(self):
        self.failed = []
        self._errors = {}  # trial -> what it told, of the first ones of this command, until one ended well
        self._one_ended_well = False

    def run(self):
        """Makes the trials that are not finished, stage by stage, and the page after each.

        Raises:
            ValueError: trials are not scored by the metric, or an error is one that all of them share: it is about a
                file that they have alike, or the first two ended with the same words.
        """
        stages, trials = self.folder.stages, list(self.trials)
        for stage in range(1, stages.count + 1):
            self._run_stage(stage, trials)
            done = self.folder.ranked(filter(None, (self.folder.result(trial, stage) for trial in trials)))
            best = [result.trial for result in done if not math.isnan(result.score)]
            trials = best[: stages.trials(len(self.trials), stage + 1)]

    def _run_stage(self, stage, trials):
        stages = self.folder.stages
        left = [trial for trial in trials if not self.folder.result(trial, stage)]
        which = f"Stage {stage} of {stages.count}: " if stages.count > 1 else ""
        logging.info("%s%d trials, %d of them finished already.", which, len(trials), len(trials) - len(left))
        begin = time.monotonic()
        for place, trial in enumerate(left):
            per_trial = (time.monotonic() - begin) / place if place else 0.0
            more = f"; {clock(per_trial * (len(left) - place))} left{' in this stage' * bool(which)}" if place else ""
            logging.info("%s (%d of %d)%s", trial, len(trials) - len(left) + place + 1, len(trials), more)
            self._make(trial, stage)
            self.report()
            self._check_errors()

    def _make(self, trial, stage):
        start, folder = time.monotonic(), self.folder.of(trial, stage)
        logged = child_runs.log_size(folder)
        if not child_runs.execute(self.program, self.flags(trial, stage), folder, self.claim):
            self.failed.append((trial, stage))
            if not self._one_ended_well:
                self._errors[trial] = child_runs.error_told(folder, logged)
            return
        self._one_ended_well = True
        seconds = time.monotonic() - start
        self.folder.mark_finished(trial, stage, seconds)
        result = self.folder.result(trial, stage)
        if result is None:  # a note that cannot be read back is none
            self.failed.append((trial, stage))
            return
        logging.info("    %s = %.5g, in %s", self.folder.metric, result.score, clock(seconds))
        if result.one_answer is not None:
            logging.warning("    It answers %r to all examples: it has learned nothing.", result.one_answer)
        results = self.folder.results(self.trials)
        if not self.keep_all:
            self.folder.drop_models(results, self.folder.best(results))

    def _check_errors(self):
        """Raises ValueError where what failed shows that the trials to come would fail alike."""
        if self._one_ended_well or not self._errors or None in self._errors.values():
            return
        last, told = list(self._errors.items())[-1]
        is_same = len(self._errors) > 1 and len(set(self._errors.values())) == 1
        if is_same or self._is_about_what_all_read(told, last):
            raise ValueError(
                f"Trials must be able to run. Received an error that all of them share, from {names(self._errors)}: "
                f"{told}\nCorrect it, and give the same command again."
            )

    def _is_about_what_all_read(self, told, trial):
        shared = [flag.partition("=")[2] for flag in self.others if name_of(flag) in _READ]
        searched = [f"--{name}" for name, _ in trial.values]
        return any(path and path in told for path in shared) and not any(name in told for name in searched)

    def flags(self, trial: Trial, stage: int) -> list[str]:
        """Returns the flags that make a trial: it is trained and scored, or goes on where it was interrupted."""
        stages, others = self.folder.stages, list(self.others)
        values = {"output_dir": self.folder.of(trial, stage), "do_train": True, "do_eval": True, **dict(trial.values)}
        if stages.count > 1:
            epochs = stages.epochs(float(values.get("num_train_epochs", self.epochs)), stage)
            values["num_train_epochs"] = f"{epochs:g}"
            others = [flag for flag in others if name_of(flag) != "num_train_epochs"]
        given = {*map(name_of, others), *values}
        values |= {name: value for name, value in UNLESS_GIVEN.items() if name not in given}
        return [*command_line(values), *others]

    def command(self, result: Result) -> str:
        """Returns the command that made a trial, or makes it again elsewhere, as one would type it."""
        return " ".join(["bert-tf", self.program, *map(shlex.quote, self.flags(result.trial, result.stage))])

    def best(self) -> Result | None:
        """Returns the best trial so far."""
        return self.folder.best(self.folder.results(self.trials))

    def as_good(self) -> list[Result]:
        """Returns the other trials that score as the best one does."""
        return self.folder.as_good(self.folder.results(self.trials))

    def report(self):
        """Writes the table and the page of all trials."""
        best = self.best()
        report.write(self.folder, self.trials, self.failed, best, best and self.command(best))
