"""An index on disk: whole or not at all, changes by id that leave it whole, and its export."""

import dataclasses
import errno
import functools
import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from bert_tf.evaluation.cosine_similarity import unit
from bert_tf.inference import document_index, embedders, index_segments
from bert_tf.inference.batch_prediction.table_job import TableJob, run_table_job
from bert_tf.inference.document_index import make_index
from bert_tf.inference.embedders import Indexer
from bert_tf.inference.search import SearchIndex
from bert_tf.inference.vector_types import quantize_vectors
from bert_tf.utils.folder_lock import alone_in
from bert_tf.utils.token_counts import TokenCountLog
from tests import processes, tiny
from tests.full_disk import full_disk
from tests.inference.indexes import TEXTS, index_of, vectors_of
from tests.run_cases import run_here


@pytest.fixture
def changed(path, tmp_path):
    """A copy of the index, to be changed."""
    shutil.copytree(path, tmp_path / "index")
    return SearchIndex(tmp_path / "index")


@pytest.fixture(scope="module")
def vectors(model):
    return vectors_of(model)


def test_whole_or_not_at_all(model, path, tmp_path):
    with pytest.raises(ValueError, match="a text must be a string"):
        index_of(model, tmp_path, [*TEXTS, 5])
    assert not list(tmp_path.glob("index*"))
    with pytest.raises(ValueError, match="`index_dir` must not exist yet"):
        index_of(model, path.parent)
    shutil.copytree(path, tmp_path / "index")
    np.save(tmp_path / "index" / "segment-000001" / "text_splits.npy", np.arange(3))
    with pytest.raises(ValueError, match="is not a complete index"):
        SearchIndex(tmp_path / "index")
    os.remove(tmp_path / "index" / "segment-000001" / "text_splits.npy")
    with pytest.raises(ValueError, match="is not a complete index: FileNotFoundError"):
        SearchIndex(tmp_path / "index")
    with pytest.raises(ValueError, match="index.json must be the description of an index"):
        SearchIndex(tmp_path)
    with pytest.raises(ValueError, match="The index .*nosuch.index does not exist. Check the path."):
        SearchIndex(tmp_path / "nosuch.index")
    texts, payloads = (np.load(path / "segment-000001" / f"{name}.npy") for name in ("text", "payload"))
    for name, array, message in (
        ("embeddings", np.full([5, 32], np.nan, np.float32), "embeddings with NaN or infinite values. Create the "),
        ("embeddings", np.zeros([5, 32], np.int8), "is not a complete index: .*type .i1 and shape"),
        ("text", texts | 0xFF, "text of row .: 'utf-8'"),
        ("payload", payloads * 0 + ord("["), "payload of row .: "),
        ("id_rows", np.full(5, 5), "an id in row 5 of 5"),
        ("ids_splits", np.array([0, 5, 1, 3, 4, 5]), "ids with missing bytes"),
    ):
        shutil.copytree(path, tmp_path / "damaged", dirs_exist_ok=True)
        np.save(tmp_path / "damaged" / "segment-000001" / f"{name}.npy", array)
        with pytest.raises(ValueError, match=message):
            index = SearchIndex(tmp_path / "damaged")
            index.search(np.ones([1, 32], np.float32))
            index.has_documents(["0", "1", "2", "3", "4"])
            index_segments.merge_segments(str(tmp_path / "merged"), index._segments)
    described = json.loads((path / "index.json").read_text()) | {"segments": [{"name": "../x", "deleted": None}]}
    (tmp_path / "index" / "index.json").write_text(json.dumps(described))
    with pytest.raises(ValueError, match="is not a complete index: .*a segment"):
        SearchIndex(tmp_path / "index")
    del described["vector_dtype"]
    (tmp_path / "index" / "index.json").write_text(json.dumps(described))
    with pytest.raises(ValueError, match="was written by another version of bert_tf. To fix this, create the index ag"):
        SearchIndex(tmp_path / "index")


