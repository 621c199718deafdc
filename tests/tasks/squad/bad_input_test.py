"""What a user of run_squad.py can get wrong: one clear message, no traceback, status 1, and nothing half-made."""

import json
import os
import re

import pytest

from tests import tiny
from tests.scripts import files
from tests.tasks.squad.support import TRAIN, questions, run_cases, write

GOOD = [*TRAIN, "--train_file=HOME/train.json", "--num_train_epochs=1", "--output_dir=HOME/out"]


def _but(*changes):
    """Returns GOOD with some flags added or replaced."""
    names = {change.split("=")[0] for change in changes}
    return [a for a in GOOD if a.split("=")[0] not in names] + list(changes)


def _train(name):
    return _but(f"--train_file=HOME/{name}.json")


# Name -> (arguments, what the message must say). The output is HOME/out, which must not appear.
BAD = {
    "an answer that is not where it says": (
        _train("shifted"),
        r"shifted\.json: data\[1\]\.paragraphs\[0\]\.qas\[0\] \(id 'q2'\).*: the context must hold the answer at answ",
    ),
    "an id twice": (
        _train("twice"),
        r"twice\.json: data\[0\]\.paragraphs\[1\]\.qas\[0\] \(id 'q0'\): every question mu",
    ),
    "no JSON": (
        _train("text"),
        r"text\.json must be JSON in SQuAD's format\. Received 'the film', which does not parse",
    ),
    "a missing key": (
        _train("keyless"),
        r"keyless\.json: data\[0\]\.paragraphs\[0\]\.qas\[0\] \(id 'q0'\): .* in which 'answers' is a list\. Received",
    ),
    "no question": (_train("empty"), r"empty\.json must hold questions\. Received a file with none"),
    "a file that is not there": (_train("nowhere"), r"--train_file must be a file\. Received .*nowhere\.json, a path"),
    "no file": ([a for a in GOOD if "_file" not in a], r"--do_train must have questions\. Received no --train_file;"),
    "SQuAD 2.0 without its flag": (
        _train("two"),
        r"two\.json: data\[\d+\].* \(id 'q\d+'\): every question must have an answer, unless --version_2_with_negative",
    ),
    "a threshold without SQuAD 2.0": (
        _but("--null_score_diff_threshold=1"),
        r"--null_score_diff_threshold must come with --version_2_with_negative\. Received it alone",
    ),
    "questions that fill the row": (
        _but("--max_query_length=21"),
        r"--max_seq_length must be greater than --max_query_length \+ 3, .* Received 24 and 21; raise the first",
    ),
    "a stride over the room": (_but("--doc_stride=17"), r"--doc_stride must be from 1 to .*: 16 here\. Received: 17;"),
    "more than the model's positions": (
        _but("--max_seq_length=33"),
        r"--max_seq_length must be at most max_position_em",
    ),
    "too few questions": (_but("--train_batch_size=100"), r"Training must have a step at least\. Received 32 examples"),
    "a classifier's folder": (
        _but("--output_dir=HOME/other"),
        r"must be one for question_answering for this\. Received .*other, which holds one for classification",
    ),
    "nothing trained": (
        [a for a in GOOD if a != "--do_train"] + ["--do_predict", "--predict_file=HOME/train.json"],
        r"There must be a trained model\. Received .*out, which holds no checkpoint, and .* has no head for this task",
    ),
    "layers that the model does not have": (_but("--freeze_layers=3"), r"--freeze_layers must be `all` or a number fr"),
}


def _broken(folder, name, change):
    """Writes the good questions but for what `change` does to the file's "data"."""
    content = json.loads((folder / "train.json").read_text())
    change(content["data"])
    (folder / f"{name}.json").write_text(json.dumps(content))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad_squad")
    tiny.checkpoint(folder / "init")
    write(folder / "train.json", questions(32))
    write(folder / "two.json", questions(12, answered=0.5), version_2=True)

    def question(data, article, paragraph):
        return data[article]["paragraphs"][paragraph]["qas"][0]

    _broken(folder, "shifted", lambda data: question(data, 1, 0)["answers"][0].update(answer_start=99))
    _broken(folder, "twice", lambda data: question(data, 0, 1).update(id="q0"))
    _broken(folder, "keyless", lambda data: question(data, 0, 0).pop("answers"))
    _broken(folder, "empty", lambda data: data.clear())
    (folder / "text.json").write_text("the film")
    (folder / "other").mkdir()
    task = {"task": "classification", "num_labels": 2, "text_inputs": ["text"], "max_seq_length": 16}
    (folder / "other" / "task.json").write_text(json.dumps(task))
    return folder


@pytest.fixture(scope="module")
def results(home):
    before = files(home)
    found = dict(zip(BAD, run_cases(home, [arguments for arguments, _ in BAD.values()]), strict=True))
    assert files(home) == before and not os.path.exists(home / "out")  # not one file was made, changed or lost
    return found


@pytest.mark.parametrize("name", BAD)
def test_one_clear_message(results, name):
    result = results[name]
    assert result["status"] == 1, result["log"]
    assert "Traceback" not in result["log"], result["log"]
    assert len(re.findall("Error: ", result["log"])) == 1, result["log"]
    assert re.search(BAD[name][1], result["log"]), result["log"]
