"""What an encoder is given: other libraries' names and shapes are refused by name, what can be read is read."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.distillation_model import DistillationModel
from bert_tf.models.encoder import Encoder
from bert_tf.models.model_inputs import ENCODER_FEATURES, encoder_inputs
from bert_tf.models.pretrainer import Pretrainer
from tests import tiny
from tests.fake_batches import fake_batch

IDS = [[2, 7, 8, 3, 0], [2, 9, 3, 0, 0]]
MASK = [[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]]


@pytest.fixture(scope="module")
def encoder():
    return Encoder(tiny.config())


@pytest.fixture(scope="module")
def padded(encoder):
    """What the encoder gives where it knows what is padding."""
    return encoder({"input_ids": np.array(IDS, np.int32), "input_mask": np.array(MASK, np.int32)})["pooled_output"]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("attention_mask", "input_mask"), ("padding_mask", "input_mask"), ("input_masks", "input_mask"),
     ("token_type_ids", "segment_ids"), ("input_type_ids", "segment_ids"), ("segment_id", "segment_ids")],
)  # fmt: skip
def test_another_name_is_refused_with_ours(encoder, theirs, ours):
    told = f"got `{theirs}`, which is called `{ours}` in bert_tf"
    with pytest.raises(ValueError, match=told):
        encoder({"input_ids": np.array(IDS), theirs: np.array(MASK)})
    with pytest.raises(ValueError, match=told):  # in a functional model
        encoder({name: keras.Input((None,), dtype="int32", name=name) for name in ("input_ids", theirs)})
    with pytest.raises(ValueError, match=told):
        encoder.predict({"input_ids": np.array(IDS), theirs: np.array(MASK)}, verbose=0)


def test_all_other_names_are_listed_at_once(encoder):
    given = {"token_ids": IDS, "padding_mask": MASK, "label_ids": [0, 1]}
    with pytest.raises(ValueError) as raised:
        encoder(given)
    assert str(raised.value) == (
        "`inputs` must only have `input_ids`, `input_mask`, `segment_ids`, `sentence_ids`; got `token_ids`, which "
        "is called `input_ids` in bert_tf; `padding_mask`, which is called `input_mask` in bert_tf; "
        "`label_ids`, which this model does not use: omit it."
    )


@pytest.mark.parametrize(
    "kind",
    [
        list,
        np.array,
        tf.constant,
        lambda rows: np.array(rows, bool),
        lambda rows: np.array(rows, np.int64),
        lambda rows: tf.constant(rows) > 0,
    ],
)
def test_lists_bools_and_other_integers_are_taken(encoder, padded, kind):
    found = encoder({"input_ids": IDS, "input_mask": kind(MASK), "segment_ids": None})["pooled_output"]
    np.testing.assert_array_equal(found, padded)
    assert not np.allclose(encoder({"input_ids": IDS})["pooled_output"], padded, atol=1e-3)  # padding would count


def test_a_functional_model_with_a_mask_of_bools(encoder, padded):
    inputs = {"input_ids": keras.Input((None,), dtype="int64"), "input_mask": keras.Input((None,), dtype="bool")}
    model = keras.Model(inputs, encoder(inputs)["pooled_output"])
    given = {"input_ids": np.array(IDS), "input_mask": np.array(MASK, bool)}
    np.testing.assert_allclose(model(given), padded, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (IDS, "`inputs` must be a dict with `input_ids`.*got list; pass the tokenizer's output"),
        (np.array(IDS), "got ndarray"),
        (None, "got NoneType"),
        ({"input_mask": MASK}, "lacks `input_ids`; got `input_mask`; add them"),
        ({"input_ids": IDS[0]}, r"a batch of sequences, \[B, S\]; got shape \(5,\); put one sequence in a list"),
        ({"input_ids": [[2, 3], [2, 5, 3]]}, "`input_ids` must have sequences of equal length; got lists"),
        ({"input_ids": [["a text"]]}, "`input_ids` must be integers; got str"),
        ({"input_ids": np.array(IDS, np.float32)}, "`input_ids` must be integers; got float32; convert it"),
        ({"input_ids": tf.ragged.constant([[2, 3], [3]])}, "a dense tensor .* got a ragged one"),
        ({"input_ids": IDS, "input_mask": MASK[0]}, r"the shape of `input_ids`, \(2, 5\); got \(5,\)"),
        ({"input_ids": IDS, "segment_ids": [[0]]}, r"`segment_ids` must have the shape.* got \(1, 1\)"),
        ({"input_ids": IDS, "input_mask": IDS}, "1 for tokens and 0 for padding; got values from 0 to 9"),
        ({"input_ids": IDS, "position_ids": IDS}, "`position_ids`, which the model computes itself"),
    ],
)
def test_what_is_no_batch_is_refused(encoder, given, told):
    with pytest.raises(ValueError, match=told):
        encoder(given)


def test_a_float_input_of_keras_is_refused_when_the_model_is_made(encoder):
    with pytest.raises(ValueError, match='`input_ids` must be integers; got float32.*dtype="int32"'):
        encoder({"input_ids": keras.Input((None,))})


def test_head_mask_must_have_every_layer(encoder):
    with pytest.raises(ValueError, match="`head_mask` must have one entry for each of 1 layers, .*got 2"):
        encoder({"input_ids": IDS}, head_mask=[np.ones(2), np.ones(2)])


@pytest.mark.parametrize("make", [Pretrainer, lambda c: DistillationModel(c, ("hidden", "mlm_logits"))])
def test_pretraining_models_refuse_what_they_do_not_read(make):
    model = make(tiny.config())
    batch = fake_batch((*ENCODER_FEATURES[:3], "masked_lm_positions"), vocab_size=len(tiny.VOCAB))
    assert "mlm_logits" in model(batch)
    del batch["input_mask"]
    with pytest.raises(ValueError, match="`attention_mask`, which is called `input_mask` in bert_tf"):
        model(batch | {"attention_mask": np.ones((4, 16))})


def test_encoder_inputs_of_a_batch():
    batch = {"input_ids": IDS, "label_ids": [0, 1], "sentence_ids": MASK}
    assert encoder_inputs(batch) == {"input_ids": IDS, "sentence_ids": MASK}
