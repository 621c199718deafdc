"""TREC's files: runs and qrels in the forms of TREC, MS MARCO and BEIR, and the texts that they name."""

import gzip
import json

import pytest

from bert_tf.data.trec_files import is_trec_run, read_qrels, read_texts_by_id, read_trec_run


def _write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("text", [
    "q2 Q0 d9 1 3.5 bm25\nq2 Q0 d1 2 3.1 bm25\n\nq1 Q0 d9 1 0 bm25\n", "q2\td9\t1\nq2\td1\t2\n\nq1\td9\t1\n"
])  # fmt: skip
def test_runs_keep_their_order(tmp_path, text):
    path = _write(tmp_path / "a.trec", text)
    assert list(read_trec_run(path).items()) == [("q2", (["d9", "d1"], 1)), ("q1", (["d9"], 4))]
    (tmp_path / "b.run.gz").write_bytes(gzip.compress(text.encode()))
    assert read_trec_run(str(tmp_path / "b.run.gz")) == read_trec_run(path)
    assert [is_trec_run(name) for name in ("a.trec", "b.RUN.gz", "c.tsv", "run")] == [True, True, False, False]


@pytest.mark.parametrize("text", [
    "q1 0 d1 2\nq1 0 d2 -1\nq2 0 d1 0\n", "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t-1\nq2\td1\t0\n"
])  # fmt: skip
def test_qrels_with_and_without_a_header(tmp_path, text):
    assert read_qrels(_write(tmp_path / "qrels.txt", text)) == {"q1": {"d1": 2, "d2": -1}, "q2": {"d1": 0}}


@pytest.mark.parametrize("relevance", ["1.0", "1e0", "1e-5", "1e999", "nan", "-Inf", "Infinity", "1_0", "+1"])
@pytest.mark.parametrize("columns", ["q1 0 d1", "q1 d1"])
def test_a_first_line_with_another_number_is_no_header_of_qrels(tmp_path, columns, relevance):
    message = r"qrels:1: qrels have .* and the relevance is a whole number; got \['q1', .*\.$"
    with pytest.raises(ValueError, match=message):
        read_qrels(_write(tmp_path / "qrels", f"{columns} {relevance}\n{columns.replace('1', '2')} 1\n"))


def test_texts_of_some_ids(tmp_path):
    path = _write(tmp_path / "a.tsv", "d1\tone\nd2\ttwo\nd3\tthree\n")
    assert read_texts_by_id(path, {"d3", "d1"}, "documents_file") == {"d1": "one", "d3": "three"}
    lines = [{"_id": "d1", "title": "One", "text": "is one"}, {"_id": "d2", "title": "", "text": "two"}]
    path = _write(tmp_path / "a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert read_texts_by_id(path, {"d1", "d2"}, "documents_file") == {"d1": "One is one", "d2": "two"}
    lines = '{"_id": "d1", "text": "one"}\n{"_id": "d2", "title": "2", "text": "two"}\n'
    path = _write(tmp_path / "c.jsonl", lines)
    assert read_texts_by_id(path, {"d1", "d2"}, "documents_file") == {"d1": "one", "d2": "2 two"}
    path = _write(tmp_path / "b.jsonl", '{"id": 17.0, "text": "one"}\n{"id": null, "text": "two"}\n')
    assert read_texts_by_id(path, {"17"}, "documents_file") == {"17": "one"}


@pytest.mark.parametrize("relevance", ["16777217", "-16777217", "1" * 5000], ids=["large", "small", "long"])
def test_relevances_that_float32_cannot_hold_are_refused(tmp_path, relevance):
    with pytest.raises(ValueError, match=r"qrels:2: a relevance must be from -16777216 to 16777216; got \['q1', .*\.$"):
        read_qrels(_write(tmp_path / "qrels", f"q1 0 d1 1\nq1 0 d2 {relevance}\n"))


def test_bad_files_get_one_clear_message(tmp_path):
    with pytest.raises(ValueError, match=r"a\.run:2: a run has the columns .*got \['q1', 'd1'\]"):
        read_trec_run(_write(tmp_path / "a.run", "q1 d1 1\nq1 d1\n"))
    with pytest.raises(ValueError, match=r"a\.run:2: a query must have each document once; got the document 'd1'"):
        read_trec_run(_write(tmp_path / "a.run", "q1 d1 1\nq1 d1 2\n"))
    with pytest.raises(ValueError, match=r"qrels:2: qrels have the columns .*'high'"):
        read_qrels(_write(tmp_path / "qrels", "q1 0 d1 1\nq1 0 d1 high\n"))
    with pytest.raises(ValueError, match="`documents_file` must have a text for every id .* 1 of 2, such as 'd7'"):
        read_texts_by_id(_write(tmp_path / "a.tsv", "d1\tone\nd7\t \n"), {"d1", "d7"}, "documents_file")
    with pytest.raises(ValueError, match="missing column 'id' .*a text is a line of .tsv"):
        read_texts_by_id(_write(tmp_path / "a.jsonl", '{"text": "a"}\n'), {"d1"}, "documents_file")
    numbers = '{"_id": "1", "title": null, "text": "a"}\n{"_id": "2", "title": 1984, "text": "..."}\n'
    with pytest.raises(ValueError, match=r"a\.jsonl:2: a title must be a string or null; got 1984 .*'2'; store"):
        read_texts_by_id(_write(tmp_path / "a.jsonl", numbers), {"1", "2"}, "documents_file")
    null = '{"_id": "1", "title": null, "text": "a"}\n{"_id": "2", "title": "Two", "text": null}\n'
    with pytest.raises(ValueError, match=r"a\.jsonl:2: a text must be a string; got None for the id '2'; store"):
        read_texts_by_id(_write(tmp_path / "a.jsonl", null), {"1", "2"}, "documents_file")
    with pytest.raises(ValueError, match=r"qrels:3: a query must have one judgment of each document. .*'d1'.*'q1'"):
        read_qrels(_write(tmp_path / "qrels", "q1 0 d1 1\nq2 0 d1 0\nq1 0 d1 0\n"))


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.tsv", "d1\tone\nd1\ttwo\n", "a.tsv:2: an id must occur only once; got 'd1' again; remove one."),
    ("a.jsonl", '{"id": "d1", "text": "a"}\n{"id": "d1", "text": "b"}\n', "a.jsonl:2: an id must occur only once"),
    ("a.tsv", "d1\tone\t\nd2\thttps://x\tTitle\tbody\n", "a.tsv:2: a text is .*title; got 4 columns, separated"),
    ("a.tsv", "d1\tone\n\nd2\n", r"a.tsv:3: a text is .*got 1 column, separated by tabs: \['d2'\]; correct"),
])  # fmt: skip
def test_what_would_be_lost_without_a_word_is_refused(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message):
        read_texts_by_id(_write(tmp_path / name, text), {"d1"}, "documents_file")
