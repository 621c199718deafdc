"""Many runs over GLUE: which there are, what is run for each, how far they are, and what they came to."""

import dataclasses
import json
import pathlib
import statistics

import pytest

from bert_tf.data import glue_tasks
from bert_tf.experiments.child_runs import FINISHED_FILE, drop_models
from bert_tf.experiments.glue import grid as glue_grid
from bert_tf.experiments.glue import report as glue_report
from bert_tf.experiments.glue import runs as glue_runs
from bert_tf.experiments.glue.child_flags import answering, check_classifier_flags, training
from bert_tf.experiments.glue.runs import GlueRun
from tests.experiments.glue.glue_folder import ONE, OTHER, TASKS, finish, five_runs, program, write_glue


@pytest.fixture
def grid(tmp_path):
    return five_runs(tmp_path)


# Which runs there are.


def test_the_plan_goes_task_by_task():
    runs = glue_runs.grid(["cola", "rte"], [1, 2], [16], [5e-5, 2e-5], [3.0])
    assert [(r.task, r.settings.learning_rate, r.seed) for r in runs] == [
        (task, rate, seed) for task in ("cola", "rte") for rate in (5e-5, 2e-5) for seed in (1, 2)
    ]
    assert len({run.folder("out") for run in runs}) == len(runs) == 8
    assert runs[0].folder("out") == pathlib.Path("out/cola/batch-16_rate-5e-05_epochs-3/seed-1")
    assert str(runs[0]) == "cola, batch 16, rate 5e-05, epochs 3, seed 1"


def test_the_paper_s_grid():
    """Devlin et al. 2018, appendix A.3."""
    axes = glue_runs.AXES["paper"]
    kinds = (int, float, float)
    numbers = [glue_runs.axis(name, axes[name], kind) for name, kind in zip(axes, kinds, strict=True)]
    assert numbers == [[16, 32], [5e-5, 3e-5, 2e-5], [2, 3, 4]] and len(glue_runs.grid(["rte"], [1], *numbers)) == 18


@pytest.mark.parametrize("values", [["x"], ["0"], ["-1"], ["nan"], ["inf"], [], ["1e-5", ""]])
def test_rates_that_are_no_positive_numbers_are_refused(values):
    with pytest.raises(ValueError, match="`learning_rate` must be comma-separated numbers above 0; got "):
        glue_runs.axis("learning_rate", values)


def test_seeds_may_be_0_and_count_once():
    assert glue_runs.axis("seeds", ["0", "2", "2"], int) == [0, 2]
    with pytest.raises(ValueError, match=r"`seeds` must be comma-separated whole numbers.*got 1\.5"):
        glue_runs.axis("seeds", ["1.5"], int)


def test_tasks_are_those_that_are_there(tmp_path):
    folder = write_glue(tmp_path / "glue", 3, 3, 3)
    assert glue_runs.find_tasks(None, folder) == list(TASKS)
    assert glue_runs.find_tasks(["STSB", "sts-b"], folder) == ["sts-b"]
    assert glue_runs.training_size("cola", folder) == (folder / "CoLA" / "train.tsv").stat().st_size
    for names, message in (
        (["rte"], "must contain the training examples of the tasks, such as RTE/train.tsv. It contains"),
        (["ax"], "such as diagnostic/train.tsv"),
        (["snli"], "`tasks` must be among cola, .*got 'snli'"),
    ):
        with pytest.raises(ValueError, match=message):
            glue_runs.find_tasks(names, folder)
    with pytest.raises(ValueError, match="must contain the training examples"):
        glue_runs.find_tasks(None, tmp_path)
    with pytest.raises(ValueError, match="`glue_dir` not found: "):
        glue_runs.find_tasks(None, tmp_path / "nothing")


# How far they are.


def test_a_run_is_finished_with_its_note_and_its_scores(tmp_path):
    run = GlueRun("mrpc", ONE, 3)
    folder = finish(tmp_path, run, accuracy=0.8, f1=0.9)
    result = glue_runs.finished(folder)
    assert result.run == run and result.scores == {"eval_accuracy": 0.8, "eval_f1": 0.9}
    assert result.score == pytest.approx(0.85) and result.seconds == 60
    for name in (FINISHED_FILE, "eval_results.txt"):  # as a kill between the two leaves it
        kept = (folder / name).read_text()
        (folder / name).unlink()
        assert glue_runs.finished(folder) is None and glue_runs.all_finished(tmp_path) == []
        (folder / name).write_text(kept)