def test_documents_are_added_replaced_and_deleted(changed, vectors):
    changed.add(["new", "0"], ["a film", "to see"], [{"year": 2026, "tags": ["a"]}, {}])
    assert len(changed) == len(TEXTS) + 1
    [[best, *others]] = changed.search(["a film"], top_k=99)
    assert best[0] == "new" and best[2:] == ("a film", {"year": 2026, "tags": ["a"]})
    assert {(hit.id, hit.text) for hit in others} == {("0", "to see"), *((str(n), TEXTS[n]) for n in range(1, 5))}
    changed.delete(["3", "new"])
    assert {hit.id for hit in changed.search(["a film"], top_k=99)[0]} == {"0", "1", "2", "4"}
    changed.add(["3"], [TEXTS[3]], vectors=vectors[0][3:4] * 7)
    assert changed.search(["good film"], top_k=1)[0][0][:1] == ("3",)
    assert SearchIndex(changed.directory).search(["a film"]) == changed.search(["a film"])


def test_it_is_as_if_made_at_once_after_any_changes(model, tmp_path, monkeypatch):
    """Many small changes leave few segments, and the same documents with the same scores."""
    monkeypatch.setattr(index_segments, "_BLOCK", 3)
    rng, index, expected = np.random.default_rng(0), SearchIndex.create(tmp_path / "index", model), {}
    for step in range(40):
        ids = [f"doc {n}" for n in rng.choice(30, rng.integers(1, 6), replace=False)]
        if step % 3 == 2:
            gone = [name for name in ids if name in expected]
            index.delete(gone)
            expected = {name: value for name, value in expected.items() if name not in gone}
            continue
        rows = rng.normal(size=(len(ids), 8)).astype(np.float32)
        index.add(ids, [f"{name}, {step}" for name in ids], [{"step": step}] * len(ids), rows)
        expected = {name: value for name, value in expected.items() if name not in ids}
        expected |= {name: (step, row / np.linalg.norm(row)) for name, row in zip(ids, rows, strict=True)}
    assert len(index) == len(expected) and len(index._segments) < 8
    query = rng.normal(size=(1, 8)).astype(np.float32)
    [hits] = SearchIndex(index.directory).search(query, 99)
    scores = {name: float(row @ query[0] / np.linalg.norm(query)) for name, (_, row) in expected.items()}
    assert [hit.id for hit in hits] == sorted(scores, key=lambda name: -scores[name])
    for hit in hits:
        step = expected[hit.id][0]
        assert (hit.text, hit.payload) == (f"{hit.id}, {step}", {"step": step})
        assert hit.score == pytest.approx(scores[hit.id], abs=1e-6)


def test_ids_of_one_hash_are_told_apart(changed, model, monkeypatch):
    monkeypatch.setattr(index_segments, "_hash", lambda name: 7)
    index = SearchIndex.create(os.path.join(changed.directory, "other"), model)
    index.add(["a", "b", "c"], TEXTS[:3], vectors=np.eye(3))
    index.delete(["b"])
    assert [hit.id for hit in index.search(np.eye(3)[:1])[0]] == ["a", "c"]
    with pytest.raises(ValueError, match=r"Each id must be unique; got 'd' twice, in rows 0 and 2, counted"):
        index.add(["d", "e", "d"], TEXTS[:3], vectors=np.eye(3))


def test_lone_surrogates_are_dropped(changed):
    vectors = np.ones([1, 32], np.float32)
    changed.add(["n\ud800"], ["t\ud800"], [{"a": "\ud800b"}], vectors)
    hit = changed.search(vectors, top_k=1)[0][0]
    assert (hit.id, hit.text, hit.payload) == ("n", "t", {"a": "b"})
    with pytest.raises(ValueError, match="All ids must be in .* Not found: "):
        changed.delete(["n\ud800"])


