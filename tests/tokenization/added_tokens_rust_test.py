"""Added tokens of every kind of tokenizer against Transformers' AutoTokenizer, which reads what our `save` wrote."""

import json
import random

import pytest

from bert_tf.tokenization.added_tokens import FLAGS
from tests.other_envs import run, torch_python
from tests.tokenization.added_tokens_test import NAMES, folded, plain, with_tokens
from tests.tokenization.rust_test import READ

MODEL_TYPES = {"wordpiece": "bert", "byte_bpe": "roberta", "unigram": "albert", "unigram_in_front": "xlm-roberta"}
SPECIAL = ("<s>", "</s>", "<mask>", "[CLS]")
TAKES_SPECIAL = ("unigram_in_front",)  # with capital letters kept theirs takes such a piece of the vocabulary in a text
# Texts that may differ elsewhere: theirs finds a special token first, although it then stays text, and so misses an
# added token that begins with its last letter.
OVERLAPS = 10
ATOMS = (
    " ", " ", "  ", "\t", "\n", "\u00a0", "\u3000", ",", ".", "-", "_", "e\u0301", "CAF\u00c9", "x", "s", "\u4e2d",
    "\u6587", "\u200d", "\u0301", "\U0001f600", "word1s", "NEW york", "\u24b6", "``", "'s", "1", *SPECIAL,
)  # fmt: skip


def _tokens(rng):
    """40 tokens with flags drawn by chance: words, parts of words and of each other, brackets, Chinese, white space."""
    parts = ("covid", "ology", "Caf\u00e9", "[E", "]", "<", ">", "x", "\u65b0", "\u51a0", " ", "New York", "!!", "word")
    contents = dict.fromkeys("".join(rng.choices(parts, k=rng.randrange(1, 4))) + str(n % 7) for n in range(40))
    return [{"content": content, **{flag: rng.random() < 0.4 for flag in FLAGS[:4]}} for content in contents]


def _texts(rng, tokens):
    atoms = [*ATOMS, *(change(token["content"]) for token in tokens for change in (str, str, str.lower, str.upper))]
    return ["".join(rng.choices(atoms, k=rng.randrange(10))) for _ in range(3000)]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_random_tokens_in_random_texts(name, tmp_path):
    rng = random.Random(name)
    tokens = _tokens(rng)
    tokenizer = with_tokens(plain(name), tokens)
    tokenizer.save(tmp_path)
    model_type = next(MODEL_TYPES[each] for each in sorted(MODEL_TYPES, key=len, reverse=True) if name.startswith(each))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}), encoding="utf-8")
    texts = _texts(rng, tokens)
    (tmp_path / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    run(torch_python(), READ, tmp_path, tmp_path / "texts.json", tmp_path / "read.json")
    expected = json.loads((tmp_path / "read.json").read_text(encoding="utf-8"))
    ids, starts, limits = (each.to_list() for each in tokenizer.tokenize_with_offsets(texts))
    added, seen, overlaps = {token.id: token for token in tokenizer.added_tokens}, set(), 0
    for text, own, first, last, (theirs, _) in zip(texts, ids, starts, limits, expected, strict=True):
        assert own == theirs or any(special in text for special in SPECIAL), text
        overlaps += own != theirs
        for number, span in zip(own, zip(first, last, strict=True), strict=True):
            if number in added:
                assert folded(text[slice(*span)]) == folded(added[number].content), text
                seen.add(number)
    assert len(seen) > 0.9 * len(added)
    assert overlaps <= OVERLAPS or name in TAKES_SPECIAL
