"""Hugging Face's programs read what we write: no name missing, none too many, our numbers, our tokenizer."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints import writers
from bert_tf.export.conversion.model_outputs import compute_outputs
from tests import other_envs
from tests.export.conversion import models

pytestmark = pytest.mark.slow

TEXTS = ["The film is a great story of people, and music.", "see the dull FILMS"]
SECOND = ["it is funny", "warm story"]
MASKED = "the [MASK] is great"
LENGTH = 18
# Kind -> of `compute_outputs`, what the class of Transformers calls it, and whether it is of the first token alone.
NAMES = {
    "encoder": {"sequence_output": "last_hidden_state"},
    "text": {"classifier logits": "logits"},
    "regression": {"classifier logits": "logits"},
    "tokens": {"classifier logits": "logits"},
    "spans": {},
    "masked_lm": {"cls/predictions logits": "logits"},
    "pretraining": {"cls/predictions logits": "prediction_logits"},
    "discriminator": {"cls/replaced_tokens logits": "logits"},
}
OF_FIRST = ("text", "regression")
# The masked-LM head of Transformers' Gte always uses gelu.
WITHOUT_CLASS = [("gte-odd", "masked_lm")]
WITHOUT_CLASS += [(case, "spans") for case in ("nomic", "nomic-odd", "gte", "gte-odd")]
BY_TEXT = ("bert", "distilbert", "electra", "ernie", "nomic_bert")  # the families whose tokenizer is WordPiece
# The families that Transformers has from version 5 on, without question answering; see `_renamed` for the second.
RECENT = ("nomic_bert", "new")
ALL, NEW = (
    [(case, kind) for case in models.CASES for kind in models.kinds(case)
     if (models.CASES[case]["model_type"] in RECENT) == is_new and (case, kind) not in WITHOUT_CLASS]
    for is_new in (False, True)
)  # fmt: skip
LEFT_TO_RIGHT = [(case, kind) for case in ("bert", "electra", "roberta", "ernie")
                 for kind in ("encoder", "tokens", "spans", "masked_lm")]  # fmt: skip


def _rows(model, pair, masked):
    texts = [MASKED, *TEXTS[1:]] if masked else TEXTS
    second = SECOND if pair else None
    rows = model.tokenizer(texts, second, max_seq_length=LENGTH)
    return ([texts, second] if pair else [texts]), rows


def _given(case, kind, model):
    family = models.CASES[case]["model_type"]
    if family not in BY_TEXT:
        ids = np.random.default_rng(1).integers(2, len(models.PIECES), (2, 9)).astype(np.int32)
        return {"ids": ids.tolist()}, {"input_ids": tf.constant(ids)}
    pair = kind in ("text", "spans", "pretraining") and model.config.type_vocab_size != 1
    texts, rows = _rows(model, pair, masked=False)
    given = {"texts": texts, "length": LENGTH}
    if kind in ("text", "regression", "tokens"):
        given["pipeline"] = TEXTS[0]
    if kind == "masked_lm":
        given["pipeline"] = MASKED
    if kind == "spans":
        given["pipeline"] = {"question": "is it great?", "context": TEXTS[0]}
    return given, rows


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Returns name -> (model, our outputs, what torch Transformers found)."""
    both_ways = {f"{case}-{kind}": (case, kind, models.model(case, kind)) for case, kind in ALL}
    return _read(tmp_path_factory.mktemp("models"), both_ways)


@pytest.fixture(scope="module")
def read_by_5(tmp_path_factory):
    """As `read`, with Transformers 5."""
    both_ways = {f"{case}-{kind}": (case, kind, models.model(case, kind)) for case, kind in NEW}
    return _read(tmp_path_factory.mktemp("recent"), both_ways, other_envs.transformers_5_python())


def _renamed(directory):
    """Calls a model of the published code as Transformers does, which reads the published names of weights."""
    values = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    if values["model_type"] != "new":
        return
    width = values["hidden_size"] // values["num_attention_heads"]
    factor = (values.pop("rope_scaling", None) or {"factor": 1.0})["factor"]
    values |= {"model_type": "gte", "architectures": [values["architectures"][0].replace("New", "Gte")]}
    values["rope_parameters"] = {"rope_type": "linear", "rope_theta": values.pop("rope_theta") * factor,
                                 "factor": factor ** (2 / width)}  # fmt: skip
    (directory / "config.json").write_text(json.dumps(values), encoding="utf-8")


def _read(folder, written, python=None):
    ours = {}
    for name, (case, kind, model) in written.items():
        given, rows = _given(case, kind, model)
        place = folder / name
        (place / "model").mkdir(parents=True)
        writers.write_model(place / "model", "huggingface", model)
        _renamed(place / "model")
        (place / "given.json").write_text(json.dumps(given), encoding="utf-8")
        mine = {"ids": rows["input_ids"].numpy(), **compute_outputs(model.config, model.arrays, rows)}
        ours[name] = model, mine, rows
    code = (pathlib.Path(__file__).parent / "torch_reads.py").read_text(encoding="utf-8")
    other_envs.run(python or other_envs.torch_python(), code, folder)
    found = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    return {name: (*mine, found[name]) for name, mine in ours.items()}


