"""The order of the pages: `nav` of mkdocs.yml, and the same as a list at the end of docs/README.md.

    .venv/bin/python -m tools.docs.navigation      # writes that list anew
"""

import pathlib
import posixpath
import re
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = pathlib.Path(__file__).with_name("mkdocs.yml")
INDEX = ROOT / "docs" / "README.md"
# Pages above docs/: paths in the checkout, and on the site.
OUTSIDE = ("SECURITY.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "benchmarks/README.md")
COMMANDS = ROOT / "docs" / "reference" / "cli"  # generated pages, which reference/cli.md lists
_HEADING = "## All pages\n\n"
_SECTION, _PAGE = re.compile(r'  - "?([^"]+)"?:$'), re.compile(r'      - "?([^"]+)"?: (\S+\.md)$')


def sections() -> dict[str, list[tuple[str, str]]]:
    """Returns {section: [(title, path on the site)]}, in order.

    Read line by line: MkDocs is not needed here, and no reader of YAML.

    Raises:
        ValueError: a line of `nav` is neither a section nor a page of one.
    """
    found, config = {}, CONFIG.read_text(encoding="utf-8")
    for line in config.partition("\nnav:\n")[2].partition("\n\n")[0].splitlines():
        if section := _SECTION.match(line):
            pages = found.setdefault(section[1], [])
        elif page := _PAGE.match(line):
            pages.append((page[1], page[2]))
        else:
            raise ValueError(f"Each line of nav must be `- Section:` or `- Title: page.md`; got {line!r}.")
    return found


def file_of(path: str) -> pathlib.Path:
    """Returns the file of a page by its path on the site."""
    return ROOT / path if path in OUTSIDE else ROOT / "docs" / path


def listing() -> str:
    """Returns the list of all pages, as it stands in docs/README.md."""
    lines = []
    for section, pages in sections().items():
        links = [f"[{title}]({_link(path)})" for title, path in pages if file_of(path) != INDEX]
        text = f"- **{section}**: {', '.join(links)}"
        lines += textwrap.wrap(text, 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def _link(path):
    return posixpath.join("..", path) if path in OUTSIDE else path


def with_listing(text: str) -> str:
    """Returns docs/README.md with the list of now at its end."""
    return text.partition(_HEADING)[0] + _HEADING + listing()


if __name__ == "__main__":
    INDEX.write_text(with_listing(INDEX.read_text(encoding="utf-8")), encoding="utf-8")
