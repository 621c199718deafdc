"""Sentences that every export brings along, to warm up with and to check its answers on. They are no user's texts."""

import itertools
from collections.abc import Sequence

_SENTENCES = (
    "The library opens at nine.",
    "Rain is expected in the north on Tuesday, and a little sun in the south from noon on.",
    "Anna Berg moved from Oslo to Lisbon in 1998, where she taught mathematics at a small school near the harbour.",
    "Café № 5 serves naïve 😀 guests, 图书馆九点开门。",
)
_CHOICES = 3  # texts of an input of which an example has several


def sample_texts(
    text_inputs: Sequence[str], list_inputs: Sequence[str], rows: int, blank: str = "", words: int | None = None
) -> dict[str, list]:
    """Returns the texts of some examples.

    Args:
        text_inputs: names of the texts that an example has.
        list_inputs: those of them of which it has several.
        rows: how many examples.
        blank: what each text begins with, such as a mask to fill in.
        words: of each text, by repetition; None: one sentence.

    Returns:
        {name: `rows` texts}, or lists of texts for `list_inputs`. An example's texts differ from one another.
    """

    def text(number):
        sentence = _SENTENCES[number % len(_SENTENCES)]
        if words is not None:
            sentence = " ".join(itertools.islice(itertools.cycle(sentence.split()), words))
        return f"{blank} {sentence}" if blank else sentence

    return {
        name: [
            [text(row + place + choice) for choice in range(_CHOICES)] if name in list_inputs else text(row + place)
            for row in range(rows)
        ]
        for place, name in enumerate(text_inputs)
    }
