"""Writes what the official algorithms, as torch Transformers ships them, score for answers to SQuAD.

    PYTHON_WITH_TORCH tests/goldens/torch_squad_scores.py CASES.json OUT.json

CASES is a JSON object: "questions", a list of {"answers": [text], "prediction": text, "odds": number}, and "threshold".
OUT is the same with
    "each"          [exact, f1] of each question, SQuAD 2.0's
    "scores"        SQuAD 2.0's scores without odds
    "with_odds"     the same with the odds as probabilities of no answer, and the threshold
    "version_1"     SQuAD 1.1's, of the questions that have an answer
evaluate-v1.1.py, which Transformers does not have, differs from 2.0 in two things: answers of which nothing is left
take part, and F1 is 0 where nothing is left of both sides.
"""

import json
import pathlib
import sys
from types import SimpleNamespace

from transformers.data.metrics import squad_metrics


def version_1(questions):
    exact, f1 = [], []
    for question in questions:
        pairs = [(gold, question["prediction"]) for gold in question["answers"]]
        exact.append(max(squad_metrics.compute_exact(*pair) for pair in pairs))
        f1.append(max(squad_metrics.compute_f1(*pair) if all(map(squad_metrics.get_tokens, pair)) else 0
                      for pair in pairs))  # fmt: skip
    return {name: 100.0 * sum(values) / len(values) for name, values in (("exact", exact), ("f1", f1))}


def main(cases, out):
    content = json.loads(pathlib.Path(cases).read_text(encoding="utf-8"))
    questions = content["questions"]
    examples = [SimpleNamespace(qas_id=str(i), answers=[{"text": text} for text in question["answers"]])
                for i, question in enumerate(questions)]  # fmt: skip
    said, odds = ({str(i): q[key] for i, q in enumerate(questions)} for key in ("prediction", "odds"))
    exact, f1 = squad_metrics.get_raw_scores(examples, said)
    plain = squad_metrics.squad_evaluate(examples, said)
    found = {
        "each": [[exact[name], f1[name]] for name in said],
        "scores": {key: value for key, value in plain.items() if not key.startswith("best_")},  # of odds all 0
        "with_odds": squad_metrics.squad_evaluate(examples, said, odds, content["threshold"]),
        "version_1": version_1([question for question in questions if question["answers"]]),
    }
    lines = ",\n".join(json.dumps(question) for question in questions)
    rest = "".join(f',\n"{key}": {json.dumps(value)}' for key, value in found.items())
    text = f'{{"threshold": {content["threshold"]}, "questions": [\n{lines}\n]{rest}}}\n'
    pathlib.Path(out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