def test_what_does_not_fit_is_refused_and_changes_nothing(changed):
    with pytest.raises(ValueError, match="`top_k` must be a positive integer; got 0"):
        changed.search(["a"], top_k=0)
    before = changed.search(["a film"])
    files = sorted(map(str, os.walk(changed.directory)))
    with pytest.raises(ValueError, match=r"All ids must be in .*index. Not found: '7', 'x'. Nothing was deleted."):
        changed.delete(["0", "7", "x"])
    with pytest.raises(ValueError, match="Each id must be unique; got 'a' twice, in rows 0 and 1"):
        changed.add(["a", "a"], ["good", "bad"])
    with pytest.raises(ValueError, match=r"must match; got 1 ids, 2 texts, 1 payloads and vectors of shape \[2,"):
        changed.add(["a"], ["good", "bad"])
    with pytest.raises(ValueError, match=r"must match.* shape \[1, 3\], where the index has 32 dim"):
        changed.add(["a"], ["good"], vectors=np.eye(3)[:1])
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"must be finite; .* 1 of 2 .*: ids 'b'; text .*: 'bad'\. No"):
            changed.add(["a", "b"], ["good", "bad"], vectors=np.array([[1.0] * 32, [0.0] * 31 + [wrong]]))
    with pytest.raises(ValueError, match=r"`queries` must be vectors of shape \[q, 32\]; got \[1, 3\]"):
        changed.search(np.eye(3)[:1])
    with pytest.raises(ValueError, match="`ids`"):
        changed.add([1], ["good"])
    with alone_in(changed.directory), pytest.raises(ValueError, match="Another run is already writing to .*`index_"):
        changed.delete(["0"])
    assert changed.search(["a film"]) == before and sorted(map(str, os.walk(changed.directory))) == files


def test_readers_keep_what_they_have_opened(changed):
    reader = SearchIndex(changed.directory)
    before = reader.search(["a film"])
    changed.delete(["0", "1", "2", "3"])  # the segment is written again
    assert not os.path.exists(os.path.join(changed.directory, "segment-000001"))
    assert reader.search(["a film"]) == before and len(SearchIndex(changed.directory)) == 1


def test_all_that_a_description_names_is_on_the_disk_before_it_counts(changed, tmp_path, monkeypatch):
    """After a power failure, the new files would be empty, and the old ones deleted."""
    synced, write, seen = {}, document_index._write_description, set()

    def write_if_all_are_synced(directory, described):
        for entry in described["segments"]:
            folder = os.path.join(directory, entry["name"])
            names = set(os.listdir(folder)) if entry["name"] not in seen else {entry["deleted"]} - {None}
            sizes = {name: (os.stat(os.path.join(folder, name)).st_ino, os.path.getsize(os.path.join(folder, name)))
                     for name in names}  # fmt: skip
            assert not [name for name, (inode, size) in sizes.items() if synced.get(inode) != size], sizes
            seen.add(entry["name"])
        write(directory, described)

    def sync(file):
        synced[os.fstat(file).st_ino] = os.fstat(file).st_size

    path = tiny.write_jsonl(tmp_path / "more.jsonl", [("dull",), ("bad",)], ["text"])
    run_table_job(TableJob(str(path), f"{tmp_path}/rows.npz", changed.indexer()))
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(document_index, "_write_description", write_if_all_are_synced)
    seen.update(os.listdir(changed.directory))
    changed.add_rows(functools.partial(os.replace, tmp_path / "rows.npz"))  # replaces "0" and "1"
    changed.add(["2", "9"], ["film", "music"])
    changed.delete(["9"])
    assert len(seen) > 4 and len(changed) == 5  # the description, the first segment, two new and a merged one


def test_a_change_counts_although_old_files_cannot_be_removed(changed, tmp_path, monkeypatch):
    """As on a network file system, where a directory is not empty while a reader has a file in it open."""

    def fail(path, **_):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)

    path = tiny.write_jsonl(tmp_path / "more.jsonl", [(f"good {n}",) for n in range(9)], ["text"])
    run_table_job(TableJob(str(path), f"{tmp_path}/rows.npz", changed.indexer()))
    changed.delete(["4"])
    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", fail)
        patched.setattr(os, "remove", fail)
        changed.delete(["3"])  # segment-000001 has an older file of deleted rows
        changed.add_rows(functools.partial(os.replace, tmp_path / "rows.npz"))
    assert len(changed) == len(SearchIndex(changed.directory)) == 9
    left = {name for _, folders, names in os.walk(changed.directory) for name in (*folders, *names)}
    assert {"segment-000001", "rows.npz"} < left
    changed.delete(["0"])
    assert sorted(os.listdir(changed.directory)) == ["index.json", "segment-000005"]


