"""What the files of a training run say about the model that came of it. What they do not say stays open."""

import dataclasses
import os
import re
from typing import Any

from absl import logging

from bert_tf.evaluation.results import read_results
from bert_tf.training.history import HISTORY_FILE, read
from bert_tf.training.scored_files import precision_of_scores


@dataclasses.dataclass(frozen=True)
class RunFacts:
    """What is known of a run; empty or None where it is not.

    Attributes:
        checkpoint: name of the exported one.
        step: of its training.
        origin: what the training started from: the folder's name and the file's.
        flags: {name: value} that the last start was given.
        data: {split: {"file", "rows"}} that it read.
        versions: {package: version} that trained.
        trained: when the last step up to the exported one was reported, ISO 8601.
        scores: {name: score} as eval_results.txt has them.
        scored_step: of the model that has these scores.
        scored_data: those of `data` that the scores are of.
        scored_precision: in which the scores were computed, one of `names.PRECISIONS`.
        int8_scores: {name: score} of the same examples, as the export in int8 answers.
    """

    checkpoint: str = ""
    step: int | None = None
    origin: str | None = None
    flags: dict[str, str] = dataclasses.field(default_factory=dict)
    data: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    trained: str | None = None
    scores: dict[str, float] = dataclasses.field(default_factory=dict)
    scored_step: int | None = None
    scored_data: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    scored_precision: str | None = None
    int8_scores: dict[str, float] = dataclasses.field(default_factory=dict)


def read_run(directory: str, checkpoint: str) -> RunFacts:
    """Returns what is known of a trained model. A file that cannot be read is passed over, with a warning.

    Args:
        directory: what a program left in its output_dir, or any other with a checkpoint.
        checkpoint: the path of the exported one, or its prefix.
    """
    name = re.sub(r"(\.index|\.data-\d+-of-\d+)$", "", os.path.basename(checkpoint))
    step = re.fullmatch(r"model\.ckpt-(\d+)", name)
    facts = RunFacts(name, int(step[1]) if step else None)
    scores = _or_warn(read_results, directory) or {}
    lines = _or_warn(read, os.path.join(directory, HISTORY_FILE)) or []
    scored_step = scores.pop("global_step", None)
    facts = dataclasses.replace(
        facts,
        scores=scores,
        scored_step=scored_step and int(scored_step),
        scored_precision=_or_warn(precision_of_scores, directory) if scores else None,
    )
    return _with_history(facts, lines)


def _or_warn(reader, path):
    try:
        return reader(path)
    except ValueError as error:
        logging.warning("%s The model card says nothing of it.", error)
        return None


def _with_history(facts, lines):
    starts = [line for line in lines if line["kind"] == "start"]
    if not starts:
        return facts
    data = starts[-1].get("data", {})
    train = [line for line in lines if line["kind"] == "train" and line["step"] <= (facts.step or line["step"])]
    return dataclasses.replace(
        facts,
        origin=_short(starts[0]["from"]),
        flags=starts[-1]["flags"],
        data=data,
        versions=starts[-1]["versions"],
        trained=train[-1]["time"] if train else None,
        scored_data=_scored(facts, lines, data),
    )


def _scored(facts, lines, data):
    """Returns the files that the scores are of: those of this run's evaluation, if its history has the same numbers."""
    held_out = [line for line in lines if line["kind"] == "eval" and line["step"] == facts.scored_step]
    same = {name.removeprefix("eval_"): value for name, value in facts.scores.items() if name.startswith("eval_")}
    if not same or not held_out or not same.items() <= held_out[-1].items():
        return {}
    return {split: each for split, each in data.items() if split.partition("_")[0] == "dev"}


def _short(path):
    """Returns the end of a path: where a user keeps models is nobody's business, and nobody else's path."""
    if path is None:
        return None
    parent, name = os.path.split(os.path.normpath(path))
    return "/".join(filter(None, (os.path.basename(parent), name)))
