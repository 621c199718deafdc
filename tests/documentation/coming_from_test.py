"""docs/get_started/migrating.md: its code runs, here and there, and gives the same numbers on both sides."""

import os
import re

import keras
import numpy as np
import pytest

from bert_tf.checkpoints import writers
from bert_tf.checkpoints.model_arrays import ModelArrays
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import other_envs, tiny
from tests.conftest import ROOT
from tests.export.conversion import models

PAGE = ROOT / "docs" / "get_started" / "migrating.md"
WHO = ("bert_tf", "KerasHub", "Transformers")
_BLOCK = re.compile(r"^```python\n# (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SAVE = "import numpy as np; np.savez('there.npz', hidden_states=hidden_states, logits=logits)"
# A classifier of the TF classes, with weights that are larger than fresh ones, and its tokenizer.
_MAKE = """
from transformers import BertConfig, BertTokenizer, TFBertForSequenceClassification
import tensorflow as tf
tf.keras.utils.set_random_seed(0)
names = {0: "bad", 1: "good"}
config = BertConfig(vocab_size=VOCAB_SIZE, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=64, max_position_embeddings=64, initializer_range=0.2, id2label=names,
                    label2id={name: i for i, name in names.items()})
model = TFBertForSequenceClassification(config)
model(model.dummy_inputs)
model.save_pretrained("my-tf-model")
BertTokenizer("vocab.txt").save_pretrained("my-tf-model")
"""


def blocks() -> list[tuple[str, str]]:
    """Returns (who runs it, code) of the page's blocks of Python."""
    return _BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def test_every_block_says_who_runs_it():
    found = blocks()
    assert len(found) == PAGE.read_text(encoding="utf-8").count("```python\n") and {who for who, _ in found} == set(WHO)
    for who, code in found:
        compile(code, who, "exec")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with models under the names that the page has, which is where its code runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in tiny.VOCAB), encoding="utf-8")
    for name, form, act in (("my-model", "huggingface", "gelu"), ("my-preset", "keras_hub", "gelu_tanh")):
        config = tiny.config(hidden_act=act, max_position_embeddings=512)
        (tmp_path / name).mkdir()
        model = ModelArrays(config, _classifier(config), WordPieceTokenizer(list(tiny.VOCAB)))
        writers.write_model(tmp_path / name, form, model)
    tiny.checkpoint(tmp_path / "uncased_L-12_H-768_A-12", max_position_embeddings=512)
    return tmp_path


def _classifier(config):
    """Returns the weights of a classifier with two labels."""
    arrays = models.arrays(config, "text")
    return arrays | {name: arrays[name][:2] for name in arrays if name.startswith("classifier/output")}


@pytest.mark.slow
def test_the_code_runs_and_keras_hub_s_scores_are_ours(place):
    pytest.importorskip("keras_hub")
    names = {}
    for who, code in blocks():
        if who != "Transformers":
            exec(compile(code, f"{PAGE.name}, {who}", "exec"), names)
            if "reviews-preset" in code and who == "bert_tf":
                np.testing.assert_allclose(names["logits"], names["logits_there"], atol=1e-5)
    assert keras.models.load_model("model.keras").count_params()
    assert (place / "reviews-classifier" / "task.json").exists()
    assert names["token_ids"].shape[0] == 1 and names["outputs"]["sequence_output"].shape == (1, 128, 32)


@pytest.mark.slow
def test_what_a_tf_class_computed_is_computed_here(place):
    python = other_envs.transformers_tf_python()
    other_envs.run(python, _MAKE.replace("VOCAB_SIZE", str(len(tiny.VOCAB))), cwd=place)
    (place / "my-model" / "model.safetensors").unlink()
    converts, scores = (code for who, code in blocks() if who == "Transformers")
    other_envs.run(python, converts, cwd=place)
    other_envs.run(python, scores + _SAVE, cwd=place)
    names = {}
    for code in [code for who, code in blocks() if who == "bert_tf"][:2]:
        exec(compile(code, PAGE.name, "exec"), names)
    there, real = np.load("there.npz"), names["features"]["input_mask"].numpy().astype(bool)
    np.testing.assert_allclose(names["hidden_states"].numpy()[real], there["hidden_states"][real], atol=1e-5)
    np.testing.assert_allclose(names["logits"], there["logits"], atol=1e-5)
    assert np.ptp(there["logits"]) > 0.01


@pytest.mark.slow
def test_files_of_tf_classes_are_refused(place):
    """As the page says, so that nobody waits for what cannot work."""
    import bert_tf

    (place / "my-model" / "tf_model.h5").write_bytes(b"")
    os.remove(place / "my-model" / "model.safetensors")
    with pytest.raises(ValueError, match="No weights in .*my-model: expected one of .* It contains .*tf_model.h5"):
        bert_tf.load(place / "my-model")
