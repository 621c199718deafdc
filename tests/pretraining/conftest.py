"""A small corpus for the tests of whole runs."""

import numpy as np
import pytest

from tests.pretraining.corpus import support
from tests.scripts import Cases


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A vocabulary and three files in Google's format: 60 documents, 1,860 sentences, one of them in each document.

    Beside them a list of phrases, of which one stands in that sentence.
    """
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    (folder / "vocab.txt").write_text("\n".join(support.VOCAB) + "\n")
    (folder / "phrases.list").write_text("wak wal\nwal wörter\n", encoding="utf-8")
    for number in range(3):
        documents = [[_sentence(rng) for _ in range(30)] + ["wak wal wam ."] for _ in range(20)]
        text = "\n\n".join("\n".join(sentences) for sentences in documents)
        (folder / f"{number}.txt").write_text(text + "\n")
    return folder


def _sentence(rng):
    return " ".join(rng.choice(support.WORDS, rng.integers(3, 20))) + " ."


@pytest.fixture(scope="session")
def program():
    """`pretrain data` in a process of its own, which runs one command line after the other."""
    with Cases("create_pretraining_data") as program:
        yield program
