"""Each operation against what it promises: on arrays, and on what the model computes."""

import dataclasses

import keras
import numpy as np
import pytest

from bert_tf.checkpoints import edit_model
from bert_tf.checkpoints.model_directory import ModelDirectory, check_alike
from bert_tf.models.encoder import Encoder
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny
from tests.harness import randomize

POSITIONS = "bert/embeddings/position_embeddings"
CONFIG = tiny.config(num_hidden_layers=3, num_attention_heads=4)
IDS = {"input_ids": np.array([[2, 5, 9, 14, 3, 0], [2, 6, 7, 11, 12, 3]], np.int32)}
IDS["input_mask"] = np.array([[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]], np.int32)


def _encoder(config, arrays=None):
    encoder = Encoder(config)
    encoder.build()
    for variable in encoder.variables:
        if arrays is not None:
            variable.assign(arrays[variable.path])
    return encoder


@pytest.fixture(scope="module")
def teacher():
    """(encoder with random weights, its arrays)."""
    keras.utils.set_random_seed(0)
    encoder = _encoder(CONFIG)
    randomize(encoder)
    return encoder, {v.path: v.value.numpy() for v in encoder.variables}


@pytest.mark.parametrize("first", [0, 2])
def test_positions_are_repeated_behind_those_that_mean_no_token(first):
    table, config = np.random.default_rng(0).normal(size=(8, 3)), tiny.config(first_position=first)
    arrays = {POSITIONS: table, "x": np.ones(2)}
    longer, changed = edit_model.resize_positions(arrays, config, 21)
    assert changed.max_position_embeddings == 21 == len(longer[POSITIONS]) and changed.first_position == first
    for row in range(21):
        old = row if row < first else first + (row - first) % (8 - first)
        np.testing.assert_array_equal(longer[POSITIONS][row], table[old])
    shorter, changed = edit_model.resize_positions(arrays, config, 5)
    np.testing.assert_array_equal(shorter[POSITIONS], table[:5])
    assert changed.max_length == 5 - first and len(arrays[POSITIONS]) == 8
    with pytest.raises(ValueError, match=f"must be above first_position, {first}; got {first};"):
        edit_model.resize_positions(arrays, config, first)


def test_a_text_that_was_short_enough_is_read_as_before(teacher):
    encoder, arrays = teacher
    longer = _encoder(*edit_model.resize_positions(arrays, CONFIG, 64)[::-1])
    np.testing.assert_array_equal(longer(IDS)["sequence_output"], encoder(IDS)["sequence_output"])


def test_layers(teacher):
    encoder, arrays = teacher
    student = _encoder(*edit_model.keep_layers(arrays, CONFIG, [0, 2])[::-1])
    for ours, theirs in ((0, 0), (1, 2)):
        for a, b in zip(student.blocks[ours].get_weights(), encoder.blocks[theirs].get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)
    lowest = _encoder(*edit_model.keep_layers(arrays, CONFIG, [0])[::-1])
    np.testing.assert_array_equal(lowest(IDS)["sequence_output"], encoder(IDS)["encoder_outputs"][0])


def test_layers_with_local_attention_keep_their_kind():
    config = tiny.config(num_hidden_layers=6, local_attention=4, global_attn_every_n_layers=3, norm_first=True,
                         global_rope_theta=9.0, first_attention_norm=False)  # fmt: skip
    arrays = {f"bert/encoder/layer_{n}/output/dense/bias": np.full(1, n) for n in range(6)}
    kept, after = edit_model.keep_layers(arrays, config, [0, 1, 2, 3])
    assert len(kept) == 4 and [after.is_local(n) for n in range(4)] == [False, True, True, False]
    with pytest.raises(ValueError, match="must keep layers with local attention.*, which moves layer 3"):
        edit_model.keep_layers(arrays, config, [0, 2, 3])
    with pytest.raises(ValueError, match="`layers` must begin with 0, because the first layer has no attention norm"):
        edit_model.keep_layers(arrays, config, [3, 4])
    assert edit_model.resize_positions(arrays, config, 99)[1].max_length == 99  # there is no table
    table = {"cls/predictions/position_embeddings": np.arange(6).reshape(3, 2)}  # of the enhanced mask decoder
    resized, _ = edit_model.resize_positions(table, dataclasses.replace(config, position_biased_input=False,
                                          global_rope_theta=None), 5)  # fmt: skip
    assert resized["cls/predictions/position_embeddings"][:, 0].tolist() == [0, 2, 4, 0, 2]
    with pytest.raises(ValueError, match="`layers` must begin with 0, because a convolution belongs to the first"):
        edit_model.keep_layers(arrays, tiny.config(num_hidden_layers=6, conv_kernel_size=3), [3, 4])


