"""Windows apart and together again."""

import json

import keras
import numpy as np
import tensorflow as tf

from bert_tf.models.windows import MeanOfWindows, RowsTogether, TakeWindows

# Three texts of two, one and three windows; two pieces wide.
MASK = np.array([[[1, 1], [1, 0], [0, 0]], [[1, 0], [0, 0], [0, 0]], [[1, 1], [1, 1], [1, 1]]], np.int32)


def test_the_windows_that_are_there_are_taken_in_order():
    ids = 10 * np.arange(9).reshape(3, 3, 1) + np.arange(2)
    taken = TakeWindows()({"input_mask": MASK, "input_ids": ids.astype(np.int32)})
    assert taken["input_ids"].numpy().tolist() == [[0, 1], [10, 11], [30, 31], [60, 61], [70, 71], [80, 81]]
    assert taken["input_mask"].numpy().tolist() == [[1, 1], [1, 0], [1, 0], [1, 1], [1, 1], [1, 1]]


def test_the_mean_is_of_each_text_s_own_windows():
    values = np.array([[1, 2], [3, 6], [5, 5], [1, 0], [2, 0], [6, 0]], np.float32)
    np.testing.assert_array_equal(MeanOfWindows()(values, MASK), [[2, 4], [5, 5], [3, 0]])
    empty = MeanOfWindows()(values[:0], MASK[:0])
    assert empty.shape == (0, 2) and empty.dtype == tf.float32
    np.testing.assert_array_equal(MeanOfWindows()(values[:0], 0 * MASK), np.zeros((3, 2)))


def test_rows_stand_in_their_example_and_what_is_missing_has_a_value_of_its_own():
    values = np.array([[1, 2], [3, 6], [5, 5], [1, 0], [2, 0], [6, 0]], np.float32)
    expected = np.array([[[1, 2], [3, 6], [-9, -9]], [[5, 5], [-9, -9], [-9, -9]], [[1, 0], [2, 0], [6, 0]]])
    np.testing.assert_array_equal(RowsTogether(missing=-9.0)(values, MASK), expected)
    np.testing.assert_array_equal(RowsTogether()(values, MASK), np.where(expected == -9, 0, expected))
    every = np.full((9, 2), np.nan, np.float32)
    every[MASK.any(2).ravel()] = values
    np.testing.assert_array_equal(RowsTogether(True, -9.0)(every, MASK), expected)
    config = RowsTogether(True, -9.0).get_config()
    assert (config["every"], config["missing"]) == (True, -9.0)


def test_with_every_window_the_mean_is_the_same():
    ids = np.arange(18, dtype=np.int32).reshape(3, 3, 2)
    rows = TakeWindows(every=True)({"input_mask": MASK, "input_ids": ids})
    assert rows["input_ids"].numpy().tolist() == ids.reshape(9, 2).tolist()
    values = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    some = values[MASK.any(2).ravel()]
    values[~MASK.any(2).ravel()] = np.nan  # what comes of a window that is none must not matter
    np.testing.assert_allclose(MeanOfWindows(every=True)(values, MASK), MeanOfWindows()(some, MASK), rtol=1e-6)


def test_each_window_has_its_share_of_the_gradient():
    values = tf.Variable(tf.ones([6, 1]))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(MeanOfWindows()(values, MASK))
    np.testing.assert_allclose(tape.gradient(total, values)[:, 0], [1 / 2, 1 / 2, 1, 1 / 3, 1 / 3, 1 / 3], rtol=1e-6)


def test_logits_stay_float32_in_any_precision():
    values = np.full((6, 1), 1.001, np.float32)
    for policy in ("mixed_bfloat16", "bfloat16"):
        mean = MeanOfWindows(dtype=policy)(values, MASK)
        assert mean.dtype == tf.float32
        np.testing.assert_allclose(mean, 1.001, rtol=1e-6)  # bfloat16 would have made 1 of it


def test_they_are_keras_layers_that_can_be_written_and_read(tmp_path):
    for layer in (TakeWindows(every=True, name="apart"), MeanOfWindows(name="together")):
        again = type(layer).from_config(json.loads(json.dumps(layer.get_config())))
        assert (again.name, again.every) == (layer.name, layer.every)
    inputs = {n: keras.Input((None, None), dtype="int32", name=n) for n in ("input_ids", "input_mask")}
    rows = TakeWindows()(inputs)
    assert {name: rows[name].shape for name in rows} == dict.fromkeys(inputs, (None, None))
    values = keras.ops.cast(rows["input_ids"], "float32")
    keras.Model(inputs, MeanOfWindows()(values, inputs["input_mask"])).save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    mean = loaded({"input_ids": np.arange(18, dtype=np.int32).reshape(3, 3, 2), "input_mask": MASK})
    np.testing.assert_array_equal(mean, [[1, 2], [6, 7], [14, 15]])
