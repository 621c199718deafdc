"""`convert` and `save`: whole or not at all, with a proof; what would be lost is said."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

import bert_tf
from bert_tf.checkpoints import tf1, writers
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.export.conversion import model_outputs, round_trip
from bert_tf.export.conversion.convert import convert_model
from bert_tf.models import family_registry
from bert_tf.models.config import template_for
from bert_tf.tokenization.registry import read_tokenizer
from bert_tf.utils.files import whole_directory
from tests import parity
from tests.export.conversion import models

XLM_ROBERTA = parity.GOLDENS / "tokenizers" / "whole" / "5" / "xlm-roberta"
NOISE = {"bert/pooler/dense/kernel/adam_m": np.ones((12, 12), np.float32), "global_step": np.int64(7),
         "training/seed": np.int32(3)}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _quickly():
    with models.quick_proofs():
        yield


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A run's folder: a classifier with names of labels, and an optimizer's state."""
    folder = tmp_path_factory.mktemp("source") / "run"
    folder.mkdir()
    writers.write_model(folder, "bert_tf", models.model("bert", "text", optimizer=NOISE))
    return folder


def _arrays(path):
    checkpoint = open_checkpoint(path)
    return {name: checkpoint.get(name) for name in checkpoint.names}


def _same(one, other):
    one, other = _arrays(one), _arrays(other)
    return one.keys() == other.keys() and all(one[path].tobytes() == other[path].tobytes() for path in one)


@pytest.mark.slow
def test_a_chain_of_formats_and_what_each_proof_says(source, tmp_path):
    place = source
    for form in ("huggingface", "keras_hub", "tf1", "bert_tf"):
        proof = convert_model(place, tmp_path / form, form)
        assert _same(source, tmp_path / form)
        assert proof.matched == 41 and proof.not_held == proof.left_out == ()
        assert proof.differences == {"sequence_output": 0, "pooled_output": 0, "classifier logits": 0}
        place = tmp_path / form
    text = str(proof)
    assert f"to {tmp_path}/bert_tf (bert_tf)\n  weights     41 written, all read back bit-identical" in text
    assert "              classifier logits 0\n  sha256      " in text
    assert bert_tf.load(place).labels == ["label 0", "label 1", "label 2"]
    assert not [name for name in sorted(p.name for p in tmp_path.iterdir()) if "tmp" in name or "old" in name]


@pytest.mark.slow
def test_a_setting_that_changes_is_said(source, tmp_path):
    assert convert_model(source, tmp_path / "kh", "keras_hub").settings == {}  # this one has Keras's usual start
    folder = tmp_path / "other"
    shutil.copytree(source, folder)
    values = json.loads((folder / "bert_config.json").read_text(encoding="utf-8"))
    (folder / "bert_config.json").write_text(json.dumps(values | {"initializer_range": 0.5}), encoding="utf-8")
    proof = convert_model(folder, tmp_path / "kh2", "keras_hub")
    assert proof.settings == {"initializer_range": (0.5, 0.02)}
    assert "  setting     initializer_range: 0.5 before, 0.02 after" in str(proof)


@pytest.mark.slow
def test_a_setting_is_given_up_only_when_that_is_said(source, tmp_path):
    folder = tmp_path / "exact"
    shutil.copytree(source, folder)
    values = json.loads((folder / "bert_config.json").read_text(encoding="utf-8"))
    (folder / "bert_config.json").write_text(json.dumps(values | {"hidden_act": "gelu"}), encoding="utf-8")
    with pytest.raises(ValueError, match="requires .* This model has hidden_act='gelu'"):
        convert_model(folder, tmp_path / "kh", "keras_hub")
    assert not (tmp_path / "kh").exists()
    proof = convert_model(folder, tmp_path / "kh", "keras_hub", leave_out=["hidden_act"])
    assert proof.settings == {"hidden_act": ("gelu", "gelu_tanh")} and proof.left_out == ("hidden_act",)
    assert 0 < proof.differences["sequence_output"] < 0.01


