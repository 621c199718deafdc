"""The Python of docs/guides/keras.md runs from top to bottom in one process, and gives what the page says."""

import pathlib
import re

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "guides" / "keras.md"
_FENCED = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def names(minilm, tmp_path_factory):
    """The names that the page's Python leaves, with what it printed under `printed`; run where the demo puts MiniLM."""
    folder = tmp_path_factory.mktemp("keras_page")
    (folder / "demo" / "weights").mkdir(parents=True)
    (folder / "demo" / "weights" / "minilm").symlink_to(minilm)
    names, printed = {}, []
    names["print"] = lambda *values: printed.append(" ".join(map(str, values)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in _FENCED.findall(PAGE.read_text(encoding="utf-8")):
            exec(compile(block, PAGE.name, "exec"), names)
    return names | {"printed": printed, "folder": folder}


def test_training_learns_from_the_texts(names):
    losses = names["history"].history["loss"]
    assert len(losses) == 2 and losses[1] < losses[0]
    assert 0 < names["train_loss"] < 2


def test_callbacks_leave_their_files(names):
    lines = pathlib.Path(names["folder"], "history.csv").read_text(encoding="utf-8").splitlines()
    assert "val_loss" in lines[0] and len(lines) == 3
    assert (names["folder"] / "best.keras").exists()


def test_printed_output_is_that_of_the_page(names):
    (line,) = names["printed"]
    assert f"```text\n{line}\n```" in PAGE.read_text(encoding="utf-8")


def test_shapes_and_dtypes_are_those_of_the_page(names):
    assert names["fast"].get_layer("bert").compute_dtype == "bfloat16" and names["fast"].output.dtype == "float32"
    assert names["pairs"].output.shape == (None, 3) and names["tagger"].output.shape == (None, None, 9)
    assert names["hub_model"].output.shape == (None, 2)
    assert names["pair"]["input_word_ids"].shape == (1, 64)


def test_saved_models_compute_the_same(names):
    assert names["difference"] < 1e-5
    assert (names["folder"] / "minilm-tuned" / "model.safetensors").exists()
