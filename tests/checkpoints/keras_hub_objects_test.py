"""Live models of KerasHub come in and go out with the same outputs, and fit, save and load there as theirs do."""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import dataclasses
import json

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf
from keras_hub.src.models.deberta_v3.disentangled_self_attention import DisentangledSelfAttention

import bert_tf
from bert_tf.checkpoints import writers
from bert_tf.export.conversion.model_outputs import compute_outputs
from bert_tf.models import family_registry
from bert_tf.models.keras_hub_config import from_keras_hub
from bert_tf.models.position_buckets import keras_hub_buckets, position_buckets
from bert_tf.tokenization import sentencepiece_model
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from tests import tiny
from tests.checkpoints.good_files import GOLDENS
from tests.conftest import ROOT
from tests.export.conversion import models

TEXTS = ["the film is a great story .", "music of cold people , and the dull film"]
LENGTH, PLACES = 20, np.array([[1, 3], [2, 5]], np.int32)
SIZES = {"num_layers": 1, "num_heads": 3, "hidden_dim": 12, "intermediate_dim": 20, "max_sequence_length": LENGTH,
         "dropout": 0.0}  # fmt: skip
TASKS = {"text_classifier": "TextClassifier", "masked_lm": "MaskedLM"}
SEGMENTS = {"num_segments": 2}
# Family -> how its classes begin, and what its backbone is given beside SIZES.
FAMILIES = {
    "bert": ("Bert", {**SEGMENTS, "num_layers": 2}),
    "distilbert": ("DistilBert", {}),
    "electra": ("Electra", {**SEGMENTS, "embedding_dim": 8}),
    "electra-square": ("Electra", {**SEGMENTS, "embedding_dim": 12}),
    "albert": ("Albert", {**SEGMENTS, "embedding_dim": 8, "num_layers": 4, "num_groups": 2}),
    "roberta": ("Roberta", {}),
    "xlm-roberta": ("XLMRoberta", {}),
    "deberta-v2": ("DebertaV3", {"bucket_size": 6, "num_layers": 2}),
}
# Every task of KerasHub's that computes what ours does; a backbone where there is none, and one where there is.
CASES = [("bert", None), ("electra", None), ("electra-square", None), ("deberta-v2", None)]
CASES += [(family, "text_classifier") for family in FAMILIES if not family.startswith("electra")]
CASES += [("roberta", "masked_lm")]  # XLM-RoBERTa's head is RoBERTa's, and its tokenizer is in the line above
QUICK = [("bert", "text_classifier")]


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
    if family == "deberta-v2":
        return make(proto=(GOLDENS / "deberta" / "spm.model").read_bytes())
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
    made = compute_outputs(ours.config, ours.arrays(), rows)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "family, task", [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES]
)
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
    if task:  # which proves that what was written is, read by our reader, the same
        bert_tf.save(bert_tf.load(back), tmp_path / "preset", "keras_hub")
    else:
        back.save_to_preset(str(tmp_path / "preset"))
    _check_same(_ask(type(back).from_preset(str(tmp_path / "preset")), rows), true)


