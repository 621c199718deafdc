"""A trained classifier trained again with other labels, as a user does it: log, records, model card, and compare."""

import json

import pytest

from bert_tf.checkpoints.readers import read_arrays
from bert_tf.runs.task_flags import task_flags
from bert_tf.tasks.classification.task import ClassificationTask
from tests import tiny
from tests.scripts import Cases, at

pytestmark = pytest.mark.slow  # tests/tasks/retraining_test.py has the parts

TRAIN = ["--do_train", "--train_batch_size=16", "--max_seq_length=16", "--learning_rate=1e-9", "--seed=2"]
RETRAIN = [*TRAIN, "--init_checkpoint=HOME/v1", "--train_file=HOME/new.tsv"]
EVALUATE = ["--do_eval", "--eval_file=HOME/new.tsv"]
CASES = {
    "v1": [*TRAIN, "--init_checkpoint=HOME/init", "--train_file=HOME/old.tsv", "--do_eval", "--eval_file=HOME/old.tsv",
           "--num_train_epochs=1", "--output_dir=HOME/v1"],
    "v2": [*RETRAIN, *EVALUATE, "--rename_labels=good:great", "--num_train_epochs=2", "--do_export",
           "--output_dir=HOME/v2"],
    "again": [*RETRAIN, "--rename_labels=good:great", "--num_train_epochs=2", "--output_dir=HOME/v2"],
}  # fmt: skip
OUT = "--output_dir=HOME/bad"
BAD = {
    "other names": ([*RETRAIN, "--num_train_epochs=2", "--output_dir=HOME/v2"], "rename_labels"),
    "unknown": ([*RETRAIN, "--rename_labels=fine:great", OUT], "got 'fine:great': 'fine' is not in the trained"),
    "no model": ([*RETRAIN, "--init_checkpoint=HOME/init", "--rename_labels=good:great", OUT],
                 "--rename_labels requires an --init_checkpoint whose files name its labels"),
    "no training": (["--init_checkpoint=HOME/v1", *EVALUATE, "--rename_labels=good:great", OUT],
                    "--rename_labels requires --do_train"),
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("retrain")
    tiny.checkpoint(folder / "init")
    rows = tiny.texts(48, names=("bad", "good"))
    tiny.write_tsv(folder / "old.tsv", rows)
    renamed = [(text, "great" if label == "good" else label) for text, label in rows]
    new = [(f"music {text}", "about") for text, _ in rows[:16]]
    tiny.write_tsv(folder / "new.tsv", [*new, *renamed])
    return folder


@pytest.fixture(scope="module")
def results(home):
    with Cases("run_classifier") as program:
        found = {case: program.run(at(home, arguments)) for case, arguments in CASES.items()}
        found |= {case: program.run(at(home, arguments)) for case, (arguments, _) in BAD.items()}
        found["compare"] = program.run([str(home / "v1"), str(home / "v2"), "--samples=20"], name="compare")
        return found


@pytest.mark.parametrize("case", [*CASES, "compare"])
def test_it_runs(results, case):
    assert results[case]["status"] == 0, results[case]["log"]


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_clear_message(results, case):
    assert results[case]["status"] == 1 and BAD[case][1] in results[case]["log"], results[case]["log"]
    assert results[case]["log"].count("Error: ") == 1


def test_the_log_says_once_what_is_kept(home, results):
    line = f"from {home}/v1: kept: 2; new: about; dropped: none; renamed: good -> great."
    assert results["v2"]["log"].count(line) == 1 and line not in results["again"]["log"]


def test_a_head_that_hardly_learned_has_the_rows_where_they_belong(home, results):
    old, new = (read_arrays(home / name)["classifier/output_weights"] for name in ("v1", "v2"))
    assert (home / "v2" / "labels.txt").read_text() == "about\nbad\ngreat\n"
    assert abs(new[1:] - old).max() < 1e-4
    assert (abs(new[0] - old).max(axis=1) > 1e-3).all()  # although both runs have the same seed


def test_the_records_and_the_card_say_what_it_was_trained_from(home, results):
    expected = {
        "init_checkpoint": f"{home}/v1", "labels": ["bad", "good"], "kept": ["bad", "great"], "new": ["about"],
        "dropped": [], "renamed": {"good": "great"},
    }  # fmt: skip
    record = json.loads((home / "v2" / "run.json").read_text())
    assert record["retrained_from"] == expected  # although the same command was started again
    assert record["identity"]["rename_labels"] == {"good": "great"}
    deciding = [flag.name for flag in task_flags(ClassificationTask) if flag.decides_result is True]
    assert "label_smoothing" in deciding
    assert {name: record["settings"][name] for name in deciding}.items() <= record["identity"].items()
    assert "retrained_from" not in json.loads((home / "v1" / "run.json").read_text())
    card = (home / "v2" / "export" / "1" / "assets.extra" / "MODEL_CARD.md").read_text()
    for row in (
        f"| started from | {home.name}/v1 |",
        "| labels of that model | bad, good |",
        "| labels kept from it | bad, great |",
        "| new labels | about |",
        "| labels renamed | good to great |",
    ):
        assert row in card, card
    assert "labels dropped" not in card


def test_the_two_versions_are_compared_on_the_labels_that_both_have(results):
    log = results["compare"]["log"]
    assert "eval_predictions.tsv, 48 examples" in log and "Labels of A, under their names in B: good -> great." in log
    assert "Labels only in B, not compared: about (16 examples, " in log and "Labels only in A" not in log
