"""What the fine-tuned estimators share: early stopping, validation examples and parameters."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone

from bert_tf.sklearn import BertClassifier, BertRegressor, BertTagger
from bert_tf.sklearn.estimator import FineTunedEstimator
from tests import tiny

TEXTS, LABELS = map(list, zip(*tiny.texts(40, names=("bad", "good")), strict=True))
OPTIONS = {"max_seq_length": 16, "train_batch_size": 8, "learning_rate": 3e-3, "num_train_epochs": 20}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.checkpoint(tmp_path_factory.mktemp("model"), dropout=0.0)


@pytest.mark.slow
def test_training_stops_when_the_validation_examples_get_no_better(folder):
    """Their labels are those of other texts: an epoch of 4 steps or two, and it can only get worse."""
    stopping = BertClassifier(folder, early_stopping=2, validation_fraction=0.2, seed=1, **OPTIONS)
    labels = np.random.default_rng(0).permutation(LABELS)
    fitted = stopping.fit(TEXTS, labels)
    assert fitted.n_steps_ % 4 == 0 and fitted.n_steps_ < 40


@pytest.mark.slow
def test_the_best_epoch_by_given_examples_is_kept(folder):
    classifier = BertClassifier(folder, **{**OPTIONS, "num_train_epochs": 3})
    wrong = [{"bad": "good", "good": "bad"}[label] for label in LABELS]
    best = clone(classifier).fit(TEXTS, LABELS, eval_set=(TEXTS, LABELS))
    first = clone(classifier).set_params(metric_for_best_model="accuracy").fit(TEXTS, LABELS, eval_set=(TEXTS, wrong))
    assert best.n_steps_ == 15 and first.n_steps_ == 5
    assert first.score(TEXTS, LABELS) < best.score(TEXTS, LABELS)


@pytest.mark.slow
def test_validation_examples_only_choose(folder):
    classifier = BertClassifier(folder, **{**OPTIONS, "num_train_epochs": 3})
    validated = clone(classifier).fit(TEXTS, LABELS, eval_set=(TEXTS, LABELS))
    plain = clone(classifier).fit(TEXTS, LABELS)
    assert validated.n_steps_ == plain.n_steps_ == 15
    np.testing.assert_array_equal(validated.predict_proba(TEXTS), plain.predict_proba(TEXTS))


@pytest.mark.parametrize(
    ("options", "eval_set", "message"),
    [
        ({}, [(["a"], ["bad"])], r"`eval_set` must be a pair \(X, y\); got"),
        ({}, (["a"], ["bad", "good"]), "`eval_set`: .*inconsistent numbers of samples"),
        ({}, (["a"], ["ugly"]), "`eval_set`: `y` must only have labels in .* got 'ugly'"),
        ({}, ([("a", "b")], ["bad"]), "`eval_set`: `X` must be texts like those .* got pairs"),
        (
            {"metric_for_best_model": "bleu"}, (["a"], ["bad"]),
            r"`metric_for_best_model` must be one of \['accuracy', .*got 'bleu'",
        ),
    ],
)
def test_bad_validation_examples_are_refused(folder, options, eval_set, message):
    with pytest.raises(ValueError, match=message):
        BertClassifier(folder, max_seq_length=16, **options).fit(TEXTS, LABELS, eval_set=eval_set)


def test_parameters_may_be_scalars_of_numpy(folder):
    """As a search over arrays of settings gives them."""
    values = {"num_train_epochs": np.float32(2), "train_batch_size": np.int64(8), "bucket_by_length": np.bool_(False)}
    read = BertClassifier(folder, **values, seed=np.uint8(3))._read_settings()
    assert [read.num_train_epochs, read.train_batch_size, read.bucket_by_length, read.seed] == [2.0, 8, False, 3]


def test_the_parameters_are_those_of_the_base_and_its_own():
    shared = list(inspect.signature(FineTunedEstimator).parameters)
    own = {BertClassifier: ["class_weights", "label_smoothing"], BertRegressor: [],
           BertTagger: ["class_weights", "label_smoothing", "tag_scheme"]}  # fmt: skip
    for kind, names in own.items():
        assert sorted(kind("m").get_params()) == sorted([*shared, *names])
        assert repr(kind("m", seed=3)) == f"{kind.__name__}(model='m', seed=3)"
