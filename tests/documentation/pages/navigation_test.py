"""The order of the pages: each has one place on the site, and all are listed for those who read on GitHub."""

import pytest

from tests.conftest import ROOT
from tools.docs import navigation


def test_every_page_has_one_place():
    paths = [path for pages in navigation.sections().values() for _, path in pages]
    pages = [path for path in (ROOT / "docs").rglob("*.md") if navigation.COMMANDS not in path.parents]
    names = [page.relative_to(ROOT / "docs").as_posix() for page in pages]
    assert sorted(paths) == sorted([*names, *navigation.OUTSIDE])


def test_titles_differ():
    titles = [title for pages in navigation.sections().values() for title, _ in pages]
    assert len(set(titles)) == len(titles)


def test_the_list_of_pages_is_that_of_the_site():
    text = navigation.INDEX.read_text(encoding="utf-8")
    assert text == navigation.with_listing(text), "`python -m tools.docs.navigation` writes it anew"
    assert "](guides/question_answering.md)" in text and "](../CONTRIBUTING.md)" in text


def test_a_line_that_is_no_page_is_refused(tmp_path, monkeypatch):
    config = tmp_path / "mkdocs.yml"
    monkeypatch.setattr(navigation, "CONFIG", config)
    config.write_text("site_name: x\nnav:\n  - One:\n      - A: a.md\n      - B: in/b.md\n  - Two:\n\nplugins: []\n")
    assert navigation.sections() == {"One": [("A", "a.md"), ("B", "in/b.md")], "Two": []}
    config.write_text("site_name: x\nnav:\n  - One: a.md\n\nplugins: []\n")
    with pytest.raises(ValueError, match="One: a.md"):
        navigation.sections()
