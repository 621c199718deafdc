"""Small files in SQuAD's format."""

import json


def squad_json(questions, **more):
    """Returns SQuAD's layout around [(id, answers)]; `more` goes into each question."""
    qas = [{"id": name, "question": "?", "answers": [{"text": t, "answer_start": 0} for t in texts], **more}
           for name, texts in questions]  # fmt: skip
    return {"version": "x", "data": [{"title": "t", "paragraphs": [{"context": "", "qas": qas}]}]}


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path