def test_a_reader_tries_again_if_the_index_changes_while_it_opens(changed, monkeypatch):
    """It has read the description when another process removes what that names."""
    read, writer = document_index.read_object, SearchIndex(changed.directory)

    def read_and_change(*args):
        described = read(*args)
        monkeypatch.setattr(document_index, "read_object", read)
        writer.delete(["0", "1", "2"])
        return described

    monkeypatch.setattr(document_index, "read_object", read_and_change)
    assert len(SearchIndex(changed.directory)) == 2


def test_an_index_never_has_vectors_of_another_index_model(model, tmp_path, monkeypatch):
    """The encoder is a fake: it returns the vector of its prompt, which stands for the model."""
    vectors, during = dict(zip("ab", np.eye(8, dtype=np.float32), strict=False)), []

    def create(prompt):
        shutil.rmtree(tmp_path / "index", ignore_errors=True)
        SearchIndex.create(tmp_path / "index", model, prompt=prompt)

    def load(path, *, prompt, **_):
        return lambda texts: ([change() for change in during], np.stack([vectors[prompt]] * len(texts)))[1]

    monkeypatch.setattr(embedders, "SentenceEncoder", load)
    create("a")
    index = SearchIndex(tmp_path / "index")
    index.add(["0"], ["good"])
    create("b")
    with pytest.raises(ValueError, match="was created again after this program opened it. Nothing was added; call `re"):
        index.add(["1"], ["good"], vectors=index.embed(["good"]))
    with pytest.raises(ValueError, match="was created again"):
        index.add_rows(None)
    index.add(["1"], ["good"])
    assert [(hit.id, hit.score) for hit in index.search(vectors["b"][None])[0]] == [("1", 1.0)]
    during.append(lambda: create("a"))
    with pytest.raises(ValueError, match="was created again"):
        index.add(["2"], ["good"])
    one, other = SearchIndex(tmp_path / "index"), SearchIndex(tmp_path / "index")
    one.add(["0"], ["good"], vectors=np.eye(8)[:1])
    with pytest.raises(ValueError, match="must match.* where the index has 8 dimensions"):
        other.add(["1"], ["good"], vectors=np.eye(4)[:1])
    assert len(SearchIndex(tmp_path / "index")) == 1


def _end_before_it_counts(directory, change):
    document_index._write_description = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
    change(SearchIndex(directory))


def _add(index):
    index.add(["0", "9"], ["a", "b"], vectors=np.eye(32)[:2])


def _delete(index):
    index.delete(["0", "1", "2"])


@pytest.mark.slow
@pytest.mark.parametrize("change", [_add, pytest.param(_delete, marks=pytest.mark.slow)])
def test_a_change_that_is_killed_leaves_the_index(changed, change):
    before, files = changed.search(["a film"]), sorted(os.listdir(changed.directory))
    process = processes.start(_end_before_it_counts, changed.directory, change)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert SearchIndex(changed.directory).search(["a film"]) == before
    unfinished = [f".{name}.0123456789abcdef.tmp" for name in ("deleted-000002.npy", "graph.usearch")]
    for name in unfinished:
        open(os.path.join(changed.directory, "segment-000001", name), "w").close()
    changed.add(["new"], ["bad"])  # removes what is left
    there = os.listdir(os.path.join(changed.directory, "segment-000001"))
    assert [name in there for name in unfinished] == [False, True]  # a reader may be writing the graph
    changed.delete(["new"])
    assert changed.search(["a film"]) == before and len(os.listdir(changed.directory)) == len(files)
    assert not [name for _, _, names in os.walk(changed.directory) for name in names if "deleted" in name]


# === Full disks ===


def _documents(first, count):
    names = [f"{n}" for n in range(first, first + count)]
    return names, names, None, np.random.default_rng(first).normal(size=(count, 32))


