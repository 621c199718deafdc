"""The corpus of tests/pretraining/corpus, of which the tests here have records made."""

from tests.pretraining.corpus.conftest import corpus

__all__ = ["corpus"]
