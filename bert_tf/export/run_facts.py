"""Facts about a model from the files of its training run. Facts that are not recorded there are left out."""

import dataclasses
import os
import re
from typing import Any

from absl import logging

from bert_tf.evaluation.label_results import describe_always_predicted, describe_missing, describe_unpredicted
from bert_tf.training.history import HISTORY_FILE, RETRAINED_FROM, first_start, read_history
from bert_tf.training.scored_files import FileScores, read_file_scores


@dataclasses.dataclass(frozen=True)
class RunFacts:
    """Facts about a training run; empty or None if they are not recorded.

    Attributes:
        checkpoint: name of the exported checkpoint.
        step: its training step.
        origin: the initial checkpoint: directory and file name.
        retrained_from: that model's labels, and which of them the head kept, as in run.json; {} if it has none.
        flags: {name: value} of the last start.
        data: {split: {"file", "rows"}} of the data files.
        versions: {package: version} used for training.
        trained: time of the last report up to the exported step, ISO 8601.
        evaluations: the scores of each evaluated file, test files first.
        export_scores: {name: score} of the export itself on the files of eval_results.txt, if its precision is another.
        litert_scores: the same of LiteRT's model next to it.
    """

    checkpoint: str = ""
    step: int | None = None
    origin: str | None = None
    retrained_from: dict[str, Any] = dataclasses.field(default_factory=dict)
    flags: dict[str, str] = dataclasses.field(default_factory=dict)
    data: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    trained: str | None = None
    evaluations: tuple[FileScores, ...] = ()
    export_scores: dict[str, float] = dataclasses.field(default_factory=dict)
    litert_scores: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def main_evaluation(self) -> FileScores | None:
        """The evaluation in eval_results.txt."""
        return next((each for each in self.evaluations if not each.suffix), None)

    def are_scores_in(self, dtype: str) -> bool:
        """Returns whether the main scores were computed in an export's dtype; mixed precision computes the same."""
        return is_computed_in(self.main_evaluation and self.main_evaluation.precision, dtype)

    def is_chosen_by(self, evaluation: FileScores) -> bool:
        """Returns whether the checkpoint, or the end of the training, was chosen by the scores of these files."""
        files = {each["file"] for split, each in self.data.items() if split.startswith("dev")}
        own = {each["file"] for each in evaluation.evaluated.data.values()}
        return "metric_for_best_model" in self.flags and bool(files & own)

    def gaps(self, has_several_labels: bool = False) -> list[str]:
        """Returns a sentence on the labels that this model never predicts, and that its files lack, of each file.

        Args:
            has_several_labels: whether it may predict any number of labels, so that one may be predicted always.
        """
        gaps = []
        for each in self.evaluations:
            for suffix, labels in each.evaluated.labels.items() if each.step == self.step else ():
                file = each.file_of(suffix)
                gaps += describe_unpredicted(labels, file)
                if has_several_labels:
                    gaps += describe_always_predicted(labels, file, each.rows_of(suffix))
                gaps += describe_missing(labels, file)
        return gaps


def is_computed_in(precision: str | None, dtype: str) -> bool:
    """Returns whether an evaluation in this precision computes in a dtype; if None, the precision is unknown."""
    return (precision or "").removeprefix("mixed_") == dtype


def read_run(directory: str, checkpoint: str) -> RunFacts:
    """Returns the recorded facts about a trained model. A file that cannot be read is skipped with a warning.

    Args:
        directory: a training run's output_dir, or any directory with a checkpoint.
        checkpoint: path or prefix of the exported checkpoint.
    """
    name = re.sub(r"(\.index|\.data-\d+-of-\d+)$", "", os.path.basename(checkpoint))
    step = re.fullmatch(r"model\.ckpt-(\d+)", name)
    evaluations = sorted(_or_warn(read_file_scores, directory) or [], key=_order)
    facts = RunFacts(name, int(step[1]) if step else None, evaluations=tuple(evaluations))
    return _with_history(facts, _or_warn(read_history, os.path.join(directory, HISTORY_FILE)) or [])


def _order(evaluation):
    """Puts the test file of the run first, then files that were evaluated later, then the evaluation file."""
    return "final" not in evaluation.evaluated.data, not evaluation.suffix


def _or_warn(reader, path):
    try:
        return reader(path)
    except ValueError as error:
        logging.warning("%s The model card omits it.", error)
        return None


def _with_history(facts, lines):
    starts, first = [line for line in lines if line["kind"] == "start"], first_start(lines)
    if not starts:
        return facts
    train = [line for line in lines if line["kind"] == "train" and line["step"] <= (facts.step or line["step"])]
    return dataclasses.replace(
        facts,
        origin=_shorten_path(first["from"]),
        retrained_from=first.get(RETRAINED_FROM, {}),
        flags=starts[-1]["flags"],
        data=starts[-1].get("data", {}),
        versions=starts[-1]["versions"],
        trained=train[-1]["time"] if train else None,
    )


def _shorten_path(path):
    """Returns the end of a path: the full path is private, and useless on other machines."""
    if path is None:
        return None
    parent, name = os.path.split(os.path.normpath(path))
    return "/".join(filter(None, (os.path.basename(parent), name)))
