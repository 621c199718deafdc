"""Live models of KerasHub come in and go out with the same outputs, and fit, save and load there as theirs do."""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import json

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.export.conversion.proof import outputs
from bert_tf.tokenization import sentencepiece_model
from tests import tiny
from tests.checkpoints.good_files import GOLDENS

TEXTS = ["the film is a great story .", "music of cold people , and the dull film"]
LENGTH, PLACES = 20, np.array([[1, 3], [2, 5]], np.int32)
SIZES = {"num_layers": 1, "num_heads": 3, "hidden_dim": 12, "intermediate_dim": 20, "max_sequence_length": LENGTH,
         "dropout": 0.0}  # fmt: skip
TASKS = {"text_classifier": "TextClassifier", "masked_lm": "MaskedLM"}
SEGMENTS = {"num_segments": 2}
# Family -> how its classes begin, and what its backbone is given beside SIZES.
FAMILIES = {
    "bert": ("Bert", {**SEGMENTS, "num_layers": 3}),
    "distilbert": ("DistilBert", {}),
    "electra": ("Electra", {**SEGMENTS, "embedding_dim": 8}),
    "electra-square": ("Electra", {**SEGMENTS, "embedding_dim": 12}),
    "albert": ("Albert", {**SEGMENTS, "embedding_dim": 8, "num_layers": 4, "num_groups": 2}),
    "roberta": ("Roberta", {}),
    "xlm-roberta": ("XLMRoberta", {}),
}
# Every task of KerasHub's that computes what ours does.
CASES = [(family, None) for family in FAMILIES]
CASES += [(family, "text_classifier") for family in FAMILIES if not family.startswith("electra")]
CASES += [("roberta", "masked_lm"), ("xlm-roberta", "masked_lm")]


@pytest.fixture(scope="module", autouse=True)
def _eagerly():
    """Tracing each model and its tokenizer for two sentences would be most of the time."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def _xlm_model():
    control = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
    words = (*tiny.GOOD, *tiny.BAD, *tiny.FILL, ".")
    pieces = [(f"\u2581{word}", -float(n), 1) for n, word in enumerate(words, 1)]
    return sentencepiece_model.model_bytes([*control, *pieces, ("\u2581", -50.0, 1), ("m", -60.0, 1)], b"")


def _tokenizer(family, make):
    """Returns one of KerasHub's tokenizers."""
    if family == "roberta":
        ids = json.loads((GOLDENS / "byte_bpe" / "vocab.json").read_text(encoding="utf-8"))
        merges = (GOLDENS / "byte_bpe" / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
        return make(vocabulary=ids, merges=merges)
    if family == "albert":
        return make(proto=(GOLDENS / "unigram" / "spiece.model").read_bytes())
    if family == "xlm-roberta":
        return make(proto=_xlm_model())
    return make(vocabulary=list(tiny.VOCAB), lowercase=True)


def _theirs(family, task, **changes):
    """Returns a live model of KerasHub's with random weights."""
    stem, more = FAMILIES[family]
    tokenizer = _tokenizer(family, getattr(keras_hub.models, f"{stem}Tokenizer"))
    size = {"vocab_size" if stem == "Electra" else "vocabulary_size": tokenizer.vocabulary_size()}
    model = getattr(keras_hub.models, f"{stem}Backbone")(**{**SIZES, **size, **more})
    if task:
        name = f"{stem}{TASKS[task]}"
        preprocessor = getattr(keras_hub.models, f"{name}Preprocessor")(tokenizer, sequence_length=LENGTH)
        options = {"num_classes": 3, "dropout": 0.0} if task == "text_classifier" else {}
        model = getattr(keras_hub.models, name)(model, preprocessor=preprocessor, **{**options, **changes})
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(0, 0.3, w.shape) + w.path.endswith("gamma") for w in model.weights])
    return model


