"""The schema: names and types that files, batches, models and requests share."""

import numpy as np

from bert_tf.data import features
from tests.fake_batches import fake_batch


def test_names_types_and_shapes_are_the_promised_ones():
    assert {f.name: (f.dtype, f.per) for f in features.FEATURES.values()} == {
        "input_ids": ("int32", "token"),
        "input_mask": ("int32", "token"),
        "segment_ids": ("int32", "token"),
        "context_mask": ("int32", "token"),
        "sentence_ids": ("int32", "token"),
        "masked_lm_positions": ("int32", "prediction"),
        "masked_lm_ids": ("int32", "prediction"),
        "masked_lm_weights": ("float32", "prediction"),
        "unmasked_ids": ("int32", "token"),
        "sampling_draws": ("float32", "prediction"),
        "next_sentence_labels": ("int32", "sentence"),
        "next_sentence_positions": ("int32", "sentence"),
        "next_sentence_weights": ("float32", "sentence"),
        "label_ids": ("int32", "example"),
        "tag_ids": ("int32", "token"),
        "label_values": ("float32", "example"),
        "start_positions": ("int32", "example"),
        "end_positions": ("int32", "example"),
        "is_real_example": ("float32", "example"),
    }
    assert all(name == feature.name for name, feature in features.FEATURES.items())
    assert features.ENCODER_INPUTS == ("input_ids", "input_mask", "segment_ids")


def test_keras_inputs_follow_the_schema():
    inputs = features.keras_inputs(("input_ids", "label_values", "masked_lm_weights", "next_sentence_labels"))
    assert [(i.name, i.shape, i.dtype) for i in inputs.values()] == [
        ("input_ids", (None, None), "int32"),
        ("label_values", (None,), "float32"),
        ("masked_lm_weights", (None, None), "float32"),
        ("next_sentence_labels", (None, None), "int32"),
    ]


def test_what_fills_a_row_behind_its_last_token():
    fill = {name: feature.padding_of(7) for name, feature in features.FEATURES.items()}
    assert {name: value for name, value in fill.items() if value} == {"input_ids": 7, "unmasked_ids": 7, "tag_ids": -1}


def test_a_fake_batch_is_a_valid_one_of_every_feature():
    batch = fake_batch(features.FEATURES, batch_size=50, seq_length=9, vocab_size=20, num_labels=3)
    shapes = {"token": (50, 9), "prediction": (50, 3), "sentence": (50, 1), "example": (50,)}
    for name, feature in features.FEATURES.items():
        assert batch[name].dtype == feature.dtype
        assert batch[name].shape == shapes[feature.per]
    mask = batch["input_mask"]
    assert (np.diff(mask) <= 0).all()  # padding only at the end
    assert mask.sum(1).min() >= 5 and set(mask.sum(1)) == {5, 6, 7, 8, 9}
    for name in ("input_ids", "segment_ids", "sentence_ids"):
        assert not batch[name][mask == 0].any()
    assert set(batch["segment_ids"][mask == 1]) == {0, 1} and set(batch["sentence_ids"][mask == 1]) == {1, 2}
    assert (batch["tag_ids"][mask == 0] == -1).all() and set(batch["tag_ids"][mask == 1]) == {-1, 0, 1, 2}
    assert not batch["context_mask"][mask == 0].any() and (batch["context_mask"].sum(1) > 0).all()
    assert set(batch["label_ids"]) == {0, 1, 2} and batch["input_ids"].max() == 19


def test_fake_predictions_are_distinct_tokens_in_order_then_padding():
    batch = fake_batch(features.FEATURES, 200, seq_length=9, vocab_size=20, max_predictions=7)
    positions, weights = batch["masked_lm_positions"], batch["masked_lm_weights"]
    assert (batch["sampling_draws"] < 1).all() and (batch["sampling_draws"] >= 0).all()
    assert positions.shape == (200, 7) and (np.diff(weights) <= 0).all()
    assert set(weights.sum(1)) == {1, 2, 3, 4, 5, 6, 7}
    for row, real, tokens in zip(positions, weights == 1, batch["input_mask"].sum(1), strict=True):
        assert (np.diff(row[real]) > 0).all() and row[real].max() < tokens and not row[~real].any()
    assert set(positions[weights == 1]) == set(range(9))
    assert not batch["masked_lm_ids"][weights == 0].any() and batch["masked_lm_ids"].max() == 19


def test_fake_next_sentences_begin_where_the_packed_sentences_do():
    batch = fake_batch(features.FEATURES, 50, seq_length=9, max_sentences=3)
    assert (batch["next_sentence_weights"] == [1, 1, 0]).all()
    positions = batch["next_sentence_positions"]
    assert not positions[:, [0, 2]].any()
    assert (positions[:, 1] == (batch["sentence_ids"] == 1).sum(1)).all()
    assert set(batch["next_sentence_labels"][:, :2].ravel()) == {0, 1} and not batch["next_sentence_labels"][:, 2].any()
    one = fake_batch(features.FEATURES, 50)
    assert (one["next_sentence_weights"] == 1).all() and not one["next_sentence_positions"].any()
    assert set(one["next_sentence_labels"].ravel()) == {0, 1}


def test_a_fake_batch_repeats_with_its_seed():
    one, again, other = (fake_batch(["input_ids"], seed=seed)["input_ids"] for seed in (1, 1, 2))
    assert (one == again).all() and (one != other).any()
