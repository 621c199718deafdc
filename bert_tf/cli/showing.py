"""What a scored model does, shown: on the page of the run, and example by example in eval_predictions.tsv."""

import os
from collections.abc import Mapping, Sequence

from absl import logging

from bert_tf.checkpoints.model_files import directory_of
from bert_tf.evaluation.error_reports.judged import write_table
from bert_tf.evaluation.error_reports.page import scored
from bert_tf.evaluation.one_answer import only_answer_in
from bert_tf.tasks.task import FineTuned, Outcome
from bert_tf.training.job import Job
from bert_tf.utils.report import Page
from bert_tf.utils.settings import Settings


def check_showing(settings: Settings):
    """Raises ValueError where a table is to be sorted that is not written."""
    if "sort_predictions" in settings.given and not settings.do_eval:
        raise ValueError(
            f"`sort_predictions` must come with `do_eval`. Received `sort_predictions={settings.sort_predictions}` "
            "without it; add it, or leave this out."
        )


def warn_of_teacher(settings: Settings):
    """Warns where `teacher`, by the answers that it gave when it was scored, has learned nothing to teach."""
    path = settings.get("teacher")
    answer = only_answer_in(directory_of(path)) if path else None
    if answer is not None:
        logging.warning("The teacher %s answered %r to all examples that it was scored on: it has learned nothing.",
                        path, answer)  # fmt: skip


def show_scored(
    task: FineTuned,
    outcomes: Sequence[Outcome],
    scores: Mapping[str, float],
    job: Job,
    settings: Settings,
    suffix: str = "",
):
    """Shows what `do_eval` scored: a table of answers for each file, a part of the run's page, and warnings in the log.

    Args:
        task: that was scored.
        outcomes: of the files.
        scores: {"eval_accuracy": ...} over all of them.
        job: of the task.
        settings: the flags.
        suffix: of the names, of files other than those of eval_results.txt: `scored_files.ScoredFiles.suffix`.

    Raises:
        OSError: a table cannot be written.
    """
    judged = _judged(task, outcomes, settings)
    for split, each in judged.items():
        name = f"eval_predictions{suffix}{split.removeprefix('dev')}.tsv"
        write_table(os.path.join(settings.output_dir, name), each, settings.get("sort_predictions", "file"))
    salt = f"{suffix[1:]} " if suffix else ""
    job.history.show(f"eval{suffix}", lambda: scored(judged, scores, job.global_step, salt))
    _warn(judged)
    job.history.show(f"more{suffix}", lambda: _more(task, outcomes, settings, salt))


def _more(task, outcomes, settings, salt):
    page = Page("", salt=f"{salt}more ")
    task.show_more(page, outcomes, settings)
    return page.fragment()


def show_answers(task: FineTuned, outcome: Outcome, scores: Mapping[str, float], job: Job, settings: Settings):
    """Shows on the run's page what `do_predict` gave for a file that holds the right answers; arguments likewise."""
    judged = _judged(task, [outcome], settings)
    job.history.show(f"predict{outcome.suffix}", lambda: scored(judged, scores, job.global_step, "predict "))
    _warn(judged)


def _warn(judged):
    for each in judged.values():
        if each.warning:
            logging.warning("%s", each.warning)


def _judged(task, outcomes, settings):
    judged = {outcome.split: task.judged(outcome, settings) for outcome in outcomes}
    return {split: each for split, each in judged.items() if each is not None}
