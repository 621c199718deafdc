"""`finetune`: the same as the command, from any kind of examples, and errors for each wrong argument."""

import json
import pathlib

import keras
import numpy as np
import pyarrow
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.cli import main
from bert_tf.runs.finetune import evaluate, find_kind, finetune
from bert_tf.runs.in_memory import as_files, plain
from bert_tf.runs.keywords import read_keywords
from bert_tf.runs.task_flags import task_flags
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.registry import TASKS_BY_NAME
from tests import tiny
from tests.parity import GOLDENS
from tests.runs import task_rows
from tests.runs.task_rows import texts
from tests.tasks.question_answering import support as squad

SETTINGS = {"max_seq_length": 16, "num_train_epochs": 2, "train_batch_size": 4, "learning_rate": 1e-3}


# Task -> (its command, further settings)
TASKS = {
    "classification": ("run_classifier", {}),
    "regression": ("run_classifier", {"problem_type": "regression"}),
    "embedding": ("run_embedder", {}),
    "tagging": ("run_tagger", {}),
    "question_answering": ("run_squad", {"max_query_length": 4, "doc_stride": 4}),
    "multiple_choice": ("run_multiple_choice", {}),
    "reranking": ("run_reranker", {}),
    "multi_label": ("run_classifier", {"problem_type": "multi_label"}),
}


def test_every_task_is_tried():
    assert TASKS_BY_NAME.keys() <= TASKS.keys() == task_rows.ROWS.keys()


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return str(tiny.checkpoint(tmp_path_factory.mktemp("start")))


def _write(path, name, rows):
    """Writes rows as a user would have them in a file; returns its path."""
    if name == "question_answering":
        tuples = [(r["question"], r["context"], r["answers"]["text"][0], r["answers"]["answer_start"][0]) for r in rows]
        return str(squad.write(path.with_suffix(".json"), tuples))
    path.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path.with_suffix(".jsonl"))


def _command(program, **settings):
    with pytest.raises(SystemExit) as end:
        main.main([program, *(f"--{name}={value}" for name, value in settings.items())])
    assert not end.value.code


def _results(folder):
    """Returns what a run computed: the bytes of its weights, of eval_results.txt and of its predictions."""
    names = ("model.ckpt-*.data-*", "eval_results.txt", "eval_predictions.tsv")
    return {path.name: path.read_bytes() for name in names for path in sorted(pathlib.Path(folder).glob(name))}


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_it_is_the_command_to_the_bit(name, start, tmp_path):
    (program, more), make = TASKS[name], task_rows.ROWS[name]
    train, dev = make(24), make(8, 1)
    run = finetune(
        name, train=train, eval=dev, init_checkpoint=start, output_dir=tmp_path / "python", verbose=False,
        **SETTINGS | {key: value for key, value in more.items() if key != "problem_type"},
    )  # fmt: skip
    files = {"train_file": _write(tmp_path / "train", name, train), "eval_file": _write(tmp_path / "dev", name, dev)}
    _command(
        program, **files, init_checkpoint=start, output_dir=tmp_path / "command", do_train=True, do_eval=True,
        **SETTINGS | more,
    )  # fmt: skip
    results = _results(tmp_path / "command")
    assert len(results) >= 2 and _results(run.output_dir) == results
    assert run.num_steps >= 12 and run.metrics and all(name.startswith("eval_") for name in run.metrics)


@pytest.mark.slow
def test_what_one_began_the_other_resumes(start, tmp_path):
    rows = texts(24)
    path = _write(tmp_path / "train", "classification", rows)
    settings = SETTINGS | {"init_checkpoint": start, "save_checkpoints_steps": 4}

    class Interrupt(Exception):
        """A failure in the middle."""

    def interrupt(step, logs):
        if step == 8:
            raise Interrupt

    with pytest.raises(Interrupt):
        finetune("classification", rows, output_dir=tmp_path / "out", callbacks=[interrupt], verbose=False, **settings)
    _command("run_classifier", train_file=path, output_dir=tmp_path / "out", do_train=True, **settings)
    whole = finetune("classification", path, output_dir=tmp_path / "whole", verbose=False, **settings)
    assert _results(tmp_path / "out") == _results(whole.output_dir)
    assert [line["step"] for line in whole.history if "loss" in line.get("train", line)] or whole.history


