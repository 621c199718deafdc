"""Adapters alone: PEFT's names and shapes, merged where they belong, refused where they do not."""

import dataclasses
import json
import os
import shutil

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import bert_tf
from bert_tf.checkpoints import adapters
from bert_tf.checkpoints.model_directory import read_model_directory, write_edited_model
from bert_tf.checkpoints.readers import hash_weights, open_checkpoint, read_arrays
from bert_tf.models.config import EncoderConfig
from bert_tf.models.heads import ClassificationHead
from bert_tf.models.lora import Lora
from bert_tf.utils.files import write_text
from tests import tiny
from tests.harness import randomize

LORA = Lora(2, 3.0, ("query", "value", "output"))
LABELS = ["bad", "good", "neither"]
IDS = {"input_ids": np.array([[2, 5, 9, 14, 3], [2, 6, 7, 11, 3]], np.int32)}


class _Task:
    """What `adapters.write_adapters` asks of a task."""

    head, uses_pooler, labels, architecture = ("classifier/.*",), True, LABELS, None

    def __init__(self, config):
        self.config = config


def _with_adapters(base):
    """Returns (encoder, head) on the weights of `base`, with random adapters, pooler and head."""
    plain = bert_tf.load(base)
    values = plain.config.to_dict() | {"lora": LORA.to_dict()}
    encoder = bert_tf.Encoder(EncoderConfig.from_dict(values))
    head = ClassificationHead.of(plain.config, 3)
    keras.utils.set_random_seed(0)
    encoder.build()
    head.build((None, 32))
    randomize(encoder)
    randomize(head)
    for variable in plain.encoder.variables:
        if "/pooler/" not in variable.path:
            next(v for v in encoder.variables if v.path == variable.path).assign(variable)
    return encoder, head


def _write(folder, base):
    encoder, head = _with_adapters(base)

    def also(aside):
        write_text(os.path.join(aside, "task.json"), '{"task": "classification"}\n')

    adapters.write_adapters(
        os.fspath(folder), [*encoder.variables, *head.variables], _Task(encoder.config), "base", also
    )
    return encoder, head


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """(base, folder of the adapters, encoder, head)."""
    folder = tmp_path_factory.mktemp("adapters")
    base = tiny.checkpoint(folder / "base", num_hidden_layers=2)
    return base, folder / "adapter", *_write(folder / "adapter", base)


def test_the_form_is_pefts(kept):
    _, folder, encoder, _ = kept
    assert sorted(os.listdir(folder)) == ["adapter_config.json", "adapter_model.safetensors", "labels.txt", "task.json"]
    settings = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    assert (settings["peft_type"], settings["r"], settings["lora_alpha"], settings["bias"]) == ("LORA", 2, 3.0, "none")
    assert settings["target_modules"] == ["attention.output.dense", "attention.self.query", "attention.self.value"]
    assert settings["modules_to_save"] == ["bert.pooler.dense", "classifier"]
    shapes = {name: array.shape for name, array in load_file(folder / "adapter_model.safetensors").items()}
    layer = "base_model.model.bert.encoder.layer"
    assert shapes.pop("base_model.model.classifier.weight") == (3, 32)
    assert shapes.pop("base_model.model.classifier.bias") == (3,)
    assert shapes.pop("base_model.model.bert.pooler.dense.weight") == (32, 32)
    assert shapes.pop("base_model.model.bert.pooler.dense.bias") == (32,)
    parts = ("attention.self.query", "attention.self.value", "attention.output.dense")
    assert shapes == {f"{layer}.{n}.{part}.lora_{m}.weight": (2, 32) if m == "A" else (32, 2)
                      for n in (0, 1) for part in parts for m in "AB"}  # fmt: skip


def test_merged_is_unmerged(kept, tmp_path):
    base, folder, encoder, head = kept
    merged = adapters.merge_adapters(read_model_directory(os.fspath(base)), os.fspath(folder))
    write_edited_model(merged, os.fspath(tmp_path / "merged"))
    bert = bert_tf.load(tmp_path / "merged")
    assert bert.labels == LABELS and bert.config.lora is None
    assert json.loads((tmp_path / "merged" / "task.json").read_text(encoding="utf-8")) == {"task": "classification"}
    ours, true = bert.encoder(IDS), encoder(IDS)
    np.testing.assert_allclose(ours["sequence_output"], true["sequence_output"], atol=1e-5)
    np.testing.assert_allclose(bert.head(ours["pooled_output"]), head(true["pooled_output"]), atol=1e-5)