@pytest.mark.slow
def test_the_optimizer_comes_where_it_is_asked_for(source, tmp_path):
    convert_model(source, tmp_path / "weights", "bert_tf")
    convert_model(source, tmp_path / "all", "bert_tf", with_optimizer=True)
    proof = convert_model(source, tmp_path / "google", "tf1", with_optimizer=True)
    names = {
        name: set(tf1.read_tensors(str(tmp_path / prefix)))
        for name, prefix in (
            ("weights", "weights/model.ckpt-0"),
            ("all", "all/model.ckpt-7"),
            ("google", "google/bert_model.ckpt"),
        )
    }
    slots = {"bert/pooler/dense/kernel/adam_m", "global_step"}
    assert names["google"] - names["weights"] == slots and names["all"] - names["google"] == {"training/seed"}
    assert proof.without_meaning == ("training/seed",)
    with pytest.raises(ValueError, match="`with_optimizer` requires a checkpoint with optimizer state"):
        convert_model(tmp_path / "weights", tmp_path / "no", "tf1", with_optimizer=True)
    with pytest.raises(ValueError, match="`with_optimizer` requires a format that can store"):
        convert_model(source, tmp_path / "no", "huggingface", with_optimizer=True)


def test_a_pooler_that_a_tagger_does_not_read_is_named(tmp_path):
    model = models.model("bert-odd", "tokens")
    pooler = {path: a for path, a in models.arrays(model.config, "encoder").items() if "/pooler/" in path}
    (tmp_path / "run").mkdir()
    writers.write_model(tmp_path / "run", "bert_tf", dataclasses.replace(model, arrays=model.arrays | pooler))
    proof = convert_model(tmp_path / "run", tmp_path / "hf", "huggingface")
    assert set(proof.not_held) == pooler.keys() and set(proof.differences.values()) == {0}
    assert "2 not read by the target's class, not written: bert/pooler/dense/" in str(proof)


TASK = {"task": "classification", "num_labels": 1, "text_inputs": ["text"], "max_seq_length": 16}


def test_task_json_says_what_a_head_is_for(tmp_path):
    (tmp_path / "run").mkdir()
    writers.write_model(tmp_path / "run", "bert_tf", models.model("bert-odd", "regression"))
    (tmp_path / "run" / "task.json").write_text(json.dumps(TASK | {"problem": "regression"}), encoding="utf-8")
    proof = convert_model(tmp_path / "run", tmp_path / "hf", "huggingface")
    values = json.loads((tmp_path / "hf" / "config.json").read_text(encoding="utf-8"))
    assert (values["problem_type"], values["num_labels"], values.get("id2label")) == ("regression", 1, None)
    assert proof.remarks == ("task.json of the source and its settings were not converted.",)
    convert_model(tmp_path / "run", tmp_path / "again", "bert_tf")
    assert (tmp_path / "again" / "task.json").exists()
    windows = {"stride": 8, "max_windows": 2}
    (tmp_path / "run" / "task.json").write_text(json.dumps(TASK | {"windows": windows}), encoding="utf-8")
    with pytest.raises(ValueError, match="differently: windows in task.json .* `leave_out=windows`"):
        convert_model(tmp_path / "run", tmp_path / "no", "huggingface")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "problem", "squash"),
    [
        ("bert", "single_label", tf.nn.softmax),
        pytest.param("bert", "multi_label", tf.sigmoid, marks=pytest.mark.slow),
        pytest.param("electra", "single_label", tf.nn.softmax, marks=pytest.mark.slow),
    ],
)
def test_a_temperature_goes_into_the_last_layer(family, problem, squash, tmp_path):
    (tmp_path / "run").mkdir()
    writers.write_model(tmp_path / "run", "bert_tf", models.model(family, "text"))
    described = TASK | {"problem": problem, "temperature": 1.7}
    (tmp_path / "run" / "task.json").write_text(json.dumps(described), encoding="utf-8")
    proof = convert_model(tmp_path / "run", tmp_path / "hf", "huggingface")
    assert (
        "The temperature 1.7 of task.json is folded into the weights: classifier/output_bias and classifier/output_we"
        in (proof.remarks[0])
    )
    before, after = bert_tf.load(tmp_path / "run"), bert_tf.load(tmp_path / "hf")
    logits = [
        bert.head(bert.encoder(bert.tokenizer(["the film"], max_seq_length=16))["pooled_output"])
        for bert in (before, after)
    ]
    assert np.abs(logits[0]).max() > 0.01
    np.testing.assert_allclose(squash(logits[1]), squash(logits[0] / 1.7), atol=1e-6)
    first, second = _arrays(tmp_path / "run"), _arrays(tmp_path / "hf")
    moved = {path for path, array in first.items() if not np.array_equal(array, second.get(path, array))}
    assert moved == {"classifier/output_weights", "classifier/output_bias"}, "two-layer heads: the last one alone"
    proof = convert_model(tmp_path / "run", tmp_path / "as it was", "huggingface", leave_out=["temperature"])
    assert proof.left_out == ("temperature",) and _arrays(tmp_path / "as it was")[
        "classifier/output_bias"
    ].tobytes() == (first["classifier/output_bias"].tobytes())
    convert_model(tmp_path / "run", tmp_path / "ours", "bert_tf")
    assert _same(tmp_path / "ours", tmp_path / "run")
    assert json.loads((tmp_path / "ours" / "task.json").read_text(encoding="utf-8"))["temperature"] == 1.7


