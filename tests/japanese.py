"""A Japanese tokenizer small enough for tests: its files, its texts, and words without MeCab."""

import json
import pathlib
import random
import re
import types

from tests import tiny

_SUBJECTS = (
    "私の友人", "東京タワー", "ﾃﾚﾋﾞのﾆｭｰｽ", "㍿ミライ", "Café BERT", "彼女", "吾輩は猫", "が\u304b\u3099っこう",
    "🎬映画", "１２３号室",
)  # fmt: skip
_VERBS = (
    "は面白い。", "を見たことがある！", "についてどう思う？", " が 大好き  です。", "へ行った（昨日）。",
    "で、ＡＢＣ順にならべる。", "なら Tokyo まで 2,500円…", "も㌔単位の℡番号。",
)  # fmt: skip
_BETWEEN = ("", " ", "\u3000", "\n", "「", "・", "ー", "\u2028", "👩\u200d👩\u200d👧", "\u00a0", "##", "𝐀", "İ", "㍿")


def sentences(count: int, seed: int = 0) -> list[str]:
    """Returns different sentences with half-width and full-width forms, signs that stand for words, marks and emoji."""
    rng, found = random.Random(seed), {}
    while len(found) < count:
        parts = [rng.choice(each) for _ in range(rng.randrange(1, 4)) for each in (_SUBJECTS, _BETWEEN, _VERBS)]
        found["".join(parts)] = None
    return list(found)


def vocabulary(texts: list[str], gaps: int = 7) -> list[str]:
    """Returns special tokens, the characters of texts in NFKC, and some words; one character of `gaps` is not known
    within a word, none if it is 0."""
    from bert_tf.tokenization.mecab_words import compatible_spans

    chars = sorted({char for text in texts for char in compatible_spans(text)[0] if not char.isspace()})
    within = [f"##{char}" for n, char in enumerate(chars) if not gaps or n % gaps]
    words = ["東京", "タワー", "テレビ", "ニュース", "##社", "映画", "友人", "面白", "##い", "株式", "##会社"]
    words += ["bert", "BERT"]
    lower = sorted({char.lower() for char in chars if len(char.lower()) == 1} - {*chars})
    return [*dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *chars, *lower, *within, *words])]


def write_settings(folder: pathlib.Path, **changes):
    """Writes tokenizer_config.json as it is next to the published models; None: without this key."""
    said = {"tokenizer_class": "BertJapaneseTokenizer", "do_lower_case": False, "word_tokenizer_type": "mecab",
            "subword_tokenizer_type": "wordpiece", "mecab_kwargs": {"mecab_dic": "ipadic"}, **changes}  # fmt: skip
    said = {key: value for key, value in said.items() if value is not None}
    (folder / "tokenizer_config.json").write_text(json.dumps(said), encoding="utf-8")


def checkpoint(folder: pathlib.Path, vocab: list[str], **changes) -> pathlib.Path:
    """Writes a model with random weights and this tokenizer."""
    tiny.checkpoint(folder, vocab=vocab, vocab_size=len(vocab))
    write_settings(folder, **changes)
    return folder


class Tagger:
    """Finds words by their script, as fugashi's taggers find those of a dictionary."""

    _WORD = re.compile(r"[ぁ-ゖ]{1,2}|[ァ-ヺー]+|[一-鿿]{1,2}|[A-Za-z]+|[0-9]+|[^ \t\n]")

    def __call__(self, text):
        return [types.SimpleNamespace(surface=word) for word in self._WORD.findall(text)]


def without_mecab(monkeypatch):
    """Lets tokenizers find words by script, so that neither fugashi nor a dictionary is needed."""
    from bert_tf.tokenization import mecab_words

    monkeypatch.setattr(mecab_words, "require_packages", lambda name, *modules: None)
    monkeypatch.setattr(mecab_words, "_load_tagger", lambda dictionary: Tagger())
