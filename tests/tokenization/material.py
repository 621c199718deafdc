"""Texts and a vocabulary for the tests of the tokenizer, made from a seed and this Python's Unicode."""

import functools
import random
import unicodedata

from tests.tokenization import reference

IDEOGRAPHS = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0x20000, 0x2A6DF), (0x2A700, 0x2EBEF), (0x30000, 0x323AF))
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TRICKY = [
    "", " ", "\n", "[CLS] [SEP] [MASK] [UNK] [PAD]", "[unused1]", "##ing", "it's", "a\x00b\ufffdc\x7fd", "a\u200db",
    "\u0301", " \u0301a", "中\u0301文", "e\u0301\u0323x", "İstanbul İI ıi", "ΣΑΣ ΑΣ' Σ ΑΣ\u0301 ΑΣ.Σ 'Σ ΑΣ\u00adΑ Σ中Σ",
    "Straße ﬁne ½ ① ㎏ Ⅷ", "한국어 조선말", "\u1b05\u1b44\U0001d16d\u0301\U0001d165x\U0001d15f", "a\u2028b\u2029c\x85d",
    "≠≮a`\u1fef;\u037e", "👩\u200d❤\ufe0f\u200d👨 1\ufe0f\u20e3 🇩🇪", "x" * 200, "x" * 201, "é" * 201 + " a",
    "\u0301" * 300, "ab" * 100, "中" * 250, "a\tb\rc\x0bd\x0ce\x1cf", "\ufeffbom", "\ue000 \U00010ffff \uffff",
    "가" * 67, "‘quoted’—dash…",
]  # fmt: skip


@functools.cache
def assigned():
    """Every character to which this Python's Unicode gives a category, surrogates apart."""
    return [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ("Cn", "Co", "Cs")]


def is_ideograph(char):
    return any(first <= ord(char) <= last for first, last in IDEOGRAPHS)


@functools.cache
def small_vocabulary(ideographs=16):
    """Nearly every character of a word, cased or not, alone and as "##": no difference hides behind [UNK].

    Of the unified ideographs, which are two thirds of all characters and alike, one in so many: 中 and 国 among them.
    """
    kept = (c for c in assigned() if not is_ideograph(c) or (ord(c) - ord("中")) % ideographs == 0)
    forms = {c for char in kept for c in char + char.lower() + unicodedata.normalize("NFD", char.lower())}
    chars = [c for c in sorted(forms) if not (c.isspace() or reference.is_dropped(c) or ord(c) % 97 == 3)]
    rng = random.Random(7)
    longer = {"".join(rng.choices("aeinorst", k=rng.randint(2, 4))) for _ in range(600)} | {"σασ", "##σς", "##ing"}
    longer |= {"##" + token for token in sorted(longer)[::2] if not token.startswith("##")}
    return [*SPECIAL, *chars, *("##" + c for c in chars), *sorted(longer)]


def random_texts(count, seed):
    """Strings that mix scripts, emoji, marks, controls, blanks, long words and the literals of special tokens."""
    rng = random.Random(seed)
    every = assigned()
    greek = "ΑΣσςαΌ'.\u0301\u00ad \u0345"
    marks = [c for c in every if unicodedata.combining(c)]
    bags = [
        "aeinorst", "aeinorst ", "AEINORSTÄÖÉ ", "abc,.;!?-'\"()[]#@$^`~ ", greek, marks, every, every, marks,
        list("中文日本語かなカナ한국어가각힣"), list("हिन्दी العربية עברית ภาษาไทย"), " \t\n\r\u00a0\u2003\u2028\u3000",
        ["\0", "\ufffd", "\x01", "\x7f", "\u200b", "\u200d", "\ufeff", "\u00ad"], ["😀", "👩\u200d💻", "❤\ufe0f", "🇩🇪"],
        ["[CLS]", "[SEP]", " [MASK] ", "[UNK]", "##ing", "[unused5]"],
        ["a" * 199, "st" * 100, "é" * 120, "e\u0301" * 101],
        ["\u1b44", "\U0001d165", "\U0001d16d", "\u302e", "\u1715", "\u0301", "\u0345", "x"],
    ]  # fmt: skip
    # Python 3.10 has an older Unicode than the text operations of TensorFlow.
    bags = [[part for part in bag if len(part) > 1 or unicodedata.category(part) != "Cn"] for bag in bags]
    for _ in range(count):
        bag = rng.choices(bags, weights=[8] * 5 + [4] * (len(bags) - 7) + [1, 2], k=rng.randint(1, 4))
        yield "".join(rng.choice(rng.choice(bag)) for _ in range(rng.randint(0, 40)))
