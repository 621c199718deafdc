"""`BertClassifier` is `run_classifier` in scikit-learn's clothes: the same model, to the bit."""

import inspect
import json
import pickle
import random
import signal

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, ShuffleSplit

import bert_tf
from bert_tf.cli import run_classifier
from bert_tf.inference.sklearn import BertClassifier
from bert_tf.inference.sklearn.estimator import BOUNDS
from bert_tf.training.interruption import Stopped
from bert_tf.training.trainer import Trainer
from tests import scripts, tiny

ROWS = tiny.texts(48, names=("bad", "good"))
TEXTS, LABELS = (list(column) for column in zip(*ROWS, strict=True))
OPTIONS = {"max_seq_length": 16, "train_batch_size": 8, "learning_rate": 3e-3, "num_train_epochs": 8.0, "seed": 3,
           "layerwise_lr_decay": 0.9, "label_smoothing": 0.1}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.checkpoint(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def fitted(folder):
    before = random.getstate(), np.random.get_state()[1].tolist()
    classifier = BertClassifier(folder, class_weights={"good": 2.0}, **OPTIONS).fit(np.array(TEXTS), LABELS)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    return classifier


@pytest.fixture(scope="module")
def program():
    with scripts.Cases("run_classifier") as cases:
        yield cases


def run(program, **flags):
    ended = program.run([f"--{name}={value}" for name, value in flags.items()])
    assert ended["status"] == 0, ended["log"]


def test_it_learns(fitted):
    assert fitted.score(TEXTS, LABELS) > 0.9
    assert fitted.classes_.tolist() == ["bad", "good"] and set(fitted.predict(TEXTS)) == {"bad", "good"}


def test_a_page_shows_what_it_does(fitted):
    page = fitted.report(TEXTS, LABELS)
    assert "Most confident errors" in page and "characters" in page and page.count(">good</th>") >= 2
    with pytest.raises(ValueError, match="`y` must only have labels in .* got 'ugly'"):
        fitted.report(["a"], ["ugly"])


@pytest.mark.slow
def test_the_same_settings_give_the_same_model(program, folder, fitted, tmp_path):
    train = tiny.write_tsv(tmp_path / "train.tsv", ROWS)
    run(program, train_file=train, predict_file=train, init_checkpoint=folder, output_dir=tmp_path / "out",
        do_train=True, do_predict=True, class_weights="good:2.0", **OPTIONS)  # fmt: skip
    np.testing.assert_array_equal(fitted.predict_proba(TEXTS), np.loadtxt(tmp_path / "out" / "test_results.tsv"))


def test_what_it_saves_is_what_the_program_leaves(program, fitted, tmp_path):
    fitted.save(tmp_path / "out")
    texts = tiny.write_tsv(tmp_path / "new.tsv", ROWS)
    run(program, predict_file=texts, output_dir=tmp_path / "out", do_predict=True)
    np.testing.assert_array_equal(fitted.predict_proba(TEXTS), np.loadtxt(tmp_path / "out" / "test_results.tsv"))
    assert bert_tf.load(tmp_path / "out").labels == ["bad", "good"]
    with pytest.raises(ValueError, match="`output_dir` must"):
        fitted.save(tmp_path / "out")


def test_pickles_hold_the_model(fitted):
    once = pickle.loads(pickle.dumps(fitted))
    twice = pickle.loads(pickle.dumps(once))  # not loaded in between
    np.testing.assert_array_equal(twice.predict_proba(TEXTS), fitted.predict_proba(TEXTS))
    assert twice.predict(TEXTS[:3]).tolist() == fitted.predict(TEXTS[:3]).tolist()
    assert clone(twice).get_params() == fitted.get_params() and not hasattr(clone(twice), "classes_")


@pytest.mark.slow
def test_a_bilstm_on_top_is_kept(folder, tmp_path):
    fitted = BertClassifier(folder, lstm_units=8, **OPTIONS).fit(TEXTS, LABELS)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(TEXTS), fitted.predict_proba(TEXTS))
    fitted.save(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "task.json").read_text(encoding="utf-8"))["lstm_units"] == 8
    bert = bert_tf.load(tmp_path / "out")
    assert bert.head is None and bert.others["recurrent/lstm_0/kernel"].shape == (2, 32, 32)