@pytest.mark.slow
def test_a_run_predicts_exports_and_shows_its_report_and_errors(start, tmp_path):
    run = finetune(
        "classification", texts(24), texts(8, 1), texts(8, 2), init_checkpoint=start, verbose=False, **SETTINGS
    )
    assert isinstance(run.model, keras.Model) and run.history
    answers = run.predict(["a good film", "a bad film"])
    assert [set(each) for each in answers] == [{"label", "probabilities"}] * 2
    assert "<iframe" in run.report._repr_html_() and run.report.path.startswith(run.output_dir)
    wrong = round((1 - run.metrics["eval_accuracy"]) * 8)
    assert len(run.errors()) == wrong and all(row["label"] != row["prediction"] for row in run.errors())
    assert 0 <= run.test_metrics["eval_accuracy"] <= 1
    path = run.export(tmp_path / "export")
    assert path == str(tmp_path / "export" / "1")
    (served,) = bert_tf.Predictor(path)(["a good film"])
    assert served["probabilities"] == pytest.approx(answers[0]["probabilities"], abs=1e-6)
    scores = evaluate(run, texts(8, 1))
    assert scores == {name.removeprefix("eval_"): value for name, value in run.metrics.items()}
    folder = pathlib.Path(run.output_dir)
    assert folder.exists()
    del run
    assert not folder.exists()


# --- Examples ---


class PolarsFrame:
    """The interface of polars.DataFrame that is used."""

    def __init__(self, rows):
        self._rows = rows

    def to_dicts(self):
        return self._rows


class PandasFrame:
    """The interface of pandas.DataFrame that is used, with its scalars."""

    def __init__(self, rows):
        self._rows, self.columns = rows, list(rows[0])

    def to_dict(self, orient="dict"):
        assert orient == "records"
        return [{name: np.str_(value) for name, value in row.items()} for row in self._rows]


class Feature:
    """A ClassLabel."""

    names = ("bad", "good")


class Dataset:
    """The interface of datasets.Dataset that is used: labels are numbers of classes."""

    def __init__(self, rows):
        self._rows, self.column_names = rows, list(rows[0])
        self.features = {"text": object(), "label": Feature()}

    def __iter__(self):
        return iter({**row, "label": Feature.names.index(row["label"])} for row in self._rows)


