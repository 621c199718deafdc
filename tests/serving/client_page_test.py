"""The client in docs/reference/python_api.md queries a server as it is written there."""

import re

from tests.conftest import ROOT


def test_the_example_prints_a_label(film, capsys):
    page = (ROOT / "docs" / "reference" / "python_api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (block,) = [each for each in blocks if "Client(" in each]
    assert '"localhost:8500", "reviews"' in block
    exec(block.replace('"localhost:8500", "reviews"', f'"localhost:{film.port}", "film"'), {})
    assert capsys.readouterr().out in ("good\n", "bad\n")
