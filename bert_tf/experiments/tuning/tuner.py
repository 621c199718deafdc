"""Runs a hyperparameter search, and writes its report."""

import math
import shlex
import statistics
from collections.abc import Sequence

from bert_tf.experiments.child_runs import ChildRun, ChildRuns, training_flags
from bert_tf.experiments.tuning.samplers import TpeSampler
from bert_tf.experiments.tuning.trials import Folder, Trial, TrialResult, format_trial_numbers
from bert_tf.utils.files import find_files, write_text
from bert_tf.utils.html_report import ACCENT, FILL, INK, PALE, Page
from bert_tf.utils.logged_runs import name_of_flag
from bert_tf.utils.progress import clock

# === Report ===
# Results of a search: trials.tsv and report.html.


TABLE_FILE, PAGE_FILE = "trials.tsv", "report.html"


def write_tuning_report(
    folder: Folder,
    trials: Sequence[Trial],
    failed: Sequence[tuple[Trial, int]],
    best: TrialResult | None,
    command: str | None,
):
    """Writes both files, each atomically.

    Args:
        folder: directory of the search.
        trials: all requested trials.
        failed: (trial, stage) of the failed ones.
        best: the best trial so far.
        command: the command of the best trial.

    Raises:
        OSError: a file cannot be written; it is unchanged.
    """
    results = folder.results(trials)
    write_text(folder.path / TABLE_FILE, format_trials(results))
    write_text(folder.path / PAGE_FILE, build_tuning_page(folder, trials, results, failed, best, command))


def format_trials(results: Sequence[TrialResult]) -> str:
    """Returns trials.tsv: one line per finished trial and stage, with its values and metrics.

    `one_answer` holds the constant prediction of a trial, if any.
    """
    names = list(dict.fromkeys(name for result in results for name, _ in result.trial.values))
    scores = list(dict.fromkeys(name for result in results for name in result.scores))
    lines = [["trial", "stage", *names, *scores, "one_answer", "seconds"]]
    for result in results:
        values = dict(result.trial.values)
        numbers = [str(result.scores.get(name, "")) for name in scores]
        lines.append([
            str(result.trial.number), str(result.stage), *(values.get(name, "") for name in names), *numbers,
            result.one_answer or "", f"{result.seconds:g}",
        ])  # fmt: skip
    return "".join("\t".join(line) + "\n" for line in lines)


def build_tuning_page(folder, trials, results, failed, best, command) -> str:
    """Returns the page as one HTML file; it takes what `write_tuning_report` takes. The same results make the same
    bytes."""
    document, stages = Page(f"Hyperparameter search: {folder.path.name}"), folder.stages
    document.text(
        f"Trials are ranked by {folder.metric}; {'higher' if folder.higher else 'lower'} is better. The score of the "
        "selected trial is optimistic: report a metric on data that was not used for the selection."
    )
    equal = folder.as_good(results)
    with document.cards(), document.card("Results"):
        document.table(None, _list_overview(folder, trials, results, failed, best))
    if equal:
        tied = format_trial_numbers(result.trial for result in (best, *equal))
        document.text(f"Tied for the best: {tied}. The first is taken; {folder.metric} is the same.")
    if best:
        document.text("The command of the best trial. Add flags to predict or to export with its model:")
        document.text(command)
    for stage in range(1, stages.count + 1):
        here = folder.ranked(result for result in results if result.stage == stage)
        if not here:
            continue
        share = stages.epochs(1.0, stage)
        share = "all" if share == 1 else f"1/{1 / share:g}"
        name = f"Stage {stage}, {share} of the epochs" if stages.count > 1 else "Trials"
        finite = [result for result in here if not math.isnan(result.score)]
        if len(finite) > 1:
            document.figure(f"{name}: metric by flag", _make_parallel_plot(finite, folder.metric), height=3.0)
        document.table(name, [_describe_result(result, best, equal) for result in here])
    document.table("Mean by flag value", _average_by_flag(folder, results))
    if failed:
        rows = [(f"trial {t.number}", t.shown(), str(folder.of(t, stage))) for t, stage in failed]
        document.table("Failed trials", rows)
    return document.html()