def test_names_that_nobody_knows(source, tmp_path):
    convert_model(source, tmp_path / "hf", "huggingface")
    file = tmp_path / "hf" / "model.safetensors"
    save_file(load_file(file) | {"adapter.up": np.ones(3, np.float32)}, file)
    with pytest.raises(ValueError, match="Unknown weights: .* are not known: adapter.up"):
        convert_model(tmp_path / "hf", tmp_path / "to", "tf1")
    proof = convert_model(tmp_path / "hf", tmp_path / "to", "tf1", leave_out=[r"adapter\..*"])
    assert proof.left_out == ("adapter.up",) and _same(source, tmp_path / "to")


def test_a_head_stays_behind_only_when_that_is_said(source, tmp_path):
    with pytest.raises(ValueError, match=r"drop it: `leave_out=classifier/\.\*`"):
        convert_model(source, tmp_path / "st", "sentence_transformers")
    proof = convert_model(source, tmp_path / "st", "sentence_transformers", leave_out=["classifier/.*"])
    assert set(proof.left_out) == {"classifier/output_bias", "classifier/output_weights"}
    pooling = json.loads((tmp_path / "st" / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
    assert pooling["pooling_mode_mean_tokens"] is True and pooling["word_embedding_dimension"] == 12
    with pytest.raises(ValueError, match="must match .* Pattern 'lassifier/.*' matches none"):
        convert_model(source, tmp_path / "no", "tf1", leave_out=["lassifier/.*"])
    with pytest.raises(ValueError, match=r"must list regular expressions; '\*' is not one: nothing to repeat"):
        convert_model(source, tmp_path / "no", "tf1", leave_out=["*"])
    assert not (tmp_path / "no").exists()


@pytest.mark.slow
def test_a_sentence_encoder_keeps_its_own_modules(source, tmp_path):
    convert_model(source, tmp_path / "st", "sentence_transformers", leave_out=["classifier/.*"])
    file = tmp_path / "st" / "1_Pooling" / "config.json"
    mine = {"word_embedding_dimension": 12, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    file.write_text(json.dumps(mine), encoding="utf-8")
    convert_model(tmp_path / "st", tmp_path / "again", "sentence_transformers")
    assert json.loads((tmp_path / "again" / "1_Pooling" / "config.json").read_text(encoding="utf-8")) == mine
    assert "were not converted" in str(convert_model(tmp_path / "st", tmp_path / "hf", "huggingface"))
    modules = tmp_path / "st" / "modules.json"
    modules.write_text(modules.read_text(encoding="utf-8").replace("1_Pooling", "../run"), encoding="utf-8")
    with pytest.raises(ValueError, match="`path` next to it; got the path '../run'"):
        convert_model(tmp_path / "st", tmp_path / "no", "sentence_transformers")


@pytest.mark.parametrize("form", ["sentence_transformers", "huggingface"])
@pytest.mark.parametrize(("stated", "length"), [(7, 7), (10**30, 20), (500, 20), (0, 20)])
def test_a_length_that_only_the_tokenizer_states_is_kept(form, stated, length, tmp_path):
    """As sentence-transformers from 5.7 on writes an embedder: without max_seq_length in sentence_bert_config.json."""
    folder, target = tmp_path / "st", tmp_path / "again"
    folder.mkdir()
    writers.write_model(folder, "sentence_transformers", models.model("bert", "encoder"))
    (folder / "sentence_bert_config.json").write_text('{"transformer_task": "feature-extraction"}', encoding="utf-8")
    file = folder / "tokenizer_config.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(values | {"model_max_length": stated}), encoding="utf-8")
    target.mkdir()
    model = dataclasses.replace(models.model("bert", "encoder"), source_dir=str(folder))
    writers.write_model(target, form, model)
    assert json.loads((target / "tokenizer_config.json").read_text(encoding="utf-8"))["model_max_length"] == length


def test_what_is_there_is_replaced_only_when_that_is_said(source, tmp_path):
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match="`to` must not exist yet.* is in use"):
        convert_model(source, tmp_path / "to", "tf1")
    with pytest.raises(ValueError, match="No weights in .*to: expected one of .* It contains .'mine.txt'"):
        convert_model(source, tmp_path / "to", "tf1", overwrite=True)
    assert (tmp_path / "to" / "mine.txt").exists()
    shutil.copytree(source, tmp_path / "to", dirs_exist_ok=True)
    with pytest.raises(ValueError, match="Cannot convert a model onto itself:"):
        convert_model(tmp_path / "to", tmp_path / "to", "tf1", overwrite=True)
    convert_model(source, tmp_path / "to", "tf1", overwrite=True)
    assert _same(source, tmp_path / "to") and not (tmp_path / "to" / "mine.txt").exists()


def test_a_proof_that_fails_leaves_nothing(source, tmp_path, monkeypatch):
    """A writer with a mistake in it is found out, whatever the mistake."""
    right = writers.FORMATS["tf1"]

    def one_number_off(directory, model):
        arrays = {path: array.copy() for path, array in model.arrays.items()}
        arrays["bert/pooler/dense/bias"][3] = np.nextafter(arrays["bert/pooler/dense/bias"][3], np.float32(1))
        return right(directory, dataclasses.replace(model, arrays=arrays))

    def one_label_off(directory, model):
        return right(directory, dataclasses.replace(model, labels=["label 0", "label 2", "label 1"]))

    def other_positions(directory, model):
        config = dataclasses.replace(model.config, num_attention_heads=2)
        return right(directory, dataclasses.replace(model, config=config))

    def one_missing(directory, model):
        kept = {path: a for path, a in model.arrays.items() if path != "classifier/output_bias"}
        return right(directory, dataclasses.replace(model, arrays=kept))

    for mistake, message in (
        (one_number_off, "bert/pooler/dense/bias has different values"),
        (one_label_off, r"the labels are \['label 0', 'label 2', 'label 1'\] and were"),
        (other_positions, "num_attention_heads is 2 and was 3"),
        (one_missing, "classifier/output_bias is on one side only"),
    ):
        monkeypatch.setitem(writers.FORMATS, "tf1", mistake)
        with pytest.raises(ValueError, match=f"the converted model differs from the source: {message}"):
            convert_model(source, tmp_path / "to", "tf1")
        assert list(tmp_path.iterdir()) == []


def test_outputs_that_differ_are_found(monkeypatch, source, tmp_path):
    calls = []

    def drifting(config, arrays, inputs, right=model_outputs.compute_outputs):
        calls.append(1)
        return {name: value + 1e-4 * len(calls) for name, value in right(config, arrays, inputs).items()}

    monkeypatch.setattr(round_trip, "compute_outputs", drifting)
    with pytest.raises(ValueError, match="differs from the source: sequence_output differs by 0.0001"):
        convert_model(source, tmp_path / "to", "huggingface")
    assert list(tmp_path.iterdir()) == []


def test_weights_that_contradict_the_configuration(source, tmp_path):
    folder = tmp_path / "wrong"
    shutil.copytree(source, folder)
    values = json.loads((folder / "bert_config.json").read_text(encoding="utf-8"))
    (folder / "bert_config.json").write_text(json.dumps(values | {"intermediate_size": 24}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"the configuration; (.|\n)*intermediate/dense/bias: \(24,\) by the"):
        convert_model(folder, tmp_path / "to", "tf1")


def test_save_writes_what_load_read(source, tmp_path):
    bert = bert_tf.load(source)
    bert.head.output_bias.assign([1.0, 2.0, 3.0])
    proof = bert_tf.save(bert, tmp_path / "hf", "huggingface")
    assert proof.source == "a model in memory" and proof.matched == 41
    np.testing.assert_array_equal(bert_tf.load(tmp_path / "hf").head.output_bias, [1, 2, 3])
    assert bert_tf.load(tmp_path / "hf").labels == bert.labels


def test_save_keeps_the_other_heads(tmp_path):
    (tmp_path / "from").mkdir()
    writers.write_model(tmp_path / "from", "tf1", models.model("bert-odd", "pretraining"))
    bert_tf.save(bert_tf.load(tmp_path / "from"), tmp_path / "hf", "huggingface")
    assert _same(tmp_path / "from", tmp_path / "hf")


def test_a_directory_is_whole_or_not_there(tmp_path):
    with pytest.raises(RuntimeError), whole_directory(tmp_path / "new") as aside:
        (tmp_path / aside / "half").write_text("x", encoding="utf-8")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_text("x", encoding="utf-8")
    with pytest.raises(RuntimeError), whole_directory(tmp_path / "old", replace=True):
        raise RuntimeError
    assert [path.name for path in tmp_path.rglob("*")] == ["old", "file"]


@pytest.mark.slow
def test_a_bert_with_the_tokenizer_of_xlm_roberta(tmp_path):
    """As intfloat/multilingual-e5-small: the folder that is written is read with the same special tokens."""
    made = models.model("bert", "text")
    tokenizer = read_tokenizer(str(XLM_ROBERTA), family_registry.family("bert"), template_for(made.config))
    config = dataclasses.replace(made.config, vocab_size=tokenizer.vocab_size)
    made = dataclasses.replace(made, config=config, arrays=models.arrays(config, "text"), tokenizer=tokenizer)
    (tmp_path / "from").mkdir()
    writers.write_model(tmp_path / "from", "bert_tf", made)
    bert = bert_tf.load(tmp_path / "from")
    bert_tf.save(bert, tmp_path / "to", "huggingface")
    again = bert_tf.load(tmp_path / "to")
    said = json.loads((tmp_path / "to" / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert said["tokenizer_class"] == "XLMRobertaTokenizer" and said["cls_token"] == "<s>"
    assert (tmp_path / "to" / "sentencepiece.bpe.model").is_file()
    for each in (bert, again):
        assert each.tokenizer.template == tokenizer.template and each.tokenizer.template.segments == 2
        pair = each.tokenizer(["the sea"], ["the"], 12)
        assert pair["input_ids"].numpy().tolist() == tokenizer(["the sea"], ["the"], 12)["input_ids"].numpy().tolist()
        assert [tokenizer.vocab[i] for i in pair["input_ids"].numpy()[0]].count("</s>") == 3
        assert not pair["segment_ids"].numpy().any()
    np.testing.assert_array_equal(again.features(["the sea"]), bert.features(["the sea"]))


def test_a_sparse_encoder_is_not_written_as_a_dense_one(tmp_path):
    with pytest.raises(ValueError, match="SparseEncoders cannot be written in this format. .* use format huggingface"):
        convert_model(parity.GOLDENS / "sparse_encoder" / "bert", tmp_path / "out", "sentence_transformers")
    assert not (tmp_path / "out").exists()
