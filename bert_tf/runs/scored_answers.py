"""What scoring shows: error reports on the page of the run, and example by example in eval_predictions.tsv."""

import os
from collections.abc import Mapping, Sequence

from absl import logging

from bert_tf.checkpoints.loading import directory_of
from bert_tf.evaluation.constant_predictions import only_answer_in
from bert_tf.evaluation.error_reports.page_parts import render_errors, render_headline, render_overview
from bert_tf.evaluation.error_reports.report import ErrorReport, write_table
from bert_tf.evaluation.label_results import describe_always_predicted, describe_missing, describe_unpredicted
from bert_tf.runs.settings import FineTuningSettings
from bert_tf.tasks.base import FineTuningTask, SplitPredictions
from bert_tf.tasks.options import TeacherOptions
from bert_tf.training.report_page import HEADLINE, OVERVIEW
from bert_tf.training.trainer import Trainer
from bert_tf.utils.files import file_names
from bert_tf.utils.html_report import Page

_REMEDY = "Train for more steps or with `class_weights=balanced`, or add examples."
_REMEDY_OF_ALWAYS = "Train for more steps, use `fit_thresholds`, or add examples without such a label."


def warn_of_teacher(options: TeacherOptions):
    """Warns where `teacher`, by the answers that it gave when it was scored, has learned nothing to teach."""
    path = options.teacher
    answer = only_answer_in(directory_of(path)) if path else None
    if answer is not None:
        logging.warning("The teacher %s predicted %r for all examples of its evaluation: it has learned nothing.",
                        path, answer)  # fmt: skip


def error_reports(task: FineTuningTask, outcomes: Sequence[SplitPredictions]) -> dict[str, ErrorReport]:
    """Returns {split: error report} of the predictions for files with labels, where the task has reports."""
    judged = {outcome.split: task.error_report(outcome) for outcome in outcomes}
    return {split: each for split, each in judged.items() if each is not None}


def show_scored(
    task: FineTuningTask,
    outcomes: Sequence[SplitPredictions],
    judged: Mapping[str, ErrorReport],
    scores: Mapping[str, float],
    trainer: Trainer,
    settings: FineTuningSettings,
    suffix: str = "",
):
    """Shows what `do_eval` scored: a table of answers for each file, a part of the run's page, and warnings in the log.

    Args:
        task: that was scored.
        outcomes: outcomes of the files.
        judged: the result of `error_reports`.
        scores: {"eval_accuracy": ...} over all of them.
        trainer: trainer of the task.
        settings: settings of the run.
        suffix: added to the names if eval_results.txt contains another file's scores: `run_record.ScoredFiles.suffix`.

    Raises:
        OSError: a table cannot be written.
    """
    for outcome in outcomes:
        if outcome.split in judged:
            path = os.path.join(settings.output_dir, f"eval_predictions{suffix}{outcome.suffix}.tsv")
            write_table(path, judged[outcome.split], settings.sort_predictions)
    salt = f"{suffix[1:]} " if suffix else ""
    history = trainer.history
    history.show(f"{HEADLINE}{suffix}", lambda: render_headline(judged, scores, trainer.global_step))
    history.show(f"{OVERVIEW}{suffix}", lambda: render_overview(judged, salt))
    history.show(f"eval{suffix}", lambda: render_errors(judged, salt))
    _warn(judged, with_missing=not settings.do_train)  # otherwise, the data check has named them
    history.show(f"more{suffix}", lambda: _more(task, outcomes, salt))


def _more(task, outcomes, salt):
    page = Page("", salt=f"{salt}more ")
    task.extra_report_sections(page, outcomes)
    return page.fragment()


def show_answers(task: FineTuningTask, outcome: SplitPredictions, scores: Mapping[str, float], trainer: Trainer):
    """Shows on the run's page what `do_predict` gave for a file that contains the right answers; arguments likewise."""
    judged = error_reports(task, [outcome])
    step = trainer.global_step
    name, history = f"predict{outcome.suffix}", trainer.history
    history.show(f"{HEADLINE}_{name}", lambda: render_headline(judged, scores, step))
    history.show(f"{OVERVIEW}_{name}", lambda: render_overview(judged, "predict "))
    history.show(name, lambda: render_errors(judged, "predict "))
    _warn(judged)


def _warn(judged, with_missing=True):
    """Logs what must be read before any metric is believed; labels that a file lacks only `with_missing`."""
    for each in judged.values():
        path, results = file_names(each.examples.path), each.label_results()
        gaps = [f"{gap} {_REMEDY}" for gap in describe_unpredicted(results, path)]
        if each.has_several_labels:
            always = describe_always_predicted(results, path, len(each.examples))
            gaps += [f"{gap} {_REMEDY_OF_ALWAYS}" for gap in always]
        gaps += describe_missing(results, path) if with_missing else []
        for warning in [each.warning] if each.warning else gaps:
            logging.warning("%s", warning)
