"""Sentences are cut where a reader would cut them, quotation marks or not, and no text is lost."""

import random

import pytest

from bert_tf.utils import sentence_splitting

QUOTED = {
    "He left. She stayed.": ["He left.", "She stayed."],
    "“Go. Now!” he said. It rained.": ["“Go.", "Now!” he said.", "It rained."],
    'He left. "Why?" he asked. "Yes." She nodded.': ["He left.", '"Why?" he asked.', '"Yes."', "She nodded."],
    "« Bonjour. » Il part. »So.« Er ging.": ["« Bonjour. »", "Il part.", "»So.«", "Er ging."],
    "He can’t. She can't. The boys' dog. ‘Yes.’ So.": ["He can’t.", "She can't.", "The boys' dog.", "‘Yes.’", "So."],
    'A sign: ("Stop.") Then "(Why not?)" It is.': ['A sign: ("Stop.") Then "(Why not?)" It is.'],
    "He said: “I went. “Then I came. “So it is.": ["He said: “I went.", "“Then I came.", "“So it is."],
    "Here p < 0.05. Then more > less. So.": ["Here p < 0.05.", "Then more > less.", "So."],
    "Mr. Ray saw it, e.g. at 4 p.m. on Monday.": ["Mr. Ray saw it, e.g. at 4 p.m. on Monday."],
    "「你好。」他说。再见。": ["「你好。」", "他说。", "再见。"],
    "Émile était né. Zoë aussi. ¿Qué?": ["Émile était né.", "Zoë aussi.", "¿Qué?"],
    "It was 4 @.@ 5 km long . It was .": ["It was 4 @.@ 5 km long .", "It was ."],
}


@pytest.mark.parametrize("text", QUOTED)
def test_cuts_where_a_sentence_ends(text):
    assert sentence_splitting.split_sentences([text]) == QUOTED[text]


def test_white_space_is_one_space_and_empty_paragraphs_are_nothing():
    assert sentence_splitting.split_sentences(["One\r\n two.\u2003\u2028Three. ", "", " \t", "four\x1cfive"]) == [
        "One two.",
        "Three.",
        "four five",
    ]
    assert sentence_splitting.split_sentences([]) == sentence_splitting.split_sentences([""]) == []


def test_no_sentence_goes_on_over_a_paragraph():
    assert sentence_splitting.split_sentences(["a heading", "and its text"]) == ["a heading", "and its text"]


def test_a_quotation_that_never_closes_does_not_swallow_the_page():
    page = ["“This is a long speech. " * 20, "“It goes on. " * 20 + "”"]
    assert len(sentence_splitting.split_sentences(page)) >= 40


def test_the_language_has_its_own_abbreviations():
    text = "Das ist bzw. Herr Maier. Gut."
    assert sentence_splitting.split_sentences([text], "de") == ["Das ist bzw. Herr Maier.", "Gut."]


def test_every_character_is_kept_whatever_the_text():
    """Beyond ten kilobytes too, where the library itself loses paragraph breaks."""
    parts = ["a", "B", "é", "中", "。", ".", "!", "? ", " ", "\u00a0", "\u3000", "(", ")", "[1]", '"', "'", "“", "”"]
    parts += ["‘", "’", "«", "»", "1", "x.y@z.com", "😀", "…", "\u2028", "Mr. ", "e.g. ", "<", "\x85", "\t", "M.", "İ"]
    chance = random.Random(1)
    paragraphs = ["".join(chance.choices(parts, k=chance.randint(0, 30))) for _ in range(3000)]
    paragraphs.append("".join(chance.choices(parts, k=30_000)))
    for language in ("en", "de", "zh", "hi", "unknown"):
        found = "".join(sentence_splitting.split_sentences(paragraphs, language))
        assert "".join(found.split()) == "".join("".join(paragraphs).split())