def test_an_index_that_a_full_disk_keeps_from_a_change_is_unchanged_and_the_file_is_named(model, tmp_path):
    index = SearchIndex.create(tmp_path / "index", model)
    index.add(*_documents(0, 3000))
    files = sorted(map(str, os.walk(index.directory)))
    for limit, change, name in ((20_000, lambda: index.add(*_documents(3000, 200)), "segment-000002/embeddings"),
                                (2000, lambda: index.delete(["7"]), "segment-000001/deleted-000002")):  # fmt: skip
        with full_disk(limit), pytest.raises(OSError, match="File too large: ") as raised:
            change()
        assert raised.value.errno == errno.EFBIG and raised.value.filename == f"{tmp_path}/index/{name}.npy"
        assert sorted(map(str, os.walk(index.directory))) == files and index.has_documents(["7"]).all()
    with full_disk(2000):
        ended = run_here("delete_texts", [f"--index_dir={index.directory}", "7"])
    assert ended["status"] == 1 and "deleted-000002.npy'" in ended["log"], ended["log"]
    assert "Free space, or choose another location; existing files are unchanged." in ended["log"]


def test_a_change_counts_although_the_disk_has_no_space_to_merge(model, tmp_path, caplog):
    index = SearchIndex.create(tmp_path / "index", model)
    index.add(*_documents(0, 100))
    with full_disk(20_000):  # the embeddings of each segment take 12,800 bytes
        index.add(*_documents(100, 100))
    assert len(index) == len(SearchIndex(tmp_path / "index")) == 200
    assert caplog.text.count("was changed, but its segments could not be merged: [Errno 27] File too large:") == 1
    assert sorted(os.listdir(tmp_path / "index")) == ["index.json", "segment-000001", "segment-000002"]
    index.add(*_documents(200, 100))
    assert len(index) == 300 and sorted(os.listdir(tmp_path / "index")) == ["index.json", "segment-000004"]


_MERGE_ON_A_SMALL_DISK = """
import errno, os, sys
import numpy as np
from bert_tf.inference import index_segments

os.chdir(sys.argv[1])
names = [str(n) for n in range(500)]
columns = index_segments.document_columns(np.ones([500, 32], np.float32), names, names, [{}] * 500, "float32")
for folder in ("a", "b"):
    index_segments.write_segment(folder, columns)
try:
    index_segments.merge_segments("merged", [index_segments.Segment(folder) for folder in ("a", "b")])
except OSError as error:
    assert error.errno == errno.ENOSPC and error.filename.endswith("merged/embeddings.npy"), error
    assert os.listdir("merged") == []
    sys.exit(7)
"""


