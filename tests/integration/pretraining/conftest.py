"""What the tests of whole pretraining runs share."""

import pytest

from tests.integration.pretraining import support


@pytest.fixture(scope="session")
def material(tmp_path_factory):
    """A folder with a tiny model's configuration and vocabulary, and records to train on and to be scored by."""
    return support.write_material(tmp_path_factory.mktemp("pretraining"))


@pytest.fixture(scope="session")
def all_material(material):
    """The same folder, with all of `support.RECORDS`."""
    support.add_records(material, support.RECORDS.keys() - {"train", "held_out"})
    return material
