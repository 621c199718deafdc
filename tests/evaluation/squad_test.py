"""SQuAD's scorer: equal to the official algorithms on odd cases, and clear about files that do not fit together."""

import json
import pathlib
import random
import subprocess
import sys

import pytest

from bert_tf.evaluation import squad
from bert_tf.evaluation.squad_files import References
from tests import other_envs
from tests.conftest import ROOT
from tests.evaluation.support import squad_json, write

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens"
EXACTLY = 1e-9


def check(cases):
    """Holds our scores against those that `torch_squad_scores.py` wrote."""
    questions = cases["questions"]
    golds = {str(i): question["answers"] for i, question in enumerate(questions)}
    said, odds = ({str(i): q[key] for i, q in enumerate(questions)} for key in ("prediction", "odds"))
    for i, expected in enumerate(cases["each"]):
        got = squad.score_squad(References({"q": golds[str(i)]}, True, ""), {"q": said[str(i)]})
        assert [got["exact"] / 100, got["f1"] / 100] == pytest.approx(expected, abs=EXACTLY), questions[i]
    plain = squad.score_squad(References(golds, True, ""), said)
    assert list(plain) == list(cases["scores"]) and plain == pytest.approx(cases["scores"], abs=EXACTLY)
    full = squad.score_squad(References(golds, True, ""), said, odds, cases["threshold"])
    assert list(full) == list(cases["with_odds"]) and full == pytest.approx(cases["with_odds"], abs=EXACTLY)
    answered = References({name: texts for name, texts in golds.items() if texts}, False, "")
    first = squad.score_squad(answered, {name: said[name] for name in answered.texts})
    assert first == pytest.approx({**cases["version_1"], "total": len(answered.texts)}, abs=EXACTLY)


def test_odd_cases_are_scored_as_the_official_algorithm_does():
    check(json.loads((GOLDENS / "squad_scores.json").read_text(encoding="utf-8")))


WORDS = (
    *(
        "the",
        "a",
        "an",
        "The",
        "cat",
        "Cat",
        "cats",
        "don't",
        "dont",
        "don\u2019t",
        "_",
        "x_y",
        "a-b",
        "10,000",
        ".",
        "!?",
    ),
    *("\u00c9cole", "e\u0301", "\u0130s", "stra\u00dfe", "\u6771\u4eac", "\U0001f600", "\u2014"),
    *("\u00a0", "\t", "\u200b", ""),
)


@pytest.mark.slow
def test_the_goldens_and_many_random_answers_against_the_official_algorithm(tmp_path):
    script, golden, out = GOLDENS / "torch_squad_scores.py", GOLDENS / "squad_scores.json", tmp_path / "out.json"
    rng = random.Random(0)

    def text():
        return rng.choice((" ", "  ", "")).join(rng.choices(WORDS, k=rng.randint(0, 4)))

    questions = [{"answers": [text() for _ in range(rng.choice((0, 1, 1, 3)))], "prediction": text(),
                  "odds": rng.choice((rng.uniform(-9, 9), 0.0, 1.5))} for _ in range(3000)]  # fmt: skip
    write(tmp_path / "random.json", {"threshold": 0.5, "questions": questions})
    for cases in (golden, tmp_path / "random.json"):
        subprocess.run([other_envs.torch_python(), "-B", script, cases, out], check=True, capture_output=True)
        content = json.loads(out.read_text(encoding="utf-8"))
        assert cases != golden or content == json.loads(golden.read_text(encoding="utf-8"))
        check(content)


def test_by_hand():
    golds = References({"q": ["the red house", "house"], "r": ["x"]}, False, "")
    # "A red car": of two words one is right, of "red house" one of two: 1/2; "x" is right.
    assert squad.score_squad(golds, {"q": "A red car", "r": "X."}) == {"exact": 50.0, "f1": 75.0, "total": 2}


def test_the_best_threshold_by_hand():
    golds = References({"no": [], "yes": ["x"], "wrong": ["y"], "none": []}, True, "")
    odds = {"yes": -2.0, "wrong": -1.0, "no": 0.5, "none": 3.0}
    scores = squad.score_squad(golds, {"no": "x", "yes": "x", "wrong": "z", "none": "x"}, odds, 1.0)
    # no answer anywhere: 2 of 4 right; odds up to -2 answered: 3 of 4; beyond, nothing is gained
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (75.0, -2.0)
    assert scores["exact"] == 50.0 and scores["NoAns_exact"] == 50.0  # odds of 3 alone are above the threshold


def test_a_question_without_a_prediction_is_wrong_and_counted(caplog):
    golds = References({"a": ["x"], "b": ["x"], "c": []}, True, "dev.json")
    scores = squad.score_squad(golds, {"a": "x", "z": "?"}, {"a": 0.0})
    assert scores["missing"] == 2 and scores["total"] == 3
    assert scores["exact"] == scores["best_exact"] == pytest.approx(100 / 3) and scores["NoAns_exact"] == 0.0
    assert "2 questions have no prediction and count as wrong: 'b', 'c'." in caplog.text
    assert "1 predictions match no question of dev.json: 'z'." in caplog.text


def test_files_that_do_not_belong_together():
    golds = References({"a": ["x"]}, False, "dev.json")
    with pytest.raises(ValueError, match=r"do not belong to dev\.json: none of 1 predictions is for one of its "
                       r"1 questions: 'b'\. Use matching files\."):  # fmt: skip
        squad.score_squad(golds, {"b": "x"})
    with pytest.raises(ValueError, match=r"They lack 1: 'a'; use the files of one run"):
        squad.score_squad(golds, {"a": "x"}, {})


def test_the_program_prints_one_object_and_nothing_else_there(tmp_path):
    data = write(tmp_path / "dev.json", squad_json([("a", ["x"]), ("b", [])]))
    said = write(tmp_path / "predictions.json", {"a": "x", "b": "y"})
    odds = write(tmp_path / "null_odds.json", {"a": -1.0, "b": 1.0})
    command = [sys.executable, "-m", "bert_tf", "score_squad", f"--data_file={data}", f"--predictions_file={said}"]

    def run(*more):
        return subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True, check=False)

    plain, right, bad = run(), run(f"--null_odds_file={odds}", "--null_score_diff_threshold=0"), run("--data_file=none")
    assert json.loads(plain.stdout)["exact"] == 50.0 and "best_f1" not in json.loads(plain.stdout)
    assert json.loads(right.stdout)["exact"] == 100.0 and json.loads(right.stdout)["best_f1_thresh"] == -1.0
    assert bad.returncode == 1 and bad.stdout == "" and "File not found: none (--data_file). " in bad.stderr
    alone = run("--null_score_diff_threshold=0")
    assert alone.returncode == 1 and "requires --null_odds_file. Add" in alone.stderr


def test_importing_squad_loads_no_heavy_library():
    code = ("import sys, bert_tf.evaluation.squad, bert_tf.cli.score_squad; "
            "print([m for m in ('tensorflow', 'keras', 'numpy') if m in sys.modules])")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
