"""The inside of a real model beside torch Transformers' and captum's."""

import dataclasses
import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import bert_tf
from bert_tf import inspect
from bert_tf.models.heads import ClassificationHead
from tests import other_envs

TEXTS = ["Who was Jim Henson?", "naïve café, Straße 12½ — 東京 и ещё", "A warm, funny film. " * 20]
HEADS_OFF = {0: [1, 2], 3: [0], 5: [7, 11]}
STEPS = 32
THEIRS = """
import json, sys
import torch
from captum.attr import LayerIntegratedGradients
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertForSequenceClassification
directory, texts, heads, steps, folder = sys.argv[1], *map(json.loads, sys.argv[2:5]), sys.argv[5]
tokenizer = AutoTokenizer.from_pretrained(directory)
model = BertForSequenceClassification.from_pretrained(
    directory, num_labels=3, attn_implementation="eager", dtype=torch.float32).eval()
head = load_file(folder + "/head.safetensors")
model.classifier.weight.data, model.classifier.bias.data = head["weight"], head["bias"]
mask = torch.ones(model.config.num_hidden_layers, model.config.num_attention_heads)
for layer, several in heads.items():
    mask[int(layer), several] = 0
found = {}
def kept(name):
    def keep(module, given, out):
        values = out[0].unflatten(-1, (model.config.num_attention_heads, -1)).transpose(0, 1)
        found.setdefault(name, []).append(values.detach())
    return keep
arrays = {}
for n, text in enumerate(texts):
    found.clear()
    handles = [getattr(layer.attention.self, name).register_forward_hook(kept(name))
               for layer in model.bert.encoder.layer for name in ("query", "key")]
    row = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        outputs = model(**row, output_attentions=True)
    for handle in handles:
        handle.remove()
    with torch.no_grad():
        arrays[f"masked_{n}"] = model(**row, head_mask=mask).logits[0]
    arrays[f"weights_{n}"] = torch.cat(outputs.attentions)
    arrays |= {f"{name}_{n}": torch.stack(values) for name, values in found.items()}
    arrays[f"logits_{n}"] = outputs.logits[0]
    label = int(outputs.logits.argmax())
    explain = LayerIntegratedGradients(
        lambda ids, mask, types: model(ids, mask, types).logits[:, label], model.bert.embeddings)
    baseline = torch.full_like(row["input_ids"], tokenizer.pad_token_id)
    baseline[:, [0, -1]] = row["input_ids"][:, [0, -1]]
    more = (row["attention_mask"], row["token_type_ids"])
    values, gap = explain.attribute(row["input_ids"], baseline, additional_forward_args=more, n_steps=steps,
                                    internal_batch_size=8, return_convergence_delta=True)
    arrays[f"values_{n}"] = values.sum(-1)[0].detach()
save_file({name: value.contiguous() for name, value in arrays.items()}, folder + "/theirs.safetensors")
"""


@pytest.mark.slow
def test_weights_queries_keys_heads_off_and_attributions_are_theirs(minilm, tmp_path):
    python = other_envs.captum_python()
    rng, bert = np.random.default_rng(0), bert_tf.load(minilm)
    head = ClassificationHead(3, 0.0)
    head.build((None, bert.config.hidden_size))
    weight, bias = (rng.normal(0, 0.5, shape).astype(np.float32) for shape in ((3, bert.config.hidden_size), (3,)))
    head.set_weights([weight, bias])
    save_file({"weight": weight, "bias": bias}, tmp_path / "head.safetensors")
    bert = dataclasses.replace(bert, head=head)
    words = minilm, json.dumps(TEXTS), json.dumps(HEADS_OFF), STEPS, tmp_path
    other_envs.run(python, THEIRS, *words)
    theirs, off = load_file(tmp_path / "theirs.safetensors"), inspect.ablate_heads(bert, HEADS_OFF)
    rows, explained = inspect.neurons(bert, TEXTS), inspect.attributions(bert, TEXTS, steps=STEPS)
    for n, (row, why) in enumerate(zip(rows, explained, strict=True)):
        far = {name: np.abs(getattr(row, name) - theirs[f"{name}_{n}"]).max() for name in ("weights", "query", "key")}
        scale = max(np.abs(theirs[f"{name}_{n}"]).max() for name in ("query", "key"))
        far["values"] = np.abs(why.values - theirs[f"values_{n}"]).max()
        masked = head(off.encoder(row.features)["pooled_output"]).numpy()[0]
        far["masked"] = np.abs(masked - theirs[f"masked_{n}"]).max()
        print(n, len(row), far, f"scale {scale:.3g}, gap {why.gap:.2g}, of heads off "
              f"{np.abs(theirs[f'masked_{n}'] - theirs[f'logits_{n}']).max():.3g}")  # fmt: skip
        assert far["weights"] < 1e-5 and far["query"] < 1e-5 * max(1, scale) and far["key"] < 1e-5 * max(1, scale)
        assert far["values"] < 1e-4 and far["masked"] < 1e-4
        assert np.abs(theirs[f"masked_{n}"] - theirs[f"logits_{n}"]).max() > 0.01  # heads off changed something


@pytest.mark.slow
def test_attributions_are_complete_at_the_default_number_of_steps(minilm):
    bert = bert_tf.load(minilm)
    head = ClassificationHead(3, 0.0)
    head.build((None, bert.config.hidden_size))
    rng = np.random.default_rng(0)
    head.set_weights([rng.normal(0, 0.5, each.shape).astype(np.float32) for each in head.weights])
    found = inspect.attributions(dataclasses.replace(bert, head=head), TEXTS, target=[0, 1, 2])
    print([(why.steps, why.gap) for why in found])
    assert all(why.gap <= 0.01 for why in found)
