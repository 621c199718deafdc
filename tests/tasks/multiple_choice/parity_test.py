"""Transformers' classes for multiple choice, of every family that has one: read with the head, and written again."""

import json
import shutil
import types

import numpy as np
import pytest

from bert_tf.checkpoints import writers
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.model_arrays import ModelArrays
from bert_tf.models.config import EncoderConfig
from bert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from tests import parity

SCRIPT = "torch_multiple_choice.py"
CASES = ("bert", "albert", "distilbert", "electra", "ernie", "roberta")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs")
    parity.run_torch(SCRIPT, "make", folder)
    return folder


@pytest.mark.parametrize("case", CASES)
def test_logits_are_theirs(theirs, case):
    task, inputs = MultipleChoiceTask(EncoderConfig.load(theirs / case)), np.load(theirs / case / "inputs.npz")
    model = task.build_model()
    assign_weights(theirs / case, model.variables)
    logits = model({name: inputs[name] for name in task.features}).numpy()
    assert np.ptp(inputs["logits"]) > 0.1
    np.testing.assert_allclose(logits, inputs["logits"], atol=1e-5)


def test_what_we_write_they_read(theirs, tmp_path):
    """All weights, none left over, the same logits."""
    for case in CASES:
        task = MultipleChoiceTask(EncoderConfig.load(theirs / case))
        model = task.build_model()
        assign_weights(theirs / case, model.variables)
        arrays = {variable.path: np.asarray(variable) for variable in model.variables}
        pad = max(0, task.config.first_position - 1)
        tokenizer = types.SimpleNamespace(pad_id=pad, special_tokens={}, save=lambda directory: None)
        (tmp_path / case).mkdir()
        parts = task.config, arrays, tokenizer, None, (task.architecture,)
        writers.write_model(str(tmp_path / case), "huggingface", ModelArrays(*parts))
        shutil.copy(theirs / case / "inputs.npz", tmp_path / case)
    found = json.loads(parity.run_torch(SCRIPT, "ask", *(tmp_path / case for case in CASES)))
    for case, logits in zip(CASES, found, strict=True):
        np.testing.assert_allclose(logits, np.load(theirs / case / "inputs.npz")["logits"], atol=1e-5, err_msg=case)
