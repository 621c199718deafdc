"""A BERT tokenizer in plain Python, by the algorithm of google-research/bert's tokenization.py, for a fair comparison.

Unlike tests/tokenization/reference.py, which is simple and remembers what it has seen, this does the work that the
original does: pass after pass over the characters, a look into the Unicode tables for each, a join for each try at a
piece. Where it differs it is the faster of the two.
"""

import unicodedata

CHINESE = (  # CJK ideographs, first to last
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip
LONGEST_WORD = 200


class Tokenizer:
    """Google's FullTokenizer: `tokenize(text)` to pieces, and `vocab`, piece to id."""

    def __init__(self, vocab_file, do_lower_case=True):
        with open(vocab_file, encoding="utf-8") as file:
            self.vocab = {line.strip(): number for number, line in enumerate(file)}
        self.do_lower_case = do_lower_case

    def tokenize(self, text):
        return [piece for word in self.words(text) for piece in self.pieces(word)]

    def words(self, text):
        """White space and punctuation part words; each punctuation and Chinese character is one."""
        words = []
        for word in set_chinese_apart(clean(text)).split():
            if self.do_lower_case:
                word = strip_accents(word.lower())
            words.extend(split_on_punctuation(word))
        return " ".join(words).split()

    def pieces(self, word):
        """The longest piece that fits, from left to right; [UNK] for the whole word where none does."""
        chars = list(word)
        if len(chars) > LONGEST_WORD:
            return ["[UNK]"]
        pieces, start = [], 0
        while start < len(chars):
            end = len(chars)
            while start < end:
                piece = "".join(chars[start:end])
                if start:
                    piece = "##" + piece
                if piece in self.vocab:
                    break
                end -= 1
            else:
                return ["[UNK]"]
            pieces.append(piece)
            start = end
        return pieces

    def ids(self, pieces):
        return [self.vocab[piece] for piece in pieces]


def clean(text):
    kept = []
    for char in text:
        if char in ("\0", "\ufffd") or is_control(char):
            continue
        kept.append(" " if is_blank(char) else char)
    return "".join(kept)


def set_chinese_apart(text):
    kept = []
    for char in text:
        if is_chinese(ord(char)):
            kept += [" ", char, " "]
        else:
            kept.append(char)
    return "".join(kept)


def strip_accents(word):
    kept = []
    for char in unicodedata.normalize("NFD", word):
        if unicodedata.category(char) != "Mn":
            kept.append(char)
    return "".join(kept)


def split_on_punctuation(word):
    groups, fresh = [], True
    for char in word:
        if is_punctuation(char):
            groups.append([char])
            fresh = True
        else:
            if fresh:
                groups.append([])
            groups[-1].append(char)
            fresh = False
    return ["".join(group) for group in groups]


def is_blank(char):
    return char in (" ", "\t", "\n", "\r") or unicodedata.category(char) == "Zs"


def is_control(char):
    return char not in ("\t", "\n", "\r") and unicodedata.category(char) in ("Cc", "Cf")


def is_punctuation(char):
    code = ord(char)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(char).startswith("P")


def is_chinese(code):
    if code < 0x3400:  # below all of them: a loop over the ranges would make this slower than Google's
        return False
    return any(first <= code <= last for first, last in CHINESE)
