"""Reports as one HTML file: tables and plots that open anywhere, without the network, by day and by night.

page = Page("Training")
page.table("Scores", [("accuracy", "84.6%", "on dev.tsv")])
page.figure("Loss", lambda axes: axes.plot(losses))
write_text("report.html", page.html())
"""

import contextlib
import functools
import html
import io
import pathlib
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from absl import logging

from bert_tf.utils.counts import percent
from bert_tf.utils.extras import require_packages

INK, FILL, ACCENT, PALE = "#222222", "#4c78a8", "#d9822b", "#c9d6e5"  # colours of the page and of what is drawn

_NAMES = {INK: "ink", FILL: "fill", ACCENT: "accent", PALE: "pale"}
_NIGHT = {"ink": "#e4e6e8", "fill": "#7fabd9", "accent": "#f0a04b", "pale": "#3d4a58", "paper": "#15181b",
          "grey": "#a5abb1", "card": "#1c2024"}  # fmt: skip
_WIDTH = 4.4  # of a figure, inches: drawn so that its letters are as large as the page's, and legible on a phone
_LONG, _SHOWN = 240, 160  # characters of a cell: beyond so many it opens, and so many are seen before
_PLAIN = re.compile(r"[-+]?[\d,.]+( %)?|nan|")  # a cell of nothing but a number
_HEADING = re.compile(r"<h2(?: id=\"[^\"]*\")?>(.*?)</h2>")  # not that of a card, which has a class
_KEPT = re.compile(r"<!-- kept: (.*?) -->\n(.*?)\n<!-- end -->", re.DOTALL)  # text on a page has no such thing
_TALL = 4  # inches, beyond which a drawing takes the page's whole width
_FEW = 4  # headings that need no table of contents


def _variables(colours):
    return "; ".join(f"--{name}: {colour}" for name, colour in colours.items())


def _recoloured(colour, name):
    """A rule by which a colour that a drawing has in its own styles follows the page's."""
    return "\n".join(
        f'svg [style*="{what}: {colour}"] {{ {what}: var(--{name}) !important }}' for what in ("fill", "stroke")
    )


# The style sheet that does not depend on the colours is a file of its own.
_STYLE = f"""
:root {{ color-scheme: light dark; {_variables({name: colour for colour, name in _NAMES.items()})}; --paper: #ffffff;
  --grey: #5f6468; --card: #f7f8fa }}
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(_NIGHT)} }} }}
{pathlib.Path(__file__).with_suffix(".css").read_text(encoding="utf-8")}\
{chr(10).join(_recoloured(*pair) for pair in _NAMES.items())}
"""
# No script, nothing from elsewhere: what it shows are names and texts of files that may be a stranger's.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_DRAWING = {
    "axes.edgecolor": INK,
    "axes.facecolor": "none",  # the page's own shows through
    "axes.labelcolor": INK,
    "axes.prop_cycle": f"cycler('color', ['{FILL}', '{ACCENT}', '{PALE}', '{INK}'])",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the layout is the same everywhere
    "font.size": 9,
    "legend.frameon": False,
    "svg.fonttype": "none",  # letters stay letters: small files, and any script that the reader has a font for
    "text.color": INK,
    "text.parse_math": False,  # "$" is a token, and no formula
    "xtick.color": INK,
    "ytick.color": INK,
}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))  # which would hold the time, and links


class BarCell(NamedTuple):
    """A cell with a bar under its text, as long as `share` of the cell, 0 to 1."""

    shown: Any
    share: float


class Shade(NamedTuple):
    """A cell the darker the greater `share`, 0 to 1, is; its text must be legible without the color."""

    shown: Any
    share: float