def test_a_disk_that_is_full_while_merging_is_an_error_and_not_the_end_of_the_process(tmp_path):
    """A real file system, since limits of a process do not make a write to a memory map fail."""
    isolated = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
    mount = f"mount -t tmpfs -o size=300k small {tmp_path}"
    try:
        subprocess.run([*isolated, mount], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs a file system of its own: {error}")
    command = [*isolated, f'{mount}; exec "$@"', "sh", sys.executable, "-c", _MERGE_ON_A_SMALL_DISK, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 7, ended


# === Interrupted jobs ===


def _fake_encoder(monkeypatch, encode):
    """Has `encode` compute the embeddings of texts in place of a `SentenceEncoder`."""
    encode.token_counts = TokenCountLog("fake")
    monkeypatch.setattr(embedders, "SentenceEncoder", lambda *_, **__: encode)


def test_embeddings_that_are_not_finite_are_refused_from_a_table_too(changed, tmp_path, monkeypatch):
    """One of them would come first, or fail, in every search."""
    _fake_encoder(monkeypatch, lambda texts: np.array([[np.nan if text == "bad" else 1] * 32 for text in texts]))
    path = tiny.write_jsonl(tmp_path / "more.jsonl", [("dull",), *[("bad",)] * 7], ["text"])
    query = np.ones([1, 32])
    before, indexer = changed.search(query), changed.indexer()
    message = "infinite values for 7 of 8 documents: ids '1', '2', '3', '4', '5' and 2 more; text of the first: 'bad'"
    with pytest.raises(ValueError, match=message):
        changed.add_rows(lambda file: run_table_job(TableJob(str(path), file, indexer)))
    assert changed.search(query) == SearchIndex(changed.directory).search(query) == before


class _FailingIndexer(Indexer):
    """Fails at a text; the identity is that of an `Indexer`."""

    def __call__(self):
        answer = super().__call__()

        def fail(rows):
            if "bad" in rows.texts[0]:
                raise OSError("The disk is gone.")
            return answer(rows)

        return fail


def test_an_interrupted_job_resumes(changed, tmp_path, caplog):
    path = tiny.write_jsonl(tmp_path / "more.jsonl", [("dull",), ("bad",)], ["text"])
    before, indexer = changed.search(["a film"]), changed.indexer()

    def add(maker):
        changed.add_rows(lambda file: run_table_job(TableJob(str(path), file, maker, rows_per_chunk=1)))

    with pytest.raises(OSError, match="The disk is gone"):
        add(_FailingIndexer(indexer.path, indexer.options))
    assert SearchIndex(changed.directory).search(["a film"]) == before
    with caplog.at_level("INFO", "absl"):
        add(indexer)
    assert "Resuming: 1 of 2 parts exist." in caplog.text
    assert {hit.text for hit in changed.search(["a film"])[0] if hit.id in "01"} == {"dull", "bad"}


def test_an_interrupted_new_index_resumes(model, tmp_path, caplog, monkeypatch):
    _fake_encoder(monkeypatch, lambda texts: np.ones([len(texts), 8], np.float32))
    path = tiny.write_jsonl(tmp_path / "texts.jsonl", [("dull",), ("bad",)], ["text"])

    def make(maker):
        job = TableJob(str(path), "", maker, rows_per_chunk=1)
        make_index(f"{tmp_path}/new/", maker, lambda file: run_table_job(dataclasses.replace(job, output_file=file)))

    with pytest.raises(OSError, match="The disk is gone"):
        make(_FailingIndexer(model))
    assert sorted(os.listdir(tmp_path)) == ["new.rows.npz.parts", "texts.jsonl"]
    with caplog.at_level("INFO", "absl"):
        make(Indexer(model))
    assert "Resuming: 1 of 2 parts exist." in caplog.text
    assert sorted(os.listdir(tmp_path)) == ["new", "texts.jsonl"]
    assert SearchIndex(tmp_path / "new").has_documents(["0", "1"]).all()


def test_a_file_in_the_place_of_the_embeddings_is_kept(model, tmp_path):
    place = tmp_path / "index.rows.npz"
    for make in (lambda: place.write_text("mine"), lambda: place.symlink_to("nowhere")):
        make()
        with pytest.raises(ValueError, match=r"index\.rows\.npz already exists\. .*; otherwise, move it or"):
            make_index(f"{tmp_path}/index/", Indexer(model), lambda path: pytest.fail(path))
        assert os.listdir(tmp_path) == [place.name] and (place.is_symlink() or place.read_text() == "mine")
        place.unlink()


# === Export ===


def exported(index, folder):
    index.export(folder / "index.parquet")
    return parquet.read_table(folder / "index.parquet")


@pytest.mark.parametrize("dtype", ["float32", "int8", "binary"])
def test_an_index_is_exported_as_parquet(dtype, model, tmp_path, vectors, monkeypatch):
    monkeypatch.setattr(index_segments, "_BLOCK", 2)
    index = SearchIndex.create(tmp_path / "index", model, vector_dtype=dtype)
    index.add(list("abcde"), TEXTS, [{"page": n} for n in range(5)], vectors[0])
    index.add(["f"], ["to see"], vectors=vectors[1][:1])
    index.delete(["b", "d"])
    table = exported(index, tmp_path)
    stored = quantize_vectors(unit(np.concatenate([vectors[0][[0, 2, 4]], vectors[1][:1]])), dtype)
    assert table.schema.field("embedding").type == pa.list_(pa.from_numpy_dtype(stored.dtype), stored.shape[1])
    found = table.column("embedding").combine_chunks().flatten().to_numpy().reshape(stored.shape)
    np.testing.assert_allclose(found, stored, atol=1e-6)
    assert table.drop_columns("embedding").to_pydict() == {
        "id": list("acef"), "text": [TEXTS[0], TEXTS[2], TEXTS[4], "to see"],
        "payload": ['{"page": 0}', '{"page": 2}', '{"page": 4}', None],
    }  # fmt: skip
