"""Rows of examples of each task of `finetune`, as a user has them in memory."""

from tests import tiny
from tests.tasks.embedding import support as embedding
from tests.tasks.multiple_choice import support as multiple_choice
from tests.tasks.question_answering import support as squad
from tests.tasks.reranking import support as reranking
from tests.tasks.tagging import support as tagging


def texts(n, seed=0):
    return [dict(zip(("text", "label"), row, strict=True)) for row in tiny.texts(n, seed, ["bad", "good"])]


def _numbers(n, seed=0):
    return [{"text": row["text"], "label": float(len(row["text"]))} for row in texts(n, seed)]


def _pairs(n, seed=0):
    return [{"text_a": a, "text_b": b} for a, b in embedding.pairs(n, seed)]


def _sentences(n, seed=0):
    return [{"tokens": [w for w, _ in row], "tags": [t for _, t in row]} for row in tagging.sentences(n, seed)]


def _questions(n, seed=0):
    return [
        {"id": f"q{i}", "question": question, "context": context, "answers": {"text": [text], "answer_start": [start]}}
        for i, (question, context, text, start) in enumerate(squad.questions(n, seed))
    ]


def _choices(n, seed=0):
    return [dict(zip(("context", "choices", "label"), r, strict=True)) for r in multiple_choice.questions(n, seed)]


def _queries(n, seed=0):
    return [dict(zip(("query", "positives", "negatives"), r, strict=True)) for r in reranking.queries(n, seed)]


def _several_labels(n, seed=0):
    return [{"text": row["text"], "label": [row["label"], "film"][: i % 3]} for i, row in enumerate(texts(n, seed))]


# Task -> n and a seed -> n rows.
ROWS = {
    "classification": texts, "regression": _numbers, "embedding": _pairs, "tagging": _sentences,
    "question_answering": _questions, "multiple_choice": _choices, "reranking": _queries,
    "multi_label": _several_labels,
}  # fmt: skip