def test_layers_below_a_norm_of_their_own():
    config = dataclasses.replace(CONFIG, norm_first=True)
    encoder = _encoder(config)
    randomize(encoder)
    arrays = {v.path: v.value.numpy() for v in encoder.variables}
    lowest = _encoder(*edit_model.keep_layers(arrays, config, [0])[::-1])
    expected = encoder.norm(encoder(IDS)["encoder_outputs"][0])
    np.testing.assert_array_equal(lowest(IDS)["sequence_output"], expected)


def test_heads_that_were_pruned_go_with_their_layer(teacher):
    arrays, config = edit_model.prune_heads(teacher[1], CONFIG, {1: [2], 2: [0, 3]})
    kept, config = edit_model.keep_layers(arrays, config, [0, 2])
    assert config.pruned_heads == {1: (0, 3)}
    _encoder(config, kept)


@pytest.mark.parametrize("layers", [[], [0, 3], [2, 1], [1, 1]])
def test_layers_that_are_not_there(teacher, layers):
    with pytest.raises(ValueError, match="`layers` must be ascending numbers from 0 to 2; got "):
        edit_model.keep_layers(teacher[1], CONFIG, layers)


def test_shared_layers_are_refused():
    shared = tiny.config(num_hidden_layers=4, num_hidden_groups=1)
    with pytest.raises(ValueError, match="`layers` requires .* Its 4 layers share 1: set a smaller num_"):
        edit_model.keep_layers({}, shared, [0, 1])
    with pytest.raises(ValueError, match="requires layers with their own weights; got .* 4 layers"):
        edit_model.prune_heads({}, shared, {0: [1]})


def test_pruned_heads_are_masked_heads(teacher):
    encoder, arrays = teacher
    heads = {0: [1, 3], 2: [0]}
    masked, width = dict(arrays), CONFIG.hidden_size // CONFIG.num_attention_heads
    for layer, gone in heads.items():
        path = f"bert/encoder/layer_{layer}/attention/output/dense/kernel"
        masked[path] = masked[path].copy()
        for head in gone:
            masked[path][head * width : (head + 1) * width] = 0
    expected = _encoder(CONFIG, masked)(IDS)["sequence_output"]
    assert np.abs(expected - encoder(IDS)["sequence_output"]).max() > 0.1
    pruned, config = edit_model.prune_heads(arrays, CONFIG, heads)
    assert config.pruned_heads == {0: (1, 3), 2: (0,)}
    np.testing.assert_allclose(_encoder(config, pruned)(IDS)["sequence_output"], expected, atol=1e-5)
    first = edit_model.prune_heads(arrays, CONFIG, {0: [3]})
    second, again = edit_model.prune_heads(*first, {0: [1], 2: [0]})  # numbers are those of the whole model
    assert again == config
    for path in pruned:
        np.testing.assert_array_equal(second[path], pruned[path])


@pytest.mark.parametrize("heads", [{3: [0]}, {0: [4]}, {0: [0, 1, 2, 3]}])
def test_heads_that_are_not_there(teacher, heads):
    with pytest.raises(ValueError, match="`prune_heads`: pruned_heads must map layers from 0 to 2 to heads from"):
        edit_model.prune_heads(teacher[1], CONFIG, heads)


def test_the_mean_is_rounded_once():
    rng = np.random.default_rng(0)
    models = [{"a": rng.normal(size=(3, 2)).astype(np.float32), "b": np.float32([n])} for n in (1e8, 1, -1e8)]
    mean = edit_model.average(models)
    assert mean["b"].dtype == np.float32 and mean["b"] == np.float32(1 / 3)
    np.testing.assert_allclose(mean["a"], np.mean([m["a"] for m in models], 0), rtol=1e-6)
    with pytest.raises(ValueError, match=r"differ in 1, first in b: \(1,\) and none;"):
        edit_model.average([models[0], {"a": models[0]["a"]}])


def test_configurations():
    config = dataclasses.replace(CONFIG, pruned_heads={"1": [3, 0, 3]})
    assert config.pruned_heads == {1: (0, 3)} and [config.heads_of(n) for n in range(3)] == [4, 2, 4]
    assert type(config).from_dict(config.to_dict()) == config and config.to_dict()["pruned_heads"] == {"1": [0, 3]}
    for wrong in ([1], {"x": [1]}, {0: 1}, {0: ["y"]}):
        with pytest.raises(ValueError, match="pruned_heads must map layers to lists of heads; got "):
            dataclasses.replace(CONFIG, pruned_heads=wrong)


def test_models_with_other_added_tokens_are_not_averaged():
    tokens = [AddedToken("[E1]", len(tiny.VOCAB), single_word=single) for single in (False, False, True)]
    tokenizers = [WordPieceTokenizer(list(tiny.VOCAB), added_tokens=[token]) for token in tokens]
    one, same, other = (ModelDirectory(str(n), {}, CONFIG, each) for n, each in enumerate(tokenizers))
    check_alike(one, same)
    with pytest.raises(ValueError, match="0 and 2 have added tokens with different flags"):
        check_alike(one, other)
