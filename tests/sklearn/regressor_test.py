"""`BertRegressor` learns numbers, of texts and of pairs, as `train classifier --problem_type=regression` does."""

import pickle

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler

import bert_tf
from bert_tf.sklearn import BertRegressor
from tests import scripts, tiny
from tests.fake_pandas import Series

TEXTS, LABELS = map(list, zip(*tiny.texts(48, names=("-1", "1")), strict=True))
VALUES = np.array(LABELS, float)
OPTIONS = {"max_seq_length": 16, "train_batch_size": 8, "learning_rate": 3e-3, "num_train_epochs": 8.0, "seed": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.checkpoint(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def fitted(folder):
    return BertRegressor(folder, **OPTIONS).fit(Series(TEXTS, range(48)[::-1]), Series(VALUES, range(48)[::-1]))


@pytest.mark.slow
def test_it_learns(fitted, tmp_path):
    predicted = fitted.predict(TEXTS)
    assert fitted.score(TEXTS, VALUES) > 0.5 and predicted.dtype == np.float64 and predicted.shape == (48,)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(TEXTS), predicted)
    assert "Residuals" in fitted.report(TEXTS, VALUES)
    fitted.save(tmp_path / "out")
    assert bert_tf.load(tmp_path / "out").labels is None


@pytest.mark.slow
def test_the_same_settings_give_the_same_model(folder, fitted, tmp_path):
    train = tiny.write_tsv(tmp_path / "train.tsv", list(zip(TEXTS, LABELS, strict=True)))
    flags = {"train_file": train, "predict_file": train, "init_checkpoint": folder, "output_dir": tmp_path / "out",
             "do_train": True, "do_predict": True, "problem_type": "regression", **OPTIONS}  # fmt: skip
    with scripts.Cases("run_classifier") as program:
        ended = program.run([f"--{name}={value}" for name, value in flags.items()])
    assert ended["status"] == 0, ended["log"]
    np.testing.assert_array_equal(fitted.predict(TEXTS), np.loadtxt(tmp_path / "out" / "test_results.tsv"))


@pytest.mark.slow
def test_targets_can_be_scaled_and_validated_across_folds(folder):
    scaled = TransformedTargetRegressor(BertRegressor(folder, **OPTIONS), transformer=StandardScaler())
    assert scaled.fit(TEXTS, 50 * VALUES + 1000).score(TEXTS, 50 * VALUES + 1000) > 0.8
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    regressor = BertRegressor(folder, **{**OPTIONS, "num_train_epochs": 1})
    assert cross_val_score(regressor, pairs, VALUES, cv=2, error_score="raise").shape == (2,)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0], "inconsistent numbers of samples"),
        ([1.0, np.nan], "y contains NaN"),
        ([1.0, np.inf], "y contains infinity"),
        (["one", "two"], "`y` must be numbers. .*'one'"),
        ([[1.0, 2.0], [3.0, 4.0]], "1d array"),
        (None, "requires y to be passed"),
    ],
)
def test_bad_values_are_refused(folder, values, message):
    with pytest.raises(ValueError, match=message):
        BertRegressor(folder).fit(["a", "b"], values)
