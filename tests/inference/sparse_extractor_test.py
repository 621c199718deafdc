"""Sparse embeddings as sentence-transformers has them, as matrices of SciPy; their tokens; what is refused."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file
from scipy.sparse import csr_matrix

import bert_tf
from bert_tf.inference import sparse_extractor
from bert_tf.inference.search import SearchIndex
from bert_tf.inference.sentence_encoder import SentenceEncoder
from tests import other_envs, parity, run_cases, tiny
from tests.sentence_folders import write

FOLDER = parity.GOLDENS / "sparse_encoder"
KEPT = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
TEXTS, CASES = KEPT["texts"], ("bert", "distilbert")


@pytest.fixture(scope="module", autouse=True)
def _eagerly():
    """Tracing each model for a few texts would be most of the time."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def expected():
    return {case: np.array(KEPT[case], np.float32) for case in CASES}


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder(FOLDER / "bert")


@pytest.mark.parametrize("case", CASES)
def test_vectors_are_theirs(case, encoder, expected, monkeypatch):
    encoder = encoder if case == "bert" else SentenceEncoder(FOLDER / case)
    monkeypatch.setattr(sparse_extractor, "_CHUNK", 3)
    vectors = encoder(TEXTS)
    assert isinstance(vectors, csr_matrix) and vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), len(tiny.VOCAB)) and encoder.width == len(tiny.VOCAB)
    np.testing.assert_allclose(vectors.toarray(), expected[case], atol=1e-5)
    assert vectors.nnz == np.count_nonzero(expected[case]) < expected[case].size


def test_no_texts_have_no_vectors(encoder):
    assert encoder([]).shape == (0, len(tiny.VOCAB)) and encoder.decode(encoder([])) == []


def test_tokens_are_ordered_by_their_weights(encoder, expected):
    vectors = encoder(TEXTS)
    for row, tokens in zip(expected["bert"], encoder.decode(vectors, 3), strict=True):
        best = np.argsort(-row)[:3]
        assert [token for token, _ in tokens] == [tiny.VOCAB[n] for n in best]
        np.testing.assert_allclose([weight for _, weight in tokens], row[best], atol=1e-5)
    assert list(map(len, encoder.decode(vectors))) == vectors.getnnz(1).tolist()
    equal = csr_matrix(np.array([[0, 2, 0, 2] + [0] * 24], np.float32))
    assert encoder.decode(equal) == [[("[UNK]", 2.0), ("[SEP]", 2.0)]]
    for wrong in (expected["bert"], vectors[:, :5]):
        with pytest.raises(ValueError, match=r"`vectors` must be a SciPy sparse matrix, \[n, 28\]"):
            encoder.decode(wrong)
    with pytest.raises(ValueError, match="`top_k` must be 1 or more; got 0"):
        encoder.decode(vectors, 0)


def test_the_largest_weights_are_kept(expected):
    vectors = SentenceEncoder(FOLDER / "bert", max_active_dims=4)(TEXTS)
    least = np.sort(expected["bert"], -1)[:, -4:-3]
    np.testing.assert_allclose(vectors.toarray(), np.where(expected["bert"] >= least, expected["bert"], 0), atol=1e-5)
    assert vectors.getnnz(1).tolist() == [4] * len(TEXTS)
    with pytest.raises(ValueError, match="`max_active_dims` must be 1 or more; got 0"):
        SentenceEncoder(FOLDER / "bert", max_active_dims=0)


def test_a_masked_lm_is_pooled_if_asked_for(expected, tmp_path):
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(FOLDER / "bert" / name, tmp_path)
    encoder = SentenceEncoder(tmp_path, sparse=True, prompt="a warm ")
    np.testing.assert_allclose(encoder(["film ."]).toarray(), expected["bert"][:1], atol=1e-5)


