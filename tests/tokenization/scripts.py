"""Texts in twelve scripts to compare tokenizers on: sentences, and random strings of the characters of a script."""

import pathlib
import random

_PER_SCRIPT = 420  # sentences of each script, and random strings
# Script -> where its characters are in Unicode, with those that are newer than Python's tables, or not assigned at all.
BLOCKS = {
    "Latin": ((0x21, 0x7F), (0xA0, 0x250), (0x1E00, 0x1F00), (0x2C60, 0x2C80), (0xA720, 0xA800)),
    "Cyrillic": ((0x400, 0x530), (0x1C80, 0x1C90), (0xA640, 0xA6A0), (0x1E030, 0x1E090)),
    "Greek": ((0x370, 0x400), (0x1F00, 0x2000)),
    "Arabic": ((0x600, 0x700), (0x750, 0x780), (0x870, 0x900), (0xFB50, 0xFE00), (0x10EC0, 0x10F00)),
    "Hebrew": ((0x590, 0x600), (0xFB1D, 0xFB50)),
    "Devanagari": ((0x900, 0x980), (0xA8E0, 0xA900), (0x11B00, 0x11B60)),
    "Thai": ((0xE00, 0xE60),),
    "Han": ((0x4E00, 0xA000), (0x3400, 0x3500), (0x20000, 0x20100), (0x31350, 0x31400), (0xF900, 0xFB00)),
    "Kana": ((0x3040, 0x3100), (0x31F0, 0x3200), (0xFF61, 0xFFA0), (0x1B000, 0x1B168)),
    "Hangul": ((0xAC00, 0xD7A4), (0x1100, 0x1200), (0x3131, 0x318F), (0xA960, 0xA980), (0xD7B0, 0xD800)),
    "Georgian": ((0x10A0, 0x1100), (0x1C90, 0x1CC0), (0x2D00, 0x2D30)),
    "Tamil": ((0xB80, 0xC00), (0x11FC0, 0x12000)),
}
_XNLI = {"Latin": "en", "Cyrillic": "ru", "Greek": "el", "Arabic": "ar", "Devanagari": "hi", "Thai": "th", "Han": "zh"}
# The first article of the Universal Declaration of Human Rights, for the scripts that XNLI does not have.
_ARTICLES = {
    "Hebrew": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון, לפיכך חובה עליהם לנהוג "
    "איש ברעהו ברוח של אחווה.",
    "Kana": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを"
    "授けられており、互いに同胞の精神をもって行動しなければならない。",
    "Hangul": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 "
    "부여받았으며 서로 형제애의 정신으로 행동하여야 한다.",
    "Georgian": "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით. მათ მინიჭებული აქვთ "
    "გონება და სინდისი და ერთმანეთის მიმართ უნდა იქცეოდნენ ძმობის სულისკვეთებით.",
    "Tamil": "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; அவர்கள் மதிப்பிலும், உரிமைகளிலும் "
    "சமமானவர்கள், அவர்கள் நியாயத்தையும் மனச்சாட்சியையும் இயற்பண்பாகப் பெற்றவர்கள்.",
}
_BETWEEN = (
    " ", " ", " ", " ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2028", "\u200b", "\u200d", "\ufeff", "\u00ad",
    "\0", "\x07", "\x85", "\ufffd",
)  # fmt: skip
_ANYWHERE = (
    *"0123456789", *".,;:!?-_'\"()/%&@#*+=<>[]^`~|$", "'s", "'ll", "12,5", "\u0301", "\u0323", "\u0308", "\u0345",
    "\u20dd", "\u0660", "\u0967", "\u0be7", "\u2167", "\u00bd", "\u00b2", "\u2014", "\u2026", "\u3002", "\u2581",
    "\uff0c", "\uff21", "\uff42", "\uff11", "\uff76\uff9e", "\U0001f600", "\U0001f1e9\U0001f1ea", "1\ufe0f\u20e3",
    "\U0001f469\U0001f3fd\u200d\U0001f4bb", "\u2764\ufe0f", "\ufb01", "\u017f", "\u0130", "\u00df", "\ue000",
)  # fmt: skip


def sentences(shared_data: pathlib.Path) -> list[str]:
    """Returns 5,040 texts, 420 in each script: sentences, and parts of some."""
    rng = random.Random(0)
    return [text for script in BLOCKS for text in _sentences(rng, script, shared_data)]


def random_strings() -> list[str]:
    """Returns 5,040 strings of the characters of a script, digits, punctuation, marks, emoji and spaces."""
    rng = random.Random(1)
    return [_random_string(rng, blocks) for blocks in BLOCKS.values() for _ in range(_PER_SCRIPT)]


def _sentences(rng, script, shared_data):
    if script in _XNLI:
        text = (shared_data / "xnli" / f"dev-{_XNLI[script]}.tsv").read_text(encoding="utf-8")
        parts = dict.fromkeys(part for line in text.split("\n") for part in line.split("\t")[:2] if part)
        return rng.sample([*parts], _PER_SCRIPT)
    article = _ARTICLES[script]
    places = [sorted(rng.sample(range(len(article) + 1), 2)) for _ in range(_PER_SCRIPT)]
    return [article[start:end] for start, end in places]


def _random_string(rng, blocks):
    def character():
        return chr(rng.randrange(*rng.choice(blocks)))

    kinds = rng.choices((character, lambda: rng.choice(_BETWEEN), lambda: rng.choice(_ANYWHERE)), (14, 3, 3),
                        k=rng.randrange(1, 40))  # fmt: skip
    return "".join(make() for make in kinds)
