"""The site, built by MkDocs with --strict: every page is there, no link leads nowhere, no other server is asked."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tools.docs import navigation, tables

pytestmark = pytest.mark.slow

_ASKED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["']((?:https?:)?//[^"']+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site."""
    made = ROOT / ".venv-docs" / "bin" / "python"
    python = made if made.exists() else sys.executable
    if not made.exists() and importlib.util.find_spec("mkdocs") is None:
        pytest.skip(f"needs MkDocs: `make docs` installs it into {made.parents[1]}")
    folder = tmp_path_factory.mktemp("site")
    config = str(navigation.CONFIG)
    command = [str(python), "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", str(folder)]
    place = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def _html(site, path):
    return (site / path).with_suffix(".html").read_text(encoding="utf-8")


def test_every_page_is_there_and_can_be_reached(site):
    index = (site / "index.html").read_text(encoding="utf-8")
    for pages in navigation.sections().values():
        for _, path in pages:
            name = re.sub(r"README\.md$", "index.md", path).removesuffix(".md") + ".html"
            assert (site / name).exists() and f'href="{name}"' in index.replace('href="#"', 'href="index.html"'), path


def test_pages_ask_no_other_server(site):
    asked = {found for page in site.rglob("*.html") for found in _ASKED.findall(page.read_text(encoding="utf-8"))}
    assert not asked


def test_the_api_has_whole_docstrings(site):
    html = _html(site, "reference/python_api")
    for name in tables.names_in(tables.PAGE.read_text(encoding="utf-8")):
        if tables.find(name).path.name != "__init__.py":
            assert f'id="{tables.find(name).name}"' in html, name
    assert "A loaded model: configuration" in html and "float32 [n, D]" in html  # of Bert, and of its method `features`
    for method in ("serving.client.client.Client.ask", "inference.sentence_encoder.SentenceEncoder.__call__"):
        assert f'id="bert_tf.{method}"' in html


def test_a_search_finds_words_of_docstrings(site):
    assert "sentence-transformers" in (site / "search" / "search_index.json").read_text(encoding="utf-8")


def test_code_is_coloured_and_files_lie_beside_the_pages(site):
    assert '<span class="kn">import</span>' in _html(site, "get_started/quickstart_python")
    assert (site / "tutorials" / "bert_inputs.ipynb").exists() and (site / "deploy" / "Dockerfile").exists()
