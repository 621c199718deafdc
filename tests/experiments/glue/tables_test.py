"""Tables of one's own beside GLUE's tasks: from the file that names them to their place on the page."""

import json

import pytest

from bert_tf.evaluation.results import write_results
from bert_tf.experiments.glue import report as glue_report
from bert_tf.experiments.glue import runs as glue_runs
from bert_tf.experiments.glue.grid import Grid
from bert_tf.experiments.glue.score_tables import read_score_tables
from bert_tf.utils import logged_runs
from tests.experiments.glue.glue_folder import ONE, TASKS, finish, program, write_glue


def _write(folder, **tables):
    """Writes tables.json and the files that every table has."""
    for name in ("train.tsv", "dev.tsv"):
        (folder / name).write_text("text\tlabel\na\t0\n")
    path = folder / "tables.json"
    path.write_text(json.dumps(tables))
    return path


FILES = {"train_file": "train.tsv", "eval_file": "dev.tsv"}


def test_tables_are_read_as_flags_and_metrics(tmp_path):
    pairs = {**FILES, "text_column": ["a", 1], "label_column": 2, "header": False, "problem_type": "regression"}
    path = _write(tmp_path, reviews=FILES, pairs=pairs, mine={**FILES, "metrics": ["matthews", "f1"]})
    reviews, pairs, mine = read_score_tables(path).values()
    files = {"train_file": str(tmp_path / "train.tsv"), "eval_file": str(tmp_path / "dev.tsv")}
    assert (reviews.name, reviews.flags, reviews.metrics) == ("reviews", files, ("accuracy",))
    assert reviews.training_size == 15
    assert pairs.flags == {**files, "text_column": "a,1", "label_column": 2, "header": False,
                           "problem_type": "regression"}  # fmt: skip
    assert pairs.metrics == ("pearson", "spearman") and mine.metrics == ("matthews", "f1")


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({}, "is an empty object"),
        ({"cola": FILES}, "none of GLUE's tasks; got 'cola'"),
        ({"../x": FILES}, "a table's name must be of letters.* got '../x'"),
        ({"x": {"train_file": "train.tsv"}}, "'x' requires train_file and eval_file"),
        ({"x": 7}, "'x' requires train_file and eval_file; got 7"),
        ({"x": {**FILES, "eval_file": "no.tsv"}}, "eval_file of 'x' not found: .*no.tsv"),
        ({"x": {**FILES, "seed": 1}}, "a table may have metrics, train_file, .*got 'seed' of 'x'"),
        ({"x": {**FILES, "header": 1}}, "header of 'x' must be true or false; got 1"),
        ({"x": {**FILES, "label_column": True}}, "label_column of 'x' must be a column; got True"),
        ({"x": {**FILES, "problem_type": "ranking"}}, "must be one of single_label, multi_label, regression; got"),
        ({"x": {**FILES, "metrics": ["bleu"]}}, "metrics of a table must be a list of some of .*'x' has ..bleu"),
    ],
)
def test_malformed_tables_are_refused(tmp_path, tables, message):
    with pytest.raises(ValueError, match=message):
        read_score_tables(_write(tmp_path, **tables))


def test_tables_are_among_the_tasks(tmp_path):
    folder = write_glue(tmp_path / "glue", 3, 3, 3)
    assert glue_runs.find_tasks(None, folder, ["x", "y"]) == [*TASKS, "x", "y"]
    assert glue_runs.find_tasks(None, None, ["x", "y"]) == ["x", "y"]
    assert glue_runs.find_tasks(["y", "STSB", "y"], folder, ["x", "y"]) == ["sts-b", "y"]
    assert glue_runs.find_tasks(["y"], folder, ["x", "y"]) == ["y"]
    with pytest.raises(ValueError, match="`glue_dir` not found: None"):
        glue_runs.find_tasks(["cola"], None, ["x"])


def _grid(folder, tables, monkeypatch):
    """Returns a grid whose runs end at once, with the same scores, and what each was told."""
    told = []

    def execute(program, flags, run_folder, claim):
        told.append(flags)
        run_folder.mkdir(parents=True, exist_ok=True)
        write_results(str(run_folder), {"accuracy": 0.75, "f1": 0.5, "loss": 0.5}, 10)
        return True

    monkeypatch.setattr(logged_runs, "execute_resumable", execute)
    runs = glue_runs.grid(tables, [1, 2], [16], [5e-5], [2.0])
    return Grid(str(folder), None, str(folder), [], runs, False, None, tables), told


def test_runs_on_a_table_are_made_once_and_reported(tmp_path, monkeypatch):
    tables = read_score_tables(_write(tmp_path, mine={**FILES, "metrics": ["accuracy", "f1"]}))
    grid, told = _grid(tmp_path, tables, monkeypatch)
    finish(tmp_path, glue_runs.GlueRun("cola", ONE, 1), matthews=0.5)
    grid.train()
    assert len(told) == 2 and f"--train_file={tmp_path}/train.tsv" in told[0] and "--seed=2" in told[1]
    assert not any(flag.startswith(("--task_name", "--data_dir", "--metrics")) for flag in told[0])
    results = glue_runs.all_finished(tmp_path)
    assert [(r.run.task, r.score) for r in results] == [("cola", 0.5), ("mine", 0.625), ("mine", 0.625)]
    assert glue_report.glue_average(glue_report.summarize_results(results))[1] == ["cola"]  # it is none of GLUE's
    assert "62.50 ± 0.00" in (tmp_path / "report.html").read_text()
    with pytest.raises(ValueError, match="`do_predict` found no task with both a finished run"):
        grid.answer()
    grid.train()
    assert len(told) == 2


def test_a_table_is_the_same_in_all_its_runs(tmp_path, monkeypatch):
    tables = read_score_tables(_write(tmp_path, mine=FILES))
    _grid(tmp_path, tables, monkeypatch)[0].train()
    _grid(tmp_path, read_score_tables(_write(tmp_path, other=FILES)), monkeypatch)[0].train()  # further ones may come
    changed = read_score_tables(_write(tmp_path, mine={**FILES, "label_column": "stars"}))
    with pytest.raises(ValueError, match="`tables` now describes .*stars.*mine"):
        _grid(tmp_path, changed, monkeypatch)


def test_what_tables_decide_is_not_for_all_runs(tmp_path):
    path = _write(tmp_path, mine={**FILES, "label_column": "label"})
    done = program(f"--tables={path}", f"--init_checkpoint={tmp_path}", f"--output_dir={tmp_path}/out", "--",
                   "--label_column=stars")  # fmt: skip
    assert done.returncode == 1 and "got --label_column=stars, which `benchmark glue` sets itself" in done.stderr
    assert not (tmp_path / "out").exists()
