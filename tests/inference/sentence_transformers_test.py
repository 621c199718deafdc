"""Vectors beside sentence-transformers' own: of a real model, on texts of many scripts, and of odd folders."""

import json
import pathlib
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

import bert_tf
from bert_tf.data import glue
from bert_tf.evaluation.cosine_similarity import cosines, unit
from bert_tf.evaluation.metrics import regression
from bert_tf.inference.search import SearchIndex
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
texts = json.load(open(sys.argv[1], encoding="utf-8"))
for model, options, path in json.loads(sys.argv[2]):
    np.save(path, SentenceTransformer(model, device="cpu").encode(texts, show_progress_bar=False, **options))
"""


def theirs(folder, texts, *models):
    """Returns what sentence-transformers makes of texts with each of (model, options of `encode`): float32 [n, D]."""
    python = other_envs.sentence_transformers_python()
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    jobs = [(str(model), options, str(folder / f"{n}.npy")) for n, (model, options) in enumerate(models)]
    other_envs.run(python, _ENCODE, folder / "texts.json", json.dumps(jobs))
    return [np.load(path) for *_, path in jobs]


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


def test_a_real_model_gives_the_same_vectors(minilm, shared_data, tmp_path):
    texts = mixed_texts(shared_data)
    nearest = cosines(SentenceEncoder(minilm)(texts), *theirs(tmp_path, texts, (minilm, {})))
    print("lowest cosine", nearest.min())
    assert len(nearest) == 1000 and nearest.min() > 0.99999


def test_a_real_model_has_the_same_score(minilm, shared_data, tmp_path):
    pairs = glue.read_split(str(shared_data / "glue" / "STS-B"), "sts-b", "dev")
    texts = [*pairs.text_a, *pairs.text_b]
    vectors = SentenceEncoder(minilm)(texts), *theirs(tmp_path, texts, (minilm, {}))
    both = [cosines(*np.split(each, 2)) for each in vectors]
    ours, other = (regression(np.array(pairs.labels), each, ["spearman"])["spearman"] for each in both)
    print("Spearman", ours, other)
    assert abs(ours - other) < 0.001 and ours > 0.86


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
    "shorter": (PLAIN, {"config_sentence_transformers": {"truncate_dim": 7}, "1_Pooling__config": _pooling("mean")},
                {}),
    "dense": (_DENSE_KINDS, {"1_Pooling__config": _pooling("max", "cls"), "3_Dense__config": _DENSE,
                             "sentence_bert_config": {"max_seq_length": 9, "do_lower_case": False}}, {}),
}  # fmt: skip


def odd_folder(start, name):
    """Copies a directory under that name and writes into it what `FOLDERS` says; returns it and the options."""
    kinds, files, options = FOLDERS[name]
    folder = pathlib.Path(shutil.copytree(start, start.parent / name))
    for _, path in kinds[2:]:
        (folder / path).mkdir()
    write(folder, kinds, **files)
    if "3_Dense__config" in files:
        rng = np.random.default_rng(0)
        shapes = {"linear.weight": (5, 64), "linear.bias": 5}
        weights = {key: rng.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
        save_file(weights, folder / "3_Dense" / "model.safetensors")
    return str(folder), options


def test_odd_folders_give_the_same_vectors(tmp_path):
    bert_tf.save(bert_tf.load(tiny.checkpoint(tmp_path / "tf1")), tmp_path / "model", "sentence_transformers")
    folders = [odd_folder(tmp_path / "model", name) for name in FOLDERS]
    for (folder, options), expected in zip(folders, theirs(tmp_path, TEXTS, *folders), strict=True):
        found = SentenceEncoder(folder, **options)(TEXTS)
        np.testing.assert_allclose(found, expected, atol=2e-5, err_msg=folder)


_MPNET = """
import sys, torch, transformers
from sentence_transformers import SentenceTransformer, models
torch.manual_seed(0)
tokenizer = transformers.MPNetTokenizerFast(sys.argv[1], model_max_length=32)
model = transformers.MPNetModel(transformers.MPNetConfig(
    vocab_size=len(tokenizer), hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
    max_position_embeddings=34, layer_norm_eps=1e-5, initializer_range=0.3))
for part in (model, tokenizer):
    part.save_pretrained(sys.argv[2] + "-start")
parts = [models.Transformer(sys.argv[2] + "-start", max_seq_length=32), models.Pooling(24), models.Normalize()]
SentenceTransformer(modules=parts, device="cpu").save(sys.argv[2])
"""


def test_a_folder_as_that_of_all_mpnet_base_v2(tmp_path):
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *tiny.VOCAB, "<mask>"]
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    python = other_envs.sentence_transformers_python()
    other_envs.run(python, _MPNET, str(tmp_path / "vocab.txt"), str(tmp_path / "model"))
    bert_tf.save(bert_tf.load(tmp_path / "model"), tmp_path / "again", "sentence_transformers")
    expected, again = theirs(tmp_path, TEXTS, *((tmp_path / name, {}) for name in ("model", "again")))
    for name in ("model", "again"):
        np.testing.assert_allclose(SentenceEncoder(tmp_path / name)(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(again, expected, atol=1e-6)
    assert cosines(expected[:1], expected[1:2])[0] < 0.999  # the texts differ


def test_queries_and_documents_have_the_prompts_that_they_have_there(tmp_path):
    bert_tf.save(bert_tf.load(tiny.checkpoint(tmp_path / "tf1")), tmp_path / "model", "sentence_transformers")
    path = write(tmp_path / "model", config_sentence_transformers={"prompts": {"query": "see ", "document": "to it "}},
                 **{"1_Pooling__config": _pooling("mean")})  # fmt: skip
    code = _ENCODE.replace("SentenceTransformer(model, device=\"cpu\").encode(",
                           "getattr(SentenceTransformer(model, device=\"cpu\"), options.pop(\"kind\"))(")  # fmt: skip
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS), encoding="utf-8")
    jobs = [(path, {"kind": f"encode_{kind}"}, str(tmp_path / f"{kind}.npy")) for kind in ("query", "document")]
    python = other_envs.sentence_transformers_python()
    other_envs.run(python, code, tmp_path / "texts.json", json.dumps(jobs))
    index = SearchIndex.create(tmp_path / "index", path)
    expected = [np.load(file) for *_, file in jobs]
    np.testing.assert_allclose(index.encoder()(TEXTS), expected[0], atol=2e-5)
    np.testing.assert_allclose(index.embed(TEXTS), unit(expected[1]), atol=2e-5)


def test_what_we_trained_is_read_there(tmp_path):
    tiny.write_tsv(tmp_path / "train.tsv", pairs(16), "text_a\ttext_b")
    run(init_checkpoint=str(tiny.checkpoint(tmp_path / "tf1")), output_dir=str(tmp_path / "out"), do_train=True,
        train_file=str(tmp_path / "train.tsv"), train_batch_size=8, num_train_epochs=1.0, max_seq_length=8,
        pooling=["mean_max", "cls"], normalize=True, save_format=["sentence_transformers"],
        prompts='{"query": "see it ", "document": "the "}')  # fmt: skip
    model = tmp_path / "out" / "sentence_transformers"
    names = [{}, {"prompt_name": "query"}, {"prompt_name": "document"}]
    for options, expected in zip(names, theirs(tmp_path, TEXTS, *((model, each) for each in names)), strict=True):
        np.testing.assert_allclose(SentenceEncoder(tmp_path / "out", **options)(TEXTS), expected, atol=1e-5)
