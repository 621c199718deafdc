"""A reader over the hits of a search: the best answer span of each document, ordered by score."""

import json
import re

import pytest

from bert_tf.inference.search import Hit, SearchIndex
from bert_tf.inference.search_reader import SearchReader
from bert_tf.serving.exports import find_export, open_export
from tests import tiny
from tests.conftest import ROOT
from tests.run_cases import run_here

DOCUMENTS = {"a": "the story of people , and music", "b": "", "c": "a warm film is good to see — 音楽"}


@pytest.fixture(scope="module")
def export(exported):
    return exported("questions")


@pytest.mark.slow
def test_answers_are_spans_of_the_documents_and_ordered_by_score(export):
    hits = [Hit(name, 0.5, text, {}) for name, text in DOCUMENTS.items()]
    questions = ["a film", "good music", "see"]
    found = SearchReader(export)(questions, [hits, hits[:1], []])
    assert [sorted(answer.id for answer in each) for each in found] == [["a", "c"], ["a"], []]
    model = open_export(find_export(export))
    for question, answers in zip(questions, found, strict=True):
        assert [each.score for each in answers] == sorted((each.score for each in answers), reverse=True)
        for each in answers:
            text = DOCUMENTS[each.id]
            assert each.answer == text[each.start : each.end] != ""
            signature = model.signatures["serving_default"]
            feeds = {signature.inputs["question"].tensor: [question.encode()],
                     signature.inputs["context"].tensor: [text.encode()]}  # fmt: skip
            (score,) = model.run(feeds, [signature.outputs["score"].tensor])
            assert each.score == pytest.approx(score[0], abs=1e-5)


@pytest.mark.slow
def test_a_trained_model_answers_like_its_export(export, trained):
    hits = [[Hit(name, 0.5, text, {}) for name, text in DOCUMENTS.items()]]
    (expected,), (found,) = (SearchReader(path)(["a film"], hits) for path in (export, trained("questions")))
    assert [each[2:] for each in found] == [each[2:] for each in expected]
    assert [each.score for each in found] == pytest.approx([each.score for each in expected], abs=1e-5)


@pytest.mark.slow
def test_the_command_prints_answers(export, tmp_path):
    index = SearchIndex.create(tmp_path / "index", tiny.checkpoint(tmp_path / "model"))
    index.add([*DOCUMENTS], [*DOCUMENTS.values()])
    words = [f"--index_dir={index.directory}", f"--reader={export}", "a film"]
    ended = run_here("search", [*words, "--json"])
    assert ended["status"] == 0, ended["log"]
    printed = json.loads(ended["log"].splitlines()[-1])
    assert list(printed) == ["query", "answers", "results"] and len(printed["results"]) == 3
    best = printed["answers"][0]
    assert best.keys() == {"answer", "score", "start", "end", "id"}
    lines = run_here("search", words)["log"].splitlines()
    shown = f"{best['start']}:{best['end']}  {best['answer']}"
    assert lines[-2] == f"  {best['score']:.4f}  {best['id']:>8}  {shown}"


@pytest.mark.slow
def test_the_page_on_search(minilm, export, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "questions").symlink_to(export)
    (tmp_path / "all-MiniLM-L6-v2").symlink_to(minilm)
    names, page = {}, (ROOT / "docs" / "guides" / "semantic_search.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(compile(block, "semantic_search.md", "exec"), names)
    printed = re.findall(r"^print\(.*\)  # (.*)$", page, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == printed
    assert {answer.id for answer in names["answers"]} == {"a"}


def test_another_model_is_refused(exported):
    with pytest.raises(ValueError, match="`reader` must be a question-answering model.*classification.*has text"):
        SearchReader(exported("classification"))