def _list_overview(folder, trials, results, failed, best):
    seconds = sum(result.seconds for result in results)
    first = [result for result in results if result.stage == 1]
    lines = [("trials", f"{len(first)} of {len(trials)}", f"{clock(seconds)} of compute")]
    if folder.stages.count > 1:
        count = folder.stages.count
        last = [result for result in results if result.stage == count]
        lines.append(("in the last stage", str(len(last)), f"of {folder.stages.trials(len(trials), count)}"))
    if failed:
        lines.append(("failed", str(len(failed)), "rerun the same command to repeat them"))
    if nothing := sum(result.one_answer is not None for result in results):
        lines.append(("learned nothing", str(nothing), "one prediction for all; excluded from the means below"))
    if best:
        alone = "" if best.is_of_use else ", which has learned nothing, and no other has"
        lines.append(("best", f"{best.score:.5g}", f"{best.trial}{alone}"))
    return lines


def _describe_result(result, best, equal):
    rank = "; the best" if result == best else "; as good as the best" if result in equal else ""
    remarks = clock(result.seconds) + rank
    if result.one_answer is not None:
        remarks += f"; learned nothing: it predicts {result.one_answer!r} for all examples"
    return f"trial {result.trial.number}", f"{result.score:.5g}", result.trial.shown(), remarks


def _average_by_flag(folder, results):
    """Returns a row for each value that several trials of the first stage had, or could have had."""
    first = [result for result in results if result.stage == 1 and result.is_of_use]
    groups = {}
    for result in first:
        for pair in result.trial.values:
            groups.setdefault(pair, []).append(result.score)
    best = max if folder.higher else min
    return [
        (f"{name} {value}", f"{statistics.fmean(scores):.5g}", f"mean of {len(scores)}; best {best(scores):.5g}")
        for (name, value), scores in sorted(groups.items(), key=lambda item: (item[0][0], _sort_key(item[0][1])))
    ]


def _sort_key(value):
    """Returns what sorts values: numbers by size, before words."""
    try:
        return 0, float(value), ""
    except ValueError:
        return 1, 0.0, value


def _make_parallel_plot(ranked: Sequence[TrialResult], metric: str):
    """Returns what draws a line for each trial through its values and its score; the best one stands out.

    Args:
        ranked: results from the best to the worst.
        metric: what the score is.
    """
    names = [name for name, _ in ranked[0].trial.values]
    columns = [sorted({dict(result.trial.values)[name] for result in ranked}, key=_sort_key) for name in names]
    scores = [result.score for result in ranked]
    low, high = min(scores), max(scores)

    def heights(result):
        values = dict(result.trial.values)
        values_on_axes = [_height_on_axis(column, values[name]) for name, column in zip(names, columns, strict=True)]
        return [*values_on_axes, (result.score - low) / (high - low) if high > low else 0.5]

    def draw(axes):
        for number, result in reversed(list(enumerate(ranked))):
            colour, width, alpha = (ACCENT, 2.0, 1.0) if number == 0 else (FILL, 1.0, 0.5)
            axes.plot(range(len(names) + 1), heights(result), color=colour, linewidth=width, alpha=alpha)
        for x, column in enumerate(columns):
            axes.axvline(x, color=PALE, linewidth=1, zorder=0)
            for value in column if len(column) <= 6 else (column[0], column[-1]):
                axes.text(
                    x, _height_on_axis(column, value), f" {value}", fontsize=7, color=INK, verticalalignment="center"
                )
        axes.axvline(len(names), color=PALE, linewidth=1, zorder=0)
        for value, y in {low: 0.0 if high > low else 0.5, high: 1.0 if high > low else 0.5}.items():
            axes.text(len(names), y, f" {value:.4g}", fontsize=7, color=INK, verticalalignment="center")
        axes.set_xticks(range(len(names) + 1), [*names, metric], fontsize=7)
        axes.set_yticks([])
        axes.set_xlim(-0.1, len(names) + 0.4)
        axes.spines[["left", "bottom"]].set_visible(False)

    return draw


def _height_on_axis(column, value):
    """Returns where on its axis, from 0 to 1, a value stands: in their order, evenly."""
    return column.index(value) / (len(column) - 1) if len(column) > 1 else 0.5


# === Tuner ===
# Runs a search: trains its trials one by one, the best of each stage again, and reports all of them.


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
        sampler: adds trials to `trials`, each from the scores of earlier ones; None: nothing is added.
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
        return " ".join(["bert-tf", self.program, *map(shlex.quote, self.flags(result.trial, result.stage))])

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