def test_two_dev_files_are_one_task(tmp_path):
    folder = finish(tmp_path, GlueRun("mnli", ONE, 1), accuracy=0.8, accuracy_mismatched=0.6, loss_mismatched=9.0)
    assert glue_runs.finished(folder).scores == {"eval_accuracy": 0.8, "eval_accuracy_mismatched": 0.6}
    assert glue_runs.finished(folder).score == pytest.approx(0.7)


def test_weights_of_all_but_the_best_go(grid):
    results = [result for result in glue_runs.all_finished(grid) if result.run.task == "cola"]
    drop_models(results, glue_runs.best(results)["cola"])
    kept = sorted(str(path.parent.relative_to(grid)) for path in grid.glob("*/*/*/model.ckpt-*"))
    assert kept == [f"cola/{ONE.folder}/seed-2", f"mrpc/{ONE.folder}/seed-1"]
    assert len(list(grid.glob("*/*/*/checkpoint"))) == 2 and len(glue_runs.all_finished(grid)) == 5


def test_one_folder_is_of_one_set_of_flags(grid):
    def begin(*others):
        return glue_grid.Grid(str(grid), None, str(grid), others, [], False, None)

    begin("--precision=float32")
    assert begin("--precision=float32").made_with["flags"] == "--precision=float32"
    with pytest.raises(ValueError, match="Changed: flags: '--precision=float32' before, '' now.*another `output_d"):
        begin()


# What is run.


def test_a_run_gets_the_flags_of_its_point_and_those_of_all_runs():
    run, others = GlueRun("rte", ONE, 7), ["--precision=mixed_bfloat16", "--keep_checkpoints=3"]
    data = {"task_name": "rte", "data_dir": "glue/RTE"}
    flags = training(run, pathlib.Path("o"), data, "bert", others)
    assert {
        "--task_name=rte", "--data_dir=glue/RTE", "--output_dir=o", "--init_checkpoint=bert", "--do_train", "--do_eval",
        "--train_batch_size=16", "--learning_rate=5e-05", "--num_train_epochs=2", "--seed=7",
        "--save_checkpoints_steps=200", *others,
    } == set(flags)  # fmt: skip


def test_flags_of_training_do_not_answer():
    others = ["--metric_for_best_model=accuracy", "--early_stopping=2", "--max_seq_length=64", "--nofit_temperature",
              "--lstm_units=8"]  # fmt: skip
    flags = answering("ax", pathlib.Path("o"), "glue/diagnostic", others)
    assert flags == ["--task_name=ax", "--data_dir=glue/diagnostic", "--output_dir=o", "--do_predict",
                     "--max_seq_length=64"]  # fmt: skip


@pytest.mark.parametrize("flag", ["--seed=3", "--output_dir=x", "--nodo_train", "--do_export"])
def test_what_the_grid_decides_is_not_for_the_runs(flag):
    with pytest.raises(ValueError, match=f"Flags after `--` must be .*got {flag}, which `benchmark glue` sets itself"):
        check_classifier_flags(["--precision=float32", flag])


def test_words_that_are_no_flags_are_refused():
    with pytest.raises(ValueError, match="every flag must be one word, --name=value; got 'float32'"):
        check_classifier_flags(["--precision", "float32"])


def test_a_run_that_fails_is_told_and_the_others_go_on(tmp_path):
    write_glue(tmp_path / "glue", 3, 3, 3)
    done = program(
        f"--glue_dir={tmp_path}/glue",
        f"--init_checkpoint={tmp_path}",
        f"--output_dir={tmp_path}/out",
        "--",
        "--colour=red",
    )
    assert done.returncode == 1
    for run in ("Run 1 of 2: cola", "Run 2 of 2: sts-b"):
        assert run in done.stderr
    assert done.stderr.count("Unknown flag --colour") == 2
    assert "2 runs failed: cola, batch 32" in done.stderr
    assert "The end of its log, " in done.stderr and "Traceback" not in done.stderr
    told = json.loads((tmp_path / "out" / "results.json").read_text())
    assert told["runs"] == [] and [run["why"] for run in told["unfinished"]] == ["failed"] * 2


