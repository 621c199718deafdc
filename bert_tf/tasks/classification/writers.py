"""A classifier's answers as files: for programs, for people, and for leaderboards."""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.data.glue_tasks import LEADERBOARD_HEADER
from bert_tf.data.tables import Examples
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text


def write_predictions(
    directory: str,
    examples: Examples,
    answers: np.ndarray,
    labels: list[str] | None,
    suffix: str = "",
    more: Mapping[str, Sequence] | None = None,
):
    """Writes test_results.tsv (google-research/bert's: numbers, tab separated) and predictions.jsonl, in order.

    A line of predictions.jsonl has `id`, the texts, and the fields of the served answer: `label`, `probabilities` and
    `labels`, or `score`; and `confident` where the model says it.

    Args:
        directory: where both go.
        examples: the n texts that were asked.
        answers: probabilities float [n, L], or scores float [n].
        labels: the L names, in the order of the columns; None for scores.
        suffix: of both names, before the extension: "_mismatched".
        more: {field: n values} of the served answer besides.
    """
    with atomic_open(f"{directory}/test_results{suffix}.tsv") as file:
        for row in answers.reshape(len(examples), -1):
            file.write("\t".join(map(str, row)) + "\n")
    with atomic_open(f"{directory}/predictions{suffix}.jsonl") as file:
        for i, row in enumerate(answers):
            second = examples.text_b and examples.text_b[i]
            texts = {"text": examples.text_a[i]} if second is None else {"text_a": examples.text_a[i], "text_b": second}
            besides = {name: values[i] for name, values in (more or {}).items()}
            line = {"id": examples.ids[i], **texts, **_served(row, labels), **besides}
            file.write(json_text(line, ensure_ascii=False) + "\n")


def write_leaderboard(
    directory: str, name: str, ids: Sequence[str], answers: Sequence[str | float], scale: tuple[float, float] | None
):
    """Writes one file of answers, header `index<TAB>prediction`: label names, or scores cut to their scale.

    Args:
        directory: where it goes.
        name: what GLUE's server calls the file.
        ids: of the examples, as the test file numbers them.
        answers: as many label names, or scores.
        scale: lowest and highest score; None for names.
    """
    with atomic_open(os.path.join(directory, name)) as file:
        file.write(LEADERBOARD_HEADER)
        for index, answer in zip(ids, answers, strict=True):
            file.write(f"{index}\t{answer if scale is None else format(min(max(answer, scale[0]), scale[1]), '.3f')}\n")


def _served(row, labels):
    if labels is None:
        return {"score": float(row)}
    return {"label": labels[int(row.argmax())], "probabilities": row.tolist(), "labels": labels}
