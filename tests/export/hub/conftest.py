"""The pair for TF Hub of a tiny pretrained model, made once for all files of tests."""

import pytest

from tests import run_cases


@pytest.fixture(scope="session")
def hub_pair(made_once, pretrained):
    """The folders of the preprocessor, of 16 tokens, and of the encoder that the program writes for it."""

    def fill(folder):
        words = [f"--model={pretrained}", "--hub", f"--export_dir={folder}/hub", "--default_seq_length=16"]
        ended = run_cases.run_here("export", words)
        assert ended["status"] == 0, ended["log"]

    folder = made_once("hub_pair", fill) / "hub"
    return str(folder / "preprocessor"), str(folder / "encoder")