@pytest.mark.parametrize(
    ("own", "expected"),
    [(["x", "y", "z"], ["x", "y", "z"]), (["x", "y"], ["LABEL_0", "LABEL_1", "LABEL_2"]),
     (None, ["LABEL_0", "LABEL_1", "LABEL_2"])],
)  # fmt: skip
def test_labels_that_the_adapters_do_not_have_are_the_models_where_they_fit(kept, tmp_path, own, expected):
    base, folder, _, _ = kept
    _change(tmp_path / "adapter", folder)
    model = dataclasses.replace(read_model_directory(os.fspath(base)), labels=own)
    assert adapters.merge_adapters(model, os.fspath(tmp_path / "adapter")).labels == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", [{"model_type": "distilbert", "has_pooler": False, "type_vocab_size": 0, "classifier_act": "relu"},
               {"model_type": "albert", "num_hidden_groups": 1, "embedding_size": 16}, tiny.MODERNBERT,
               tiny.NOMIC, tiny.GTE],
    ids=lambda family: family["model_type"],
)  # fmt: skip
def test_names_of_other_families(tmp_path, family):
    base = tiny.checkpoint(tmp_path / "base", **family)
    encoder, _ = _write(tmp_path / "adapter", base)
    merged = adapters.merge_adapters(read_model_directory(os.fspath(base)), os.fspath(tmp_path / "adapter"))
    plain = bert_tf.Encoder(merged.config)
    plain.build()
    for variable in plain.variables:
        variable.assign(merged.arrays[variable.path])
    np.testing.assert_allclose(plain(IDS)["sequence_output"], encoder(IDS)["sequence_output"], atol=1e-5)


def test_weights_that_are_one_in_transformers_have_one_adapter(tmp_path):
    """Its rank is that of query and value together, and alpha grows with it, so that the factor is the same."""
    _write(tmp_path / "adapter", tiny.checkpoint(tmp_path / "base", **tiny.MODERNBERT))
    settings = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text(encoding="utf-8"))
    assert (settings["r"], settings["lora_alpha"]) == (4, 6.0)
    assert settings["target_modules"] == ["attn.Wo", "attn.Wqkv"]
    assert settings["modules_to_save"] == ["classifier", "head.dense", "head.norm"]
    assert settings["auto_mapping"]["base_model_class"] == "ModernBertForSequenceClassification"
    arrays = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    layer = "base_model.model.model.layers.1.attn"
    shapes = [arrays[f"{layer}.{name}.lora_{m}.weight"].shape for name in ("Wqkv", "Wo") for m in "AB"]
    assert shapes == [(4, 32), (96, 4), (4, 32), (32, 4)]
    assert not arrays[f"{layer}.Wqkv.lora_B.weight"][32:64].any(), "the key has no adapter"
    assert not arrays[f"{layer}.Wo.lora_A.weight"][2:].any(), "filled up"


def test_a_head_that_begins_as_the_masked_lm_s(tmp_path):
    """PEFT keeps the last layer alone, if it is not told of those before, which Transformers takes from the base."""
    base = tiny.pretrained(tmp_path / "base", **tiny.MODERNBERT)
    _write(tmp_path / "whole", base)

    def keep_last(tensors):
        for name in [name for name in tensors if ".head." in name]:
            tensors.pop(name)

    _change(tmp_path / "adapter", tmp_path / "whole", weights=keep_last)
    model = read_model_directory(os.fspath(base))
    arrays = adapters.merge_adapters(model, os.fspath(tmp_path / "adapter")).arrays
    for name in ("dense/kernel", "dense/bias", "LayerNorm/gamma"):
        np.testing.assert_array_equal(arrays[f"classifier/{name}"], model.arrays[f"cls/predictions/transform/{name}"])
    headless = {path: array for path, array in model.arrays.items() if path.startswith("bert/")}
    with pytest.raises(ValueError, match="Neither has classifier/dense/kernel; pass the checkpoint that"):
        adapters.merge_adapters(dataclasses.replace(model, arrays=headless), os.fspath(tmp_path / "adapter"))


def _change(folder, kept, settings=None, weights=lambda tensors: None):
    os.mkdir(folder)
    values = json.loads((kept / "adapter_config.json").read_text(encoding="utf-8"))
    (folder / "adapter_config.json").write_text(json.dumps({**values, **(settings or {})}), encoding="utf-8")
    tensors = load_file(kept / "adapter_model.safetensors")
    weights(tensors)
    save_file(tensors, folder / "adapter_model.safetensors")


QUERY = "base_model.model.bert.encoder.layer.0.attention.self.query"


