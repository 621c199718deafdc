"""Other programs read what we write: sentence-transformers, Transformers' TF1 loader; and a real model goes round."""

import json

import numpy as np
import pytest

import bert_tf
from bert_tf.checkpoints import writers
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.export.conversion.convert import convert_model
from bert_tf.export.conversion.model_outputs import compute_outputs
from tests import other_envs
from tests.export.conversion import models

pytestmark = pytest.mark.slow

TEXTS = ["The film is a great story of people, and music.", "see the dull FILMS"]

_SENTENCES = """
import json, sys
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1], device="cpu")
print(json.dumps([model.encode(json.loads(sys.argv[2])).tolist(), [type(part).__name__ for part in model]]))
"""


@pytest.fixture(scope="module")
def sentences():
    """Returns (directory, texts) -> what sentence-transformers makes of them, and its modules."""
    python = other_envs.sentence_transformers_python()

    def encode(folder, texts):
        found = other_envs.run(python, _SENTENCES, folder, json.dumps(texts)).splitlines()[-1]
        vectors, modules = json.loads(found)
        return np.array(vectors), modules

    return encode


@pytest.mark.parametrize("case", ["bert", "bert-odd", "distilbert", "electra", "ernie"])
def test_sentence_transformers_reads_ours(case, sentences, tmp_path):
    model = models.model(case, "encoder")
    writers.write_model(tmp_path, "sentence_transformers", model)
    vectors, modules = sentences(tmp_path, TEXTS)
    rows = model.tokenizer(TEXTS, max_seq_length=model.config.max_length)
    tokens = compute_outputs(model.config, model.arrays, rows)["sequence_output"]
    mask = rows["input_mask"].numpy()[..., None]
    assert modules == ["Transformer", "Pooling"]
    np.testing.assert_allclose(vectors, (tokens * mask).sum(1) / mask.sum(1), atol=1e-5)


_TF1 = """
import json, sys
import numpy as np, torch
from transformers import BertConfig, BertForPreTraining
from transformers.models.bert.modeling_bert import load_tf_weights_in_bert
config = BertConfig.from_json_file(sys.argv[1] + "/bert_config.json")
config.hidden_act = sys.argv[2] or config.hidden_act
model = load_tf_weights_in_bert(BertForPreTraining(config), config, sys.argv[1] + "/bert_model.ckpt").eval()
ids = torch.tensor(json.loads(sys.argv[3]))
with torch.inference_mode():
    found = model(ids)
print(json.dumps([found.prediction_logits.tolist(), found.seq_relationship_logits.tolist()]))
"""


@pytest.mark.parametrize("case, act", [("bert", "gelu_new"), ("bert-odd", "")], ids=["tanh", "exact"])
def test_transformers_tf1_loader_reads_ours(case, act, tmp_path):
    """Transformers takes Google's word "gelu" for the exact form, so that it must be told of the other."""
    slots = {"bert/pooler/dense/bias/adam_m": np.ones(12, np.float32), "global_step": np.int64(1)}
    model = models.model(case, "pretraining", optimizer=slots)
    writers.write_model(tmp_path, "tf1", model)
    ids = np.random.default_rng(0).integers(5, 30, (2, 7)).astype(np.int32)
    logits, sentences_ = json.loads(
        other_envs.run(other_envs.torch_tf_python(), _TF1, tmp_path, act, json.dumps(ids.tolist())).splitlines()[-1]
    )
    ours = compute_outputs(model.config, model.arrays, {"input_ids": ids})
    for value, true in ((logits, ours["cls/predictions logits"][:, 1:]),
                        (sentences_, ours["cls/seq_relationship logits"][:, 0])):  # fmt: skip
        assert np.abs(np.array(value) - true).max() <= 1e-5 * max(1, np.abs(true).max())


def test_a_real_model_goes_through_every_format(minilm, tmp_path, sentences, capsys):
    """MiniLM has the exact gelu, which KerasHub has not: that is given up, and everything else stays to the bit."""
    place, options = minilm, {"keras_hub": ["hidden_act"]}
    for form in ("huggingface", "tf1", "keras_hub", "bert_tf", "sentence_transformers"):
        proof = convert_model(place, tmp_path / form, form, options.get(form, ()))
        with capsys.disabled():
            print(f"\n{proof}")
        assert proof.matched == 103
        drift = max(proof.differences.values())
        assert 0 < drift < 0.01 if form in options else drift == 0
        place = tmp_path / form
    first, last = open_checkpoint(minilm), open_checkpoint(place)
    assert first.names.keys() == last.names.keys() and len(first.names) == 103
    assert all(first.stored(path).tobytes() == last.stored(path).tobytes() for path in first.names)
    files = [tmp_path / form / "model.safetensors" for form in ("huggingface", "sentence_transformers")]
    assert files[0].read_bytes() == files[1].read_bytes()

    bert_tf.save(bert_tf.load(minilm), tmp_path / "again", "sentence_transformers")
    there, modules = sentences(tmp_path / "again", TEXTS)
    here, _ = sentences(minilm, TEXTS)
    assert modules == ["Transformer", "Pooling", "Normalize"]
    np.testing.assert_allclose(there, here, atol=1e-6)
