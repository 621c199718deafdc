"""The tokenizer against google-research/bert's own, from the package index: all code points, 100,000 random strings."""

import pytest

from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests.tokenization import material
from tests.tokenization.google import google_tokenizer


@pytest.fixture(scope="module")
def google(tmp_path_factory):
    return google_tokenizer(tmp_path_factory.mktemp("google"))


def differences(tokenizer, google, texts):
    got = tokenizer.tokenize(texts).to_list()
    want = google("uncased" if tokenizer.do_lower_case else "cased", tokenizer.asset_file, texts)
    assert len(got) == len(want) == len(texts)
    return [row for row in zip(texts, got, want, strict=True) if row[1] != row[2]]


@pytest.mark.slow
@pytest.mark.parametrize("do_lower_case", [True, False], ids=["uncased", "cased"])
def test_every_code_point_with_the_small_vocabulary(google, tmp_path, do_lower_case):
    WordPieceTokenizer(material.small_vocabulary(ideographs=1), do_lower_case).save(tmp_path)
    tokenizer = WordPieceTokenizer.from_directory(tmp_path)
    texts = [text for char in material.assigned() for text in (char, f"aB{char}ΣΑΣ{char} {char}\u0301Σ")]
    assert differences(tokenizer, google, [*material.TRICKY, *texts]) == []
    assert differences(tokenizer, google, list(material.random_texts(20_000, seed=11))) == []


@pytest.mark.slow
@pytest.mark.parametrize("do_lower_case", [True, False], ids=["uncased", "cased"])
def test_100_000_random_strings_with_a_real_vocabulary(google, minilm, do_lower_case):
    tokenizer = WordPieceTokenizer(f"{minilm}/vocab.txt", do_lower_case)
    assert differences(tokenizer, google, [*material.TRICKY, *material.random_texts(100_000, seed=12)]) == []
