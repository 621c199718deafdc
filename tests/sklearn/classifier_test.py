"""`BertClassifier` is `train classifier` in scikit-learn's clothes: the same model, to the bit."""

import inspect
import json
import pickle
import random
import signal

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, ShuffleSplit, cross_validate

import bert_tf
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.cli.commands import load_command
from bert_tf.sklearn import BertClassifier
from bert_tf.training import devices
from bert_tf.training.interruption import Stopped
from bert_tf.training.trainer import Trainer
from tests import scripts, tiny
from tests.fake_pandas import DataFrame, Series

ROWS = tiny.texts(48, names=("bad", "good"))
TEXTS, LABELS = (list(column) for column in zip(*ROWS, strict=True))
MATRIX = np.array([["film" in text, label == "good"] for text, label in ROWS], int)
SETS = [[name for name, has in zip(("film", "good"), row, strict=True) if has] for row in MATRIX]
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
    assert "Most confident errors" in page and "tokens" in page and page.count(">good</th>") >= 2
    with pytest.raises(ValueError, match="`y` must only have labels in .* got 'ugly'"):
        fitted.report(["a"], ["ugly"])


@pytest.mark.slow
def test_auto_is_the_fastest_precision_of_the_machine(folder, monkeypatch):
    monkeypatch.setattr(devices, "fastest_precision", lambda *_: ("mixed_bfloat16", "because"))
    options = {**OPTIONS, "num_train_epochs": 1}
    auto, named = (
        BertClassifier(folder, precision=name, **options).fit(TEXTS, LABELS) for name in ("auto", "mixed_bfloat16")
    )
    monkeypatch.setattr(devices, "fastest_precision", lambda *_: ("float32", "on another machine"))
    again = pickle.loads(pickle.dumps(auto))
    expected = named.predict_proba(TEXTS)
    np.testing.assert_array_equal(auto.predict_proba(TEXTS), expected)
    np.testing.assert_array_equal(again.predict_proba(TEXTS), expected)


@pytest.mark.slow
def test_the_same_settings_give_the_same_model(program, folder, fitted, tmp_path):
    train = tiny.write_tsv(tmp_path / "train.tsv", ROWS)
    run(program, train_file=train, predict_file=train, init_checkpoint=folder, output_dir=tmp_path / "out",
        do_train=True, do_predict=True, class_weights="good:2.0", **OPTIONS)  # fmt: skip
    np.testing.assert_array_equal(fitted.predict_proba(TEXTS), np.loadtxt(tmp_path / "out" / "test_results.tsv"))


@pytest.mark.slow
def test_finetune_gives_the_same_model(folder, fitted, tmp_path):
    rows, settings = [{"text": text, "label": label} for text, label in ROWS], {"class_weights": {"good": 2.0}}
    run = bert_tf.finetune("classification", rows, init_checkpoint=folder, verbose=False, **settings, **OPTIONS)
    weights = {variable.path: variable.numpy() for variable in run.model.variables}
    fitted.save(tmp_path / "saved")
    saved = open_checkpoint(tmp_path / "saved")
    assert run.num_steps == fitted.n_steps_ and any(path.startswith("classifier/") for path in weights)
    for path, values in weights.items():
        np.testing.assert_array_equal(saved.get(path), values, err_msg=path)


@pytest.mark.slow
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
    flags = {flag.name: flag.default for flag in load_command("run_classifier").FLAGS}
    own = {name: p.default for name, p in inspect.signature(BertClassifier).parameters.items() if name != "model"}
    assert own.pop("validation_fraction") == 0.1  # there, a file is given
    assert own == {name: flags[name] for name in own}


@pytest.fixture(scope="module")
def several(folder):
    """Fitted on label sets: whether a text is good, and whether it speaks of a film."""
    return BertClassifier(folder, **OPTIONS).fit(TEXTS, SETS)


@pytest.mark.slow
def test_it_learns_several_labels(several):
    probabilities, predicted = several.predict_proba(TEXTS), several.predict(TEXTS)
    assert several.classes_.tolist() == ["film", "good"] and several.multilabel_
    assert probabilities.shape == predicted.shape == (48, 2) and predicted.dtype == np.int64
    np.testing.assert_array_equal(predicted, probabilities > 0.5)
    assert several.score(TEXTS, SETS) == several.score(TEXTS, MATRIX) == (predicted == MATRIX).all(1).mean() > 0.6
    assert "Multi-label" in several.report(TEXTS, MATRIX)
    with pytest.raises(ValueError, match=r"`y` must only have labels in \['film', 'good'\]; got 'sad'"):
        several.score(["a"], [["sad"]])
    with pytest.raises(ValueError, match="`y` must be a matrix with 2 columns, as in `fit`; got an array"):
        several.score(TEXTS, np.ones([48, 3], int))


@pytest.mark.slow
@pytest.mark.parametrize(
    "matrix", [DataFrame({"film": MATRIX[:, 0], "good": MATRIX[:, 1]}), MATRIX], ids=["DataFrame", "array"]
)
def test_an_indicator_matrix_is_the_same_as_label_sets(folder, several, matrix):
    fitted = BertClassifier(folder, **OPTIONS).fit(TEXTS, matrix)
    assert fitted.classes_.tolist() == (["film", "good"] if hasattr(matrix, "columns") else [0, 1])
    np.testing.assert_array_equal(fitted.predict_proba(TEXTS), several.predict_proba(TEXTS))


@pytest.mark.slow
def test_several_labels_are_scored_by_scikit_learn(folder):
    classifier = BertClassifier(folder, **{**OPTIONS, "num_train_epochs": 2})
    three = np.column_stack([MATRIX, ["music" in text for text in TEXTS]])  # it takes two columns for two classes
    scores = cross_validate(classifier, TEXTS, three, cv=2, scoring=["f1_micro", "roc_auc"], error_score="raise")
    assert all(0 <= score <= 1 for name in ("test_f1_micro", "test_roc_auc") for score in scores[name])


