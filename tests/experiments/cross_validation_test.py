"""bert-tf cross-validate: one run for each fold, their metrics together, and the predictions in the table's order."""

import pathlib

import pytest

from bert_tf.cli import cross_validate
from bert_tf.evaluation.results import read_results, write_results
from bert_tf.experiments import cross_validation
from bert_tf.utils import logged_runs
from bert_tf.utils.settings import Settings
from tests import tiny
from tests.scripts import at, run_programs

ROWS = tiny.texts(20, 0, ("bad", "good"))


@pytest.fixture
def table(tmp_path):
    return tiny.write_tsv(tmp_path / "train.tsv", ROWS)


@pytest.fixture
def children(monkeypatch):
    """The flags of the runs, which predict what is true; their folds have the accuracies 0.5, 0.6, ..."""
    called = []

    def execute(program, flags, folder, claim):
        given = dict(flag.removeprefix("--").partition("=")[::2] for flag in flags)
        called.append((program, given))
        rows = pathlib.Path(given["eval_file"]).read_text().splitlines()[1:]
        folder.mkdir(parents=True)
        lines = [f"{i}\t{label}\t{label}\t0.9\t{text}" for i, (text, label) in enumerate(r.split("\t") for r in rows)]
        text = "\n".join(["id\tlabel\tprediction\tprobability\ttext", *lines]) + "\n"
        (folder / "eval_predictions.tsv").write_text(text)
        (folder / "model.ckpt-7.index").write_text("a model")
        write_results(str(folder), {"accuracy": 0.4 + 0.1 * len(called)}, 7)
        return "--learning_rate=9" not in flags

    monkeypatch.setattr(logged_runs, "execute_resumable", execute)
    return called


def _run(folder, *words, **given):
    values = {flag.name: flag.default for flag in cross_validate.FLAGS} | {"output_dir": str(folder / "out"), **given}
    cross_validate.main(Settings(values, given), list(words))


def test_the_folds_are_put_together(tmp_path, table, children, capsys):
    _run(tmp_path, f"--train_file={table}", "--seed=3", folds=4)
    out = tmp_path / "out"
    assert read_results(out) == {"eval_accuracy": pytest.approx(0.65), "global_step": 7}
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["metric", "mean", "standard_deviation", "fold_1", "fold_2", "fold_3", "fold_4"]
    assert lines[1][0] == "eval_accuracy"
    assert list(map(float, lines[1][1:])) == pytest.approx([0.65, 0.1290994, 0.5, 0.6, 0.7, 0.8])
    assert "\n".join(map("\t".join, lines)) + "\n" == (out / "cross_validation.tsv").read_text()
    predictions = [line.split("\t") for line in (out / "eval_predictions.tsv").read_text().splitlines()]
    assert [(row[0], row[4], row[1]) for row in predictions[1:]] == [
        (str(i), text, label) for i, (text, label) in enumerate(ROWS)]  # fmt: skip
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "0.6500 ± 0.1291" in page and "4 folds" in page
    assert not list(out.rglob("model.ckpt-*"))
    program, flags = children[0]
    assert program == "run_classifier" and flags["train_file"] == str(out / "folds" / "1" / "train.tsv")
    assert {"seed": "3", "do_train": "", "do_eval": "", "output_dir": str(out / "folds" / "1" / "run")}.items() <= (
        flags.items())  # fmt: skip
    _run(tmp_path, f"--train_file={table}", "--seed=3", folds=4)  # nothing is left to do
    assert len(children) == 4
    with pytest.raises(ValueError, match=r"folds: 4 before, 5 now.*Name another `output_dir`"):
        _run(tmp_path, f"--train_file={table}", "--seed=3", folds=5)


@pytest.mark.parametrize("labels", ["--label_column=long", "--label_columns=long,café"])
def test_folds_of_a_table_in_another_dialect(tmp_path, children, monkeypatch, labels):
    rows = [f"a film, number {i};{i % 2};{(i + 1) % 2}" for i in range(8)]
    path = tmp_path / "train.csv"
    path.write_text("\n".join(["text;long;café", *rows]) + "\n", encoding="cp1252")
    monkeypatch.setattr(cross_validation.CrossValidation, "run", lambda self: None)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "cross_validation.tsv").write_text("")
    _run(tmp_path, f"--train_file={path}", labels, "--separator=;", "--encoding=cp1252", folds=2)
    parts = [(tmp_path / "out" / "folds" / fold / "eval.csv").read_text("cp1252") for fold in "12"]
    assert sorted("".join(part.partition("\n")[2] for part in parts).splitlines()) == sorted(rows)
    assert [part.count(";1;0") for part in parts] == [2, 2]  # stratified by the labels


def test_the_first_failure_ends_it(tmp_path, table, children):
    with pytest.raises(ValueError, match="The first fold failed, and the others would fail too: its log is .*log.txt"):
        _run(tmp_path, f"--train_file={table}", "--learning_rate=9")
    assert len(children) == 1 and not (tmp_path / "out" / "eval_results.txt").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--train_file is required: pass it after `--`"),
        (["--train_file=missing.tsv"], r"missing\.tsv"),
        (["--train_file=HOME", "--do_eval"], "--do_eval, which `cross-validate` sets itself"),
        (
            ["--train_file=HOME", "--metric_for_best_model=f1"],
            "--metric_for_best_model would fit the models to the folds that they are eval",
        ),
        (["--train_file=HOME", "--drop_empty"], "--drop_empty would leave out rows, but each row gets a prediction"),
        (["--train_file=HOME,HOME.too"], "must be one file"),
        (["--train_file=HOME", "--encoding=utf-16"], "A file with `encoding=utf-16` cannot be split"),
        (["--train_file=HOME", "--leaning_rate=1"], "Flags of `train classifier`: Unknown flag --leaning_rate. Did"),
    ],
)
def test_what_cannot_be_done_is_refused_first(tmp_path, table, children, words, message):
    with pytest.raises(ValueError, match=message):
        _run(tmp_path, *(word.replace("HOME", str(table)) for word in words))
    assert not children and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_real_folds(tmp_path):
    tiny.checkpoint(tmp_path / "start", dropout=0.0)
    rows = [(text, f"film,{label}") for text, label in tiny.texts(40, 0, ("bad", "good"))]
    tiny.write_tsv(tmp_path / "train.tsv", rows)
    words = ["--folds=2", "--output_dir=HOME/out", "--", "--train_file=HOME/train.tsv", "--init_checkpoint=HOME/start",
             "--problem_type=multi_label", "--max_seq_length=20", "--train_batch_size=8", "--num_train_epochs=2",
             "--precision=auto"]  # fmt: skip
    first, again = run_programs("cross_validate", [at(tmp_path, words)] * 2)
    assert first["status"] == again["status"] == 0, first["log"]
    assert "2 folds, 2 of them finished already" in again["log"]
    scores = read_results(tmp_path / "out")
    assert 0 <= scores["eval_weighted_f1"] <= 1 and scores["global_step"] == 5
    assert len((tmp_path / "out" / "eval_predictions.tsv").read_text().splitlines()) == 41
