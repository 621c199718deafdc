"""DeBERTa's own pretraining heads: the enhanced mask decoder, and replaced tokens seen beside the first token."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.names import family_mappings
from bert_tf.export.export_options import ExportOptions
from bert_tf.interpret.lens import masked_lm_head
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.pretrainer import Pretrainer
from bert_tf.models.pretraining_heads import ReplacedTokenHead, build_in_cls
from bert_tf.tasks.fill_mask import FillMaskTask
from tests import parity, tiny
from tests.harness import relative_error

pytestmark = pytest.mark.usefixtures("unfused")
FOLDER = parity.GOLDENS / "families" / "deberta"
TOLERANCE = 1e-5  # of the largest value, float32
SETTINGS = {"pos_att_type": ("c2p", "p2c"), "position_biased_input": False, "enhanced_mask_decoder": True}


@pytest.fixture(scope="module")
def golden():
    """Returns (config without dropout, inputs, weights and what torch gave)."""
    given, expected = (
        load_file(folder / "expected.safetensors") for folder in (FOLDER, parity.GOLDENS / "deberta_heads")
    )
    names = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "segment_ids"}
    config = EncoderConfig.load(FOLDER)
    config = dataclasses.replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return config, {ours: given[theirs] for theirs, ours in names.items()}, expected


@pytest.fixture(scope="module")
def model(golden):
    """Returns a masked LM with the decoder, and the weights of the golden."""
    config, _, expected = golden
    model = Pretrainer(dataclasses.replace(config, enhanced_mask_decoder=True), next_sentence=False)
    report = assign_weights(FOLDER, model.variables, ["cls/predictions/position_embeddings"], config.model_type)
    assert report.allowed_missing == ["cls/predictions/position_embeddings"]
    model.masked_lm.position_embeddings.assign(expected["deberta.embeddings.position_embeddings.weight"])
    return model


def _logits(model, inputs, **options):
    positions = np.tile(np.arange(3, dtype=np.int32), (len(inputs["input_ids"]), 1))
    return model(inputs | {"masked_lm_positions": positions}, **options)["mlm_logits"]


def test_the_mask_decoder_computes_what_microsoft_s_does(golden, model):
    _, inputs, expected = golden
    real = inputs["input_mask"] > 0
    decoded = model.masked_lm.input_of(model.encoder, model.encoder(inputs), inputs)
    assert relative_error(np.array(decoded)[real], expected["decoded"][real]) < TOLERANCE
    logits = np.array(_logits(model, inputs))
    assert relative_error(logits[real[:, :3]], expected["logits"][real[:, :3]]) < TOLERANCE
    plain = model.masked_lm(
        model.encoder(inputs)["sequence_output"],
        tf.convert_to_tensor(model.encoder.embeddings.word_embeddings),
        np.zeros((len(real), 1), np.int32),
    )
    assert relative_error(np.array(plain)[:, 0], expected["logits"][:, 0]) > 0.1  # the decoder matters


@pytest.mark.slow
def test_recomputed_gradients_of_the_decoder(golden, model):
    _, inputs, _ = golden
    found = []
    for model.encoder.gradient_checkpointing in (False, True):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(_logits(model, inputs, training=True) ** 2)
        gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
        found.append([tf.convert_to_tensor(each).numpy() for each in gradients])
    paths = [variable.path for variable in model.trainable_variables]
    assert np.abs(found[0][paths.index("cls/predictions/position_embeddings")]).max() > 1e-3
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5 * np.abs(one).max() + 1e-6)


def test_positions_of_the_decoder_restart_in_packed_rows(golden, model):
    _, inputs, _ = golden
    ids = inputs["input_ids"][:1, :4]
    packed = {"input_ids": np.concatenate([ids, ids], 1), "sentence_ids": np.array([[1] * 4 + [2] * 4], np.int32)}
    alone, both = ({"input_ids": ids}, packed)
    alone, both = (model.masked_lm.input_of(model.encoder, model.encoder(each), each) for each in (alone, both))
    np.testing.assert_allclose(both[0, 4:], alone[0], atol=1e-5)


def test_replaced_tokens_are_told_as_by_the_releases(golden):
    config, inputs, expected = golden
    encoder = Encoder(config)
    encoder.build()
    assign_weights(FOLDER, encoder.variables, heads.others(()), config.model_type)
    head = build_in_cls(ReplacedTokenHead.of(config), config.hidden_size)
    weight_mapping = family_mappings.hugging_face("deberta-v2")
    for variable in head.variables:
        theirs = expected[weight_mapping.from_ours(variable.path)]
        variable.assign(weight_mapping.transform(variable.path).to_ours(theirs))
    found, real = np.array(head(encoder(inputs)["sequence_output"])), inputs["input_mask"] > 0
    assert relative_error(found[real], expected["replaced"][real]) < TOLERANCE


def test_packed_examples_are_told_by_their_own_first_tokens(golden):
    config, *_ = golden
    head = build_in_cls(ReplacedTokenHead.of(config), config.hidden_size)
    x = np.random.default_rng(0).normal(size=(1, 7, config.hidden_size)).astype(np.float32)
    together = head(x, tf.constant([[1, 1, 1, 2, 2, 2, 0]]))[0]
    np.testing.assert_allclose(together[:3], head(x[:, :3])[0], atol=1e-6)
    np.testing.assert_allclose(together[3:6], head(x[:, 3:6])[0], atol=1e-6)


def test_the_generator_of_a_release_has_its_positions_in_the_decoder(golden, model, tmp_path):
    """The file of microsoft/DeBERTa names the table as if it belonged to the input."""
    _, inputs, expected = golden
    own = "deberta.embeddings.position_embeddings.weight"
    arrays = load_file(FOLDER / "model.safetensors")
    save_file(arrays | {own: expected[own].astype(np.float16)}, tmp_path / "model.safetensors")
    values = json.loads((FOLDER / "config.json").read_text("utf-8")) | {"enhanced_mask_decoder": True}
    (tmp_path / "config.json").write_text(json.dumps(values), "utf-8")
    config = EncoderConfig.load(tmp_path)
    again = Pretrainer(config, next_sentence=False)
    assign_weights(tmp_path, again.variables, (), config.model_type)
    np.testing.assert_allclose(_logits(again, inputs), _logits(model, inputs), atol=2e-2)


@pytest.mark.slow
def test_torch_makes_the_same_golden_again(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "families" / "deberta")
    parity.run_torch("torch_deberta.py", tmp_path)
    parity.check_same(tmp_path, ["deberta_heads/expected.safetensors"], 1e-5)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"position_biased_input": True}, "requires position_biased_input=False"),
        ({"pos_att_type": ()}, "requires pos_att_type"),
        ({"norm_first": True}, "requires norm_first=False"),
        ({"is_decoder": True}, "requires is_decoder=False"),
    ],
)
def test_the_decoder_requires_relative_positions(changes, message):
    with pytest.raises(ValueError, match=f"enhanced_mask_decoder {message}"):
        tiny.config(**SETTINGS | changes)


@pytest.mark.parametrize("options", [ExportOptions("float32", "cpu"), ExportOptions("int8")])
def test_the_fast_encoder_has_no_mask_decoder(options):
    config = tiny.config(**SETTINGS)
    with pytest.raises(ValueError, match="`export_for=cpu` and `export_dtype=int8` must not be used for a model"):
        options.check(FillMaskTask(config, tiny.VOCAB, 5))


def test_the_lens_refuses_a_mask_decoder(model):
    class Loaded:
        config, others, path = model.config, {"cls/predictions/transform/dense/kernel": None}, "models/tiny"

    with pytest.raises(ValueError, match="must have a masked-LM head that reads the output of a layer"):
        masked_lm_head(Loaded())
