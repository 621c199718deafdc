"""A classifier that reads long texts through windows: the same model, trained as any other."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import dataset, windowed
from bert_tf.data.windowed import Windowing
from bert_tf.models.training_ops import seed_scope
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.training.adamw import AdamW
from bert_tf.training.batching import BatchSettings
from bert_tf.training.run_config import RunConfig
from bert_tf.training.schedules import WarmupLinearDecay
from bert_tf.training.step import StepConfig, TrainStep
from bert_tf.training.trainer import Trainer
from tests import tiny

LENGTH, WINDOWS = 8, Windowing(4, 8)


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(tiny.VOCAB)


def _task(windows=WINDOWS, dropout=0.0, every_window=False):
    config = tiny.config(dropout)
    return ClassificationTask(config, 2, windows=windows, every_window=every_window)


def _texts(n, seed=0, longest=30):
    """Returns n texts of 1 to `longest` words, and labels: whether a good or a bad word stands anywhere in them."""
    rng, texts = np.random.default_rng(seed), []
    labels = rng.integers(0, 2, n).astype(np.int32)
    for label in labels:
        words = rng.choice(tiny.FILL, rng.integers(0, longest)).tolist()
        words.insert(rng.integers(len(words) + 1), rng.choice((tiny.BAD, tiny.GOOD)[label]))
        texts.append(" ".join(words))
    return texts, {"label_ids": labels}


def _examples(tokenizer, n=32, seed=0, **options):
    texts, targets = _texts(n, seed, **options)
    return windowed.tokenize_windows(tokenizer, [texts], LENGTH, WINDOWS, targets)


def _model(task, seed=0):
    keras.utils.set_random_seed(seed)
    return task.build_model()


def test_a_text_that_fits_gives_what_it_gives_without_windows(tokenizer):
    texts = ["good film", "", "the story is dull .", "bad"]
    with_windows, without = _model(_task()), _model(_task(None))
    assert [v.path for v in with_windows.variables] == [v.path for v in without.variables]
    (read, _), (plain, _) = (task.preprocess(tokenizer, [texts], LENGTH) for task in (_task(), _task(None)))
    assert read["input_ids"].shape == (4, 1, 7) and plain["input_ids"].shape == (4, 7)
    expected = without(plain, training=False)
    np.testing.assert_allclose(with_windows(read, training=False), expected, atol=1e-6)
    among, _ = _task().preprocess(tokenizer, [[*texts, "good " * 25]], LENGTH)  # in a batch with a long one
    np.testing.assert_allclose(with_windows(among, training=False)[:4], expected, atol=1e-6)


def test_a_long_text_gives_the_mean_of_its_windows_logits(tokenizer):
    text = "the film is good and the story is bad . people see it"  # 13 pieces, 6 in a window, 4 on: 3 windows
    words = text.split()
    parts = [" ".join(words[start : start + 6]) for start in (0, 4, 8)]
    read, _ = _task().preprocess(tokenizer, [[text]], LENGTH)
    assert read["input_ids"].shape == (1, 3, 8)
    each = _model(_task(None))(tokenizer(parts, max_seq_length=LENGTH), training=False)
    assert np.ptp(each, axis=0).min() > 1e-3
    got = _model(_task())(read, training=False)
    np.testing.assert_allclose(got[0], np.mean(each, axis=0), atol=1e-6)


def _batch(tokenizer, order):
    (batch,) = dataset.build_batches(_examples(tokenizer), np.array([order]), LENGTH)
    return batch


def _first_step(config, batch):
    task = _task(every_window=config.use_xla)
    model = _model(task)
    optimizer = AdamW(WarmupLinearDecay(1e-3, 40, 0))
    optimizer.build(model.trainable_variables)
    results = TrainStep(task, model, optimizer, config)(batch)
    return {n: float(results[n]) for n in ("loss", "gradient_norm")}, [v.numpy() for v in model.trainable_variables]


@pytest.mark.slow
def test_cut_into_micro_batches_and_compiled_a_step_is_the_same(tokenizer):
    batch = _batch(tokenizer, range(8))
    counts = (batch["input_mask"].numpy().any(2)).sum(1)
    assert len(set(counts)) > 2  # or there would be nothing missing to go wrong
    plain, weights = _first_step(StepConfig(), batch)
    for config in (StepConfig(accumulation=4), StepConfig(use_xla=True, accumulation=2)):
        results, moved = _first_step(config, batch)
        assert results == pytest.approx(plain, rel=1e-4)
        for one, other in zip(weights, moved, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)


def _training_outputs(task, features, xla=False):
    """Calls a new model, with dropout; its masks depend on how many rows there are."""
    model = _model(task)
    call = tf.function(lambda f: model(f, training=True), jit_compile=True) if xla else partial(model, training=True)
    with seed_scope(tf.constant([1, 2])):
        return call({name: features[name] for name in task.features}).numpy()


@pytest.mark.slow
def test_the_encoder_reads_no_window_that_is_none(tokenizer):
    batch = _batch(tokenizer, range(8))
    more = {name: tf.pad(batch[name], [[0, 0], [0, 3], [0, 0]]) for name in _task().features}
    expected = _training_outputs(_task(dropout=0.2), batch)
    np.testing.assert_allclose(_training_outputs(_task(dropout=0.2), more), expected, atol=1e-6)
    every = _task(dropout=0.2, every_window=True)
    assert np.abs(_training_outputs(every, more) - expected).max() > 1e-3  # so that would have been seen


@pytest.mark.slow
def test_xla_can_drop_out(tokenizer):
    every = _task(dropout=0.2, every_window=True)
    assert np.isfinite(_training_outputs(every, _batch(tokenizer, [0, 1]), xla=True)).all()


@pytest.mark.slow
def test_it_learns_what_stands_anywhere_in_a_text(tokenizer, tmp_path):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        job, batching = Trainer(_task(), RunConfig(str(tmp_path), 16, 160, 16, 2e-3)), BatchSettings(LENGTH)
        keras.utils.set_random_seed(0)
        job.fit(batching.training(_examples(tokenizer, 256), job.run))
    finally:
        keras.config.set_dtype_policy(before)
    held_out = batching.scoring(_examples(tokenizer, 64, seed=1), 10)
    scores = job.scores(held_out)
    assert scores["accuracy"] > 0.9
    logits = job.outputs(held_out)
    assert logits.shape == (64, 2) and logits.dtype == np.float32
    assert (logits.argmax(1) == held_out.rows.targets["label_ids"]).mean() == pytest.approx(scores["accuracy"])
