"""KerasHub reads what we write, and we read what it writes: the same outputs, tokenizer included."""

import dataclasses
import json
import os
import re
import shutil

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras_hub
import numpy as np
import pytest

import bert_tf
from bert_tf.checkpoints import writers
from bert_tf.checkpoints.loading import load_description
from bert_tf.export.conversion.convert import convert_model
from bert_tf.export.conversion.model_outputs import compute_outputs
from bert_tf.models.config_files import task_in
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import parity
from tests.export.conversion import models

TEXTS = ["The film is a great story of people, and music.", "see the dull FILMS"]
CASES = ["bert", "distilbert"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A preset of ours, of an encoder."""
    folder = tmp_path_factory.mktemp("written")
    writers.write_model(folder, "keras_hub", models.model("bert", "encoder"))
    return folder


@pytest.fixture
def preset(written, tmp_path):
    return shutil.copytree(written, tmp_path / "preset")


def _close(value, true):
    return np.abs(np.asarray(value) - true).max() <= 1e-5 * max(1, np.abs(true).max())


@pytest.mark.parametrize("case", ["bert", pytest.param("distilbert", marks=pytest.mark.slow)])
def test_keras_hub_reads_ours(case, tmp_path):
    model = models.model(case, "text")
    writers.write_model(tmp_path, "keras_hub", model)
    assert (tmp_path / "task.json").exists() and task_in(tmp_path) is None  # it is no task of ours
    theirs = keras_hub.models.TextClassifier.from_preset(str(tmp_path))
    inputs = theirs.preprocessor(TEXTS)
    rows = model.tokenizer(TEXTS, max_seq_length=model.config.max_length)
    np.testing.assert_array_equal(inputs["token_ids"], rows["input_ids"])
    np.testing.assert_array_equal(inputs["padding_mask"], rows["input_mask"])
    ours = compute_outputs(model.config, model.arrays, rows)
    found = theirs.backbone(inputs)
    sequence = found["sequence_output"] if isinstance(found, dict) else found
    real = rows["input_mask"].numpy().astype(bool)
    assert _close(np.asarray(sequence)[real], ours["sequence_output"][real])
    assert _close(theirs(inputs), ours["classifier logits"][:, 0])
    assert np.ptp(ours["classifier logits"][:, 0], axis=0).max() > 0.01  # the texts differ


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, "deberta"])
def test_we_read_keras_hub_s(case, tmp_path):
    """A classifier that KerasHub made and saved by itself, lowercased as its own presets of Google's models are."""
    stem = {"bert": "Bert", "distilbert": "DistilBert", "deberta": "DebertaV3"}[case]
    model = models.model(case, "encoder")
    classes = {name: getattr(keras_hub.models, f"{stem}{name}") for name in
               ("Tokenizer", "Backbone", "TextClassifierPreprocessor", "TextClassifier")}  # fmt: skip
    if case == "deberta":
        tokenizer = classes["Tokenizer"]((parity.GOLDENS / "tokenizers" / "deberta" / "spm.model").read_bytes())
    else:
        tokenizer = classes["Tokenizer"](list(model.tokenizer.vocab), lowercase=True)
    own = {"bert": {"num_segments": 2}, "deberta": {"bucket_size": 6}}.get(case, {})
    backbone = classes["Backbone"](
        tokenizer.vocabulary_size(), num_layers=2, num_heads=3, hidden_dim=12, intermediate_dim=20, dropout=0.2,
        max_sequence_length=20, **own,
    )  # fmt: skip
    preprocessor = classes["TextClassifierPreprocessor"](tokenizer, sequence_length=20)
    theirs = classes["TextClassifier"](backbone, num_classes=4, preprocessor=preprocessor)
    rng = np.random.default_rng(0)
    theirs.set_weights([rng.normal(0, 0.2, w.shape) for w in theirs.get_weights()])
    theirs.save_to_preset(str(tmp_path / "preset"))

    ours = bert_tf.load(tmp_path / "preset")
    assert ours.config.model_type == model.config.model_type and ours.config.attention_probs_dropout_prob == 0.2
    # Unknown letters, here the large ones, are their bytes in KerasHub's DeBERTa, and [UNK] in Transformers and here.
    texts = [text.lower() for text in TEXTS] if case == "deberta" else TEXTS
    rows = ours.tokenizer(texts, max_seq_length=20)
    np.testing.assert_array_equal(preprocessor(texts)["token_ids"], rows["input_ids"])
    logits = ours.head(ours.encoder(rows)["pooled_output"])
    assert _close(theirs(preprocessor(texts)), logits.numpy())
    proof = convert_model(tmp_path / "preset", tmp_path / "hf", "huggingface")
    assert proof.not_held == proof.left_out == () and set(proof.differences.values()) == {0.0}
    assert len(proof.without_meaning) == 2 and all(n.startswith("task/optimizer/") for n in proof.without_meaning)


@pytest.mark.parametrize("accents", [True, False])
def test_accents_are_those_of_the_preset(accents, tmp_path):
    model = models.model("bert", "encoder")
    tokenizer = WordPieceTokenizer(list(model.tokenizer.vocab), True, strip_accents=accents)
    writers.write_model(tmp_path, "keras_hub", dataclasses.replace(model, tokenizer=tokenizer))
    own, other = tmp_path / "assets" / "tokenizer" / "vocabulary.txt", tmp_path / "other" / "vocab.txt"
    for vocab_file in (None, str(own)):
        assert load_description([str(tmp_path)], vocab_file=vocab_file).tokenizer.settings == tokenizer.settings
    other.parent.mkdir()
    shutil.copyfile(own, other)
    (other.parent / "added_tokens.json").write_text(json.dumps({tokenizer.vocab[-1]: len(tokenizer.vocab) - 1}))
    found = load_description([str(tmp_path)], vocab_file=str(other)).tokenizer
    assert found.strip_accents is accents and [each.content for each in found.added_tokens] == [tokenizer.vocab[-1]]
    if accents:
        assert not load_description([str(tmp_path)], do_lower_case=False).tokenizer.strip_accents  # as the caller says
        return
    settings = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    for key, value in (("split", False), ("suffix_indicator", "@@"), ("oov_token", "[MASK]"), ("strip_accents", 1),
                       ("special_tokens_in_strings", True)):  # fmt: skip
        changed = settings | {"config": settings["config"] | {key: value}}
        (tmp_path / "tokenizer.json").write_text(json.dumps(changed), encoding="utf-8")
        with pytest.raises(ValueError, match=f"tokenizer.json must have {key} .* got {re.escape(repr(value))}"):
            load_description([str(tmp_path)])


def test_the_file_of_a_preset_is_damaged(preset):
    file = preset / "model.weights.h5"
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(ValueError, match="model.weights.h5 is not a complete HDF5 file .*truncated"):
        bert_tf.load(preset)


@pytest.mark.parametrize(
    "values, message",
    [
        ('{"registered_name": "keras_hub>T5Backbone", "class_name": "T5Backbone", "config": {}}', "'T5Backbone'"),
        ('{"registered_name": "x", "class_name": "BertBackbone", "config": 5}', "'BertBackbone'"),
        ('{"registered_name": "x", "class_name": "BertBackbone", "config": {}}', "lacks vocab_size"),
        ('{"registered_name": "x"}', "got None"),
    ],
)
def test_configurations_that_are_none(values, message, preset):
    (preset / "config.json").write_text(values, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_description([str(preset)])