class Page:
    """A page from top to bottom. All text is shown as it is: "<b>" is five characters.

    Args:
        title: title of the page.
        salt: what tells its drawings from those of other pages, where parts of several become one page.
    """

    def __init__(self, title: str, salt: str = ""):
        self._title, self._salt = html.escape(title), salt
        self._parts, self._figures, self._level = [], 0, "h2"

    def heading(self, text: str):
        """Adds a heading; the page's contents list it."""
        self._parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, text: str):
        """Adds a paragraph."""
        self._parts.append(f"<p>{html.escape(text)}</p>")

    def warning(self, text: str):
        """Adds a paragraph that stands out."""
        self._parts.append(f'<p class="warning">{html.escape(text)}</p>')

    def metric(self, name: str, value: str, remark: str = ""):
        """Adds a number in large type, its name, and a remark such as its confidence interval."""
        value, name, remark = map(html.escape, (value, name, remark))
        self._parts.append(f'<p class="metric"><strong>{value}</strong> <b>{name}</b> <span>{remark}</span></p>')

    def matrix(self, names: Sequence[str], cells: Sequence[Sequence["Shade"]], row_title: str, column_title: str):
        """Adds a square table, such as a confusion matrix.

        Args:
            names: names of the L rows and of the L columns.
            cells: L rows of L counts; each one's share in percent and each row's total are shown too.
            row_title, column_title: what the rows and the columns are.
        """
        self._parts.append(
            f'<div tabindex="0" role="region" aria-label="{html.escape(f"{row_title} by {column_title}")}">'
            f'<table class="columns matrix">\n{_matrix(names, cells, row_title, column_title)}</table></div>'
        )

    @contextlib.contextmanager
    def cards(self):
        """Inside it, cards are laid out side by side if there is room."""
        self._parts.append('<div class="cards">')
        yield
        self._parts.append("</div>")

    @contextlib.contextmanager
    def card(self, heading: str):
        """Inside it, additions form a card. Contents do not list its heading."""
        self._parts.append(f'<section class="card"><h2 class="card">{html.escape(heading)}</h2>')
        yield
        self._parts.append("</section>")

    def table(self, heading: str | None, rows: Iterable[Sequence], columns: Sequence[str] = ()):
        """Adds a table of rows of any cells: a row's name, its value, remarks if there are any.

        Args:
            heading: what stands above it; None for nothing.
            rows: rows of cells, `BarCell` and `Shade` among them; the first one is the row's name. In a table with
                columns a long text can be opened.
            columns: their names, where the table has columns of its own.
        """
        rows = [tuple(row) for row in rows]
        if not columns:
            values = [str(row[1]) for row in rows if len(row) > 1]
            kind = ' class="texts"' if any(not _PLAIN.fullmatch(value) for value in values) else ""
            self._add(heading, f"<div><table{kind}>\n{''.join(map(_row, rows))}</table></div>")
            return
        label = html.escape(heading or " ".join(columns).strip())
        scrolls = f'<div tabindex="0" role="region" aria-label="{label}">'  # by the arrow keys, where it is too wide
        self._add(heading, f"{scrolls}{_columns(columns, rows)}</table></div>")

    def figure(self, heading: str | None, draw: Callable, height: float = 2.6, label: str = ""):
        """Adds a plot, or a note that it is missing if `can_plot` is false. The same data give the same bytes.

        Args:
            heading: what it shows; if None, nothing stands above it.
            draw: called with matplotlib's Axes. One that equals an earlier one is not drawn again.
            height: in inches, for a width of 4.4.
            label: what it shows, for those who cannot see it; by default the heading.
        """
        self._figures += 1
        if not can_plot():
            self._add(heading, "<p>This plot is missing because matplotlib is not installed.</p>")
            return
        svg = _svg(draw, height, f"{self._salt}figure {self._figures}")
        label = html.escape(label or heading or "")
        wide = ' class="wide"' if height > _TALL else ""
        self._add(heading, f'<svg role="img" aria-label="{label}"{wide}{svg.removeprefix("<svg")}')

    @contextlib.contextmanager
    def section(self, heading: str, is_open: bool = True):
        """Inside it, additions form a part that can be folded away; headings there are of a third level."""
        opened, level = " open" if is_open else "", self._level
        summary = f"<summary><h3>{html.escape(heading)}</h3></summary>"
        self._parts.append(f"<section><details{opened}>{summary}")
        self._level = "h4"
        try:
            yield
        finally:
            self._level = level
            self._parts.append("</details></section>")

    def keep(self, name: str, fragment: str):
        """Adds what `fragment` of another page returned, so that `kept` finds it again by this name."""
        self._parts.append(f"<!-- kept: {name} -->\n{fragment}\n<!-- end -->")

    def fragment(self) -> str:
        """Returns what was added, without title and style, for `keep` of another page."""
        return "\n".join(self._parts)

    def html(self) -> str:
        """Returns the whole file."""
        body, headings = _numbered(self.fragment())
        links = "".join(f'<a href="#part{i}">{text}</a>\n' for i, text in enumerate(headings, 1))
        contents = f'<nav aria-label="Contents">\n{links}</nav>\n' if headings else ""
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            f"<title>{self._title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{self._title}</h1>\n"
            + contents
            + body
            + "\n</main>\n</body>\n</html>\n"
        )

    def _add(self, heading, content):
        above = f"<{self._level}>{html.escape(heading)}</{self._level}>\n" if heading else ""
        self._parts.append(f"{above}{content}")


@functools.cache
def can_plot() -> bool:
    """Returns whether matplotlib is installed, and imports it. The first call warns if it is not."""
    try:
        require_packages("a plot", "matplotlib.figure")
    except ValueError as error:
        logging.warning("Reports are written without plots: %s", error)
        return False
    return True


