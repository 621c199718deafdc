"""Embeddings in int8 and binary: values by hand, cosines that stay near, and indexes and files that hold them."""

import json

import numpy as np
import pytest

from bert_tf.evaluation.cosine_similarity import unit
from bert_tf.inference.search import SearchIndex
from bert_tf.inference.sentence_encoder import SentenceEncoder
from bert_tf.inference.vector_types import quantize_vectors, stored_width, unit_vectors
from tests.run_cases import run_here

VECTORS = np.random.default_rng(0).normal(size=(50, 64)).astype(np.float32)


def test_values_by_hand():
    vectors = np.array([[0.5, -1, 0.25, 0, 2, -2, 0.1, 1e-9], [0] * 8], np.float32)
    assert quantize_vectors(vectors, "int8").tolist() == [[32, -64, 16, 0, 127, -127, 6, 0], [0] * 8]
    assert quantize_vectors(vectors, "binary").tolist() == [[0b10101011], [0]]
    assert quantize_vectors(vectors, "float32") is vectors
    signs = np.array([1, -1, 1, -1, 1, -1, 1, 1]) / np.sqrt(8)
    np.testing.assert_allclose(unit_vectors(np.array([[0b10101011]], np.uint8))[0], signs, rtol=1e-6)
    with pytest.raises(ValueError, match="`vector_dtype=binary` requires a number of .* multiple of 8; got 7"):
        quantize_vectors(vectors[:, :7], "binary")
    with pytest.raises(ValueError, match="`vector_dtype` must be one of float32, int8, binary; got 'int4'"):
        quantize_vectors(vectors, "int4")
    vectors[1, 0] = np.nan
    for dtype in ("int8", "binary"):
        with pytest.raises(ValueError, match=f"`vector_dtype={dtype}` requires embeddings without NaN .* 1 of 2 with"):
            quantize_vectors(vectors, dtype)


@pytest.mark.parametrize(("dtype", "size", "tolerance"), [("int8", 64, 0.01), ("binary", 8, 0.35)])
def test_cosines_stay_near(dtype, size, tolerance):
    stored = quantize_vectors(VECTORS, dtype)
    assert stored.nbytes == 50 * size and stored_width(stored) == 64
    back = unit_vectors(stored)
    np.testing.assert_allclose(np.linalg.norm(back, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(unit(VECTORS) @ back.T, unit(VECTORS) @ unit(VECTORS).T, atol=tolerance)


@pytest.mark.parametrize("dtype", ["int8", "binary"])
def test_an_index_holds_them_through_its_changes(dtype, model, tmp_path):
    rng, index = np.random.default_rng(0), SearchIndex.create(tmp_path / "index", model, vector_dtype=dtype)
    expected = {}
    for step in range(6):
        ids = [f"d{n}" for n in rng.choice(12, 4, replace=False)]
        rows = rng.normal(size=(4, 32)).astype(np.float32)
        index.add(ids, ids, vectors=rows)
        expected |= dict(zip(ids, unit_vectors(quantize_vectors(unit(rows), dtype)), strict=True))
        if step == 3:
            index.delete(ids[:1])
            del expected[ids[0]]
    query = rng.normal(size=(1, 32)).astype(np.float32)
    [hits] = SearchIndex(index.directory).search(query, 99)
    scores = {name: float(row @ unit(query)[0]) for name, row in expected.items()}
    assert {hit.id: hit.score for hit in hits} == pytest.approx(scores, abs=1e-6)
    assert {each.vectors.dtype for each in index._segments} == {np.dtype({"int8": "int8", "binary": "uint8"}[dtype])}


@pytest.mark.parametrize("dtype", ["float32", "int8", "binary"])
@pytest.mark.parametrize("scale", [1e300, 1e38, 1e30, 1e-30, 1e-40, 1e-300])
def test_cosines_do_not_depend_on_the_size_of_vectors(scale, dtype, model, tmp_path):
    rows = np.random.default_rng(0).uniform(-1, 1, [4, 16])
    vectors = (rows * scale).astype(np.float32 if 1e-45 < scale < 1e39 else np.float64)
    tolerance = 0.01 if dtype == "int8" else 1e-4  # 1e-40 has few digits in float32
    plain, scaled = (SearchIndex.create(tmp_path / name, model, vector_dtype=dtype) for name in ("plain", "scaled"))
    plain.add(list("abcd"), list("abcd"), vectors=rows)
    scaled.add(list("abcd"), list("abcd"), vectors=vectors)
    for expected, found in zip(plain.search(rows), scaled.search(vectors), strict=True):
        assert [hit.id for hit in found] == [hit.id for hit in expected]
        np.testing.assert_allclose([hit.score for hit in found], [hit.score for hit in expected], atol=tolerance)
    assert (np.abs(quantize_vectors(rows * min(scale, 1e38), "int8")).max(-1) == 127).all()


@pytest.mark.slow
def test_the_command_writes_them(model, tmp_path):
    texts = ["good film", "a warm story of people", "music"]
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    words = [f"--model={model}", f"--input_file={tmp_path}/texts.txt", "--vector_dtype=int8"]
    for more in (f"--output_file={tmp_path}/out.npz", f"--output_file={tmp_path}/out.jsonl",
                 f"--index_dir={tmp_path}/index"):  # fmt: skip
        ended = run_here("embed", [*words, more])
        assert ended["status"] == 0, ended["log"]
    expected = quantize_vectors(SentenceEncoder(model)(texts), "int8")
    with np.load(tmp_path / "out.npz") as file:
        assert file["embeddings"].dtype == np.int8
        np.testing.assert_allclose(file["embeddings"], expected, atol=1)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    np.testing.assert_allclose([line["embeddings"] for line in lines], expected, atol=1)
    assert SearchIndex(tmp_path / "index").search(["music"])[0][0][:2] == ("2", pytest.approx(1, abs=1e-3))
    with pytest.raises(ValueError, match="`vector_dtype` must be one of"):
        SearchIndex.create(tmp_path / "other", model, vector_dtype="int4")
    ended = run_here("embed", [*words, f"--index_dir={tmp_path}/index", "--update", "--id_column=0"])
    assert ended["status"] == 1 and "--update and --vector_dtype cannot be combined" in ended["log"]