def test_what_does_not_go_together_is_refused(tmp_path):
    for name, value in (("layers", "last"), ("pooling", "max"), ("normalize", True), ("dim", 8)):
        with pytest.raises(ValueError, match=f"`{name}` requires dense embeddings, and those of .* are sparse. Rem"):
            SentenceEncoder(FOLDER / "bert", **{name: value})
    for length in (2, 21):
        with pytest.raises(ValueError, match=f"`max_seq_length` must be from 3 to 20, .* got {length}"):
            SentenceEncoder(FOLDER / "bert", max_seq_length=length)
    dense = tiny.checkpoint(tmp_path / "dense")
    with pytest.raises(ValueError, match="`max_active_dims` requires sparse embeddings, and .* has dense ones"):
        SentenceEncoder(dense, max_active_dims=8)
    with pytest.raises(ValueError, match="A masked-LM head is required"):
        SentenceEncoder(dense, sparse=True)
    (tmp_path / "dense" / "task.json").write_text('{"task": "embedding"}', encoding="utf-8")
    with pytest.raises(ValueError, match="`sparse` requires a SparseEncoder or a masked LM. .* is a model for another"):
        SentenceEncoder(dense, sparse=True)
    with pytest.raises(ValueError, match="`decode` requires a sparse encoder"):
        SentenceEncoder(tiny.checkpoint(tmp_path / "other")).decode(csr_matrix((1, 32)))


def test_indexes_and_files_of_vectors_are_of_dense_ones(tmp_path):
    with pytest.raises(ValueError, match="is a SparseEncoder, which has sparse embeddings instead of dense ones. Use"):
        SearchIndex.create(tmp_path / "index", FOLDER / "bert")
    (tmp_path / "texts.txt").write_text("film\n", encoding="utf-8")
    words = [f"--model={FOLDER / 'bert'}", f"--input_file={tmp_path}/texts.txt", f"--output_file={tmp_path}/out.npz"]
    done = run_cases.run_here("embed", words)
    assert done["status"] == 1 and "bert is a SparseEncoder, which has sparse embeddings" in done["log"]


def write_router(folder, encoder=""):
    """Writes the model of the case "bert" with a Router as OpenSearch does, its encoder in a directory of that name.

    The logarithm is taken twice, and each token of a query has a weight of its own; returns these.
    """
    query = folder / "query_0_SparseStaticEmbedding"
    shutil.copytree(FOLDER / "bert", folder / encoder, dirs_exist_ok=True)
    (folder / encoder / "modules.json").unlink()
    shutil.copytree(folder / encoder / "1_SpladePooling", folder / "document_1_SpladePooling")
    query.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        shutil.copy(FOLDER / "bert" / name, query)
    if encoder:
        (folder / encoder / "config_sentence_transformers.json").rename(folder / "config_sentence_transformers.json")
    kinds = {"query_0_SparseStaticEmbedding": "SparseStaticEmbedding", "document_1_SpladePooling": "SpladePooling",
             encoder: "MLMTransformer"}  # fmt: skip
    types = {name: f"sentence_transformers.sparse_encoder.models.{kind}" for name, kind in kinds.items()}
    routes = {"query": [query.name], "document": [encoder, "document_1_SpladePooling"]}
    parameters = {"default_route": "document", "allow_empty_key": True}
    write(folder, (("Router", ""),), router_config={"types": types, "structure": routes, "parameters": parameters},
          document_1_SpladePooling__config={"pooling_strategy": "max", "activation_function": "log1p_relu"},
          query_0_SparseStaticEmbedding__config={"frozen": False})  # fmt: skip
    weights = np.linspace(0.5, 3, len(tiny.VOCAB), dtype=np.float32)
    weights[tiny.VOCAB.index("is")] = 0
    save_file({"weight": weights}, query / "model.safetensors")
    return weights


@pytest.mark.parametrize("encoder", ["", "document_0_MLMTransformer"])
def test_a_router_embeds_queries_by_their_tokens(encoder, expected, tmp_path):
    weights = write_router(tmp_path, encoder)
    if not encoder:
        documents = SentenceEncoder(tmp_path)(TEXTS)
        np.testing.assert_allclose(documents.toarray(), np.log1p(expected["bert"]), atol=1e-5)
    query = SentenceEncoder(tmp_path, kind="query")
    found = query(["good film , good music is [SEP]", "", "the film is " * 9 + "good"])
    wanted = np.zeros([3, len(tiny.VOCAB)], np.float32)
    for row, words in enumerate((["good", "film", ",", "music", "[UNK]"], [], ["the", "film"])):
        ids = [tiny.VOCAB.index(word) for word in words]
        wanted[row, ids] = weights[ids]
    assert isinstance(found, csr_matrix) and found.dtype == np.float32
    np.testing.assert_array_equal(found[:, 5:].toarray(), wanted[:, 5:])
    assert query.decode(found[:1], 1)[0][0][0] == "," and query.token_counts.total.truncated == 1
    assert SentenceEncoder(tmp_path, kind="query", max_active_dims=1)(["good film"]).nnz == 1


