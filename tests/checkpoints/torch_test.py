"""Features of real weights beside those of torch Transformers."""

import json

import numpy as np
import pytest

import bert_tf
from tests import other_envs

TEXTS = ["Who was Jim Henson?", "Jim Henson was a puppeteer.", "", "naïve café, Straße 12½ — 東京 и ещё", "film " * 300]
THEIRS = """
import json, sys
import numpy as np, torch
from transformers import AutoModel, AutoTokenizer
model, tokenizer = AutoModel.from_pretrained(sys.argv[1]).eval(), AutoTokenizer.from_pretrained(sys.argv[1])
arrays = {}
for n, text in enumerate(json.loads(sys.argv[2])):
    with torch.no_grad():
        row = tokenizer(text, truncation=True, max_length=128, return_tensors="pt")
        states = model(**row, output_hidden_states=True, output_attentions=True)
    arrays[f"hidden_{n}"] = torch.cat(states.hidden_states).numpy()
    arrays[f"attention_{n}"] = torch.cat(states.attentions).numpy()
np.savez(sys.argv[3], **arrays)
"""
CHOICES = {
    "embeddings": lambda h: h[0],
    "second_to_last": lambda h: h[-2],
    "last": lambda h: h[-1],
    "weighted_sum_last_4": lambda h: h[-4:].mean(0),
    "concat_last_4": lambda h: np.concatenate(h[-4:], -1),
    "weighted_sum_all": lambda h: h[1:].mean(0),
}


@pytest.mark.slow
def test_hidden_states_features_and_attention_are_torchs(minilm, tmp_path):
    path = tmp_path / "theirs.npz"
    other_envs.run(other_envs.torch_python(), THEIRS, minilm, json.dumps(TEXTS), path)
    theirs, bert = np.load(path), bert_tf.load(minilm)
    hidden = [theirs[f"hidden_{n}"] for n in range(len(TEXTS))]
    for layers, choose in CHOICES.items():
        expected = [choose(states) for states in hidden]
        for each, true in zip(bert.features(TEXTS, layers, None, 128), expected, strict=True):
            np.testing.assert_allclose(each.values, true, atol=2e-5 * np.abs(true).max())
        for pooling, pool in {"cls": lambda v: v[0], "mean": lambda v: v.mean(0), "max": lambda v: v.max(0)}.items():
            true = np.array([pool(values) for values in expected])
            np.testing.assert_allclose(bert.features(TEXTS, layers, pooling, 128), true, atol=2e-5 * np.abs(true).max())
    row = bert.tokenizer(TEXTS[:1], max_seq_length=len(hidden[0][0]))
    probs = bert.encoder(row, return_attention_probs=True)["attention_probs"]
    for ours, true in zip(probs, theirs["attention_0"], strict=True):
        np.testing.assert_allclose(ours[0], true, atol=1e-5)
