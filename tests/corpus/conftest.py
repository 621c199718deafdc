"""A small corpus for the tests of whole runs."""

import pytest

from tests.corpus import support


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A vocabulary and three files in Google's format: 60 documents, 1,860 sentences, one of them in each document."""
    return support.write_corpus(tmp_path_factory.mktemp("corpus"))
