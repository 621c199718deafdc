"""Writes what Hugging Face's tokenizers, which are written in Rust, make of texts with added tokens.

    PYTHON_WITH_SENTENCEPIECE_AND_TOKENIZERS tests/goldens/rust_added_tokens.py FOLDER

FOLDER is tests/goldens/tokenizers, whose vocabularies are read; it gets added_tokens.json: the tokens, the texts, and
for each way of reading them the ids and the offsets. Made with sentencepiece 0.2.3, tokenizers 0.22.2 (as Transformers
4.57 has it).
"""

import itertools
import json
import pathlib
import random
import sys

from rust_tokenizers import _albert, _with_space, _xlm_roberta
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, BertWordPieceTokenizer

WORDS = (
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "co", "##vid", "##ology", "e", "##1", "[", "]", "a", "b",
    "c", "##a", "##b", ",", ".", "!", "-", "2", "##2", "##3", "s", "##s", "x", "##x", "n", "t", "<", ">", "/", "the",
    "new", "york", "\u4e2d", "\u6587", "\u65b0", "\u51a0",
)  # fmt: skip
FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
CONTENTS = [f"<{n}>" for n in range(16)] + [f"Caf\u00e9{n:x}" for n in range(16)]
# Tokens that overlap, that are pieces already, that hold white space, or Chinese.
OTHERS = {
    "covid": "normalized", "covidology": "normalized single_word", "[E1]": "", "[E1]x": "", " lead": "",
    "tail ": "rstrip", "New York": "normalized", "\u65b0\u51a0": "normalized single_word", "!!": "lstrip",
}  # fmt: skip
ATOMS = (
    *CONTENTS, *OTHERS, *OTHERS, " ", " ", "  ", "\t", "\u3000", ",", ".", "-", "_", "e\u0301", "CAF\u00c9a", "x", "s",
    "\u4e2d", "\u6587", "\u200d", "1", "\u0301", "\U0001f600", "COVID", "Covidologys", "NEW york", "new  york",
    "\u24b6",
)  # fmt: skip
PLAIN = (
    "", " ", "[E1] covidology", "a[E1]b [E1] c", "COVIDOLOGY covidologyx", "[E1]x [E1]!!", "\u4e2d\u65b0\u51a0\u6587",
    "\u65b0\u51a0a", "a  <1>  b", "a  <2>  b", "a  <3>  b", "a<4>b <4>b -<4>,", "caf\u00e98 CAFE\u03018 Caf\u00e98s",
)  # fmt: skip


def main(folder):
    folder = pathlib.Path(folder)
    model = sentencepiece_model_pb2.ModelProto.FromString((folder / "unigram" / "spiece.model").read_bytes())
    tokenizers = {
        "wordpiece": _word_pieces(lowercase=True),
        "wordpiece_cased": _word_pieces(lowercase=False),
        "byte_bpe": _with_space(folder / "byte_bpe", False),
        "byte_bpe_with_space": _with_space(folder / "byte_bpe", True),
        "unigram": _albert(model, lower=True, accents=False),
        "unigram_in_front": _xlm_roberta(model),
    }
    flags = [dict(zip(FLAGS, each, strict=True)) for each in itertools.product((False, True), repeat=4)]
    tokens = [{"content": content, **flags[n % 16]} for n, content in enumerate(CONTENTS)]
    tokens += [{"content": content, **{f: f in said.split() for f in FLAGS}} for content, said in OTHERS.items()]
    out = {"words": WORDS, "tokens": tokens, "texts": _texts()}
    for name, tokenizer in tokenizers.items():
        tokenizer.add_tokens([AddedToken(**token) for token in tokens])
        encoded = tokenizer.encode_batch(out["texts"], add_special_tokens=False)
        out[name] = [[each.ids, [x for span in each.offsets for x in span]] for each in encoded]
    text = json.dumps(out, separators=(",", ":"))
    (folder / "added_tokens.json").write_text(text + "\n", encoding="utf-8")


def _texts():
    rng = random.Random(0)
    return [*PLAIN, *CONTENTS, *("".join(rng.choices(ATOMS, k=rng.randrange(2, 9))) for _ in range(150))]


def _word_pieces(lowercase):
    vocab = {word: n for n, word in enumerate(WORDS)}
    return BertWordPieceTokenizer(vocab=vocab, lowercase=lowercase, strip_accents=lowercase)


if __name__ == "__main__":
    main(sys.argv[1])
