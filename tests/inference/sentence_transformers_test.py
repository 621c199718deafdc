"""Vectors beside sentence-transformers' own: of a real model, on texts of many scripts, and of odd folders."""

import json
import pathlib
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

import bert_tf
from bert_tf.data import glue
from bert_tf.evaluation.metrics import regression
from bert_tf.evaluation.retrieval import cosines
from bert_tf.inference.sentence_encoder import SentenceEncoder
from tests import other_envs, tiny
from tests.sentence_folders import PLAIN, write
from tests.tasks.embedding.support import pairs, run

pytestmark = pytest.mark.slow

LANGUAGES = ("ar", "el", "en", "hi", "ru", "th", "zh")
TEXTS = ["good film", "the Film is dull , cold and empty .", "music", "people and music to see it . " * 6]
_ENCODE = """
import json, sys
import numpy as np
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1], device="cpu")
options = json.loads(sys.argv[4])
np.save(sys.argv[3], model.encode(json.load(open(sys.argv[2], encoding="utf-8")), show_progress_bar=False, **options))
"""


@pytest.fixture
def theirs(tmp_path):
    """Returns (model, texts, options of `encode`) -> float32 [n, D]."""
    python = other_envs.sentence_transformers_python()

    def encode(model, texts, **options):
        (tmp_path / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
        files = tmp_path / "texts.json", tmp_path / "vectors.npy"
        other_envs.run(python, _ENCODE, model, *files, json.dumps(options))
        return np.load(files[1])

    return encode


def mixed_texts(folder):
    """Returns 1,000 texts in seven languages: of one sentence, of a few, and every tenth longer than a row."""
    rng, texts = np.random.default_rng(0), []
    for language in LANGUAGES:
        path = folder / "xnli" / f"dev-{language}.tsv"
        sentences = [cell for line in path.read_text("utf-8").split("\n")[:-1] for cell in line.split("\t")[:2]]
        for n in range(143):
            count = 40 if n % 10 == 0 else int(rng.integers(1, 6))
            texts.append(" ".join(rng.choice(sentences, count)))
    return texts[:1000]


def test_a_real_model_gives_the_same_vectors(minilm, shared_data, theirs):
    texts = mixed_texts(shared_data)
    ours = SentenceEncoder(minilm)(texts)
    nearest = cosines(ours, theirs(minilm, texts))
    print("lowest cosine", nearest.min())
    assert len(nearest) == 1000 and nearest.min() > 0.99999


def test_a_real_model_has_the_same_score(minilm, shared_data, theirs):
    pairs = glue.read_split(str(shared_data / "glue" / "STS-B"), "sts-b", "dev")
    texts = [*pairs.text_a, *pairs.text_b]
    found = {}
    for name, vectors in (("ours", SentenceEncoder(minilm)(texts)), ("theirs", theirs(minilm, texts))):
        found[name] = regression(np.array(pairs.labels), cosines(*np.split(vectors, 2)), ["spearman"])["spearman"]
    print(found)
    assert abs(found["ours"] - found["theirs"]) < 0.001 and found["ours"] > 0.86


PROMPTS = {"prompts": {"query": "see it : ", "document": "story "}, "default_prompt_name": "document"}
_DENSE = {"in_features": 64, "out_features": 5, "bias": True, "activation_function": "torch.nn.modules.activation.Tanh"}
_DENSE_KINDS = (*PLAIN, ("Normalize", "2_Normalize"), ("Dense", "3_Dense"), ("Normalize", "4_Normalize"))


def _pooling(*modes, **more):
    return {"embedding_dimension": 32, "pooling_mode": list(modes), **more}


FOLDERS = {
    "old switches": (PLAIN, {"1_Pooling__config": {"word_embedding_dimension": 32, "pooling_mode_max_tokens": True,
                                                   "pooling_mode_mean_tokens": True}}, {}),
    "all modes": (PLAIN, {"1_Pooling__config": _pooling("lasttoken", "weightedmean", "mean_sqrt_len_tokens", "cls",
                                                        "max", "mean")}, {}),
    "prompts": (PLAIN, {"config_sentence_transformers": PROMPTS, "1_Pooling__config": _pooling("mean")}, {}),
    "another": (PLAIN, {"config_sentence_transformers": PROMPTS, "1_Pooling__config": _pooling("mean")},
                {"prompt_name": "query"}),
    "a prompt that is not pooled": (
        PLAIN, {"1_Pooling__config": _pooling("mean", "cls", "max", "weightedmean", include_prompt=False)},
        {"prompt": "see it "},
    ),
    "dense": (_DENSE_KINDS, {"1_Pooling__config": _pooling("max", "cls"), "3_Dense__config": _DENSE,
                             "sentence_bert_config": {"max_seq_length": 9, "do_lower_case": False}}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_odd_folders_give_the_same_vectors(name, theirs, tmp_path):
    kinds, files, options = FOLDERS[name]
    bert_tf.save(bert_tf.load(tiny.checkpoint(tmp_path / "tf1")), tmp_path / "model", "sentence_transformers")
    (tmp_path / "model" / "2_Normalize").mkdir()
    shutil.copytree(tmp_path / "model" / "2_Normalize", tmp_path / "model" / "4_Normalize")
    path = write(pathlib.Path(tmp_path / "model"), kinds, **files)
    if "3_Dense__config" in files:
        rng = np.random.default_rng(0)
        shapes = {"linear.weight": (5, 64), "linear.bias": 5}
        weights = {key: rng.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
        save_file(weights, f"{path}/3_Dense/model.safetensors")
    np.testing.assert_allclose(SentenceEncoder(path, **options)(TEXTS), theirs(path, TEXTS, **options), atol=2e-5)


def test_what_we_trained_is_read_there(theirs, tmp_path):
    tiny.write_tsv(tmp_path / "train.tsv", pairs(16), "text_a\ttext_b")
    run(init_checkpoint=str(tiny.checkpoint(tmp_path / "tf1")), output_dir=str(tmp_path / "out"), do_train=True,
        train_file=str(tmp_path / "train.tsv"), train_batch_size=8, num_train_epochs=1.0, max_seq_length=8,
        pooling=["mean_max", "cls"], normalize=True, save_format=["sentence_transformers"])  # fmt: skip
    expected = theirs(tmp_path / "out" / "sentence_transformers", TEXTS)
    np.testing.assert_allclose(SentenceEncoder(tmp_path / "out")(TEXTS), expected, atol=1e-5)