def test_routes_that_are_not_supported_are_refused(tmp_path):
    write_router(tmp_path)
    path, config = tmp_path / "router_config.json", tmp_path / "query_0_SparseStaticEmbedding" / "config.json"
    good = json.loads(path.read_text(encoding="utf-8"))
    for changes, message in (
        ({"structure": {"document": good["structure"]["document"]}}, "must have the routes query and document"),
        ({"structure": {"query": 1, "document": 2}}, "must have the routes query and document"),
        ({"parameters": {"default_route": 3}}, "default_route in .* must be of type str"),
        ({"parameters": {"route_mappings": {"a": "b"}}}, "no others; got 'route_mappings'"),
        ({"types": {}}, "must be those of sentence-transformers, in directories next to it"),
        ({"structure": {**good["structure"], "query": ["../a"]}}, "in directories next to it; got '../a'"),
        ({"structure": {**good["structure"], "query": ["document_1_SpladePooling"]}}, "must consist of a Transformer"),
    ):
        path.write_text(json.dumps({**good, **changes}), encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            SentenceEncoder(tmp_path, kind="query")
    path.write_text(json.dumps(good), encoding="utf-8")
    with pytest.raises(ValueError, match="`kind` must be one of query, document, or None; got 'both'"):
        SentenceEncoder(tmp_path, kind="both")
    config.write_text('{"path": "idf.json"}', encoding="utf-8")
    with pytest.raises(ValueError, match="path in .* must be absent"):
        SentenceEncoder(tmp_path, kind="query")
    config.write_text("{}", encoding="utf-8")
    save_file({"weight": np.ones(3, np.float32)}, config.parent / "model.safetensors")
    with pytest.raises(ValueError, match="must contain `weight` with 28 numbers, one for each token of the vocabulary"):
        SentenceEncoder(tmp_path, kind="query")


@pytest.mark.slow
def test_sentence_transformers_agrees_on_queries(tmp_path):
    other_envs.sentence_transformers_python()  # or the test is skipped
    paths = [tmp_path / "root", tmp_path / "folder"]
    for path, encoder in zip(paths, ("", "document_0_MLMTransformer"), strict=True):
        path.mkdir()
        write_router(path, encoder)
    texts = ["good film , good music is", "", "a b c", *(text for text, _ in tiny.texts(20))]
    (tmp_path / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    for method, kind in (("encode", None), ("encode_query", "query")):
        theirs = json.loads(parity.run_torch("torch_sparse_encoder.py", method, tmp_path / "texts.json", *paths))
        for path, vectors in zip(paths, theirs, strict=True):
            np.testing.assert_allclose(SentenceEncoder(path, kind=kind)(texts).toarray(), vectors, atol=1e-5)


@pytest.mark.slow
def test_sentence_transformers_agrees(tmp_path):
    """The committed models and vectors are made again, and models that we write are asked for other texts."""
    other_envs.sentence_transformers_python()  # or the test is skipped
    (tmp_path / "vocab.txt").write_text("\n".join(tiny.VOCAB) + "\n", encoding="utf-8")
    parity.run_torch("torch_sparse_encoder.py", "make", tmp_path, tmp_path / "vocab.txt")
    made = json.loads((tmp_path / "expected.json").read_text(encoding="utf-8"))
    texts = ["music, and people", *(text for text, _ in tiny.texts(30))]
    (tmp_path / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    paths = [FOLDER / case for case in CASES] + [tmp_path / case for case in CASES]
    theirs = json.loads(parity.run_torch("torch_sparse_encoder.py", "encode", tmp_path / "texts.json", *paths))
    for case in CASES:
        np.testing.assert_allclose(made[case], KEPT[case], atol=1e-6)
    for path, vectors in zip(paths, theirs, strict=True):
        np.testing.assert_allclose(bert_tf.SentenceEncoder(path)(texts).toarray(), vectors, atol=1e-5)
