"""run_squad.py as a user runs it: files in SQuAD's format in, answers and the official scores out, and an export."""

import json
import re

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  (the export's ops; nothing else here imports them in this process)

from tests import tiny
from tests.scripts import assert_same_tensors, at, check_continues, run, run_and_kill, run_named
from tests.tasks.program_tests import *  # noqa: F403
from tests.tasks.program_tests import scores_of, table_of
from tests.tasks.question_answering.support import STRANGE, TRAIN, questions, write

PROGRAM = "run_squad"
SCRIPT = "run_squad.py"
ONE = [*TRAIN, "--train_file=HOME/train.json", "--do_predict", "--predict_file=HOME/dev.json",
       "--num_train_epochs=15", "--save_checkpoints_steps=30"]  # fmt: skip
TWO = [*TRAIN, "--train_file=HOME/train2.json", "--version_2_with_negative", "--num_train_epochs=15", "--do_eval",
       "--eval_file=HOME/dev2.json", "--do_predict", "--predict_file=HOME/ask.json", "--verbose_logging", "--do_export",
       "--output_dir=HOME/whole"]  # fmt: skip
ASK = ["--init_checkpoint=HOME/whole", "--do_predict", "--predict_file=HOME/ask.json"]
AGAIN = [a for a in TRAIN if a != "--do_train" and "init" not in a] + ASK
CASES = {
    "whole": TWO,
    "later": [*ASK, "--output_dir=HOME/later"],  # what it was trained with, it remembers
}
LATER = {"later": ("predictions.json", "nbest_predictions.json", "null_odds.json")}
PAGE = ("Results by length of the true answer", "Most confident errors", "Answerable and unanswerable questions")
COLUMNS = ["id", "answer", "prediction", "probability", "exact", "f1", "question", "context"]
MORE = {  # for the slow tests
    "another file": ["--do_eval", "--eval_file=HOME/other2.json", "--output_dir=HOME/whole"],
    "always": [*AGAIN, "--version_2_with_negative=false", "--output_dir=HOME/always"],
    "one": [*ONE, "--output_dir=HOME/one"],
    "finished": [*ONE, "--output_dir=HOME/one"],
    "export": ["--init_checkpoint=HOME/one", "--do_export", "--output_dir=HOME/one"],
    "never": [*AGAIN, "--version_2_with_negative", "--null_score_diff_threshold=-1000", "--output_dir=HOME/never"],
    "scored": [*AGAIN, "--version_2_with_negative", "--predict_file=HOME/dev2.json", "--output_dir=HOME/scored"],
}


GOOD = [*TRAIN, "--train_file=HOME/train.json", "--num_train_epochs=1", "--output_dir=HOME/bad"]


def _but(*changes):
    """Returns GOOD with some flags added or replaced."""
    names = {change.split("=")[0] for change in changes}
    return [a for a in GOOD if a.split("=")[0] not in names] + list(changes)


def _train(name):
    return _but(f"--train_file=HOME/{name}.json")


_BAD = {
    "an answer that is not where it says": (
        _train("shifted"),
        r"shifted\.json: data\[1\]\.paragraphs\[0\]\.qas\[0\] \(id 'q2'\).*: the context must contain the answer at ",
    ),
    "an id twice": (
        _train("twice"),
        r"twice\.json: data\[0\]\.paragraphs\[1\]\.qas\[0\] \(id 'q0'\): every question mu",
    ),
    "no JSON": (
        _train("text"),
        r"text\.json must be JSON in SQuAD's format; got 'the film', which cannot be parsed",
    ),
    "a missing key": (
        _train("keyless"),
        r"keyless\.json: data\[0\]\.paragraphs\[0\]\.qas\[0\] \(id 'q0'\): .* in which 'answers' is a list; got",
    ),
    "no question": (_train("empty"), r"empty\.json contains no questions"),
    "a file that is not there": (_train("nowhere"), r"File not found: .*nowhere\.json .--train_file."),
    "no file": ([a for a in GOOD if "_file" not in a], r"--do_train requires questions\. Specify --train_file\."),
    "SQuAD 2.0 without its flag": (
        _train("train2"),
        r"train2\.json: data\[\d+\].* \(id 'q\d+'\): the question has no answer .*, which requires --version_2_with_n",
    ),
    "a threshold without SQuAD 2.0": (
        _but("--null_score_diff_threshold=1"),
        r"--null_score_diff_threshold requires --version_2_with_negative\. Add --version_2_with_negative",
    ),
    "questions that fill the row": (
        _but("--max_query_length=21"),
        r"--max_seq_length must be greater than --max_query_length \+ 3, .* got 24 and 21; raise --max_seq",
    ),
    "a stride over the room": (_but("--doc_stride=17"), r"--doc_stride must be from 1 to .* = 16, .* got 17;"),
    "more than the model's positions": (
        _but("--max_seq_length=33"),
        r"--max_seq_length must be at most 32, max_position_em",
    ),
    "a classifier's folder": (
        _but("--output_dir=HOME/other"),
        r"requires a model for question_answering\. .*other contains one for classification",
    ),
    "layers that the model does not have": (_but("--freeze_layers=3"), r"--freeze_layers must be `all` or a number fr"),
}
BAD = {name: (arguments, re.compile(said)) for name, (arguments, said) in _BAD.items()}


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
    _write_broken_files(folder)
    return folder


def _write_broken_files(folder):
    def question(data, article, paragraph):
        return data[article]["paragraphs"][paragraph]["qas"][0]

    for name, change in {
        "shifted": lambda data: question(data, 1, 0)["answers"][0].update(answer_start=99),
        "twice": lambda data: question(data, 0, 1).update(id="q0"),
        "keyless": lambda data: question(data, 0, 0).pop("answers"),
        "empty": lambda data: data.clear(),
    }.items():
        content = _json(folder / "train.json")
        change(content["data"])
        (folder / f"{name}.json").write_text(json.dumps(content))
    (folder / "text.json").write_text("the film")
    (folder / "other").mkdir()
    task = {"task": "classification", "num_labels": 2, "text_inputs": ["text"], "max_seq_length": 16}
    (folder / "other" / "task.json").write_text(json.dumps(task))


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
def more(home, results):
    found = run_named(PROGRAM, home, MORE)
    assert {result["status"] for result in found.values()} == {0}, found
    return found


def _json(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_squad_1_is_learned_and_scored(home, more):
    scores = scores_of(home / "one")
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


@pytest.mark.slow
def test_the_page_of_squad_1_says_nothing_of_questions_without_answers(home, more):
    page = (home / "one" / "report.html").read_text(encoding="utf-8")
    assert all(text in page for text in PAGE[:2]) and PAGE[2] not in page
    assert not (home / "one" / "eval_predictions.tsv").exists()


@pytest.mark.slow
def test_the_table_has_the_scores_with_the_threshold_that_is_kept(home, results):
    _, rows = table_of(home / "whole")
    mean = 100 * sum(float(row[5]) for row in rows) / 41
    assert len(rows) == 41 and mean == pytest.approx(scores_of(home / "whole")["eval_best_f1"], 1e-3)


@pytest.mark.slow
def test_a_finished_run_started_again_makes_no_step(more):
    log = more["finished"]["log"]
    assert "Continuing this run from step 90: " in log and "  loss " not in log


@pytest.mark.slow
def test_squad_2_finds_a_threshold_and_keeps_it(home, results):
    scores, task = scores_of(home / "whole"), _json(home / "whole" / "task.json")
    assert {"eval_HasAns_f1", "eval_NoAns_exact", "eval_best_exact", "eval_total"} < set(scores)
    assert scores["eval_best_f1"] > 75 and scores["eval_best_f1"] >= scores["eval_f1"]
    assert task["null_score_diff_threshold"] == pytest.approx(scores["eval_best_f1_thresh"])
    assert task["text_inputs"] == ["question", "context"] and task["max_answer_length"] == 4
    trained, later = results["whole"]["log"], results["later"]["log"]
    assert "Not evaluated: " in trained and "q3 'is it': " in trained and "q3 'is it': " not in later


def _with_answers(home):
    """Returns each question's best answer that is a text, and how much more no answer scores."""
    best, odds = (_json(home / "whole" / name) for name in ("nbest_predictions.json", "null_odds.json"))
    texts = {name: next((each["text"] for each in found if each["text"]), "") for name, found in best.items()}
    return texts, odds


@pytest.mark.slow
def test_the_kept_threshold_is_used(home, results):
    texts, odds = _with_answers(home)
    kept = _json(home / "whole" / "task.json")["null_score_diff_threshold"]
    expected = {name: "" if odds[name] > kept else text for name, text in texts.items()}
    assert _json(home / "whole" / "predictions.json") == expected and "" in expected.values()


@pytest.mark.slow
def test_without_negatives_every_question_has_an_answer(home, more):
    always = _json(home / "always" / "predictions.json")
    assert always == _with_answers(home)[0]
    assert [name for name, text in always.items() if not text] == [f"q{20 + list(STRANGE).index('blank')}"]
    assert not (home / "always" / "null_odds.json").exists()


@pytest.mark.slow
def test_another_file_leaves_the_scores_of_the_first_and_the_threshold_that_it_gave(home, more):
    message = "contains the metrics of dev2.json, so those of other2.json are written to eval_results_other2"
    assert f"eval_results.txt {message}.txt." in more["another file"]["log"]
    scores, others = (scores_of(home / "whole", f"eval_results{suffix}.txt") for suffix in ("", "_other2"))
    assert (scores["eval_total"], others["eval_total"]) == (41, 23)
    kept = _json(home / "whole" / "task.json")["null_score_diff_threshold"]
    assert kept == pytest.approx(scores["eval_best_f1_thresh"]) and kept != pytest.approx(others["eval_best_f1_thresh"])
    _, rows = table_of(home / "whole", "eval_predictions_other2.tsv")
    assert len(rows) == 23
    assert sum(float(row[5]) for row in rows) == pytest.approx(23 * others["eval_f1"] / 100, 1e-3)
    page = (home / "whole" / "report.html").read_text(encoding="utf-8")
    assert "Error analysis: dev2.json" in page and "Error analysis: other2.json" in page


@pytest.mark.slow
def test_by_a_threshold_that_nothing_reaches_there_is_no_answer(home, more):
    assert set(_json(home / "never" / "predictions.json").values()) == {""}


@pytest.mark.slow
def test_a_file_with_answers_is_scored_where_it_is_answered(home, more):
    scores = scores_of(home / "scored")
    assert scores["eval_f1"] == pytest.approx(scores_of(home / "whole")["eval_best_f1"])


@pytest.mark.slow
def test_the_export_of_a_model_without_a_threshold_gives_the_scripts_answers(home, more):
    _check_served(home, "one")


@pytest.mark.slow
def test_the_export_gives_the_scripts_answers(home, results):
    _check_served(home, "whole")


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
    if case == "whole":
        odds = _json(home / case / "null_odds.json")
        served = got["null_score"] - got["score"]
        assert served.tolist() == pytest.approx([odds[name] for name in names], abs=1e-4)


@pytest.mark.slow
def test_killed_and_started_again_it_ends_with_the_same_weights_to_the_bit(home, more):
    arguments = [*at(home, ONE), f"--output_dir={home}/killed"]
    killed = run_and_kill(arguments, 40, SCRIPT)
    check_continues(run(arguments, SCRIPT), killed, every=30)
    assert_same_tensors(home / "one" / "model.ckpt-90", home / "killed" / "model.ckpt-90")
    for name in ("predictions.json", "nbest_predictions.json", "eval_results.txt"):
        assert (home / "killed" / name).read_bytes() == (home / "one" / name).read_bytes()
