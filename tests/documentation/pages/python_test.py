"""The Python of README.md and of the Python quickstart runs from top to bottom, and gives what its comments say."""

import pathlib
import re

import numpy as np
import pytest

from tests import tiny
from tests.conftest import ROOT
from tests.export.models import write_trained

pytestmark = pytest.mark.slow

_FENCED = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def run(minilm, tmp_path, monkeypatch):
    """A function that runs a page's Python where MiniLM lies as the demo puts it; returns the names that are left.

    A few texts stand for the data of the demo.
    """
    place = tmp_path / "demo" / "weights"
    place.mkdir(parents=True)
    (place / "minilm").symlink_to(minilm)
    for name in ("train", "test"):
        (tmp_path / "demo" / "data").mkdir(exist_ok=True)
        tiny.write_tsv(tmp_path / "demo" / "data" / f"{name}.tsv", tiny.texts(64, len(name), ["negative", "positive"]))
    (tmp_path / "reviews.csv").write_text("body\na good film\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run_page(name, count=None):
        names = {}
        blocks = _FENCED.findall((ROOT / name).read_text(encoding="utf-8"))
        assert blocks
        for block in blocks[:count]:
            exec(compile(block, name, "exec"), names)
        return names

    return run_page


def _check_outputs(names):
    outputs = names["outputs"]
    assert {name: (each.dtype.name, each.shape) for name, each in names["features"].items()} == {
        name: ("int32", (2, 128)) for name in ("input_ids", "input_mask", "segment_ids")
    }
    assert outputs["sequence_output"].shape == (2, 128, 384) and outputs["pooled_output"].shape == (2, 384)
    return outputs


def test_guide(run, capsys):
    names = run("docs/guides/python.md", 3)  # the rest needs records
    assert 0 < names["run"].metrics["eval_brier_error"] < 2 and names["scores"]["accuracy"] in (0, 0.5, 1)
    assert "'probabilities': {'negative': " in capsys.readouterr().out


def test_readme(run):
    names = run("README.md")
    vectors = names["bert"].features(["A joy."], layers="second_to_last", pooling="mean")
    assert (vectors.dtype, vectors.shape) == ("float32", (1, 384))


def test_api_page(run, capsys, tmp_path):
    write_trained(tmp_path / "reviews", "classification")
    names = run("docs/reference/python_api.md", 1)  # the second block needs a server: tests/serving/client_page_test.py
    printed = capsys.readouterr().out
    for line in ("(2, 384)", "(6, 12, 9, 9)", "(2, 128, 128)", "['input_ids', 'input_mask', 'segment_ids']"):
        assert f"{line}\n" in printed, printed
    assert pathlib.Path("minilm-google", "bert_model.ckpt.index").exists()
    assert names["page"].page.startswith("<!doctype html>") or "<html" in names["page"].page


def test_page(run, capsys, tmp_path):
    write_trained(tmp_path / "reviews", "classification")
    names = run("docs/get_started/quickstart_python.md")
    assert [each.shape for each in _check_outputs(names)["encoder_outputs"]] == [(2, 128, 384)] * 6
    ids = names["bert"].tokenizer.tokenize(["unaffable films", "Déjà vu"]).to_list()
    assert ids == [[14477, 20961, 3468, 3152], [2139, 3900, 24728]]
    assert pathlib.Path("minilm-hf", "model.safetensors").exists()
    assert "read back bit-identical" in capsys.readouterr().out
    np.testing.assert_allclose(names["similarities"][np.triu_indices(3, 1)], [0.55, 0.07, 0.02], atol=0.006)
    assert list(names["classifier"].classes_) == ["bad", "good"]
    assert list(names["classifier"].predict(["A wonderful cast.", "Boring from start to end."])) == ["good", "bad"]
    assert names["model"].output_shape == (None, 2) and pathlib.Path("model.keras").exists()
