"""Approximate search: graphs find almost all of the nearest documents, and fit their segments."""

import shutil
import sys

import numpy as np
import pytest

from bert_tf.inference import nearest_neighbors, segment_graphs
from bert_tf.inference.graph_file import check_graph_file
from bert_tf.inference.index_segments import Segment, document_columns, write_segment
from bert_tf.inference.search import SearchIndex
from bert_tf.inference.segment_graphs import SegmentGraph
from tests.inference.hostile_graphs import crafted_graphs, odd_graphs


def clusters(count, width=32, seed=0):
    """Vectors around 50 centers, and queries around some of them."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(50, width))
    near = centers[rng.integers(0, 50, count + 20)] + rng.normal(size=(count + 20, width)) * 0.7
    return np.split(near.astype(np.float32), [count])


@pytest.mark.parametrize("dtype", ["float32", "int8", "binary"])
def test_a_graph_finds_almost_all_of_the_nearest(dtype, model, tmp_path, monkeypatch):
    pytest.importorskip("usearch", reason="needs bert-tf[search]")
    monkeypatch.setattr(nearest_neighbors, "_LEAST_ROWS", 1000)
    monkeypatch.setattr(segment_graphs, "cores", lambda: 1)  # the graph depends on the order of insertion
    stored, queries = clusters(2000)
    names = [str(n) for n in range(2000)]
    exact = SearchIndex.create(tmp_path / "index", model, vector_dtype=dtype)
    exact.add(names, names, vectors=stored)
    exact.add(["new"], ["new"], vectors=queries[:1])  # of a segment that is too small for a graph
    deleted = [hit.id for hit in exact.search(queries[1:2], 30)[0]]
    exact.delete(deleted)
    index = SearchIndex(tmp_path / "index", approximate=True)
    recalls = []
    for found, expected in zip(index.search(queries, 10), exact.search(queries, 10), strict=True):
        recalls.append(len({hit.id for hit in found} & {hit.id for hit in expected}) / 10)
        cosines_of = {hit.id: hit.score for hit in expected}
        assert len(found) == 10 and all(hit.score == pytest.approx(cosines_of.get(hit.id, hit.score), abs=1e-5)
                                        for hit in found)  # fmt: skip
        assert not set(deleted) & {hit.id for hit in found}
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert np.mean(recalls) > (0.7 if dtype == "binary" else 0.95)
    assert index.search(queries[:1], 1)[0][0].id == "new"
    assert len(index.search(queries[:1], 5000)[0]) == len(exact)
    [graph] = (tmp_path / "index").glob("*/graph.usearch")
    written = graph.stat().st_mtime_ns
    assert SearchIndex(tmp_path / "index", approximate=True).search(queries, 3) == index.search(queries, 3)
    assert graph.stat().st_mtime_ns == written
    index.delete([name for name in names if name not in deleted])  # the segment and its graph are removed
    assert [hit.id for hit in index.search(queries[:1])[0]] == ["new"] and not graph.exists()


def test_a_graph_of_other_documents_is_refused(model, tmp_path, monkeypatch):
    pytest.importorskip("usearch", reason="needs bert-tf[search]")
    monkeypatch.setattr(nearest_neighbors, "_LEAST_ROWS", 3)
    for count in (5, 6):
        index = SearchIndex.create(tmp_path / str(count), model)
        index.add(list("abcdef"[:count]), list("abcdef"[:count]))
        SearchIndex(tmp_path / str(count), approximate=True).search(["a"])
    graphs = [tmp_path / str(count) / "segment-000001" / "graph.usearch" for count in (5, 6)]
    shutil.copyfile(*graphs)
    message = "graph.usearch is damaged or not the graph of its segment: vectors of shape .*5, 64.* Remove the file"
    with pytest.raises(ValueError, match=message):
        SearchIndex(tmp_path / "6", approximate=True).search(["a"])


def test_graphs_are_checked_before_usearch_maps_them(tmp_path, monkeypatch):
    pytest.importorskip("usearch", reason="needs bert-tf[search]")
    monkeypatch.setattr(segment_graphs, "cores", lambda: 1)
    [stored, _], names = clusters(300, width=8), list(map(str, range(300)))
    write_segment(str(tmp_path / "s"), document_columns(stored, names, names, [{}] * 300, "float32"))
    segment = Segment(str(tmp_path / "s"))
    empty = SegmentGraph(segment) and segment_graphs._empty_graph(segment)
    path = tmp_path / "s" / "graph.usearch"
    good = path.read_bytes()
    check_graph_file(str(path), 300, empty)
    for name, data in crafted_graphs(good).items():
        path.write_bytes(data)
        with pytest.raises(ValueError):
            check_graph_file(str(path), 300, empty)
            pytest.fail(name)
    for data in odd_graphs(good).values():  # these find little, and harm nothing
        path.write_bytes(data)
        SegmentGraph(segment).nearest(segment, segment.vectors[:3], 2)


def test_an_index_that_cannot_be_written_is_searched_exactly(model, tmp_path, monkeypatch, caplog):
    pytest.importorskip("usearch", reason="needs bert-tf[search]")
    monkeypatch.setattr(nearest_neighbors, "_LEAST_ROWS", 3)

    def fail(*_):
        raise OSError("Read-only file system")

    monkeypatch.setattr(segment_graphs, "_write_graph", fail)
    exact = SearchIndex.create(tmp_path / "index", model)
    exact.add(list("abcdef"), list("abcdef"))
    index = SearchIndex(tmp_path / "index", approximate=True)
    assert index.search(["a"]) == index.search(["a"]) == exact.search(["a"])
    assert caplog.text.count("is searched without a graph, which cannot be written: Read-only file system") == 1


def test_a_graph_needs_its_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "usearch", None)
    monkeypatch.delitem(sys.modules, "usearch.index", raising=False)
    with pytest.raises(ValueError, match=r"`approximate` requires usearch. .*pip install 'bert-tf\[search\]'"):
        SearchIndex(tmp_path, approximate=True)
