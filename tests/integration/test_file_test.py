"""A third labeled file: the final model is scored on it, and it decides nothing."""

import json

import pytest

from bert_tf.evaluation.results import read_results
from bert_tf.runs.run_task import run_task
from bert_tf.runs.task_flags import task_settings
from bert_tf.tasks.classification.task import ClassificationTask
from tests import tiny


def _run(**given):
    run_task(ClassificationTask, task_settings(ClassificationTask)().give(given))


def _write(path, n, seed, labels=("film", "film,good")):
    """Writes texts; `labels` are those of a text with a bad and with a good word."""
    return str(tiny.write_tsv(path, tiny.texts(n, seed, labels)))


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a run that was fitted on dev.tsv and scored on test.tsv too."""
    folder = tmp_path_factory.mktemp("test_file")
    files = {name: _write(folder / f"{name}.tsv", n, seed) for name, n, seed in (("train", 96, 0), ("dev", 30, 1))}
    files["test"] = _write(folder / "test.tsv", 20, 2, ("film,good", "film"))  # another threshold would fit it
    _run(train_file=files["train"], eval_file=files["dev"], test_file=files["test"],
         init_checkpoint=str(tiny.checkpoint(folder / "start", dropout=0.0)), output_dir=str(folder / "out"),
         problem_type="multi_label", do_train=True, do_eval=True, fit_thresholds=True, fit_temperature=True,
         max_seq_length=20, train_batch_size=16, num_train_epochs=8.0, learning_rate=2e-3, seed=1,
         precision="auto")  # fmt: skip
    return folder


def test_its_scores_stand_beside_those_of_the_evaluation_file(home):
    out = home / "out"
    dev, test = read_results(out), read_results(out, "_test")
    assert dev["eval_f1"] > 0.8 > test["eval_f1"] and dev.keys() == test.keys()
    assert dev["global_step"] == test["global_step"] == 48
    assert len((out / "eval_predictions_test.tsv").read_text().splitlines()) == 21
    note = json.loads((out / "eval_files.json").read_text())
    assert {suffix: each["files"][0]["file"] for suffix, each in note.items()} == {
        "": str((home / "dev.tsv").resolve()), "_test": str((home / "test.tsv").resolve())}  # fmt: skip
    assert set(note[""]["fitted"]) == {f"eval_{name}" for name in (
        "accuracy", "ece", "f1", "precision", "recall", "weighted_f1")}  # fmt: skip
    assert note["_test"]["fitted"] == [] and note["_test"]["data"]["final"]["rows"] == 20
    assert note["_test"]["labels"][""]["film"][0] == 20  # all of them
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Error analysis: test.tsv" in page and "Test data" in page and "Thresholds by label" in page
    last = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()][-1]
    assert last["kind"] == "eval" and last["f1"] == dev["eval_f1"]


def test_nothing_is_fitted_to_it(home):
    out = home / "out"
    fitted = json.loads((out / "task.json").read_text())
    assert set(fitted) >= {"temperature", "thresholds"}
    scores = read_results(out), read_results(out, "_test")
    _run(output_dir=str(out), eval_file=str(home / "test.tsv"), do_eval=True, precision="auto")
    assert read_results(out, "_test") == scores[1]  # alone, it gets the same scores
    assert read_results(out) == scores[0] and json.loads((out / "task.json").read_text()) == fitted


def test_it_is_not_the_file_to_select_by(home):
    given = {"output_dir": str(home / "out"), "test_file": str(home / "test.tsv")}
    with pytest.raises(ValueError, match="`test_file` requires `do_eval`"):
        _run(**given, predict_file=str(home / "dev.tsv"), do_predict=True)
    (home / "copy.tsv").write_bytes((home / "test.tsv").read_bytes())
    for eval_file in (home / "copy.tsv", f"{home}/dev.tsv,{home}/cop*.tsv"):
        with pytest.raises(ValueError, match=r"`test_file` and `eval_file` must be different .* got .*copy\.tsv"):
            _run(**given, eval_file=str(eval_file), do_eval=True)


def test_the_precision_of_the_start_is_kept(home, monkeypatch, caplog):
    record = json.loads((home / "out" / "run.json").read_text())
    precision = record["settings"]["precision"]
    assert precision == record["identity"]["precision"] == record["machine"]["precision"] != "auto"
    other = {"float32": "mixed_bfloat16", "mixed_bfloat16": "float32"}[precision]
    monkeypatch.setattr("bert_tf.training.devices.best_precision", lambda: other)  # as on another machine
    with caplog.at_level("INFO", "absl"):
        _run(output_dir=str(home / "out"), eval_file=str(home / "dev.tsv"), do_eval=True, precision="auto")
    assert f"`precision=auto`: {precision}, as at the start of this run." in caplog.messages


def test_the_export_in_another_precision_is_scored_itself(home, caplog):
    scored = {"eval_file": str(home / "dev.tsv"), "do_eval": True, "precision": "float32"}
    _run(output_dir=str(home / "out"), **scored | {"eval_file": str(home / "test.tsv")})  # before, in either precision
    with caplog.at_level("INFO", "absl"):
        _run(output_dir=str(home / "out"), **scored, do_export=True, export_dtype="bfloat16")
    assert "Largest change in bfloat16: eval_" in caplog.text
    card = (home / "out" / "export" / "1" / "assets.extra" / "MODEL_CARD.md").read_text(encoding="utf-8")
    rows = dict(line.strip("| ").split(" | ") for line in card.splitlines() if line.startswith("| eval_"))
    assert float(rows["eval_loss, in bfloat16 as exported"]) == pytest.approx(float(rows["eval_loss"]), abs=0.01)
    assert rows["eval_loss, in bfloat16 as exported"] != rows["eval_loss"]
    test, dev = card[card.index("## Scores") : card.index("## Signatures")].split("### ")[1:]
    assert test.startswith("test.tsv, 20 rows") and "Its own metrics were not measured." in test
    assert "The metrics were computed in float32; this export is in bfloat16." in dev and "not measured" not in dev
    assert "eval_f1 (fitted)" in dev and "(fitted)" not in test
    with caplog.at_level("INFO", "absl"):  # on another file than the scores in the card
        _run(output_dir=str(home / "out"), **scored | {"eval_file": str(home / "test.tsv")}, do_export=True,
             export_dtype="bfloat16")  # fmt: skip
    card = (home / "out" / "export" / "2" / "assets.extra" / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "as exported" not in card and "Its own metrics were not measured." in card
