"""Prediction files of a classifier: for programs, for people, and for GLUE's leaderboard."""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.data import glue
from bert_tf.data.glue_tasks import LEADERBOARD_HEADER
from bert_tf.data.tables import LabeledTexts
from bert_tf.utils.answers import split_answer
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text


def write_class_predictions(
    directory: str,
    examples: LabeledTexts,
    answers: np.ndarray,
    labels: list[str] | None,
    suffix: str = "",
    more: Mapping[str, np.ndarray] | None = None,
):
    """Writes predictions to test_results.tsv (google-research/bert's format) and predictions.jsonl, in order.

    A line of predictions.jsonl has `id`, the texts, and the prediction as `bert_tf.Predictor` returns it: `label` and
    `probabilities`, or `score`; `predicted` and `confident` if the model provides them.

    Args:
        directory: output directory.
        examples: the n texts.
        answers: probabilities float [n, L], or scores float [n].
        labels: the L names, in the order of the columns; None for scores.
        suffix: suffix of both names, before the extension: "_mismatched".
        more: {output: array [n, ...]} of the served prediction, in addition.
    """
    with atomic_open(f"{directory}/test_results{suffix}.tsv") as file:
        for row in answers.reshape(len(examples), -1):
            file.write("\t".join(map(str, row)) + "\n")
    with atomic_open(f"{directory}/predictions{suffix}.jsonl") as file:
        for i, answer in enumerate(split_answer(_served(answers, labels) | dict(more or {}), len(answers))):
            line = {"id": examples.ids[i], **{name: texts[i] for name, texts in examples.texts.items()}, **answer}
            file.write(json_text(line, ensure_ascii=False) + "\n")


def leaderboard(task_name: str | None, split: str) -> tuple[str, tuple[float, float] | None] | None:
    """Returns GLUE's file name and score scale for the predictions of a test split; None if there is none.

    Args:
        task_name: GLUE task, or None.
        split: such as "test_mismatched".
    """
    task = glue.find_glue_task(task_name) if task_name else None
    name = task and task.splits[split].leaderboard
    return (name, task.scale) if name else None


def write_leaderboard(
    directory: str, name: str, ids: Sequence[str], answers: Sequence[str | float], scale: tuple[float, float] | None
):
    """Writes a GLUE leaderboard file with the header `index<TAB>prediction`: label names, or clipped scores.

    Args:
        directory: output directory.
        name: file name required by GLUE's server.
        ids: ids of the examples, as in the test file.
        answers: the predicted label names, or scores.
        scale: lowest and highest score; None for names.
    """
    with atomic_open(os.path.join(directory, name)) as file:
        file.write(LEADERBOARD_HEADER)
        for index, answer in zip(ids, answers, strict=True):
            file.write(f"{index}\t{answer if scale is None else format(min(max(answer, scale[0]), scale[1]), '.3f')}\n")


def _served(answers, labels):
    """Returns the outputs of the export, {output: array [n, ...]}."""
    if labels is None:
        return {"score": answers}
    names = np.array(labels, object)
    return {"label": names[answers.argmax(-1)], "probabilities": answers,
            "labels": np.broadcast_to(names, answers.shape)}  # fmt: skip
