"""Wording that native readers stumble over, and home-made terms, stay out of what users read: `tools/wording.py`."""

import pytest

from tools import wording

# file -> (pattern, words of the hit) that are right where they are.
EXCEPTIONS = {
    "bert_tf/serving/server/classify.py": [("got", "")],  # TensorFlow Serving's own words
    "bert_tf/tokenization/sentencepiece_model.py": [("piece", "")],  # SentencePiece's own word
}


@pytest.fixture(scope="module")
def hits():
    return [hit for hit in wording.hits() if not _is_excepted(hit)]


def _is_excepted(hit):
    return any(name == hit.name and words in hit.words for name, words in EXCEPTIONS.get(hit.file, ()))


@pytest.mark.parametrize("pattern", wording.PATTERNS, ids=lambda pattern: pattern.name)
def test_text_for_users_is_free_of_it(pattern, hits):
    found = [f"{hit.file}:{hit.line}: {hit.words}" for hit in hits if hit.name == pattern.name]
    assert not found, f"write {pattern.write}:\n" + "\n".join(found)


def test_a_page_s_code_links_and_comments_are_not_its_prose():
    text = "One `to the bit`, [two](to-the-bit.md).\n\n```sh\nto the bit\n```\n<!-- to the bit -->\nto the bit\n"
    found = wording.prose(text)
    assert found.count("to the bit") == 1 and found.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ('raise ValueError(f"it {x} was " "told")', ["it X was told"]),
        ('logging.warning("it was told: %s", x)', ["it was told: %s"]),
        ('x: int = option(1, "Told " "so.", low=0)', ["Told so."]),
        ('x: int = option_as(A, "x", help="Told.", low=0)', ["Told."]),
        ('def f():\n    """Told.\n\n    More.\n    """', ["Told."]),
        ('def _f():\n    """Told."""', []),
        ('x = "told"', []),
    ],
)
def test_messages_help_and_first_lines_of_docstrings_are_read(tmp_path, source, texts):
    path = tmp_path / "a.py"
    path.write_text(f"{source}\n", encoding="utf-8")
    assert [text for _, text in wording.code_strings(path)] == texts
