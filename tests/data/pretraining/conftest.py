"""The corpus of tests/corpus, of which the tests here have records made."""

from tests.corpus.conftest import corpus

__all__ = ["corpus"]
