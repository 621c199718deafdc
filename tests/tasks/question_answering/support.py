"""Questions that a tiny model can learn to answer, and command lines of run_squad.py."""

import json
import os
import pathlib

import numpy as np
import pytest

from tests import tiny

TRAIN = ["--init_checkpoint=HOME/init", "--do_train", "--train_batch_size=16", "--max_seq_length=24", "--doc_stride=8",
         "--max_query_length=5", "--max_answer_length=4", "--learning_rate=3e-3", "--deterministic"]  # fmt: skip
STRANGE = {  # contexts of every kind, each with an answer that a trained model may find
    "long": " ".join(tiny.FILL * 250).replace("people", "good", 1) + " 😀",
    "emoji": "😀 the film 👩‍👩‍👧 is good 🎬 people 😀",
    "combining": "the fi\u0301lm is great\u0301 mu\u0323\u0301sic to see",
    "CJK": "我喜欢这部good电影 the people",
    "spaces": "  the\u00a0film\t\tis \n funny  \u2003",
    "blank": " \n",
}


def questions(n, seed=0, answered=1.0):
    """Returns n (question, context, answer, start): the answer is the context's one good word, "" where it has none."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        words, place = rng.choice(tiny.FILL, rng.integers(3, 14)).tolist(), None
        if rng.random() < answered:
            place = int(rng.integers(len(words)))
            words[place] = str(rng.choice(tiny.GOOD))
        start = 0 if place is None else len(" ".join([*words[:place], ""]))
        rows.append(("is it", " ".join(words), "" if place is None else words[place], start))
    return rows


def write(path, rows, answers=True, version_2=False):
    """Writes questions in SQuAD's format, two to an article; ids are q0, q1, ...

    Args:
        path: the file.
        rows: (question, context, answer, start) each.
        answers: write the answers too.
        version_2: with is_impossible.
    """
    paragraphs = []
    for i, (question, context, answer, start) in enumerate(rows):
        qa = {"id": f"q{i}", "question": question}
        if answers:
            qa["answers"] = [{"text": answer, "answer_start": start}] if answer else []
        if answers and version_2:
            qa["is_impossible"] = not answer
        paragraphs.append({"context": context, "qas": [qa]})
    articles = [{"title": str(i), "paragraphs": paragraphs[i : i + 2]} for i in range(0, len(paragraphs), 2)]
    pathlib.Path(path).write_text(json.dumps({"version": "test", "data": articles}), encoding="utf-8")
    return path


def real_file(name) -> pathlib.Path:
    """A file of SQuAD 1.1, or a skip that says why."""
    folder = pathlib.Path(os.environ.get("BERT_TF_DATA") or pathlib.Path.home() / ".cache" / "bert_tf_data")
    if not (folder / "squad" / name).is_file():
        pytest.skip(f"{folder} holds no squad/{name}; BERT_TF_DATA names the folder that does")
    return folder / "squad" / name
