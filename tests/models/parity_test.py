"""Our encoder against torch Transformers: committed goldens of seeded random models, and real weights on real text."""

import numpy as np
import pytest
from safetensors.numpy import load_file

import bert_tf
from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.pretrainer import Pretrainer
from tests import parity
from tests.harness import relative_error
from tests.parity import GOLDENS

NAMES = ("erf", "tanh")
TOLERANCE = 1e-5  # of the largest value, float32


def _golden(name):
    """Returns what torch gave, and the encoder's inputs."""
    expected = load_file(GOLDENS / name / "expected.safetensors")
    names = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "segment_ids"}
    return expected, {ours: expected[theirs] for theirs, ours in names.items() if theirs in expected}


@pytest.mark.parametrize("name", [*NAMES, "distilbert"])
def test_the_encoder(name):
    encoder = Encoder(EncoderConfig.load(GOLDENS / name))
    encoder.build()
    report = assign_weights(GOLDENS / name, encoder.variables, heads.others(()) if name == "distilbert" else ())
    own = 4 if name == "distilbert" else 5 + 2  # which has neither segments nor a pooler
    assert len(report.loaded) == len(encoder.variables) == own + 16 * len(encoder.blocks)
    expected, inputs = _golden(name)
    outputs = encoder(inputs)
    for ours, true in zip(outputs["encoder_outputs"], expected["hidden_states"][1:], strict=True):
        assert relative_error(ours, true) < TOLERANCE
    np.testing.assert_array_equal(outputs["sequence_output"], outputs["encoder_outputs"][-1])
    embedded = encoder.embeddings(inputs["input_ids"], inputs.get("segment_ids"))
    assert relative_error(embedded, expected["hidden_states"][0]) < TOLERANCE
    if name != "distilbert":
        assert relative_error(outputs["pooled_output"], expected["pooler_output"]) < TOLERANCE
        return
    np.testing.assert_array_equal(outputs["pooled_output"], outputs["sequence_output"][:, 0])
    again = encoder(inputs | {"segment_ids": inputs["input_mask"]})  # segments mean nothing to it
    np.testing.assert_array_equal(again["sequence_output"], outputs["sequence_output"])


def test_distilbert_s_masked_lm():
    model = Pretrainer(EncoderConfig.load(GOLDENS / "distilbert"), next_sentence=False)
    report = assign_weights(GOLDENS / "distilbert", model.variables)
    assert len(report.loaded) == len(model.variables) and not report.allowed_unused
    expected, inputs = _golden("distilbert")
    true = expected["mlm_logits"]
    inputs["masked_lm_positions"] = np.tile(np.arange(true.shape[1], dtype=np.int32), (len(true), 1))
    assert relative_error(model(inputs)["mlm_logits"], true) < TOLERANCE


def test_the_goldens_are_small_and_tell_the_two_gelus_apart():
    assert sum(file.stat().st_size for file in GOLDENS.glob("*/*.safetensors")) < 600_000
    acts = {EncoderConfig.load(GOLDENS / name).hidden_act for name in NAMES}
    assert acts == {"gelu", "gelu_tanh"}
    config = EncoderConfig.load(GOLDENS / "erf")
    wrong = Encoder(EncoderConfig.from_dict({**config.to_dict(), "hidden_act": "gelu_tanh"}))
    wrong.build()
    assign_weights(GOLDENS / "erf", wrong.variables)
    expected, inputs = _golden("erf")
    assert relative_error(wrong(inputs)["sequence_output"], expected["hidden_states"][-1]) > 10 * TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("script, names", [("make_goldens.py", NAMES), ("torch_distilbert.py", ("distilbert",))])
def test_torch_makes_the_same_goldens_again(tmp_path, script, names):
    parity.run_torch(script, tmp_path)
    for name in names:
        assert EncoderConfig.load(tmp_path / name) == EncoderConfig.load(GOLDENS / name)
        parity.check_same(tmp_path, (f"{name}/model.safetensors", f"{name}/expected.safetensors"), 1e-5)


def _real_sentences(folder, n=200):
    """Returns sentences of XNLI's English part, from 2 to some 50 words, none twice."""
    lines = (folder / "xnli" / "dev-en.tsv").read_text(encoding="utf-8").splitlines()
    sentences = sorted({text for line in lines for text in line.split("\t")[:2]}, key=lambda text: (len(text), text))
    return sentences[:: len(sentences) // n][:n]


@pytest.mark.slow
def test_minilm_on_real_sentences(tmp_path, minilm, shared_data):
    texts = _real_sentences(shared_data)
    assert len(texts) == 200
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    parity.run_torch("torch_outputs.py", minilm, tmp_path / "texts.txt", tmp_path / "torch.npz")
    true = np.load(tmp_path / "torch.npz")
    bert = bert_tf.load(minilm)
    packed = bert.tokenizer.pack(bert.tokenizer.tokenize(texts), max_seq_length=512)
    assert packed["input_ids"].flat_values.numpy().tolist() == true["input_ids"].tolist()
    assert packed["input_ids"].row_splits.numpy().tolist() == true["splits"].tolist()
    sequence, pooled = [], []
    for start in range(0, 200, 25):  # every batch mixes short and long
        rows = np.arange(start // 25, 200, 8)
        inputs = bert.tokenizer(np.array(texts)[rows], max_seq_length=128)
        outputs = bert.encoder(inputs)
        mask = inputs["input_mask"].numpy() > 0
        sequence += zip(
            rows, (y[m] for y, m in zip(outputs["sequence_output"].numpy(), mask, strict=True)), strict=True
        )
        pooled += zip(rows, outputs["pooled_output"].numpy(), strict=True)
    ours = {"sequence_output": np.concatenate(_in_order(sequence)), "pooled_output": np.stack(_in_order(pooled))}
    errors = {name: relative_error(value, true[name]) for name, value in ours.items()}
    print(f"MiniLM, largest difference as a share of the largest value: {errors}")
    assert max(errors.values()) < 2 * TOLERANCE


def _in_order(numbered):
    return [value for _, value in sorted(numbered, key=lambda pair: pair[0])]
