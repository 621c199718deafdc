"""Runs a search: trains its trials one by one, trains the best of each stage again, and reports all."""

import math
import shlex
from collections.abc import Sequence

from bert_tf.experiments.child_runs import ChildRun, ChildRuns, training_flags
from bert_tf.experiments.tuning.report import write_tuning_report
from bert_tf.experiments.tuning.samplers import TpeSampler
from bert_tf.experiments.tuning.trials import Folder, Trial, TrialResult, format_trial_numbers
from bert_tf.tasks.built_in import BUILT_IN_TASKS
from bert_tf.utils.files import find_files
from bert_tf.utils.logged_runs import name_of_flag

# Flags that a search sets for each trial, or leaves to the best trial's command.
OURS = (
    "output_dir", "overwrite_output_dir", "do_train", "do_eval", "do_predict", "predict_file", "do_export",
    "export_dir",
)  # fmt: skip
_READ = ("train_file", "eval_file", "test_file", "data_dir", "init_checkpoint", "bert_config_file", "vocab_file")


class Tuner(ChildRuns):
    """Trials in one directory; a run is a trial and its stage. If all trials share an error, the search ends.

    Args:
        program: the command of each trial, as in `bert-tf`.
        others: its flags that all trials share.
        epochs: epochs of a trial, if they are not searched.
        trials: the requested trials.
        folder: their directory, and the metric that ranks them.
        keep_all, claim: as in `ChildRuns`.
        sampler: adds trials to `trials`, each from the scores of earlier ones; if None, nothing is added.
    """

    _noun = "trials"

    def __init__(
        self,
        program: str,
        others: Sequence[str],
        epochs: float,
        trials: Sequence[Trial],
        folder: Folder,
        keep_all: bool,
        claim: int,
        sampler: TpeSampler | None = None,
    ):
        super().__init__(program, claim, keep_all)
        self.others, self.epochs, self.trials, self.folder = others, epochs, list(trials), folder
        self.sampler = sampler

    def run(self):
        """Runs the unfinished trials, stage by stage, and writes the report after each.

        Raises:
            ValueError: trials do not have the metric, or an error is shared by all of them: it is about a
                common file, or the first two failed with the same message.
        """
        stages, trials = self.folder.stages, list(self.trials)
        for stage in range(1, stages.count + 1):
            title, left_in = (f"Stage {stage} of {stages.count}: ", " in this stage") if stages.count > 1 else ("", "")
            if trials:
                self.make([self._child(trial, stage) for trial in trials], title, left_in)
            if stage == 1 and self.sampler:
                self._make_sampled()
                trials = self.trials
            done = self.folder.ranked(filter(None, (self.folder.result(trial, stage) for trial in trials)))
            best = [result.trial for result in done if not math.isnan(result.score)]
            trials = best[: stages.trials(len(self.trials), stage + 1)]

    def _make_sampled(self):
        """Runs what the sampler suggests, trial by trial."""
        while True:
            results = filter(None, (self.folder.result(trial, 1) for trial in self.trials))
            trial = self.sampler.suggest({result.trial.number: result.score for result in results})
            if trial is None:
                return
            self.trials.append(trial)
            self.make_one(self._child(trial, 1), trial.number, self.sampler.count)

    def _child(self, trial, stage):
        note = {"trial": trial.number, "stage": stage, "values": dict(trial.values), "seconds": 0.0}
        title = str(trial).replace("{", "{{").replace("}", "}}") + " ({number} of {count})"
        return ChildRun((trial, stage), self.folder.of(trial, stage), self.flags(trial, stage), note, title)

    def result(self, run):
        return self.folder.result(*run)

    def rivals(self, run):
        results = self.folder.results(self.trials)
        return results, self.folder.best(results)

    def format_scores(self, result):
        return f"{self.folder.metric} = {result.score:.5g}"

    def check_errors(self):
        if self.one_succeeded or not self.errors or None in self.errors.values():
            return
        (last, _), message = list(self.errors.items())[-1]
        is_same = len(self.errors) > 1 and len(set(self.errors.values())) == 1
        if is_same or self._is_about_what_all_read(message, last):
            raise ValueError(
                "All trials fail with the same error, as in "
                f"{format_trial_numbers(trial for trial, _ in self.errors)}: {message}\n"
                "Fix it, and run the same command again."
            )

    def _is_about_what_all_read(self, message, trial):
        given = [flag.partition("=")[2] for flag in self.others if name_of_flag(flag) in _READ]
        shared = [path for each in given for path in find_files(each)]
        searched = [f"--{name}" for name, _ in trial.values]
        return any(path and path in message for path in shared) and not any(name in message for name in searched)

    def flags(self, trial: Trial, stage: int) -> list[str]:
        """Returns the flags of a trial, which trains and evaluates, or resumes where it was interrupted."""
        stages, others = self.folder.stages, list(self.others)
        values = {"output_dir": self.folder.of(trial, stage), "do_train": True, "do_eval": True, **dict(trial.values)}
        if stages.count > 1:
            epochs = stages.epochs(float(values.get("num_train_epochs", self.epochs)), stage)
            values["num_train_epochs"] = f"{epochs:g}"
            others = [flag for flag in others if name_of_flag(flag) != "num_train_epochs"]
        return training_flags(values, others)

    def command(self, result: TrialResult) -> str:
        """Returns the command of a trial, or of its repetition elsewhere, as typed in a shell."""
        shown = next(task.alias for task in BUILT_IN_TASKS if task.command == self.program)
        return " ".join(["bert-tf", shown, *map(shlex.quote, self.flags(result.trial, result.stage))])

    def best(self) -> TrialResult | None:
        """Returns the best trial so far."""
        return self.folder.best(self.folder.results(self.trials))

    def as_good(self) -> list[TrialResult]:
        """Returns the other trials with the same score as the best one."""
        return self.folder.as_good(self.folder.results(self.trials))

    def report(self):
        """Writes the table and the report of all trials."""
        best = self.best()
        write_tuning_report(self.folder, self.trials, self.failed, best, best and self.command(best))