@pytest.mark.slow
def test_pairs_of_texts(folder, tmp_path):
    first, second = TEXTS[:24], TEXTS[24:]
    frame = DataFrame({"one": Series(first, range(24)[::-1]), "other": second})
    fitted = BertClassifier(folder, max_seq_length=32, num_train_epochs=1, train_batch_size=8).fit(frame, LABELS[:24])
    assert fitted.n_features_in_ == 2 and fitted.feature_names_in_.tolist() == ["one", "other"]
    pairs = list(zip(first, second, strict=True))
    expected = fitted.predict_proba(frame)
    np.testing.assert_array_equal(fitted.predict_proba(pairs), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(np.array(pairs)), expected)
    with pytest.raises(ValueError, match="`X` must be pairs like those that the .* fitted on; got texts"):
        fitted.predict(TEXTS)
    with pytest.raises(ValueError, match=r"`X` must have the columns \['one', 'other'\] .*got \['other', 'one'\]"):
        fitted.predict(DataFrame({"other": second, "one": first}))
    fitted.save(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "task.json").read_text())["text_inputs"] == ["text_a", "text_b"]


def test_ctrl_c_ends_the_fit_alone(folder, monkeypatch):
    def interrupted(*_, **__):
        raise Stopped(signal.SIGINT)

    monkeypatch.setattr(Trainer, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        BertClassifier(folder, max_seq_length=16, train_batch_size=2).fit(["a", "b"], [0, 1])


@pytest.mark.parametrize(
    ("options", "texts", "labels", "message"),
    [
        ({}, ["a", "b"], ["x", None], "`y` must not have missing labels; got None for text 1; remove such"),
        ({}, ["a", "b"], ["x", "x"], "`y` must have at least two classes; got one class, .*'x'.*, for all 2"),
        ({}, ["a", "b"], [0.5, 1.2], "[Uu]nknown label type"),
        ({}, ["a", "b", "c"], ["x", "u\nv", "u\nv"], r"a single line, .* got 'u\\nv' for text 1. Remove"),
        ({}, ["a", "b"], ["x"], "inconsistent numbers of samples"),
        ({}, ["a", "b"], None, "requires y to be passed"),
        ({}, ["a", "b"], [["x"], "y"], "`y` must be one label per text; or, .* got 'y' for text 1"),
        ({}, ["a", "b"], [[1, 2], [2, 3]], "`y` must be one label per text; or, .* a matrix of 0 and 1 .*got 2"),
        ({}, ["a", "b"], [[1, 0], [1]], "`y` must be .* got .* others of another length"),
        ({}, ["a", "b"], [[], []], "`y` must have at least one class; got no label for all 2 texts"),
        ({}, ["a", "b", "c"], np.eye(2), "inconsistent numbers of samples"),
        ({}, [("a", "b"), "c"], [0, 1], "`X` must be all strings, or all pairs of strings; got str at position 1"),
        ({}, [("a", "b"), ("c", "d", "e")], [0, 1], "all pairs of strings; got tuple at position 1"),
        ({}, DataFrame({"a": ["x"], "b": ["y"], "c": ["z"]}), [0], "`X` must have one column .* a, b, c"),
        ({"early_stopping": -1}, ["a", "b"], [0, 1], "`early_stopping` must be a non-negative integer; got -1"),
        ({"validation_fraction": 1}, ["a", "b"], [0, 1], "`validation_fraction` must be .* between 0 and 1; got 1"),
        (
            {"metric_for_best_model": "loss"}, ["a"] * 3, [0, 1, 1],
            "`validation_fraction=0.1` cannot .* Pass `eval_set`",
        ),
        ({}, "text", ["x"], "`X` must be several texts, .*got one text, 'text'; put it"),
        ({}, ["a", "b"], [0, 1], "Nothing to train: "),
        ({"max_seq_length": 64}, ["a", "b"], [0, 1], "`max_seq_length` must be at most 32, .*got 64"),
        ({"class_weights": {"z": 1}}, ["a", "b"], [0, 1], "label:weight pairs, .*got 'z:1'; the labels are '0'"),
        ({"train_batch_size": 0}, ["a", "b"], [0, 1], "`train_batch_size` must be a positive integer; got 0"),
        ({"warmup_proportion": 2}, ["a", "b"], [0, 1], "`warmup_proportion` must be a number from 0 to 1; got 2"),
        ({"lstm_units": 0}, ["a", "b"], [0, 1], "`lstm_units` must be a positive integer; got 0"),
        ({"precision": "half"}, ["a", "b"], [0, 1], "`precision` must be one of"),
    ],
)
def test_bad_texts_labels_and_parameters_are_refused(folder, options, texts, labels, message):
    with pytest.raises(ValueError, match=message):
        BertClassifier(folder, **{"max_seq_length": 16, **options}).fit(texts, labels)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("seed", "1", "`seed` must be a non-negative integer; got '1'"),
        ("use_xla", 1.5, "`use_xla` must be one of auto, True, False; got 1.5"),
        ("learning_rate", None, "`learning_rate` must be a non-negative number or 'auto'; got None"),
    ],
)
def test_parameters_of_other_types_are_refused(folder, name, value, message):
    with pytest.raises(TypeError, match=message):
        BertClassifier(folder, **{name: value}).fit(["a", "b"], [0, 1])


def test_it_must_be_fitted(folder, tmp_path):
    classifier = BertClassifier(folder)
    for ask in (classifier.predict, classifier.predict_proba, lambda _: classifier.save(tmp_path / "out")):
        with pytest.raises(NotFittedError):
            ask(TEXTS)
