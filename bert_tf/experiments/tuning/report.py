"""Results of a hyperparameter search: trials.tsv and report.html."""

import math
import statistics
from collections.abc import Sequence

from bert_tf.experiments.tuning.trials import Folder, Trial, TrialResult, format_trial_numbers
from bert_tf.utils.files import write_text
from bert_tf.utils.html_report import ACCENT, FILL, INK, PALE, Page
from bert_tf.utils.progress import clock

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

    `one_answer` contains the constant prediction of a trial, if any.
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
    """Returns the position of a value on its axis, from 0 to 1: evenly spaced, in order."""
    return column.index(value) / (len(column) - 1) if len(column) > 1 else 0.5