@pytest.fixture(scope="module")
def left_to_right(tmp_path_factory):
    """As `read`, of models that see the left alone."""
    written = {}
    for case, kind in LEFT_TO_RIGHT:
        model = models.model(case, kind)
        written[f"{case}-{kind}"] = (
            case, kind, dataclasses.replace(model, config=dataclasses.replace(model.config, is_decoder=True))
        )  # fmt: skip
    return _read(tmp_path_factory.mktemp("left_to_right"), written)


@pytest.mark.parametrize("case, kind", LEFT_TO_RIGHT, ids=[f"{case}-{kind}" for case, kind in LEFT_TO_RIGHT])
def test_transformers_reads_a_left_to_right_model_as_one(read, left_to_right, case, kind):
    _check(left_to_right[f"{case}-{kind}"], kind)
    one, other = (each[f"{case}-{kind}"][3]["outputs"] for each in (read, left_to_right))
    name = next(name for name in one if name != "pooler_output")
    assert np.abs(np.array(one[name]) - np.array(other[name])).max() > 1e-3


@pytest.mark.parametrize("case, kind", ALL, ids=[f"{case}-{kind}" for case, kind in ALL])
def test_transformers_reads_ours(read, case, kind):
    _check(read[f"{case}-{kind}"], kind)


@pytest.mark.parametrize("case, kind", NEW, ids=[f"{case}-{kind}" for case, kind in NEW])
def test_transformers_5_reads_ours(read_by_5, case, kind):
    names = ("bias", "decoder.bias", "transform.dense.bias")  # zeros there, where they are missing
    biases = [f"cls.predictions.{name}" for name in names]
    lacking = kind == "masked_lm" and not models.config(case).decoder_bias
    pooler = ["pooler.dense.bias", "pooler.dense.weight"]  # its encoder without a head never has one
    expected = {"missing_keys": biases} if lacking else {"unexpected_keys": pooler} if kind == "encoder" else {}
    _check(read_by_5[f"{case}-{kind}"], kind, expected)


def _check(read, kind, expected=None):
    model, ours, rows, found = read
    lacking = kind == "encoder" and model.config.model_type in _POOLER_EXPECTED and not model.config.has_pooler
    if expected is None:
        expected = {"missing_keys": ["pooler.dense.bias", "pooler.dense.weight"]} if lacking else {}
    assert {key: names for key, names in found["info"].items() if names} == expected
    np.testing.assert_array_equal(found["ids"], ours["ids"])
    mask = rows.get("input_mask", np.ones_like(ours["ids"]))
    real = np.asarray(mask).astype(bool)
    for name, theirs in NAMES[kind].items():
        value, true = np.array(found["outputs"][theirs]), ours[name]
        true = true if name == "sequence_output" else true[:, 0] if kind in OF_FIRST else true[:, 1:]
        value, true = (value, true) if kind in OF_FIRST else (value[real], true[real])
        assert np.abs(value - true).max() <= 1e-5 * max(1, np.abs(true).max()), name
    if kind == "spans":
        for n, name in enumerate(("start_logits", "end_logits")):
            value, true = np.array(found["outputs"][name]), ours["cls/squad logits"][n][:, 1:]
            assert np.abs(value - true)[real].max() <= 1e-5 * max(1, np.abs(true[real]).max())
    if model.labels:
        assert found["labels"] == model.labels


_POOLER_EXPECTED = ("roberta", "roberta-prelayernorm")  # whose classes without a head have one in any case


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("case", [case for case in models.CASES if models.CASES[case]["model_type"] in BY_TEXT])
def test_pipelines_just_work(read, case):
    model, *_, found = read[f"{case}-text"]
    rows = model.tokenizer([TEXTS[0]], max_seq_length=LENGTH)
    shares = _softmax(compute_outputs(model.config, model.arrays, rows)["classifier logits"][0, 0])
    assert [answer["label"] for answer in found["pipeline"]] == [model.labels[n] for n in np.argsort(-shares)]
    np.testing.assert_allclose([answer["score"] for answer in found["pipeline"]], np.sort(shares)[::-1], atol=1e-5)

    model, *_, found = read[f"{case}-tokens"]
    shares = _softmax(compute_outputs(model.config, model.arrays, rows)["classifier logits"][0, 2:])  # behind [CLS]
    assert found["pipeline"]
    for answer in found["pipeline"]:
        share = shares[answer["index"] - 1]
        assert answer["entity"] == model.labels[share.argmax()] and abs(answer["score"] - share.max()) < 1e-5

    model, *_, found = read[f"{case}-masked_lm"]
    assert len(found["pipeline"]) == 3
    ids = model.tokenizer(["the film is great"], max_seq_length=LENGTH)
    masked = tf.where(tf.range(LENGTH) == 2, model.tokenizer.mask_id, ids["input_ids"])
    ours = compute_outputs(model.config, model.arrays, ids | {"input_ids": masked})
    shares = _softmax(ours["cls/predictions logits"][0, 3])
    assert [answer["token"] for answer in found["pipeline"]] == list(np.argsort(-shares)[:3])
    np.testing.assert_allclose([a["score"] for a in found["pipeline"]], np.sort(shares)[::-1][:3], atol=1e-5)

    *_, found = read[f"{case}-spans"]
    assert found["pipeline"]["answer"] in TEXTS[0]