KINDS = {
    "rows": list,
    "columns": lambda rows: {name: [row[name] for row in rows] for name in rows[0]},
    "pyarrow": pyarrow.Table.from_pylist,
    "polars": PolarsFrame,
    "pandas": PandasFrame,
    "dataset": Dataset,
    "generator": lambda rows: (dict(row) for row in rows),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_examples_is_the_same(kind, tmp_path):
    rows = texts(5)
    with as_files(ClassificationTask, train=KINDS[kind](rows)) as files:
        written = pathlib.Path(files.paths["train"]).read_text()
    assert [json.loads(line) for line in written.splitlines()] == rows
    assert not pathlib.Path(files.paths["train"]).exists()


def test_missing_values_are_null():
    values = [float("nan"), None, np.float32("nan"), np.datetime64("NaT"), 1.5, np.int64(2), np.bool_(True), b"a"]
    assert [plain(value) for value in values] == [None, None, None, None, 1.5, 2, True, "a"]
    assert plain({"a": (1, np.arange(2)), 2: {"b"}}) == {"a": [1, [0, 1]], "2": ["b"]}


# --- Callbacks, losses and metrics ---


class Recorder(keras.callbacks.Callback):
    """Records what is called, and stops after some epochs."""

    def __init__(self, epochs):
        super().__init__()
        self.calls, self.epochs = [], epochs

    def on_train_begin(self, logs=None):
        self.calls.append("begin")

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(f"epoch {epoch}")

    def on_train_batch_begin(self, batch, logs=None):
        self.calls.append(f"batch {batch}")

    def on_train_batch_end(self, batch, logs=None):
        assert logs["loss"] > 0
        self.calls.append(f"end {batch}")

    def on_epoch_end(self, epoch, logs=None):
        assert logs["loss"] > 0 and self.params["steps"] == 3
        self.calls.append(f"ended {epoch} {'val_accuracy' in logs}")
        self.model.stop_training = epoch + 1 == self.epochs

    def on_train_end(self, logs=None):
        self.calls.append("end")


@pytest.mark.slow
def test_keras_callbacks_are_called_and_stop_the_run(start):
    recorder, steps = Recorder(2), []
    run = finetune(
        "classification", texts(12), texts(4, 1), init_checkpoint=start, verbose=False,
        metric_for_best_model="accuracy", save_checkpoints_steps=3,
        callbacks=[recorder, lambda step, logs: steps.append((step, logs["loss"]))],
        **SETTINGS | {"num_train_epochs": 3},
    )  # fmt: skip
    epoch = ["batch 0", "end 0", "batch 1", "end 1", "batch 2", "end 2"]
    ends = "ended 0 True", "epoch 1"
    assert recorder.calls == ["begin", "epoch 0", *epoch, *ends, *epoch, "ended 1 True", "end"]
    assert [step for step, _ in steps] == [*range(1, 7)] and run.history


def _squared(label_ids, logits):
    return tf.reduce_sum((tf.nn.softmax(logits) - tf.one_hot(label_ids, 2)) ** 2, -1)


@pytest.mark.slow
def test_a_loss_and_a_metric_of_the_user(start):
    def brier(label_ids, logits):
        return _squared(label_ids, logits).numpy().mean()

    run = finetune(
        "classification", texts(12), texts(8, 1), init_checkpoint=start, verbose=False, loss=_squared,
        metrics={"brier_error": brier}, metric_for_best_model="brier_error", **SETTINGS,
    )  # fmt: skip
    assert run.metrics["eval_brier_error"] == pytest.approx(run.metrics["eval_loss"], abs=1e-6)
    assert run.history[-1]


@pytest.mark.parametrize(("name", "value", "read"), [
    ("use_xla", True, "true"), ("use_xla", False, "false"), ("use_xla", "auto", "auto"), ("freeze_layers", 2, "2"),
])  # fmt: skip
def test_booleans_and_integers_stand_for_the_words_of_a_flag(name, value, read):
    given = {name: value, "output_dir": "out"}
    assert read_keywords("finetune", task_flags(ClassificationTask), given).get(name) == read


# --- Errors ---


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"lr": 1}, TypeError, "finetune() has no argument `lr`. Did you mean `learning_rate`?"),
        ({"learning_rat": 1}, TypeError, "no argument `learning_rat`. Did you mean `learning_rate`?"),
        ({"train_dataset": 1}, TypeError, "no argument `train_dataset`. Did you mean `train`?"),
        (
            {"keep_best": "f1", "metric_for_best_model": "f1"}, TypeError,
            "finetune() received `metric_for_best_model` twice: `keep_best` is an alias of it. Remove one.",
        ),
        ({"zzz": 1}, TypeError, "finetune() has no argument `zzz`."),
        ({"do_train": True}, TypeError, "no argument `do_train`: it trains if there are `train` examples"),
        ({"dry_run": True}, TypeError, "finetune() has no argument `dry_run`. Use the command, which prints"),
        ({"train_file": "a"}, TypeError, "no argument `train_file`. Pass the file as `train`."),
        ({"train_batch_size": "x"}, TypeError, "`train_batch_size` must be a positive integer; got 'x'."),
        ({"train_batch_size": 0}, ValueError, "`train_batch_size` must be a positive integer; got 0."),
        ({"seed": True}, TypeError, "`seed` must be a non-negative integer"),
        ({"learning_rate": None}, TypeError, "rate` must be a non-negative number or 'auto'; got None."),
        ({"bucket_by_length": 1}, TypeError, "`bucket_by_length` must be True or False; got 1."),
        ({"use_xla": 1.5}, TypeError, "`use_xla` must be one of auto, True, False; got 1.5."),
        ({"precision": True}, TypeError, "`precision` must be one of"),
        ({"label_smoothing": 2}, ValueError, "`label_smoothing` must be a number from 0 to 1; got 2.0."),
        ({"schedule": "lin"}, ValueError, "`schedule` must be one of linear, polynomial, cosine, trapezoid;"),
        ({"save_format": ["zip"]}, ValueError, "`save_format` must be a list of one or more of bert_tf, huggingface"),
        ({"loss": "mse"}, TypeError, "`loss` must be a function for the task classification; got 'mse'."),
        ({"callbacks": print}, TypeError, "`callbacks` must be a list of callbacks; got <built-in function"),
        ({"metrics": [max]}, TypeError, "`metrics` must be a dictionary of functions by name; got [<built-in"),
        ({"fit_temperature": True}, ValueError, "`fit_temperature` requires `eval`. Add `eval`, or remove"),
        ({"callbacks": [3]}, TypeError, "`callbacks` must be functions of (step, logs) or Keras callbacks; got 3."),
        ({"metrics": {"accuracy": max}}, ValueError, "`metrics` has names that the task classification uses itself"),
        ({"metrics": {"top": max}}, ValueError, "Names in `metrics` must end in _score if higher is better"),
        ({"text_column": "txt"}, ValueError, "`train`, row 1: missing column 'txt'"),
        ({"train": 3}, TypeError, "`train` must be a path, several paths, a pandas or Polars DataFrame"),
        ({"train": []}, ValueError, "`train` has no rows."),
        ({"train": {"text": ["a"], "label": []}}, ValueError, "`train` must have columns of one length;"),
        ({"train": {"train": Dataset(texts(1))}}, TypeError, "`train` has several splits: train. Pass one of them."),
        ({"train": None}, ValueError, "finetune() has nothing to do: pass `train`, `eval` or `predict` examples."),
        (
            {"task": "clasification"}, ValueError,
            f"`task` must be one of {', '.join(TASKS_BY_NAME)}, regression, multi_label, or a custom task. "
            "Did you mean 'classification'?",
        ),
        ({"early_stopping": 2}, ValueError, "`early_stopping` requires `metric_for_best_model`"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named(given, kind, message, start, tmp_path):
    arguments = {"task": "classification", "train": texts(4), "init_checkpoint": start, **SETTINGS} | given
    with pytest.raises(kind) as error:
        finetune(**arguments, output_dir=tmp_path / "out", verbose=False)
    assert message in str(error.value) and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_loss_and_metrics_return_what_they_must(start):
    def run(**given):
        settings = {"init_checkpoint": start, "verbose": False, **SETTINGS, **given}
        finetune("classification", texts(4), eval=texts(4), **settings)

    with pytest.raises(ValueError, match=r"`loss` must return the loss of each example, .* got the shape \(\)"):
        run(loss=lambda targets, outputs: tf.reduce_mean(outputs))
    with pytest.raises(ValueError, match="`metrics`: my_score must return a number; got 'good'"):
        run(metrics={"my_score": lambda targets, outputs: "good"})


@pytest.mark.slow
def test_a_task_without_labels_has_no_errors(start):
    rows = task_rows.ROWS["reranking"](8, 0)
    run = finetune("reranking", rows, eval=rows, init_checkpoint=start, verbose=False, **SETTINGS)
    with pytest.raises(ValueError, match="`errors` requires `eval` examples, and a task that predicts a label"):
        run.errors()


@pytest.mark.slow
def test_the_process_is_as_before(start):
    keras.config.set_dtype_policy("float32")
    np.random.seed(3)
    expected = np.random.RandomState(3).rand()
    finetune("classification", texts(4), init_checkpoint=start, verbose=False, precision="mixed_bfloat16", **SETTINGS)
    assert keras.config.dtype_policy().name == "float32" and np.random.rand() == expected


def test_a_task_has_a_name_or_is_a_class():
    assert find_kind("multi_label") == (ClassificationTask, {"problem_type": "multi_label"})
    assert find_kind(ClassificationTask) == (ClassificationTask, {})


def test_a_sparse_encoder_is_not_evaluated():
    with pytest.raises(ValueError, match="`model` must be a model that `finetune` can train. .* is for sparse_embeddi"):
        evaluate(GOLDENS / "sparse_encoder" / "bert", [{"text": "a"}])
