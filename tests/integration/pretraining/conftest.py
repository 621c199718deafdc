"""What the tests of whole pretraining runs share."""

import pytest

from tests.integration.pretraining import support


@pytest.fixture(scope="session")
def material(tmp_path_factory):
    """A folder with a tiny model's configuration and vocabulary, and all of `support.RECORDS`."""
    return support.write_material(tmp_path_factory.mktemp("pretraining"), tuple(support.RECORDS))
