"""The answers to questions with choices, as files."""

import json
import os

import numpy as np

from bert_tf.files import atomic_open
from bert_tf.tasks.multiple_choice.files import ChoiceExamples

TABLE_FILE, ANSWERS_FILE = "test_results.tsv", "predictions.jsonl"


def write_predictions(directory: str, examples: ChoiceExamples, answers: list[np.ndarray]):
    """Writes test_results.tsv (probabilities with tabs between them, a line for each question) and predictions.jsonl.

    A line of predictions.jsonl has `id`, `context`, `choices`, and the fields of the served answer: `choice` and
    `probabilities`.

    Args:
        directory: where both go.
        examples: the n questions.
        answers: the probabilities of each one's choices, float [its choices].
    """
    with atomic_open(os.path.join(directory, TABLE_FILE)) as file:
        for row in answers:
            file.write("\t".join(map(str, row)) + "\n")
    with atomic_open(os.path.join(directory, ANSWERS_FILE)) as file:
        parts = examples.ids, examples.contexts, examples.choices, answers
        for name, context, choices, row in zip(*parts, strict=True):
            line = {"id": name, "context": context, "choices": choices, "choice": int(row.argmax())}
            # str gives a float32 as many digits as it needs; tolist alone would show those of its double.
            line["probabilities"] = row.astype(str).astype(np.float64).tolist()
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
