"""The inside of every family's models beside torch's: weights, queries, keys, heads off, integrated gradients."""

import dataclasses

import numpy as np
import pytest

from bert_tf import inspect
from bert_tf.interpret.attribution import _explain_row
from bert_tf.interpret.targets import TokenHead, head_of
from tests import other_envs, parity
from tests.interpret.models import CASES, golden

TOLERANCE = 1e-5
HEADS_OFF, STEPS, TOKEN, LABEL = {0: [1]}, 20, 3, 1  # as in goldens/torch_inspect.py


# Each of these computes as another case does.
_ALIKE = ("prelayernorm", "ernie-tokens", "roberta-classifier")


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if case in _ALIKE else case for case in CASES]
)
def test_the_inside_is_torchs(case):
    bert, inputs, true = golden(case)
    [ours] = inspect.neurons(bert.encoder, inputs)
    assert ours.tokens == list(map(str, inputs["input_ids"][0].tolist())) and ours.words == []
    for name, theirs in (("weights", "attentions"), ("query", "query"), ("key", "key")):
        np.testing.assert_allclose(getattr(ours, name), true[theirs], atol=TOLERANCE, rtol=TOLERANCE)
    # Transformers takes the mask of a group's first layer for all layers of the group.
    heads = {n: [1] for n in range(3)} if bert.config.num_hidden_groups == 2 else HEADS_OFF
    off = inspect.ablate_heads(bert.encoder, heads)
    [masked] = inspect.attention(off, inputs)
    assert not masked.weights[0, 1].any() and np.abs(masked.weights[0, 0] - ours.weights[0, 0]).max() < TOLERANCE
    if bert.head is None and "cls/squad/output_weights" not in bert.others:
        return
    for model, theirs in ((bert, "logits"), (inspect.ablate_heads(bert, heads), "masked_logits")):
        np.testing.assert_allclose(_logits(model, ours), true[theirs], atol=TOLERANCE, rtol=TOLERANCE)
    _check_attributions(bert, ours, true)


def _logits(model, row):
    """Returns all logits of a row, as torch gives them."""
    head, features = head_of(model), row.features
    outputs = model.encoder(features, training=False)
    if model.head is not None:
        return head.head(outputs["sequence_output" if isinstance(head, TokenHead) else "pooled_output"]).numpy()[0]
    logits = head.head(outputs["sequence_output"], features["input_mask"])
    return np.stack([logits["start_logits"][0], logits["end_logits"][0]], -1)


def _check_attributions(bert, row, true):
    kept = true["baseline_ids"] == row.ids
    kept[1:-1] = False
    row = dataclasses.replace(row, of_text=np.where(kept, -1, 0), starts=np.arange(len(row)),
                              ends=np.arange(len(row)) + 1, word_of_token=np.where(kept, -1, np.arange(len(row)) - 1),
                              words=[None] * (len(row) - 2))  # fmt: skip
    names = [field.name for field in dataclasses.fields(inspect.EncodedText)]
    row = inspect.EncodedText(**{name: getattr(row, name) for name in names})
    wanted = {0: (TOKEN - 1, TOKEN + 1), 1: LABEL, 2: (TOKEN - 1, LABEL)}[bert.head is not None and true["logits"].ndim]
    found = _explain_row(bert.encoder, head_of(bert), row, wanted, STEPS, int(true["baseline_ids"][1]))
    np.testing.assert_allclose(found.values, true["values"], atol=1e-5, rtol=1e-4)
    assert found.steps == STEPS and found.gap < 0.01
    assert found.values.sum() == pytest.approx(found.score - found.baseline_score, rel=0.01)


@pytest.mark.slow
def test_the_goldens_come_from_torch(tmp_path):
    other_envs.captum_python()
    parity.run_torch("torch_inspect.py", parity.GOLDENS / "families", tmp_path)
    parity.check_same(tmp_path, [f"inspect/{case}.safetensors" for case in CASES], 1e-6)
