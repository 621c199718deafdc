"""run_squad.py as a user runs it: files in SQuAD's format in, answers and the official scores out, and an export."""

import json

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  (the export's ops; nothing else here imports them in this process)

from tests import tiny
from tests.scripts import assert_same_tensors, at, check_continues, run, run_and_kill
from tests.tasks.squad.support import STRANGE, TRAIN, questions, run_cases, write

SCRIPT = "run_squad.py"
ONE = [*TRAIN, "--train_file=HOME/train.json", "--do_predict", "--predict_file=HOME/dev.json",
       "--num_train_epochs=15", "--save_checkpoints_steps=30"]  # fmt: skip
TWO = [*TRAIN, "--train_file=HOME/train2.json", "--version_2_with_negative", "--num_train_epochs=15", "--do_eval",
       "--eval_file=HOME/dev2.json", "--do_predict", "--predict_file=HOME/ask.json", "--verbose_logging", "--do_export",
       "--output_dir=HOME/two"]  # fmt: skip
ASK = ["--init_checkpoint=HOME/two", "--do_predict", "--predict_file=HOME/ask.json"]
LATER = [a for a in TRAIN if a != "--do_train" and "init" not in a] + ASK
CASES = {
    "one": [*ONE, "--output_dir=HOME/one"],
    "finished": [*ONE, "--output_dir=HOME/one"],
    "two": TWO,
    "later": [*ASK, "--output_dir=HOME/later"],  # what it was trained with, it remembers
    "always": [*LATER, "--version_2_with_negative=false", "--output_dir=HOME/always"],
    "another file": ["--do_eval", "--eval_file=HOME/other2.json", "--output_dir=HOME/two"],
}
MORE = {  # for the slow tests
    "export": ["--init_checkpoint=HOME/one", "--do_export", "--output_dir=HOME/one"],
    "never": [*LATER, "--version_2_with_negative", "--null_score_diff_threshold=-1000", "--output_dir=HOME/never"],
    "scored": [*LATER, "--version_2_with_negative", "--predict_file=HOME/dev2.json", "--output_dir=HOME/scored"],
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run_squad")
    tiny.checkpoint(folder / "init", dropout=0.1)
    write(folder / "train.json", questions(96))
    write(folder / "dev.json", questions(31, 1))
    write(folder / "train2.json", questions(192, 2, answered=0.6), version_2=True)
    write(folder / "dev2.json", questions(41, 3, answered=0.6), version_2=True)
    _without_answers_where_impossible(folder / "train2.json", folder / "dev2.json")
    write(folder / "other2.json", questions(23, 5, answered=0.3), version_2=True)
    asked = questions(20, 4, answered=0.6) + [("is it", context, "", 0) for context in STRANGE.values()]
    write(folder / "ask.json", [*asked, ("", "the film is good", "", 0)], answers=False)
    return folder


def _without_answers_where_impossible(*paths):
    """Takes the empty lists of answers out, as some who write the format do."""
    for path in paths:
        content = _json(path)
        qas = [each for article in content["data"] for paragraph in article["paragraphs"] for each in paragraph["qas"]]
        for each in qas:
            if each["is_impossible"]:
                assert each.pop("answers") == []
        path.write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture(scope="module")
def logs(home):
    """Returns {case: its log}, of runs one after the other; each leaves its files in a folder of its name."""
    return _run(home, CASES)


@pytest.fixture(scope="module")
def more(home, logs):
    return _run(home, MORE)


def _run(home, cases):
    results = dict(zip(cases, run_cases(home, cases.values()), strict=True))
    for name, result in results.items():
        assert result["status"] == 0, (name, result["log"])
    return {name: result["log"] for name, result in results.items()}


def _scores(folder, name="eval_results.txt"):
    lines = (folder / name).read_text().splitlines()
    return {name: float(value) for name, value in (line.split(" = ") for line in lines)}


def _json(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_squad_1_is_learned_and_scored(home, logs):
    scores = _scores(home / "one")
    assert set(scores) == {"eval_exact", "eval_f1", "eval_total", "global_step"} and scores["global_step"] == 90
    assert scores["eval_total"] == 31 and scores["eval_f1"] >= scores["eval_exact"] > 80
    predictions = _json(home / "one" / "predictions.json")
    asked = {f"q{i}": row for i, row in enumerate(questions(31, 1))}
    assert list(predictions) == list(asked) and not (home / "one" / "null_odds.json").exists()
    exact = [predictions[name] == answer for name, (_, _, answer, _) in asked.items()]
    assert 100 * sum(exact) / 31 == pytest.approx(scores["eval_exact"])
    for name, found in _json(home / "one" / "nbest_predictions.json").items():
        assert found[0]["text"] == predictions[name] and 1 < len(found) <= 20
        assert sum(each["probability"] for each in found) == pytest.approx(1)
        assert all(each["text"] in asked[name][1] and len(each["text"].split()) <= 4 for each in found)


def test_the_page_shows_answers_that_were_scored_with_either_flag(home, logs):
    one, two = ((home / name / "report.html").read_text(encoding="utf-8") for name in ("one", "two"))
    assert all("By length of the right answer" in page and "Worst answers" in page for page in (one, two))
    assert "Answerable or not" in two and "Answerable or not" not in one
    rows = [line.split("\t") for line in (home / "two" / "eval_predictions.tsv").read_text().splitlines()]
    names = ["id", "answer", "prediction", "probability", "exact", "f1", "question", "context"]
    assert rows[0] == names and len(rows) == 42 and not (home / "one" / "eval_predictions.tsv").exists()
    mean = 100 * sum(float(row[5]) for row in rows[1:]) / 41
    assert mean == pytest.approx(_scores(home / "two")["eval_best_f1"], 1e-3)  # with the threshold that is kept


def test_a_finished_run_started_again_makes_no_step(logs):
    assert "Continuing this run from step 90: " in logs["finished"] and "  loss " not in logs["finished"]


def test_squad_2_finds_a_threshold_and_keeps_it(home, logs):
    scores, task = _scores(home / "two"), _json(home / "two" / "task.json")
    assert {"eval_HasAns_f1", "eval_NoAns_exact", "eval_best_exact", "eval_total"} < set(scores)
    assert scores["eval_best_f1"] > 75 and scores["eval_best_f1"] >= scores["eval_f1"]
    assert task["null_score_diff_threshold"] == pytest.approx(scores["eval_best_f1_thresh"])
    assert task["text_inputs"] == ["question", "context"] and task["max_answer_length"] == 4
    assert "Not scored: " in logs["two"] and "q3 'is it': " in logs["two"] and "q3 'is it': " not in logs["later"]


def test_the_kept_threshold_is_used_unless_another_is_given(home, logs):
    two, later, always = (_json(home / n / "predictions.json") for n in ("two", "later", "always"))
    odds, threshold = _json(home / "two" / "null_odds.json"), _json(home / "two" / "task.json")
    assert two == later
    blank = [f"q{20 + list(STRANGE).index('blank')}"]
    assert [name for name, text in always.items() if not text] == blank
    kept = threshold["null_score_diff_threshold"]
    assert two == {n: "" if odds[n] > kept else text for n, text in always.items()} and "" in two.values()
    assert not (home / "always" / "null_odds.json").exists()


def test_another_file_leaves_the_scores_of_the_first_and_the_threshold_that_it_gave(home, logs):
    message = "eval_results.txt is of dev2.json: the scores of other2.json go to eval_results_other2.txt."
    assert message in logs["another file"]
    scores, others = (_scores(home / "two", f"eval_results{suffix}.txt") for suffix in ("", "_other2"))
    assert (scores["eval_total"], others["eval_total"]) == (41, 23)
    kept = _json(home / "two" / "task.json")["null_score_diff_threshold"]
    assert kept == pytest.approx(scores["eval_best_f1_thresh"]) and kept != pytest.approx(others["eval_best_f1_thresh"])
    rows = [line.split("\t") for line in (home / "two" / "eval_predictions_other2.tsv").read_text().splitlines()]
    assert len(rows) == 24
    assert sum(float(row[5]) for row in rows[1:]) == pytest.approx(23 * others["eval_f1"] / 100, 1e-3)
    page = (home / "two" / "report.html").read_text(encoding="utf-8")
    assert "What it does on dev2.json" in page and "What it does on other2.json" in page


@pytest.mark.slow
def test_by_a_threshold_that_nothing_reaches_there_is_no_answer(home, more):
    assert set(_json(home / "never" / "predictions.json").values()) == {""}


@pytest.mark.slow
def test_a_file_with_answers_is_scored_where_it_is_answered(home, more):
    scores = _scores(home / "scored")
    assert scores["eval_f1"] == pytest.approx(_scores(home / "two")["eval_best_f1"])


@pytest.mark.slow
def test_the_export_of_a_model_without_a_threshold_gives_the_scripts_answers(home, more):
    _check_served(home, "one")


def test_the_export_gives_the_scripts_answers(home, logs):
    _check_served(home, "two")


def _check_served(home, case):
    serve = tf.saved_model.load(str(home / case / "export" / "1")).signatures["serving_default"]
    file = "dev.json" if case == "one" else "ask.json"
    asked = [(p["qas"][0]["question"], p["context"], p["qas"][0]["id"]) for a in _json(home / file)["data"]
             for p in a["paragraphs"]]  # fmt: skip
    questions_, contexts, names = zip(*asked, strict=True)
    got = {k: v.numpy() for k, v in serve(question=tf.constant(questions_), context=tf.constant(contexts)).items()}
    predictions = _json(home / case / "predictions.json")
    assert [text.decode() for text in got["answer"]] == [predictions[name] for name in names]
    for context, answer, start, end in zip(contexts, got["answer"], got["start"], got["end"], strict=True):
        assert context[start:end] == answer.decode()
    if case == "two":
        odds = _json(home / case / "null_odds.json")
        served = got["null_score"] - got["score"]
        assert served.tolist() == pytest.approx([odds[name] for name in names], abs=1e-4)


@pytest.mark.slow
def test_killed_and_started_again_it_ends_with_the_same_weights_to_the_bit(home, logs):
    arguments = [*at(home, ONE), f"--output_dir={home}/killed"]
    killed = run_and_kill(arguments, 40, SCRIPT)
    check_continues(run(arguments, SCRIPT), killed, every=30)
    assert_same_tensors(home / "one" / "model.ckpt-90", home / "killed" / "model.ckpt-90")
    for name in ("predictions.json", "nbest_predictions.json", "eval_results.txt"):
        assert (home / "killed" / name).read_bytes() == (home / "one" / name).read_bytes()
