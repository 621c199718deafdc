"""run_classifier.py on every kind of task: trained, scored, asked, exported, and ready for GLUE's leaderboard."""

import json
import zipfile

import numpy as np
import pytest

from bert_tf.experiments.glue import submission
from tests import glue_files, tiny
from tests.scripts import run_programs

TRAIN = ["--do_train", "--do_eval", "--init_checkpoint=HOME/init", "--train_batch_size=8", "--max_seq_length=24",
         "--learning_rate=2e-3", "--num_train_epochs=3"]  # fmt: skip
TOPICS = ("film", "music", "story")


def _task(name, *more, train=TRAIN):
    return [f"--task_name={name}", f"--data_dir=HOME/{name}", f"--output_dir=HOME/out/{name}", "--do_predict",
            *train, *more]  # fmt: skip


RUNS = {
    "mnli": _task("mnli", "--fit_temperature", "--metric_for_best_model=accuracy", "--early_stopping=9"),
    "mnli again": _task("mnli", "--metric_for_best_model=accuracy", "--early_stopping=9"),
    "ax": _task("ax", train=["--init_checkpoint=HOME/out/mnli"]),
    "sts-b": _task("sts-b", "--do_export"),
    "topics": [
        "--train_file=HOME/topics.jsonl", "--eval_file=HOME/topics.tsv", "--predict_file=HOME/topics.tsv",
        "--problem_type=multi_label", "--label_separator=;", "--do_predict", "--do_export", *TRAIN,
        "--num_train_epochs=10", "--output_dir=HOME/out/topics",
    ],
    "topics again": [  # what the model is, it says itself
        "--predict_file=HOME/topics.tsv", "--eval_file=HOME/topics.tsv", "--label_separator=;", "--do_predict",
        "--do_eval", "--output_dir=HOME/out/topics",
    ],
}  # fmt: skip
pytestmark = pytest.mark.slow  # with a program for each task; tests/experiments/glue and tests/tasks are the fast ones
MORE = {  # for the slow tests
    "qqp": _task("qqp", "--num_train_epochs=0.05"),
    "qnli": _task("qnli", "--label_smoothing=0.1", "--class_weights=balanced"),
    "xnli": _task("xnli", "--xnli_language=de", "--freeze_layers=1"),
    "scores": [
        "--train_file=HOME/scores.jsonl", "--eval_file=HOME/scores.jsonl", "--predict_file=HOME/scores.jsonl",
        "--problem_type=regression", "--do_predict", *TRAIN, "--output_dir=HOME/out/scores", "--long_text=window",
        "--max_seq_length=12",
    ],
}  # fmt: skip


