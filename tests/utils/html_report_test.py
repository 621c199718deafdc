"""A page: everything is shown as it is given, the same data make the same bytes, and nothing is fetched."""

import html
import html.parser
import re
import subprocess
import sys
import warnings

import matplotlib
import numpy as np

from bert_tf.utils.html_report import BarCell, Page, Shade, kept
from tests.conftest import ROOT

_NASTY = "<b> & \"c\" 'd' $x$ \u4e2d"
_VOID = {"meta", "br"}


class _Reader(html.parser.HTMLParser):
    """Collects the texts and attributes of a page whose tags must match."""

    def __init__(self, page):
        super().__init__()
        self.open, self.texts, self.attributes = [], [], []
        self.feed(page)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.attributes += attributes
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_startendtag(self, tag, attributes):
        self.attributes += attributes

    def handle_data(self, text):
        if text.strip():
            self.texts.append(text.strip())


def _bars(axes):
    axes.barh([0, 1], [3, 4])
    axes.set_yticks([0, 1], ["one", _NASTY])
    axes.set_title("title")


def _page():
    page = Page(f"Title {_NASTY}")
    page.text(f"text {_NASTY}")
    page.table(f"table {_NASTY}", [("name", 1), (f"cell {_NASTY}", 2.5, "remark")])
    page.figure(f"figure {_NASTY}", _bars)
    page.figure("again", _bars, height=1.5)
    with page.section(f"section {_NASTY}", is_open=False):
        rows = [(f"row {_NASTY}", BarCell(3, 0.5), "1.5%"), ("long", Shade(4, 2.0), f"{'word ' * 60}end {_NASTY}")]
        page.table(None, rows, (f"column {_NASTY}", "bar", "text"))
    page.heading(f"heading {_NASTY}")
    return page.html()


def test_text_is_shown_as_it_is():
    reader = _Reader(_page())
    for kind in ("Title", "text", "table", "cell", "figure", "section", "row", "column", "heading"):
        assert f"{kind} {_NASTY}" in reader.texts
    assert reader.texts.count(_NASTY) == 2  # in both plots
    assert ("aria-label", f"figure {_NASTY}") in reader.attributes
    for cell in ("name", "1", "2.5", "remark"):
        assert cell in reader.texts


def test_a_table_with_columns_has_header_cells_and_a_long_text_opens():
    page = _page()
    table = page[page.index('<table class="columns long">') :]
    assert table.count('<th scope="col"') == 3 and table.count('<th scope="row"') == 2
    assert '<td class="number bar" style="--share: 0.500" data-name="bar">3</td>' in table
    assert '<td class="number shade" style="--share: 1.000" data-name="bar">4</td>' in table
    folded = re.search(r'data-name="text"><details><summary>(.*?) …</summary>…(.*?)</details></td>', table)
    assert len(folded[1]) < 240 and folded[1].startswith("word word")
    assert folded[2].endswith(f"end {html.escape(_NASTY)}")
    assert 'tabindex="0" role="region"' in page  # a wide one scrolls by keyboard


def test_cards_a_metric_a_warning_and_a_matrix():
    page = Page("t")
    with page.cards(), page.card(f"card {_NASTY}"):
        page.metric(f"name {_NASTY}", "0.5", f"interval {_NASTY}")
        page.warning(f"warning {_NASTY}")
        cells = [[Shade(3, 0.75), Shade(1, 0.25)], [Shade(0, 0.0), Shade(2, 1.0)]]
        page.matrix([f"a {_NASTY}", "b"], cells, "true", "predicted")
    text = page.html()
    reader = _Reader(text)
    for kind in ("card", "name", "interval", "warning", "a"):
        assert f"{kind} {_NASTY}" in reader.texts
    assert [cell for cell in reader.texts if cell.endswith("%")] == ["75.0%", "25.0%", "0.0%", "100.0%"]
    assert "<nav" not in text and text.count('<div class="cards">') == 1 and "<small>4</small>" in text


def test_sections_open_and_headings_are_listed():
    page = _page()
    assert "<details><summary><h3>section" in page
    links = re.findall(r'<a href="#(part\d)">(.*?)</a>', page)
    assert [place for place, _ in links] == ["part1", "part2", "part3", "part4"]
    assert [(place, text) for place, text in re.findall(r'<h2 id="(part\d)">(.*?)</h2>', page)] == links


def test_a_page_of_few_parts_needs_no_contents():
    page = Page("t")
    page.table("h", [("a", 1)])
    assert "<nav" not in page.html() and "<h2>h</h2>" in page.html()


def test_parts_of_other_pages_are_kept_and_found_again():
    one, other, whole = Page("", salt="one "), Page("", salt="other "), Page("whole")
    for part in (one, other):
        part.figure(f"figure {_NASTY}", _bars)
        part.text("<!-- end -->\n<!-- kept: c -->")
    whole.heading("first")
    whole.keep("a", one.fragment())
    whole.keep("b b", other.fragment())
    whole.heading("last")
    again = Page("whole")
    again.heading("first")
    for name, fragment in kept(whole.html()).items():
        again.keep(name, fragment)
    again.heading("last")
    assert again.html() == whole.html() and list(kept(whole.html())) == ["a", "b b"] and kept("") == {}
    ids = re.findall(r' id="([^"]+)"', whole.html())
    assert len(ids) == len(set(ids))


def test_every_colour_of_a_drawing_follows_the_page_s():
    page = _page()
    drawn = page[page.index("<svg") : page.rindex("</svg>")]
    colours = set(re.findall(r"(?:fill|stroke): (#\w+)", drawn))
    assert colours and all(f'[style*="fill: {colour}"] {{ fill: var(--' in page for colour in colours)


def test_nothing_is_fetched():
    page = _page()
    assert set(re.findall(r'https?://[^"\s]+', page)) == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    links = [value for name, value in _Reader(page).attributes if name in ("src", "href", "xlink:href")]
    assert links and all(link.startswith("#") for link in links)
    assert "@import" not in page and set(re.findall(r"url\((.)", page)) <= {"#"}


def test_every_reference_has_its_one_target():
    page = _page()
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#(\w+)', page)) == set(ids)


def test_same_data_same_bytes_whatever_the_user_s_settings():
    first = _page()
    with matplotlib.rc_context(
        {"lines.linewidth": 9, "font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}
    ):
        before = dict(matplotlib.rcParams)
        assert _page() == first
        assert dict(matplotlib.rcParams) == before  # and these are left alone


def test_other_data_other_bytes():
    def page(values):
        made = Page("t")
        made.figure("f", lambda axes: axes.plot(values))
        return made.html()

    assert page(np.arange(4)) != page(np.arange(4) ** 2)


def test_no_warning_for_a_script_that_matplotlib_has_no_letters_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = _page()
    assert _NASTY in _Reader(page).texts  # its letters are in the plots all the same


def test_a_page_without_figures_does_not_import_matplotlib():
    code = """
import sys
from bert_tf.utils.html_report import Page
page = Page("t")
page.table("h", [("a", 1)])
assert "<td>1</td>" in page.html()
assert "matplotlib" not in sys.modules
page.figure("f", lambda axes: axes.plot([1]))
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
