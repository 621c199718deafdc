"""Lines that are mostly not natural language, and short and foreign ones that are."""

import pytest

from bert_tf.utils.junk_lines import is_junk


@pytest.mark.parametrize(
    "line",
    ["* * *", "1,024 98.6 0.31", ". . . . . . 47", "--", "= = = = a", "a 12", "A" * 101, "see http://x/" + "ab/" * 40],
)
def test_lines_without_words_are_junk(line):
    assert is_junk(line)


@pytest.mark.parametrize(
    "line",
    [
        "It was 12:47, said he.",
        "a 1",
        "a\t\t\t\tb",
        "A" * 100,
        "नमस्ते दुनिया, यह हिन्दी है।",
        "မြို့တော်ကြီး",  # 3 letters, 10 marks
        "これは日本語の文章です。" * 20,
        "I.",
        "Øl på 5 kr.",
    ],
)
def test_short_and_foreign_sentences_are_not_junk(line):
    assert not is_junk(line)
