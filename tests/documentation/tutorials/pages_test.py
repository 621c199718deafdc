"""The tutorials run from top to bottom, print what they say that they print, and are the notebooks beside them."""

import json
import re

import pytest

from tests import tiny
from tests.documentation.tutorials import commands, pages

PAGES = {page.stem: page for page in pages.pages()}
NOTEBOOKS = {page.stem: page for page in pages.notebook_pages()}
_NUMBER = re.compile(r"-?\d+\.\d*")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Runs a page in a folder of its own, without a screen."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    return tmp_path


@pytest.mark.slow
def test_bert_in_python_on_a_model_of_distilberts_shape(place, monkeypatch):
    shape = {"model_type": "distilbert", "type_vocab_size": 0, "has_pooler": False, "classifier_act": "relu"}
    model = tiny.checkpoint(place / "distilbert", max_position_embeddings=64, **shape)
    monkeypatch.setenv("TUTORIAL_MODEL", str(model))
    table = tiny.write_tsv(place / "train.tsv", [(text.replace(",", " "), label) for text, label in tiny.texts(80)])
    monkeypatch.setenv("TUTORIAL_SENTENCES", str(table))
    printed, names = pages.run(PAGES["bert_in_python"])
    assert printed[1].startswith("60 training sentences, 20 test sentences\n")  # and not the header
    assert names["train_vectors"].shape[0] == 60 and (place / "reviews" / "task.json").exists()
    scores = [float(score) for text in printed[4:7] for score in _NUMBER.findall(text)]
    assert len(scores) == 5 and all(0 <= score <= 1 for score in scores)


@pytest.mark.slow
def test_context_draws_its_plot(place, monkeypatch):
    monkeypatch.setenv("TUTORIAL_MODEL", str(tiny.checkpoint(place / "model")))
    printed, names = pages.run(PAGES["contextual_embeddings"])
    assert printed[1] == "2 times (10, 32)\n" and len(printed[2].splitlines()) == 3
    assert (place / "bank.png").read_bytes().startswith(b"\x89PNG")


def test_input_is_what_the_encoder_calculates(place, monkeypatch):
    monkeypatch.setenv("TUTORIAL_MODEL", str(tiny.checkpoint(place / "model")))
    printed, _ = pages.run(PAGES["bert_inputs"])
    assert "True\n" in printed


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_is_the_page(name):
    committed = NOTEBOOKS[name].with_suffix(".ipynb").read_text(encoding="utf-8")
    assert committed == pages.notebook(NOTEBOOKS[name]), "`make notebooks` writes it anew"
    content = json.loads(committed)
    first, *code = ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]
    assert first == pages.INSTALL and content["cells"][0]["cell_type"] == "code"
    assert f"[notebook]({name}.ipynb)" in NOTEBOOKS[name].read_text(encoding="utf-8")
    if name in PAGES:
        assert code == [cell.text for cell in pages.cells(PAGES[name]) if cell.is_code] != []


def test_a_notebook_for_the_shell_needs_no_checkout():
    """Its commands are the page's, and what the page copies from the checkout is in it."""
    for name in pages.SHELL_NOTEBOOKS:
        _, setup, *code = [cell.text for cell in pages.notebook_cells(NOTEBOOKS[name]) if cell.is_code]
        run = [block.text for block in commands.blocks(NOTEBOOKS[name].read_text("utf-8")) if not block.not_run]
        own = [cell.text for cell in pages.cells(NOTEBOOKS[name]) if cell.is_code]
        assert setup == pages.SETUP and len(run) == len(own) > 3 and len(own) - len({*own} & {*code}) == 1  # the copy
        assert "docs/tutorials" not in "".join(code)
        for path, text in (each.removeprefix("%%writefile ").split("\n", 1) for each in code if "%%writefile" in each):
            assert text + "\n" == (pages.FOLDER / "data" / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_block_of_code_is_left_out(name):
    text, cells = NOTEBOOKS[name].read_text(encoding="utf-8"), pages.cells(NOTEBOOKS[name])
    blocks = text.count("```python\n") + text.count("```bash\n") - text.count("<!-- not run: ")
    assert blocks == sum(cell.is_code for cell in cells)
    assert text.count("```text\n") == sum(bool(cell.output) or "```text" in cell.text for cell in cells)


def alike(printed, said):
    """Says whether two texts differ by no more than 0.03 in each of their numbers with a point, as machines do."""
    ours, theirs = ([float(number) for number in _NUMBER.findall(text)] for text in (printed, said))
    words = ("".join(_NUMBER.sub("#", text).split()) for text in (printed, said))
    return len(set(words)) == 1 and all(abs(a - b) <= 0.03 for a, b in zip(ours, theirs, strict=True))


def test_numbers_may_differ_a_little():
    assert alike("mean  0.74\n", "mean 0.73") and alike("[-0.  1.]", "[ 0.  1.]")
    assert not alike("mean 0.74", "mean 0.78") and not alike("9 of 10", "8 of 10") and not alike("a 1.0", "b 1.0")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_the_page_prints_what_it_says(name, minilm, request, monkeypatch):
    monkeypatch.setenv("TUTORIAL_MODEL", minilm)
    if "TUTORIAL_SENTENCES" in PAGES[name].read_text(encoding="utf-8"):
        sentences = request.getfixturevalue("shared_data") / "sst2-tutorial" / "train.tsv"
        monkeypatch.setenv("TUTORIAL_SENTENCES", str(sentences))
    printed, _ = pages.run(PAGES[name])
    for text, cell in zip(printed, (cell for cell in pages.cells(PAGES[name]) if cell.is_code), strict=True):
        assert alike(text, cell.output), text
