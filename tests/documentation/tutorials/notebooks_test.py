"""The notebooks run from top to bottom where there is a wheel of bert_tf, and no checkout."""

import json

import pytest

from tests import tiny, wheels
from tests.documentation.tutorials import pages, running

pytestmark = pytest.mark.slow
NOTEBOOKS = {page.stem: page for page in pages.notebook_pages()}
LIMIT_S = 7200  # on a busy machine; alone, the longest takes some five minutes
RUN = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The Python of an environment with the wheel."""
    for package in ("nbclient", "ipykernel"):
        pytest.importorskip(package, reason=f"{package} is not installed: `pip install nbclient ipykernel` does")
    folder = tmp_path_factory.mktemp("home")
    wheels.install(wheels.build(tmp_path_factory.mktemp("wheel")), folder)
    return folder / "venv" / "bin" / "python"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_from_a_wheel(name, python, tmp_path, monkeypatch):
    """With a tiny model: pages_test.py and commands_test.py compare what the pages print with MiniLM's weights."""
    running.model(tmp_path, NOTEBOOKS[name].read_text(encoding="utf-8"))
    monkeypatch.setenv("TUTORIAL_MODEL", str(tmp_path / running.WEIGHTS))
    sentences = tiny.write_tsv(tmp_path / "sentences.tsv", [(text.replace(",", " "), n) for text, n in tiny.texts(80)])
    monkeypatch.setenv("TUTORIAL_SENTENCES", str(sentences))
    content = json.loads(NOTEBOOKS[name].with_suffix(".ipynb").read_text(encoding="utf-8"))
    where = {"cell_type": "code", "execution_count": None, "id": "where", "metadata": {}, "outputs": [],
             "source": "import bert_tf\nprint(bert_tf.__file__)"}  # fmt: skip
    content["cells"].append(where)
    copy = tmp_path / f"{name}.ipynb"
    copy.write_text(json.dumps(content), encoding="utf-8")
    wheels.run([python, "-c", RUN, copy], tmp_path, LIMIT_S)
    *cells, last = json.loads(copy.read_text(encoding="utf-8"))["cells"]
    assert "".join(last["outputs"][0]["text"]).startswith(str(python.parents[1]))
    assert all(cell["execution_count"] for cell in cells if cell["cell_type"] == "code")
    assert not any(output["output_type"] == "error" for cell in cells for output in cell.get("outputs", ()))
