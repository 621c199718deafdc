"""A weight of 2 is the example twice, a weight of 0 is no example: in numbers, for each estimator."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.sklearn import BertClassifier, BertRegressor, BertTagger
from bert_tf.sklearn.sample_weights import as_weights
from bert_tf.tasks.class_weights import class_weights
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.tagging.task import TaggingTask
from tests import tiny

TEXTS, LABELS = map(list, zip(*tiny.texts(24, names=("bad", "good")), strict=True))
TAGS = [["B-ADJ" if word in tiny.GOOD else "O" for word in text.split()] for text in TEXTS]
TIMES = np.array([1, 2, 0, 1, 3, 1] * 4)
REPEATED = np.repeat(np.arange(24), TIMES)
OPTIONS = {"max_seq_length": 16, "learning_rate": 1e-3, "num_train_epochs": 3, "bucket_by_length": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.checkpoint(tmp_path_factory.mktemp("model"), dropout=0.0)


def fit(estimator, y, chosen=None, **arguments):
    """Fits on the chosen examples in one batch per step; returns the logits' like for all texts."""
    chosen = np.arange(24) if chosen is None else chosen
    seen = len(chosen) if "sample_weight" not in arguments else np.count_nonzero(arguments["sample_weight"])
    estimator.set_params(train_batch_size=int(seen))
    fitted = estimator.fit([TEXTS[i] for i in chosen], [y[i] for i in chosen], **arguments)
    outcome = fitted.trained_.outcome(fitted._examples(fitted._read_inputs(TEXTS)), 24)
    return outcome.outputs["probability"] if isinstance(outcome.outputs, dict) else outcome.outputs


@pytest.mark.parametrize(
    ("kind", "y", "options"),
    [
        pytest.param(BertClassifier, LABELS, {"class_weights": "balanced"}, marks=pytest.mark.slow),
        pytest.param(BertClassifier, LABELS, {"class_weights": {"good": 3}}, marks=pytest.mark.slow),
        pytest.param(BertClassifier, np.eye(2, dtype=int)[[0, 1] * 12], {}, marks=pytest.mark.slow),
        pytest.param(BertRegressor, np.linspace(-1, 1, 24), {}, marks=pytest.mark.slow),
        pytest.param(BertTagger, TAGS, {"class_weights": "balanced"}, marks=pytest.mark.slow),
    ],
    ids=["balanced", "weighed_classes", "several_labels", "regression", "tags"],
)
def test_weights_are_repetitions_where_a_batch_is_all_examples(folder, kind, y, options):
    """The whole training: three steps of Adam with the loss of all examples, so that nothing is random."""
    weighted = fit(kind(folder, **OPTIONS, **options), y, sample_weight=TIMES)
    repeated = fit(kind(folder, **OPTIONS, **options), y, REPEATED)
    np.testing.assert_allclose(weighted, repeated, atol=2e-6)


@pytest.mark.slow
def test_a_weight_of_0_is_no_example_and_equal_weights_are_none(folder):
    classifier = BertClassifier(folder, **OPTIONS)
    weighted = fit(classifier, LABELS, sample_weight=np.where(TIMES == 1, 3.5, 0))
    np.testing.assert_array_equal(weighted, fit(classifier, LABELS, np.flatnonzero(TIMES == 1)))


def batch_of(examples, **features):
    return {name: tf.constant(np.asarray(values)[examples]) for name, values in features.items()}


@pytest.mark.parametrize("size", [1, 2, 6])
@pytest.mark.parametrize("kind", ["single_label", "multi_label", "regression", "tagging"])
def test_the_expected_loss_is_that_of_repeated_examples(kind, size):
    """The mean over an epoch's batches of any size: a batch's loss is not divided by the weights in it."""
    rng, n = np.random.default_rng(0), 6
    config, times = tiny.config(), np.array([1, 2, 1, 4, 1, 3])
    target = {"single_label": {"label_ids": rng.integers(0, 3, n).astype(np.int32)},
              "multi_label": {"label_ids": rng.integers(0, 2, [n, 3]).astype(np.int32)},
              "regression": {"label_values": rng.normal(size=n).astype(np.float32)},
              "tagging": {"tag_ids": np.tile(np.array([[-1, 0, 2, 1]], np.int32), [n, 1])}}[kind]  # fmt: skip
    if kind == "tagging":
        task = TaggingTask(config, ["B-X", "I-X", "O"], label_smoothing=0.1)
    else:
        task = ClassificationTask(config, 1 if kind == "regression" else 3, kind)
    outputs = rng.normal(size=[n, 4, 3] if kind == "tagging" else [n, task.num_labels]).astype(np.float32)
    weights, real = (times / times.mean()).astype(np.float32), np.ones(n, np.float32)

    def loss(examples, **more):
        batch = batch_of(examples, **target, **more, is_real_example=real)
        return float(task.loss(tf.constant(outputs[examples]), batch, task.loss_normalizers(batch)))

    repeated = loss(np.repeat(np.arange(n), times))
    batches = rng.permutation(n).reshape(-1, size)
    np.testing.assert_allclose(np.mean([loss(each, sample_weights=weights) for each in batches]), repeated, rtol=1e-6)
    assert abs(loss(np.arange(n)) - repeated) > 1e-3


def test_balanced_classes_count_weights():
    weighted = class_weights(["balanced"], ["a", "b"], np.array([0, 0, 1]), example_weights=np.array([2.0, 1.0, 1.0]))
    assert weighted == class_weights(["balanced"], ["a", "b"], np.array([0, 0, 0, 1]))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"`sample_weight` must be 2 numbers, one per example; got an array of shape \(1,\)"),
        ([[1.0], [1.0]], r"got an array of shape \(2, 1\)"),
        (1.0, r"got an array of shape \(\)"),
        ([1, -1], "`sample_weight` must be finite, non-negative numbers; got -1.0 for example 1"),
        ([np.nan, 1], "got nan for example 0; pass 0"),
        ([1, np.inf], "got inf for example 1"),
        (["a", "b"], "`sample_weight` must be numbers"),
        ([0, 0], "`sample_weight` must be above 0 for some examples"),
    ],
)
def test_bad_weights_are_refused(folder, weights, message):
    with pytest.raises(ValueError, match=message):
        as_weights(weights, ["a", "b"])
    with pytest.raises(ValueError, match=message):
        BertRegressor(folder).fit(["a", "b"], [0.0, 1.0], sample_weight=weights)
