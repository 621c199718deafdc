"""Measures the CPU time of every tokenizer on the texts that are most expensive for it.

    .venv/bin/python benchmarks/worst_texts.py [--only=byte_bpe] [--sizes=65536,1048576] [--fast]

Each text has one size in bytes of UTF-8 and consists of one sort of characters: one word, digits, white space, marks in
the wrong order, CJK, emoji, private-use characters, and so on. The vocabularies are learned here, from the pages in
`docs`. The table has the CPU seconds for each size and their ratio, which a linear cost makes equal to the ratio of
the sizes. With `--fast`, the tokenizers are those in plain Python. A text that would take over two minutes if its cost
were quadratic is not measured. Requires tokenizers and sentencepiece, to learn the vocabularies.
"""

import argparse
import collections
import io
import json
import pathlib
import random
import time

import sentencepiece
import tokenizers

from bert_tf.models import family_registry
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.fast_tokenizer import FastTokenizer
from bert_tf.tokenization.unigram import UnigramTokenizer
from bert_tf.tokenization.wordpiece import WordPieceTokenizer

_PAGES = pathlib.Path(__file__).parent.parent / "docs"
_LONGEST = 120.0  # seconds
_FLAGS = ("lstrip", "rstrip", "single_word", "normalized")


def worst_texts(size: int) -> dict[str, str]:
    """Returns name -> a text of about `size` bytes in UTF-8."""
    rng = random.Random(0)

    def drawn(characters):
        count = size // max(1, round(sum(len(c.encode()) for c in characters) / len(characters)))
        return "".join(rng.choices(characters, k=count))

    def repeated(unit):
        return unit * (size // len(unit.encode()))

    letters = "abcdefghijklmnopqrstuvwxyz"
    return {
        "prose": repeated("The film was not as good as I had hoped, and 3.50 too much. "),
        "one letter": repeated("a"),
        "random letters": drawn(letters),
        "a long real word": repeated("internationalization"),
        "random capitals": drawn(letters.upper()),
        "digits": drawn("0123456789"),
        "spaces": repeated(" "),
        "tabs and line feeds": drawn("\t\n"),
        "no-break spaces": repeated("\u00a0"),
        "one mark": repeated("\u0301"),
        "two marks, in turns": repeated("\u0301\u0323"),
        "all marks": "a" + drawn([chr(c) for c in range(0x300, 0x340)]),
        "marks of two parts": repeated("\u0f73"),
        "marks after composed letters": repeated("\u1e69" + "\u0301\u0323" * 8),
        "Hangul parts": drawn([chr(c) for c in (*range(0x1100, 0x1113), *range(0x1161, 0x1176))]),
        "Hangul": drawn([chr(c) for c in range(0xAC00, 0xB000)]),
        "CJK": drawn([chr(c) for c in range(0x4E00, 0x5000)]),
        "Thai": drawn([chr(c) for c in range(0xE01, 0xE31)]),
        "emoji": repeated("\U0001f469\u200d\U0001f680\U0001f600"),
        "private use": drawn([chr(c) for c in range(0xE000, 0xE100)]),
        "punctuation": drawn("!?.,;:()[]{}"),
        "quotation marks": repeated("``"),
        "apostrophes": repeated("'s"),
        "sigmas": repeated("\u03a3"),
        "ligatures": repeated("\ufdfa"),
        "added tokens": repeated("[E1]"),
        "spaces around added tokens": repeated("[E1]" + " " * 60),
        "beginnings of added tokens": repeated("[E[E"),
        "joiners": repeated("\u200d"),
        "invalid characters": repeated("\ufffd"),
        "line separators": repeated("\u2028"),
        "mathematical letters": repeated("\U0001d4d0"),
    }


def learn_tokenizers(folder) -> dict:
    """Returns name -> tokenizer with a vocabulary of a few thousand tokens."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(_PAGES.rglob("*.md"))]
    made = {}
    words = tokenizers.BertWordPieceTokenizer(lowercase=True)
    words.train_from_iterator(texts, vocab_size=8000)
    vocab = sorted(words.get_vocab(), key=words.get_vocab().get)
    for lower in (True, False):
        added = _added(len(vocab))
        made["wordpiece" if lower else "wordpiece, cased"] = WordPieceTokenizer(vocab, lower, added_tokens=added)
    level = tokenizers.ByteLevelBPETokenizer()
    level.train_from_iterator(texts, vocab_size=8000, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    model = json.loads(level.to_str())["model"]
    added = _added(len(model["vocab"]))
    merges = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in model["merges"]]
    for nfc in (False, True):
        added = _added(len(model["vocab"]))
        made["byte_bpe, NFC" if nfc else "byte_bpe"] = ByteBpeTokenizer(
            model["vocab"], merges, family_registry.family("roberta").template, nfc=nfc, added_tokens=added
        )
    path = folder / "spiece.model"
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for text in texts for line in text.split("\n") if line), model_writer=written,
        vocab_size=4000, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, pad_piece="<pad>", minloglevel=2,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
    )  # fmt: skip
    path.write_bytes(written.getvalue())
    albert = family_registry.family("albert").template
    size = UnigramTokenizer(path, albert).vocab_size
    for kept in (False, True):
        made["unigram" if kept else "unigram, ALBERT"] = UnigramTokenizer(
            path, albert, not kept, kept, not kept, added_tokens=_added(size)
        )
    return made


def _added(size):
    """Returns added tokens, one for each flag."""
    return [
        AddedToken(f"[E{n}]", size + n, **({flag: True} if flag else {})) for n, flag in enumerate(("", *_FLAGS))
    ]


def seconds(tokenizer, text: str) -> float:
    """Returns the CPU seconds that a text takes."""
    start = time.process_time()
    tokenizer.tokenize_with_offsets(text if isinstance(tokenizer, FastTokenizer) else [text])
    return time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="the tokenizers whose name contains this")
    parser.add_argument("--sizes", default="65536,1048576", help="bytes of a text")
    parser.add_argument("--fast", action="store_true", help="the tokenizers in plain Python")
    parser.add_argument("--folder", default="/tmp", help="where the learned model is written")
    args = parser.parse_args()
    sizes = [int(size) for size in args.sizes.split(",")]
    print(f"{'tokenizer':18} {'text':30} " + " ".join(f"{size:>10,}" for size in sizes) + "      ratio")
    for name, tokenizer in learn_tokenizers(pathlib.Path(args.folder)).items():
        if args.only not in name:
            continue
        tokenizer = FastTokenizer(tokenizer) if args.fast else tokenizer
        seconds(tokenizer, "warm up [E1]")
        taken = collections.defaultdict(list)
        for size in sizes:
            for kind, text in worst_texts(size).items():
                before = taken[kind]
                if before and before[-1] * (size / sizes[len(before) - 1]) ** 2 > _LONGEST:
                    continue
                taken[kind].append(seconds(tokenizer, text))
        for kind, each in taken.items():
            ratio = f"{each[-1] / each[0]:10.1f}" if len(each) == len(sizes) > 1 else "  too long"
            shown = " ".join(f"{one:10.2f}" for one in each)
            print(f"{name:18} {kind:30} {shown:{11 * len(sizes) - 1}} {ratio}", flush=True)


if __name__ == "__main__":
    main()
