"""A tiny pretrained model, made once for all files of tests."""

import pytest

from tests import tiny


@pytest.fixture(scope="session")
def pretrained(made_once) -> str:
    """The folder of a tiny checkpoint with both heads of pretraining."""
    return str(made_once("pretrained", tiny.pretrained))