@pytest.mark.slow
def test_a_search_over_settings(folder):
    labels = np.array([{"bad": 10, "good": 9}[label] for label in LABELS])
    classifier = BertClassifier(folder, **{**OPTIONS, "train_batch_size": 36})
    grid = {"learning_rate": [3e-3], "freeze_layers": [0]}
    split = ShuffleSplit(1, test_size=12, random_state=0)
    search = GridSearchCV(classifier, grid, cv=split, error_score="raise", refit=False).fit(TEXTS, labels)
    assert search.best_params_["freeze_layers"] == 0 and 0 <= search.best_score_ <= 1


def test_its_defaults_are_the_programs():
    flags = {flag.name: flag.default for flag in run_classifier.FLAGS}
    own = {name: p.default for name, p in inspect.signature(BertClassifier).parameters.items() if name != "model"}
    assert own == {name: flags[name] for name in own}
    numbers = {f.name: (f.low, f.high) for f in run_classifier.FLAGS if f.kind in ("integer", "float")}
    assert {name: numbers[name] for name in own if name in numbers} == BOUNDS


def test_ctrl_c_ends_the_fit_alone(folder, monkeypatch):
    def interrupted(*_):
        raise Stopped(signal.SIGINT)

    monkeypatch.setattr(Trainer, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        BertClassifier(folder, max_seq_length=16, train_batch_size=2).fit(["a", "b"], [0, 1])


@pytest.mark.parametrize(
    ("options", "texts", "labels", "message"),
    [
        ({}, ["a", "b"], ["x", "x"], "`y` must have at least two classes; got one class, .*'x'.*, for all 2"),
        ({}, ["a", "b"], [0.5, 1.2], "[Uu]nknown label type"),
        ({}, ["a", "b", "c"], ["x", "u\nv", "u\nv"], r"a single line, .* got 'u\\nv' for text 1. Remove"),
        ({}, ["a", "b"], ["x"], "inconsistent numbers of samples"),
        ({}, ["a", "b"], None, "requires y to be passed"),
        ({}, "text", ["x"], "`X` must be several texts, .*Received one text, 'text'; put it"),
        ({}, ["a", "b"], [0, 1], "Nothing to train: "),
        ({"max_seq_length": 64}, ["a", "b"], [0, 1], "`max_seq_length` must be at most 32, .*Received: 64"),
        ({"class_weights": {"z": 1}}, ["a", "b"], [0, 1], "label:weight pairs, .*Received 'z:1'; the labels are '0'"),
        ({"train_batch_size": 0}, ["a", "b"], [0, 1], "`train_batch_size` must be a number from 1 up. Got 0"),
        ({"warmup_proportion": 2}, ["a", "b"], [0, 1], "`warmup_proportion` must be a number from 0 to 1. Got 2"),
        ({"lstm_units": 0}, ["a", "b"], [0, 1], "`lstm_units` must be a number from 1 up. Got 0"),
        ({"seed": "1"}, ["a", "b"], [0, 1], "`seed` must be a number .* Got '1'"),
        ({"use_xla": True}, ["a", "b"], [0, 1], "`use_xla` must be one of auto, true, false. Got True"),
        ({"precision": "half"}, ["a", "b"], [0, 1], "`precision` must be one of"),
    ],
)
def test_bad_texts_labels_and_parameters_are_refused(folder, options, texts, labels, message):
    with pytest.raises(ValueError, match=message):
        BertClassifier(folder, **{"max_seq_length": 16, **options}).fit(texts, labels)


def test_it_must_be_fitted(folder, tmp_path):
    classifier = BertClassifier(folder)
    for ask in (classifier.predict, classifier.predict_proba, lambda _: classifier.save(tmp_path / "out")):
        with pytest.raises(NotFittedError):
            ask(TEXTS)
