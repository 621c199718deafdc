"""Every flag is mentioned where users look for it: on a page written by hand, not only in the generated reference."""

import re

from bert_tf.cli.commands import PROGRAMS, load_command
from tests.conftest import ROOT

_DOCS = ROOT / "docs"
_OTHERS = (_DOCS / "reference" / "cli", _DOCS / "reference" / "changelog.md", _DOCS / "benchmarks")


def test_every_flag_is_on_a_page():
    pages = [page for page in _DOCS.rglob("*.md") if not any(page.is_relative_to(other) for other in _OTHERS)]
    mentioned = set(re.findall(r"--([a-z]\w*)", "\n".join(page.read_text(encoding="utf-8") for page in pages)))
    flags = {flag.name for name in PROGRAMS for flag in load_command(name).FLAGS if flag.has_effect}
    missing = sorted(flags - mentioned)
    assert not missing, f"add a sentence, or a row of a table, to the guide of their command: {missing}"