def _topics(n, seed):
    """Returns (text, topics): those of the topics that are words of the text."""
    return [(text, tuple(t for t in TOPICS if t in text.split())) for text, _ in tiny.texts(n, seed)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a checkpoint, the tasks, and under out/ what the runs left; the runs share one process."""
    home = tmp_path_factory.mktemp("tasks")
    tiny.checkpoint(home / "init")
    for name, write in (("mnli", glue_files.mnli), ("ax", glue_files.diagnostic), ("qqp", glue_files.qqp),
                        ("qnli", glue_files.qnli), ("xnli", glue_files.xnli), ("sts-b", glue_files.sts_b)):  # fmt: skip
        write(home / name)
    tiny.write_jsonl(home / "topics.jsonl", _topics(96, 1), ("text", "label"))
    tiny.write_tsv(home / "topics.tsv", [(text, "; ".join(topics)) for text, topics in _topics(20, 2)])
    tiny.write_jsonl(home / "scores.jsonl", [(t, 2 * int(x) - 0.5) for t, x in tiny.texts(32)], ("text", "label"))
    _run(home, RUNS)
    return home


def _run(home, runs):
    cases = [[a.replace("HOME", str(home)) for a in arguments] for arguments in runs.values()]
    for name, result in zip(runs, run_programs("run_classifier", cases), strict=True):
        assert result["status"] == 0, (name, result["log"])
        (home / f"{name}.log").write_text(result["log"], encoding="utf-8")


@pytest.fixture(scope="module")
def more(home):
    """The same folder, with what the runs of the slow tests left."""
    _run(home, MORE)
    return home


@pytest.fixture
def out(request, task):
    """The folder that the task's run left."""
    return request.getfixturevalue("more" if task in MORE else "home") / "out" / task


def _tasks(names):
    return [pytest.param(name, marks=pytest.mark.slow) if name in MORE else name for name in names]


def _scores(folder):
    lines = (folder / "eval_results.txt").read_text().splitlines()
    return {name: float(value) for name, value in (line.split(" = ") for line in lines)}


def _table(path):
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def _answers(folder, name="predictions.jsonl"):
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


SPLITS = {"mnli": ("", "_mismatched"), "qqp": ("",), "qnli": ("",), "xnli": ("",), "sts-b": ("",)}
METRICS = {"qqp": {"accuracy", "f1", "ece"}, "sts-b": {"pearson", "spearman"}}


@pytest.mark.parametrize("task", _tasks(SPLITS))
def test_every_development_file_is_scored_and_its_answers_give_the_score(out, task):
    scores = _scores(out)
    names = METRICS.get(task, {"accuracy", "ece"}) | {"loss"}
    assert set(scores) == {f"eval_{name}{end}" for name in names for end in SPLITS[task]} | {"global_step"}
    for end, rows in zip(SPLITS[task], (10, 11), strict=False):
        header, *lines = _table(out / f"eval_predictions{end}.tsv")
        assert header[:3] == ["id", "label", "prediction"] and header[-1] in ("text", "text_b")
        assert [line[0] for line in lines] == [str(i) for i in range(12 if task == "sts-b" else rows)]
        if task != "sts-b":
            share = np.mean([line[1] == line[2] for line in lines])
            assert share == pytest.approx(scores[f"eval_accuracy{end}"], abs=1e-9)
        else:
            pairs = np.array([line[1:3] for line in lines], float)
            assert np.corrcoef(pairs.T)[0, 1] == pytest.approx(scores["eval_pearson"], abs=1e-6)


FILES = {"mnli": ("MNLI-m.tsv", "MNLI-mm.tsv"), "ax": ("AX.tsv",), "qqp": ("QQP.tsv",), "qnli": ("QNLI.tsv",),
         "sts-b": ("STS-B.tsv",), "xnli": ()}  # fmt: skip


@pytest.mark.parametrize("task", _tasks(FILES))
def test_the_leaderboard_s_files_say_what_the_predictions_say(out, task):
    assert [name for name in submission.FILES if (out / name).exists()] == sorted(FILES[task])
    for name, end in zip(FILES[task], ("", "_mismatched"), strict=False):
        header, *lines = _table(out / name)
        answers = _answers(out, f"predictions{end}.jsonl")
        assert header == ["index", "prediction"] and [line[0] for line in lines] == [a["id"] for a in answers]
        if task == "sts-b":
            assert [line[1] for line in lines] == [f"{min(max(a['score'], 0), 5):.3f}" for a in answers]
        else:
            assert [line[1] for line in lines] == [a["label"] for a in answers]


def test_ids_of_the_test_files_are_asked_back(home):
    assert [row[0] for row in _table(home / "out/mnli/MNLI-mm.tsv")[1:]] == [str(9000 + i) for i in range(7)]
    assert len(_table(home / "out/ax/AX.tsv")) == 7


@pytest.mark.slow
def test_the_zip_of_all_of_them(more, tmp_path):
    folders = [more / "out" / task for task in FILES]
    missing = submission.write_submission(folders, tmp_path / "submission.zip")
    assert set(missing) == {"CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "RTE.tsv", "WNLI.tsv"}
    with zipfile.ZipFile(tmp_path / "submission.zip") as archive:
        assert archive.namelist() == [name for name in submission.FILES if name not in missing]
        assert archive.read("AX.tsv") == (more / "out/ax/AX.tsv").read_bytes()


@pytest.mark.slow
def test_broken_rows_of_qqp_are_left_out_and_counted(more):
    assert (
        "train.tsv: skipped 2 rows with fewer than 6 columns, the first in line 2102." in (more / "qqp.log").read_text()
    )


def test_the_fitted_temperature_is_kept_and_used(home):
    task = json.loads((home / "out/mnli/task.json").read_text())
    assert task["temperature"] > 0 and task["temperature"] != 1
    told = np.array([[*a["probabilities"].values()] for a in _answers(home / "out/ax")])  # asked of mnli's model
    assert told.shape == (6, 3) and np.allclose(told.sum(1), 1)
    assert not (home / "out/ax/task.json").exists()


def _served(folder, **texts):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (its ops)

    loaded = tf.saved_model.load(str(folder / "export" / "1"))  # kept alive while its function is called
    return loaded.signatures["serving_default"](**{name: tf.constant(values) for name, values in texts.items()})


def test_an_exported_score_is_the_script_s(home):
    asked = _answers(home / "out/sts-b")
    assert [list(answer) for answer in asked] == [["id", "text_a", "text_b", "score"]] * 5
    texts = {name: [answer[name] for answer in asked] for name in ("text_a", "text_b")}
    scores = _served(home / "out/sts-b", **texts)["score"].numpy()
    np.testing.assert_allclose(scores, [answer["score"] for answer in asked], atol=1e-5)
    np.testing.assert_allclose(np.loadtxt(home / "out/sts-b/test_results.tsv"), scores, atol=1e-5)


def test_several_labels_through_the_script_and_the_export(home):
    folder = home / "out/topics"
    assert (folder / "labels.txt").read_text() == "film\nmusic\nstory\n"
    answers, rows = _answers(folder), _table(folder / "eval_predictions.tsv")[1:]
    assert set(answers[0]) == {"id", "text", "label", "predicted", "probabilities"}
    assert [row[1] for row in rows] == [";".join(topics) for _, topics in _topics(20, 2)]
    given = [";".join(name for name, p in a["probabilities"].items() if p > 0.5) for a in answers]
    assert [";".join(a["predicted"]) for a in answers] == given
    assert [row[2] for row in rows] == given and any(";" in row for row in given)
    assert _scores(folder)["eval_f1"] > 0.7
    served = _served(folder, text=[answer["text"] for answer in answers])
    probabilities = [[*a["probabilities"].values()] for a in answers]
    np.testing.assert_allclose(served["probabilities"], probabilities, atol=1e-5)
    assert "Continuing" not in (home / "topics again.log").read_text()


@pytest.mark.slow
def test_numbers_of_one_s_own_through_windows(more):
    folder = more / "out/scores"
    scores = {"eval_pearson", "eval_spearman", "eval_mae", "eval_rmse", "eval_loss", "global_step"}
    assert set(_scores(folder)) == scores
    assert not (folder / "labels.txt").exists()
    labels = np.array([row[1] for row in _table(folder / "eval_predictions.tsv")[1:]], float)
    assert set(labels) == {-0.5, 1.5}
    assert json.loads((folder / "task.json").read_text())["windows"] == {"stride": 6, "max_windows": 32}