def test_errors_come_before_anything_is_made(tmp_path):
    glue_dir = f"--glue_dir={write_glue(tmp_path / 'glue', 3, 3, 3)}"
    for arguments, message in (
        ([glue_dir], "--init_checkpoint is required: the model"),
        ([glue_dir, "--init_checkpoint=x"], "--init_checkpoint not found: x. Pass a directory, a file or a TF1"),
        (
            [glue_dir, f"--init_checkpoint={tmp_path}", f"--compare={tmp_path}"],
            "Nothing to compare in ",
        ),
        ([], "--output_dir not found"),
        (["--tasks=rte"], "pass --glue_dir"),
    ):
        done = program(*arguments, f"--output_dir={tmp_path}/out")
        assert done.returncode == 1 and message in done.stderr and not (tmp_path / "out").exists(), done.stderr


# What they came to.


def test_a_setting_is_summarized_by_mean_and_deviation(grid):
    rows = glue_report.summarize_results(glue_runs.all_finished(grid))
    one, other = rows["cola"]
    assert (one.settings, one.values, other.settings) == (ONE, (0.5, 0.6), OTHER)
    assert dataclasses.asdict(one.score) == pytest.approx(
        {"mean": 0.55, "deviation": statistics.stdev([0.5, 0.6]), "best": 0.6, "seeds": 2}
    )
    assert rows["mrpc"][0].score.deviation is None and str(rows["mrpc"][0].score) == "85.00"
    assert str(one.score) == "55.00 ± 7.07"
    assert glue_report.best_setting(rows["cola"]) is one


def test_the_average_counts_a_task_once(grid):
    mean, here, missing = glue_report.glue_average(glue_report.summarize_results(glue_runs.all_finished(grid)))
    assert mean == pytest.approx((0.55 + 0.85) / 2) and here == ["cola", "mrpc"]
    assert missing == ["sst-2", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli"]  # neither the diagnostic nor XNLI
    assert glue_report.glue_average({}) is None


def test_results_are_written_as_tables_and_a_page(grid):
    results = glue_runs.all_finished(grid)
    missing = {GlueRun("rte", ONE, 1): "failed", GlueRun("rte", ONE, 2): "not yet"}
    glue_report.write_glue_report(grid, results, missing, {"flags": "--precision=<b>"})
    header, *lines = ((line.split("\t")) for line in (grid / "results.tsv").read_text().splitlines())
    assert header[:6] == ["task", "train_batch_size", "learning_rate", "num_train_epochs", "seed", "score"]
    assert header[6:] == ["eval_matthews", "eval_accuracy", "eval_f1", "one_answer"]
    assert lines[0] == ["cola", "16", "5e-05", "2", "1", "0.5", "0.5", "", "", ""] and len(lines) == 5
    assert lines[-1][6:] == ["", "0.8", "0.9", ""]
    told = json.loads((grid / "results.json").read_text())
    assert told["best_runs"]["cola"] == f"cola/{ONE.folder}/seed-2"
    assert [row["best_mean_of_task"] for row in told["settings"]] == [True, False, True]
    assert [run["why"] for run in told["unfinished"]] == ["failed", "not yet"]
    page = (grid / "report.html").read_text()
    for text in ("5 of 7", "55.00 ± 7.07", "average of 2", "--precision=&lt;b&gt;", "rte, batch 16", "best mean"):
        assert text in page, text
    assert page.count("<svg") == 1  # MRPC has one run
    glue_report.write_glue_report(grid, results, missing, {"flags": "--precision=<b>"})
    assert (grid / "report.html").read_text() == page


def test_a_diagnostic_is_answered_by_the_task_with_its_labels(grid):
    folder = grid / "glue"
    finish(grid, GlueRun("mnli", ONE, 1), accuracy=0.8, accuracy_mismatched=0.7)
    for name in ("cola", "mnli", "ax", "rte"):
        row = glue_tasks.TASKS[name]
        for split in row.like("test"):
            (folder / row.directory).mkdir(parents=True, exist_ok=True)
            (folder / row.directory / row.splits[split].file).write_text("")
    asked = glue_grid.answerers(glue_runs.best(glue_runs.all_finished(grid)), folder)
    told = [(task, str(result.folder.relative_to(grid))) for task, result in asked]
    ours = f"mnli/{ONE.folder}/seed-1"  # the diagnostic first: the other predictions that stay are MNLI's
    assert told == [("ax", ours), ("cola", f"cola/{ONE.folder}/seed-2"), ("mnli", ours)]
