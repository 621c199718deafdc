"""DistilBERT against torch Transformers: a committed golden of a seeded random model."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.pretraining_heads import Pretrainer
from tests import parity
from tests.harness import relative_error

GOLDEN = parity.GOLDENS / "distilbert"
TOLERANCE = 1e-5  # of the largest value, float32


@pytest.fixture(scope="module")
def expected():
    return load_file(GOLDEN / "expected.safetensors")


def test_the_encoder(expected):
    encoder = Encoder(EncoderConfig.load(GOLDEN))
    encoder.build()
    report = assign_weights(GOLDEN, encoder.variables, heads.others(()))
    assert len(report.loaded) == len(encoder.variables) == 4 + 16 * 2  # neither segments nor a pooler
    outputs = encoder({"input_ids": expected["input_ids"], "input_mask": expected["attention_mask"]})
    for ours, true in zip(outputs["encoder_outputs"], expected["hidden_states"][1:], strict=True):
        assert relative_error(ours, true) < TOLERANCE
    assert relative_error(outputs["sequence_output"], expected["hidden_states"][-1]) < TOLERANCE
    np.testing.assert_array_equal(outputs["pooled_output"], outputs["sequence_output"][:, 0])
    assert relative_error(encoder.embeddings(expected["input_ids"]), expected["hidden_states"][0]) < TOLERANCE


def test_segments_mean_nothing_to_it(expected):
    encoder = Encoder(EncoderConfig.load(GOLDEN))
    inputs = {"input_ids": expected["input_ids"], "input_mask": expected["attention_mask"]}
    again = encoder(inputs | {"segment_ids": expected["attention_mask"]})
    np.testing.assert_array_equal(again["sequence_output"], encoder(inputs)["sequence_output"])


def test_masked_lm(expected):
    model = Pretrainer(EncoderConfig.load(GOLDEN), next_sentence=False)
    report = assign_weights(GOLDEN, model.variables)
    assert len(report.loaded) == len(model.variables) and not report.excused_left_over
    true = expected["mlm_logits"]
    positions = np.tile(np.arange(true.shape[1], dtype=np.int32), (len(true), 1))
    inputs = {"input_ids": expected["input_ids"], "input_mask": expected["attention_mask"]}
    assert relative_error(model(inputs | {"masked_lm_positions": positions})["mlm_logits"], true) < TOLERANCE


@pytest.mark.slow
def test_torch_makes_the_same_golden_again(tmp_path):
    parity.run_torch("torch_distilbert.py", tmp_path)
    assert EncoderConfig.load(tmp_path / "distilbert") == EncoderConfig.load(GOLDEN)
    parity.check_same(tmp_path, ("distilbert/model.safetensors", "distilbert/expected.safetensors"), 1e-5)
