"""`make docs` makes an environment of its own, from the site's lock, and builds with --strict."""

import subprocess

import pytest

from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("uv", "installs"),
    [
        ("", "tools/install.py tools/docs/requirements.lock"),
        ("/x/uv", "pip sync --require-hashes --compile-bytecode --python .venv-docs/bin/python"),
    ],
)
def test_what_make_docs_runs(uv, installs):
    command = ["make", "--dry-run", "-W", "tools/docs/requirements.lock", "docs"]
    built, served = (
        subprocess.run([*command, f"UV={uv}", arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for arguments in ("ARGS=", "ARGS=serve")
    )
    assert installs in built and " .venv/" not in built
    assert "-m mkdocs build --strict --config-file tools/docs/mkdocs.yml" in built
    assert "-m mkdocs serve --config-file" in served
