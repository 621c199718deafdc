"""Reports as one HTML file: tables and plots that open anywhere, without the network.

page = Page("Training")
page.table("Scores", [("accuracy", "84.6 %", "on dev.tsv")])
page.figure("Loss", lambda axes: axes.plot(losses))
write_text("report.html", page.html())
"""

import html
import io
import re
import warnings
from collections.abc import Callable, Iterable, Sequence

INK, FILL, ACCENT, PALE = "#222222", "#4c78a8", "#d9822b", "#c9d6e5"  # colours of the page and of what is drawn

_WIDTH = 4.4  # of a figure, inches: drawn so that its letters are as large as the page's, and legible on a phone
_STYLE = f"""
:root {{ color-scheme: light }}
body {{ margin: 0; font: 16px/1.5 system-ui, sans-serif; color: {INK}; background: #fff }}
main {{ max-width: 42rem; margin: 0 auto; padding: 1rem }}
h1 {{ font-size: 1.5rem }}
h2 {{ font-size: 1.1rem; margin: 2rem 0 .5rem; border-bottom: 1px solid {PALE} }}
div {{ overflow-x: auto }}
table {{ border-collapse: collapse; font-size: .9rem }}
th, td {{ padding: .15rem .8rem .15rem 0; text-align: left; vertical-align: baseline; overflow-wrap: break-word }}
th {{ font-weight: normal; white-space: pre-wrap }}
td {{ color: #666 }}
th + td {{ color: inherit; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }}
svg {{ display: block; width: 100%; max-width: 34rem; height: auto }}
svg text, svg tspan {{ font-family: inherit !important }}
"""
_DRAWING = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.prop_cycle": f"cycler('color', ['{FILL}', '{ACCENT}', '{PALE}', '{INK}'])",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the layout is the same everywhere
    "font.size": 9,
    "legend.frameon": False,
    "svg.fonttype": "none",  # letters stay letters: small files, and any script that the reader has a font for
    "text.color": INK,
    "text.parse_math": False,  # "$" is a word piece, and no formula
    "xtick.color": INK,
    "ytick.color": INK,
}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))  # which would hold the time, and links


class Page:
    """A page from top to bottom. All text is shown as it is: "<b>" is five characters."""

    def __init__(self, title: str):
        self._title = html.escape(title)
        self._parts, self._figures = [], 0

    def text(self, text: str):
        """Adds a paragraph."""
        self._parts.append(f"<p>{html.escape(text)}</p>")

    def table(self, heading: str, rows: Iterable[Sequence]):
        """Adds a table of rows of any cells: a row's name, its value, remarks if there are any."""
        self._add(heading, f"<div><table>\n{''.join(map(_row, rows))}</table></div>")

    def figure(self, heading: str, draw: Callable, height: float = 2.6):
        """Adds a plot. The same data make the same bytes.

        Args:
            heading: what it shows.
            draw: called with matplotlib's Axes.
            height: in inches, for a width of 4.4.
        """
        self._figures += 1
        svg = _svg(draw, height, f"figure {self._figures}")
        self._add(heading, f'<svg role="img" aria-label="{html.escape(heading)}"{svg.removeprefix("<svg")}')

    def html(self) -> str:
        """Returns the whole file."""
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{self._title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{self._title}</h1>\n"
            + "\n".join(self._parts)
            + "\n</main>\n</body>\n</html>\n"
        )

    def _add(self, heading, content):
        self._parts.append(f"<h2>{html.escape(heading)}</h2>\n{content}")


def _row(cells):
    name, *others = (html.escape(str(cell)) for cell in cells)
    return f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>\n'


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
