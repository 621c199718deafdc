"""Sentences in every export for warm-up and for checks of its predictions. They are not user texts."""

import itertools
from collections.abc import Sequence

SENTENCES = (
    "The library opens at nine.",
    "Rain is expected in the north on Tuesday, and a little sun in the south from noon on.",
    "Anna Berg moved from Oslo to Lisbon in 1998, where she taught mathematics at a small school near the harbour.",
    "Café № 5 serves naïve 😀 guests, 图书馆九点开门。",
)
_CHOICES = 3  # number of texts in a list input


def sample_texts(
    text_inputs: Sequence[str], list_inputs: Sequence[str], count: int, blank: str = "", words: int | None = None
) -> dict[str, list]:
    """Returns the texts of some examples.

    Args:
        text_inputs: names of the texts of an example.
        list_inputs: those that are lists of texts.
        count: number of examples.
        blank: the start of each text, such as a mask.
        words: words per text, by repetition; None for one sentence.

    Returns:
        {name: `count` texts}, or lists of texts for `list_inputs`. The texts of an example differ.
    """

    def text(number):
        sentence = SENTENCES[number % len(SENTENCES)]
        if words is not None:
            sentence = " ".join(itertools.islice(itertools.cycle(sentence.split()), words))
        return f"{blank} {sentence}" if blank else sentence

    return {
        name: [
            [text(i + n + choice) for choice in range(_CHOICES)] if name in list_inputs else text(i + n)
            for i in range(count)
        ]
        for n, name in enumerate(text_inputs)
    }
