"""Counts of the tokens that a model reads of a request's texts."""

import types

import pytest

from bert_tf.serving.server.protocols.token_counting import ReadTokens, count_read_tokens
from bert_tf.serving.server.request_context import INTERNAL
from bert_tf.tokenization.fast_tokenizer import load_fast_tokenizer
from tests import tiny


@pytest.fixture(scope="module")
def version(tmp_path_factory):
    """A model of `tiny.VOCAB` that reads 16 tokens of a text."""
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "vocab.txt").write_text("\n".join(tiny.VOCAB) + "\n")
    tokenizer, sequences = load_fast_tokenizer(folder), types.SimpleNamespace(text_tokens=16, added=0)
    return types.SimpleNamespace(model=types.SimpleNamespace(read_tokenizer=lambda: tokenizer, sequences=sequences))


@pytest.mark.parametrize(
    "texts, truncated, tokens",
    [
        ([""], 0, 0),
        (["a film", "music"], 0, 3),
        (["music " * 14], 0, 14),
        (["music " * 15, "a"], 1, 15),
        (["music " * 10**5], 1, 14),
        ([" " * 10**5 + "music"], 0, 1),
        (["x" * 10**5], 0, 1),  # one word, which is unknown
        (["a " + "x" * 10**5 + " a"], 0, 3),
        (["." * 10**5], 1, 14),
    ],
)
def test_texts(version, texts, truncated, tokens):
    assert count_read_tokens(version, {"text": texts}, INTERNAL) == ReadTokens(len(texts), truncated, tokens)


def test_pairs_and_lists_of_documents(version):
    columns = {"text_a": ["a film", "music"], "text_b": ["is", "music " * 99]}
    assert count_read_tokens(version, columns, INTERNAL) == (2, 1, 3 + 13)
    columns = {"query": ["a film"], "documents": [["is", "music " * 11, "music " * 12]]}
    assert count_read_tokens(version, columns, INTERNAL) == (3, 1, 3 + 13 + 13)


def test_a_model_that_reads_all_of_a_text(version):
    version = types.SimpleNamespace(
        model=types.SimpleNamespace(
            read_tokenizer=version.model.read_tokenizer, sequences=types.SimpleNamespace(text_tokens=0, added=0)
        )
    )
    assert count_read_tokens(version, {"text": ["music " * 1000]}, INTERNAL) == ReadTokens(1, 0, 1000)


def test_an_export_without_settings_of_its_tokenizer():
    version = types.SimpleNamespace(model=types.SimpleNamespace(read_tokenizer=lambda: None))
    assert count_read_tokens(version, {"text": ["a"]}, INTERNAL) is None