def kept(page: str) -> dict[str, str]:
    """Returns {name: fragment} of what `Page.keep` added to a page, in order; or {} if it is not such a page."""
    return dict(_KEPT.findall(page))


def _numbered(body):
    """Returns the page's body with a place to go to at each heading, and the headings; none where they are few."""
    headings = _HEADING.findall(body)
    if len(headings) < _FEW:
        return _HEADING.sub(r"<h2>\1</h2>", body), []
    numbers = iter(range(1, len(headings) + 1))
    return _HEADING.sub(lambda match: f'<h2 id="part{next(numbers)}">{match[1]}</h2>', body), headings


def _row(cells):
    name, *others = (html.escape(str(cell)) for cell in cells)
    return f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>\n'


def _matrix(names, cells, row_title, column_title):
    """The inside of a table with the columns' title above and the rows' title at the left."""
    escaped = [html.escape(name) for name in names]
    head = "".join(f'<th scope="col">{name}</th>' for name in escaped)
    top = f'<tr><th colspan="2"></th><th colspan="{len(names)}">{html.escape(column_title)}</th></tr>'
    lines = []
    for n, (name, row) in enumerate(zip(escaped, cells, strict=True)):
        side = f'<th class="side" rowspan="{len(names)}">{html.escape(row_title)}</th>' if n == 0 else ""
        shades = "".join(f'<td class="shade" style="--share: {cell.share:.3f}">{cell.shown} '
                         f"<small>{percent(cell.share)}</small></td>" for cell in row)  # fmt: skip
        total = f"<small>{sum(cell.shown for cell in row):,}</small>"
        lines.append(f'<tr>{side}<th scope="row">{name}{total}</th>{shades}</tr>\n')
    return f'<thead>{top}<tr><th colspan="2"></th>{head}</tr></thead>\n<tbody>\n{"".join(lines)}</tbody>'


def _columns(columns, rows):
    """A table with a header, without its end. Numbers are right-aligned; narrow screens stack rows of long texts."""
    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    kinds = ["number" if all(map(_is_number, column)) else "" for column in cells]
    kinds = [kind or ("text" if any(len(str(cell)) > 40 for cell in column) else "")
             for kind, column in zip(kinds, cells, strict=True)]  # fmt: skip
    head = "".join(
        f'<th scope="col"{_class(kind)}>{html.escape(name)}</th>' for name, kind in zip(columns, kinds, strict=True)
    )
    is_long = "text" in kinds
    names = [f' data-name="{html.escape(name)}"' if is_long else "" for name in columns]
    body = "".join(f"<tr>{''.join(map(_cell, row, kinds, range(len(row)), names))}</tr>\n" for row in rows)
    opening = f'<table class="columns{" long" if is_long else ""}">'
    return f"{opening}\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>"


def _is_number(cell):
    return isinstance(cell, BarCell | Shade) or bool(_PLAIN.fullmatch(str(cell)))


def _cell(cell, kind, column, name):
    tag, end = ('th scope="row"', "th") if column == 0 else ("td", "td")
    style = ""
    if isinstance(cell, BarCell | Shade):
        kind = f"{kind} {'bar' if isinstance(cell, BarCell) else 'shade'}".strip()
        style, cell = f' style="--share: {min(max(cell.share, 0), 1):.3f}"', cell.shown
    return f"<{tag}{_class(kind)}{style}{name}>{_folded(str(cell))}</{end}>"


def _class(kind):
    return f' class="{kind}"' if kind else ""


def _folded(text):
    """Text as HTML; of a long one the beginning, which opens."""
    if len(text) <= _LONG:
        return html.escape(text)
    cut = max(text.rfind(" ", 0, _SHOWN), _SHOWN // 2)
    begin, rest = html.escape(text[:cut]), html.escape(text[cut:])
    return f"<details><summary>{begin} …</summary>…{rest}</details>"


@functools.lru_cache(maxsize=32)  # most curves of a run's page are those of the page before
def _svg(draw, height, salt):
    """A drawing as an <svg> element. Its ids are made of `salt`, lest two drawings of a page share some."""
    from matplotlib import style  # here, for it is slow to import and most programs draw nothing
    from matplotlib.figure import Figure

    file = io.StringIO()
    # From matplotlib's own settings, not the user's: these would show in the bytes.
    with style.context(["default", {**_DRAWING, "svg.hashsalt": salt}]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the reader's browser has other fonts
        figure = Figure((_WIDTH, height), layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(file, format="svg", metadata=_NO_METADATA)
    drawn = file.getvalue()
    return re.sub(r'<g id="[^"]*"', "<g", drawn[drawn.index("<svg") :])  # names of groups, the same in all drawings