@pytest.mark.parametrize(
    ("settings", "weights", "message"),
    [
        ({"peft_type": "LOHA"}, None, "must describe a LoRA adapter, peft_type LORA; got "),
        ({"use_dora": True}, None, "must not set use_dora, which changes what an adapter computes; got True;"),
        ({"rank_pattern": {"query": 4}}, None, "must not set rank_pattern"),
        ({"alora_invocation_tokens": [5]}, None, "must not set alora_invocation_tokens"),
        ({"use_qalora": True}, None, "must not set use_qalora"),
        *(({"init_lora_weights": initial}, None, f"must have init_lora_weights true, .* got '{initial}'; merge")
          for initial in ("pissa", "pissa_niter_4", "olora", "corda", "loftq")),
        ({"r": "2"}, None, "must be a whole number above 0"),
        ({"r": 4}, None, r"has an incomplete one for .*/kernel, but the model has \(32, 32\)\."),
        ({}, lambda t: t.pop(f"{QUERY}.lora_A.weight"), "an incomplete one for bert/encoder/layer_0/attention/self"),
        (
            {}, lambda t: t.update(other=np.ones(2)),
            "adapters and heads that the model family .* also contains .'other'",
        ),
        ({}, lambda t: t.update({f"{QUERY}.lora_B.weight": np.ones((8, 2))}), r"has \(32, 8\) for .*query/kernel"),
        ({}, lambda t: t.update({f"{QUERY.replace('.0.', '.7.')}.lora_{m}.weight": np.ones(s)
                                 for m, s in (("A", (2, 32)), ("B", (32, 2)))}), "but the model has nothing."),
    ],
)  # fmt: skip
def test_adapters_that_are_none_of_this_model(kept, tmp_path, settings, weights, message):
    base, folder, _, _ = kept
    _change(tmp_path / "other", folder, settings, weights or (lambda tensors: None))
    with pytest.raises(ValueError, match=message):
        adapters.merge_adapters(read_model_directory(os.fspath(base)), os.fspath(tmp_path / "other"))


def test_settings_that_nobody_knows_are_named(kept, tmp_path, caplog):
    base, folder, _, _ = kept
    known = {"init_lora_weights": "gaussian", "peft_version": "0.18.1", "qalora_group_size": 16, "eva_config": None}
    _change(tmp_path / "other", folder, {**known, "use_lattice": True})
    adapters.merge_adapters(read_model_directory(os.fspath(base)), os.fspath(tmp_path / "other"))
    path = tmp_path / "other" / "adapter_config.json"
    assert [m for m in caplog.messages if "unknown" in m] == [f"{path}: unknown settings are ignored: use_lattice."]


def _beside(folder, kept, base):
    """Copies the model and its adapters into one directory."""
    shutil.copytree(kept[0], folder)
    shutil.copytree(kept[1], folder, dirs_exist_ok=True)
    settings = json.loads((folder / adapters.CONFIG).read_text(encoding="utf-8"))
    settings["base_model_name_or_path"] = base
    (folder / adapters.CONFIG).write_text(json.dumps(settings), encoding="utf-8")
    return folder


@pytest.mark.parametrize("is_stated", [True, False])
def test_adapters_beside_a_model_are_merged(kept, tmp_path, is_stated):
    """As PEFT does, whose outputs for BERT, RoBERTa and ModernBERT were within 3e-6."""
    folder = _beside(tmp_path / "both", kept, os.fspath(tmp_path / "both") if is_stated else None)
    expected = adapters.merge_adapters(read_model_directory(os.fspath(kept[0])), os.fspath(kept[1]))
    found = read_arrays(folder)
    assert found.keys() == expected.arrays.keys()
    for path, array in expected.arrays.items():
        np.testing.assert_array_equal(found[path], array, err_msg=path)
    checkpoint = open_checkpoint(folder)
    assert all(checkpoint.shape(path) == array.shape for path, array in found.items())
    prefix = folder / "bert_model.ckpt"
    query = "bert/encoder/layer_0/attention/self/query/kernel"
    assert (open_checkpoint(prefix).get(query) != found[query]).any()  # a file is read alone
    assert hash_weights(prefix) == hash_weights(kept[0]) != hash_weights(folder)
    with pytest.raises(ValueError, match="are merged whenever this directory is loaded. Omit `adapter`, or"):
        adapters.merge_adapters(read_model_directory(os.fspath(folder)), os.fspath(folder))


def test_adapters_beside_another_model_than_theirs_are_refused(kept, tmp_path):
    folder = _beside(tmp_path / "both", kept, "bert-base-uncased")
    message = (f"{folder} contains weights and LoRA adapters, but base_model_name_or_path in .* names another model, "
               "'bert-base-uncased'. If .* `model=.*bert_model.ckpt`, `adapter=.*both`. If they do, "
               "pass .*bert_model.ckpt, or remove the adapter files.")  # fmt: skip
    with pytest.raises(ValueError, match=message):
        bert_tf.load(folder)
    (folder / adapters.CONFIG).unlink()
    with pytest.raises(ValueError, match=f"must have adapter_config.json and .* {folder} lacks adapter_config.json"):
        bert_tf.load(folder)


@pytest.mark.parametrize("read", [bert_tf.load, bert_tf.Predictor, EncoderConfig.load, bert_tf.SentenceEncoder])
def test_adapters_alone_name_the_remedy(kept, read):
    message = "adapter contains LoRA adapters without the model that they were trained on, 'base'. Merge them into it "
    with pytest.raises(ValueError, match=f"{message}with bert-tf model edit: `model=base`, `adapter=.*adapter`"):
        read(os.fspath(kept[1]))


def test_an_earlier_run_s_are_replaced(kept, tmp_path):
    base, _, _, _ = kept
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "old").write_text("x", encoding="utf-8")
    _write(tmp_path / "adapter", base)
    assert sorted(os.listdir(tmp_path)) == ["adapter"] and "old" not in os.listdir(tmp_path / "adapter")