def _check_fit(model, task, rows):
    """A few steps of training lower the loss."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01), loss)
    labels = np.array([0, 1]) if task == "text_classifier" else np.take_along_axis(rows["input_ids"].numpy(), PLACES, 1)
    preprocessor, model.preprocessor = model.preprocessor, None
    losses = model.fit(_given(model, rows), labels, epochs=3, verbose=0).history["loss"]
    model.preprocessor = preprocessor
    assert losses[0] > losses[1] > losses[2]


def _of_transformers(case, kind, folder, **fields):
    """Returns a model as it comes from a folder of Transformers', of the family's own tokenizer."""
    folder.mkdir()
    config = dataclasses.replace(models.config(case), **fields)
    model = models.model(case, kind)
    if config.model_type == "roberta":
        tokenizer = ByteBpeTokenizer.from_directory(GOLDENS / "byte_bpe", family=family_registry.family("roberta"))
        config = dataclasses.replace(config, vocab_size=tokenizer.vocab_size)
        model = dataclasses.replace(model, tokenizer=tokenizer)
    model = dataclasses.replace(model, config=config, arrays=models.arrays(config, kind))
    writers.write_model(folder, "huggingface", model)
    return bert_tf.load(folder)


@pytest.mark.slow
def test_a_roberta_with_rows_that_keras_hub_has_no_place_for(tmp_path):
    """The row of its one segment, and two of positions that no token reads."""
    ours = _of_transformers("roberta", "text", tmp_path / "hf", max_position_embeddings=LENGTH + 2)
    assert (ours.config.type_vocab_size, ours.config.first_position) == (1, 2)
    rows = _rows(ours)
    true = _ask_ours(ours, rows, "text_classifier")
    _check_same(_ask(ours.to_keras_hub("text_classifier"), rows), true)
    proof = bert_tf.save(ours, tmp_path / "preset", "keras_hub")
    assert proof.remarks[:2] == (
        "The only segment embedding is added to the position embeddings.",
        "The first 2 position embeddings, which no token uses, are zeros.",
    )
    preset = bert_tf.load(tmp_path / "preset")
    assert (preset.config.type_vocab_size, preset.labels) == (0, ours.labels)
    _check_same(_ask_ours(preset, rows, "text_classifier"), true)


@pytest.mark.slow
def test_a_backbone_takes_a_vocabulary(tmp_path):
    theirs = _theirs("bert", None)
    with pytest.raises(ValueError, match="has no tokenizer, so it cannot take texts"):
        bert_tf.load(theirs).features(TEXTS)
    with pytest.raises(ValueError, match="A model without a tokenizer cannot be saved"):
        bert_tf.save(bert_tf.load(theirs), tmp_path / "no")
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in tiny.VOCAB), encoding="utf-8")
    ours = bert_tf.load(theirs, vocab_file=tmp_path / "vocab.txt", do_lower_case=False)
    assert not ours.tokenizer.do_lower_case and ours.features(TEXTS).shape == (2, 12)


@pytest.mark.slow
def test_what_keras_hub_computes_otherwise_is_said(caplog):
    classifier = _theirs("distilbert", "text_classifier", activation="softmax")
    assert "returns logits, before the softmax of DistilBertTextClassifier" in _said(caplog, bert_tf.load, classifier)
    ours = bert_tf.load(_theirs("bert", "masked_lm"))
    assert "cls/predictions/output_bias" in ours.others
    assert "BertMaskedLM uses {'hidden_act': 'gelu', 'layer_norm_eps': 1e-05}" in caplog.text
    albert = bert_tf.load(_theirs("albert", "text_classifier"))
    said = _said(caplog, albert.to_keras_hub, "text_classifier")
    assert "does not support do_lower_case=True, keep_accents=False, straight_quotes=True" in said


def _said(caplog, call, *given):
    caplog.clear()
    call(*given)
    return caplog.text


@pytest.mark.parametrize(
    "case, kind, task, fields, message",
    [
        ("bert", "masked_lm", "masked_lm", {}, r"no equivalent class \(its BertMaskedLM has .*'gelu'"),
        ("electra", "text", "text_classifier", {"hidden_act": "gelu_tanh"}, "for SequenceClassification, for which"),
        ("bert-odd", "encoder", None, {}, "BertBackbone requires .*This model has hidden_act='gelu'; use"),
        ("bert", "encoder", None, {"layer_norm_eps": 1e-5}, "requires .*1e-12.* has layer_norm_eps=1e-05; use"),
        ("electra", "encoder", None, {"hidden_act": "gelu_tanh"}, "This model has no pooler"),
        ("albert-odd", "encoder", None, {"hidden_act": "gelu_tanh"}, "This model has num_hidden_groups=2, which does"),
        ("ernie", "encoder", None, {}, r"one of \['albert', .*\]; got 'ernie'"),
        ("bert", "encoder", "text_classifier", {}, "must match the model's head, None; got 'text_classi"),
        ("bert", "encoder", "tagger", {}, "`task` must be None, 'text_classifier' or 'masked_lm'; got 'tagger'"),
        ("roberta", "encoder", None, {"type_vocab_size": 2}, "This model has type_vocab_size=2"),
        ("deberta-odd", "encoder", None, {}, "has type_vocab_size=2, .*pos_att_type=.*, position_biased_input=True"),
        ("deberta", "encoder", None, {"position_buckets": None}, "This model has .*no position_buckets"),
        ("deberta", "masked_lm", "masked_lm", {}, r"no equivalent class \(its DebertaV3MaskedLM has .*'gelu'"),
    ],
)
def test_what_keras_hub_cannot_hold_is_refused(case, kind, task, fields, message, tmp_path):
    ours = _of_transformers(case, kind, tmp_path / "hf", **fields)
    with pytest.raises(ValueError, match=message) as refusal:
        ours.to_keras_hub(task)
    assert str(refusal.value).count(". ") <= 1


@pytest.mark.slow
@pytest.mark.parametrize("length", [11, 20, 128, 512])
def test_relative_positions_in_other_buckets_are_refused(length):
    """KerasHub's own layer says which buckets it has: those of its formula here, to the last distance."""
    for buckets in {*range(2, 2 * length - 2, 1 + length // 20), length // 2}:
        layer = DisentangledSelfAttention(1, 8, max_position_embeddings=length, bucket_size=buckets)
        theirs = np.asarray(layer._get_rel_pos(length))[0, 0, :, 0]
        np.testing.assert_array_equal(keras_hub_buckets(length, buckets, length), theirs)
        values = {"bucket_size": buckets, "max_sequence_length": length}
        if (theirs == position_buckets(length, buckets, length)).all():
            from_keras_hub({"class_name": "DebertaV3Backbone", "config": values})
            continue
        with pytest.raises(ValueError, match=f"With bucket_size={buckets} and max_sequence_length={length}, KerasHub"):
            from_keras_hub({"class_name": "DebertaV3Backbone", "config": values})
        assert (length, buckets) != (512, 256)  # of the releases


def test_keras_hub_is_imported_by_functions_alone():
    files = [path for path in (ROOT / "bert_tf").rglob("*.py") if "import keras_hub" in path.read_text("utf-8")]
    lines = [line for path in files for line in path.read_text("utf-8").splitlines() if "import keras_hub" in line]
    assert "    import keras_hub" in lines
    assert not [line for line in lines if line.startswith(("import keras_hub", "from keras_hub"))]


def test_what_is_no_model_of_keras_hub_s_is_refused():
    with pytest.raises(ValueError, match="must be the path of a checkpoint, or .* of class int; pass"):
        bert_tf.load(5)
    strange = keras_hub.models.FNetBackbone(20, num_layers=1, hidden_dim=8, intermediate_dim=8)
    with pytest.raises(ValueError, match="A KerasHub preset must be one of .*got 'FNetBackbone'"):
        bert_tf.load(strange)
    size = {"num_layers": 1, "num_heads": 2, "embedding_dim": 4, "hidden_dim": 8, "intermediate_dim": 8}
    with pytest.raises(ValueError, match="inner_group_num must be 1 or absent .* got 2"):
        bert_tf.load(keras_hub.models.AlbertBackbone(20, **size, num_inner_repetitions=2))
    with pytest.raises(ValueError, match=r"classifier/dense/kernel: \(12, 12\) in the model, \(12, 7\) in the check"):
        bert_tf.load(_theirs("roberta", "text_classifier", hidden_dim=7))
