"""Prediction files of multiple choice."""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.tasks.multiple_choice.data import ChoiceExamples
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text

TABLE_FILE, ANSWERS_FILE = "test_results.tsv", "predictions.jsonl"


def write_choice_predictions(
    directory: str, examples: ChoiceExamples, answers: list[np.ndarray], more: Mapping[str, Sequence] | None = None
):
    """Writes test_results.tsv (tab-separated probabilities, one line per question) and predictions.jsonl.

    A line of predictions.jsonl has `id`, `context`, `choices`, and the fields of the served prediction: `choice` and
    `probabilities`, and `confident` if the model provides it.

    Args:
        directory: output directory.
        examples: the n questions.
        answers: the probabilities of each question's choices, float [its choices].
        more: {field: n values} of the served prediction, in addition.
    """
    with atomic_open(os.path.join(directory, TABLE_FILE)) as file:
        for row in answers:
            file.write("\t".join(map(str, row)) + "\n")
    with atomic_open(os.path.join(directory, ANSWERS_FILE)) as file:
        parts = examples.ids, examples.contexts, examples.choices, answers
        for n, (name, context, choices, row) in enumerate(zip(*parts, strict=True)):
            line = {"id": name, "context": context, "choices": choices, "choice": int(row.argmax())}
            # str gives a float32 as many digits as it needs; tolist alone would show those of its double.
            line["probabilities"] = row.astype(str).astype(np.float64).tolist()
            line |= {field: values[n] for field, values in (more or {}).items()}
            file.write(json_text(line, ensure_ascii=False) + "\n")
