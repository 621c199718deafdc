"""A classifier's answers as files: for programs, for people, and beside the true labels."""

import json

import numpy as np

from bert_tf.data.tables import Examples
from bert_tf.files import atomic_open


def chosen(answers: np.ndarray, labels: list[str] | None, problem: str = "single_label") -> list:
    """Returns what is answered for each example: a name, a tuple of names (those over 0.5), or a float.

    Args:
        answers: probabilities float [n, L], or scores float [n] where `problem` is "regression".
        labels: the L names.
        problem: "single_label", "multi_label" or "regression".
    """
    if problem == "regression":
        return answers.tolist()
    if problem == "multi_label":
        return [tuple(name for name, chance in zip(labels, row, strict=True) if chance > 0.5) for row in answers]
    return [labels[i] for i in answers.argmax(-1)]


def write_predictions(
    directory: str, examples: Examples, answers: np.ndarray, labels: list[str] | None, suffix: str = ""
):
    """Writes test_results.tsv (google-research/bert's: numbers, tab separated) and predictions.jsonl, in order.

    A line of predictions.jsonl has `id`, the texts, and the fields of the served answer: `label`, `probabilities` and
    `labels`, or `score`.

    Args:
        directory: where both go.
        examples: the n texts that were asked.
        answers: probabilities float [n, L], or scores float [n].
        labels: the L names, in the order of the columns; None for scores.
        suffix: of both names, before the extension: "_mismatched".
    """
    with atomic_open(f"{directory}/test_results{suffix}.tsv") as file:
        for row in answers.reshape(len(examples), -1):
            file.write("\t".join(map(str, row)) + "\n")
    with atomic_open(f"{directory}/predictions{suffix}.jsonl") as file:
        for i, row in enumerate(answers):
            second = examples.text_b and examples.text_b[i]
            texts = {"text": examples.text_a[i]} if second is None else {"text_a": examples.text_a[i], "text_b": second}
            line = {"id": examples.ids[i], **texts, **_served(row, labels)}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def write_eval_predictions(directory: str, examples: Examples, answers: list, separator: str = ",", suffix: str = ""):
    """Writes eval_predictions.tsv: `id`, `label` and `prediction` of every example, by name or as numbers.

    Args:
        directory: where it goes.
        examples: the n examples that were scored.
        answers: what `chosen` returned for them.
        separator: what stands between several labels.
        suffix: of the name, before the extension: "_mismatched".
    """

    def written(label):
        return separator.join(label) if isinstance(label, tuple) else str(label)

    with atomic_open(f"{directory}/eval_predictions{suffix}.tsv") as file:
        file.write("id\tlabel\tprediction\n")
        for name, label, answer in zip(examples.ids, examples.labels, answers, strict=True):
            file.write(f"{name}\t{written(label)}\t{written(answer)}\n")


def _served(row, labels):
    if labels is None:
        return {"score": float(row)}
    return {"label": labels[int(row.argmax())], "probabilities": row.tolist(), "labels": labels}