def _rows(ours):
    """Returns ids of texts, or any where there is no tokenizer."""
    if ours.tokenizer:
        return ours.tokenizer(TEXTS, max_seq_length=LENGTH)
    mask = np.repeat([[1] * 15 + [0] * 5, [1] * 20], 1, 0).astype(np.int32)
    ids = np.random.default_rng(1).integers(5, ours.config.vocab_size, mask.shape).astype(np.int32)
    segments = np.repeat([[0] * 9 + [1] * 11], 2, 0).astype(np.int32) * (ours.config.type_vocab_size > 1)
    return {"input_ids": ids * mask, "input_mask": mask, "segment_ids": segments * mask}


def _given(model, rows):
    given = {"token_ids": rows["input_ids"], "padding_mask": rows["input_mask"], "segment_ids": rows["segment_ids"]}
    given["mask_positions"] = PLACES
    return {name: np.asarray(given[name]) for name in model.input}


def _ask(model, rows):
    """Returns what a model of KerasHub's computes: its outputs by our names, where there is no padding."""
    made = model(_given(model, rows))
    if isinstance(model, keras_hub.models.Task):
        return {"logits": np.asarray(made)}
    made = made if isinstance(made, dict) else {"sequence_output": made}
    return {name: _real(np.asarray(value), rows) for name, value in made.items()}


def _ask_ours(ours, rows, task):
    """Returns what our model computes, in the same form."""
    made = outputs(ours.config, ours.arrays(), rows)
    if task == "text_classifier":  # the first of the tokens that the proof gives a head is the pooled output
        return {"logits": made["classifier logits"][:, 0]}
    if task == "masked_lm":
        return {"logits": np.take_along_axis(made["cls/predictions logits"][:, 1:], PLACES[..., np.newaxis], 1)}
    return {name: _real(value, rows) for name, value in made.items()}


def _real(value, rows):
    return value[np.asarray(rows["input_mask"], bool)] if value.ndim == 3 else value


def _check_same(found, true):
    assert found.keys() == true.keys()
    for name, value in found.items():
        assert np.abs(value - true[name]).max() <= 1e-5 * max(1, np.abs(true[name]).max()), name
        assert np.ptp(value, axis=0).max() > 0.01, name  # the rows are told apart


@pytest.mark.parametrize("family, task", CASES)
def test_there_and_back(family, task, tmp_path):
    theirs = _theirs(family, task)
    ours = bert_tf.load(theirs)
    rows = _rows(ours)
    if task == "text_classifier":
        np.testing.assert_array_equal(theirs.preprocessor(TEXTS)["token_ids"], rows["input_ids"])
        np.testing.assert_array_equal(theirs.preprocessor(TEXTS)["padding_mask"], rows["input_mask"])
    true = _ask_ours(ours, rows, task)
    _check_same(_ask(theirs, rows), true)

    back = ours.to_keras_hub(task)
    assert type(back) is type(theirs) and back.get_config().keys() == theirs.get_config().keys()
    for weight, again in zip(theirs.get_weights(), back.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, again)
    _check_same(_ask(back, rows), true)
    if task:
        _check_fit(back, task, rows)
        true = _ask(back, rows)

    back.save(tmp_path / "model.keras")
    _check_same(_ask(keras.models.load_model(tmp_path / "model.keras"), rows), true)
    back.save_to_preset(str(tmp_path / "preset"))
    _check_same(_ask(type(back).from_preset(str(tmp_path / "preset")), rows), true)
    if task:
        _check_same(_ask_ours(bert_tf.load(tmp_path / "preset"), rows, task), true)


def _check_fit(model, task, rows):
    """A few steps of training lower the loss."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01), loss)
    labels = np.array([0, 1]) if task == "text_classifier" else np.take_along_axis(rows["input_ids"].numpy(), PLACES, 1)
    preprocessor, model.preprocessor = model.preprocessor, None
    losses = model.fit(_given(model, rows), labels, epochs=3, verbose=0).history["loss"]
    model.preprocessor = preprocessor
    assert losses[0] > losses[1] > losses[2]
