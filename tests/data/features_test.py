"""The schema: names and types that files, batches, models and requests share."""

import numpy as np

from bert_tf.data import features


def test_names_types_and_shapes_are_the_promised_ones():
    assert {f.name: (f.dtype, f.per_token) for f in features.FEATURES.values()} == {
        "input_ids": ("int32", True),
        "input_mask": ("int32", True),
        "segment_ids": ("int32", True),
        "sentence_ids": ("int32", True),
        "label_ids": ("int32", False),
        "label_values": ("float32", False),
        "is_real_example": ("float32", False),
    }
    assert all(name == feature.name for name, feature in features.FEATURES.items())
    assert features.ENCODER_INPUTS == ("input_ids", "input_mask", "segment_ids")


def test_keras_inputs_follow_the_schema():
    inputs = features.keras_inputs(("input_ids", "label_values"))
    assert [(i.name, i.shape, i.dtype) for i in inputs.values()] == [
        ("input_ids", (None, None), "int32"),
        ("label_values", (None,), "float32"),
    ]


def test_a_fake_batch_is_a_valid_one_of_every_feature():
    batch = features.fake_batch(features.FEATURES, batch_size=50, seq_length=9, vocab_size=20, num_labels=3)
    for name, feature in features.FEATURES.items():
        assert batch[name].dtype == feature.dtype
        assert batch[name].shape == ((50, 9) if feature.per_token else (50,))
    mask = batch["input_mask"]
    assert (np.diff(mask) <= 0).all()  # padding only at the end
    assert mask.sum(1).min() >= 5 and set(mask.sum(1)) == {5, 6, 7, 8, 9}
    for name in ("input_ids", "segment_ids", "sentence_ids"):
        assert not batch[name][mask == 0].any()
    assert set(batch["segment_ids"][mask == 1]) == {0, 1} and set(batch["sentence_ids"][mask == 1]) == {1, 2}
    assert set(batch["label_ids"]) == {0, 1, 2} and batch["input_ids"].max() == 19


def test_a_fake_batch_repeats_with_its_seed():
    one, again, other = (features.fake_batch(["input_ids"], seed=seed)["input_ids"] for seed in (1, 1, 2))
    assert (one == again).all() and (one != other).any()
