"""Whatever a page refers to is there, and GitHub and the site read each page alike."""

import pytest

from tests.conftest import ROOT
from tests.documentation.pages import markdown

PAGES = {str(page.relative_to(ROOT)): page for page in markdown.pages()}


def _text(page):
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    page = PAGES[name]
    for link in markdown.links(_text(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), f"{link}: no such file"
        assert not anchor or anchor in markdown.anchors(_text(target)), f"{link}: no such heading"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_reads_alike_on_github_and_on_the_site(name):
    assert not markdown.misunderstandings(_text(PAGES[name]))


def test_what_is_found_in_a_page():
    text = """# One `--flag`, & two!

See [here](a.md#b-c "title"), [there
again](../b.md), ![a picture](c.svg), [the web](https://example.org/x.md) and `[no](link)`.

```
# no heading
[no](link.md)
```

## [Linked](d.md) one_two
"""
    assert markdown.links(text.replace(' "title"', "")) == ["a.md#b-c", "../b.md", "c.svg", "d.md"]
    assert markdown.anchors(text) == {"one---flag--two", "linked-one_two"}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Text\n- item", [2]),
        ("Text\n\n- item\n  goes on\n- item", []),
        ("- item\n  - inner", [2]),
        ("- item\n    - inner", []),
        ("Text\n| a |", [2]),
        ("Text\n\n| a |\n|---|\n| b |", []),
        ("| a |\n|---|\n## Next", [3]),
        ("```\nText\n- item\n```", []),
        ("Text\n1. item", [2]),
    ],
)
def test_what_is_read_otherwise_is_found(text, lines):
    assert [int(each.split(":")[0].removeprefix("line ")) for each in markdown.misunderstandings(text)] == lines
