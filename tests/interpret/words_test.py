"""Words as a reader sees them, and which of them a token is of."""

import numpy as np
import pytest

from bert_tf.interpret.words import words_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't.", ["I", "don't", "."]),
        ("東京 e-mail", ["東", "京", "e-mail"]),
        ("cafe\u0301  (yes)", ["cafe\u0301", "(", "yes", ")"]),
        ("", []),
    ],
)
def test_texts_are_split_into_words(text, expected):
    starts = np.flatnonzero([not char.isspace() for char in text])
    words, of_token = words_of(text, starts, starts + 1)
    assert [word.text for word in words] == expected
    assert "".join(words[i].text[0] for i in sorted(set(of_token.tolist()))) == "".join(word[0] for word in expected)


def test_one_piece_over_several_words_makes_them_one():
    words, of_token = words_of("a, b c", np.array([0, 1, 5]), np.array([1, 4, 6]))
    assert [word.text for word in words] == ["a", ", b", "c"] and of_token.tolist() == [0, 1, 2]
