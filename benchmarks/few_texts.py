"""Measures what one text costs each tokenizer: in the graph, in plain Python, and with Hugging Face's tokenizers.

    .venv/bin/python benchmarks/few_texts.py [--text_file=lines.txt] [--words=24,128]

Prints the median time in milliseconds of `--texts` texts, each for itself: in the graph; in plain Python with words
that it has not seen ("new", an empty cache before each text), as they come ("first", each text once from an empty
cache) and again ("warm"). Then the time per text of one batch. A text is so many words of the lines, or characters with
`--characters`, for languages without spaces. The vocabularies are learned from the same lines, by default from the
pages in `docs`. Requires tokenizers and sentencepiece.
"""

import argparse
import io
import pathlib
import random
import statistics
import tempfile
import time

import sentencepiece
import tokenizers

from bert_tf.models import family_registry
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.fast_tokenizer import FastTokenizer
from bert_tf.tokenization.unigram import UnigramTokenizer
from bert_tf.tokenization.wordpiece import WordPieceTokenizer

_PAGES = pathlib.Path(__file__).parent.parent / "docs"
_BATCHES = 5
_COLUMNS = ("graph", "new", "first", "warm", "offsets", "peer", "batch", "peer's")


def learn_tokenizers(lines: list[str], size: int, folder: pathlib.Path) -> dict:
    """Returns name -> a tokenizer of each kind with a vocabulary of up to `size` tokens."""
    words = tokenizers.BertWordPieceTokenizer(lowercase=True)
    words.train_from_iterator(lines, vocab_size=size, show_progress=False)
    level = tokenizers.ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    level.train_from_iterator(lines, vocab_size=size, special_tokens=special, show_progress=False)
    level.save_model(str(folder))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=size, hard_vocab_limit=False, pad_id=0, unk_id=1,
        bos_id=-1, eos_id=-1, pad_piece="<pad>", minloglevel=2, control_symbols=["[CLS]", "[SEP]", "[MASK]"],
    )  # fmt: skip
    (folder / "spiece.model").write_bytes(model.getvalue())
    return {
        "wordpiece": WordPieceTokenizer(sorted(words.get_vocab(), key=words.get_vocab().get)),
        "byte_bpe": ByteBpeTokenizer.from_directory(folder, family=family_registry.family("roberta")),
        "unigram": UnigramTokenizer.from_directory(folder, family=family_registry.family("albert")),
    }


def texts_of(lines: list[str], words: int, count: int, characters: bool) -> list[str]:
    """Returns `count` texts of so many words, or characters, which begin anywhere in the lines."""
    units, space = ("".join(lines), "") if characters else (" ".join(lines).split(), " ")
    rng = random.Random(0)
    starts = (rng.randrange(len(units) - words) for _ in range(count))
    return [space.join(units[start : start + words]) for start in starts]


def median(call, texts: list[str]) -> float:
    """Returns the median milliseconds of a call with each text."""
    taken = []
    for text in texts:
        start = time.perf_counter()
        call(text)
        taken.append(time.perf_counter() - start)
    return 1e3 * statistics.median(taken)


def new_words(tables, texts: list[str]) -> float:
    """Returns the median milliseconds of texts of which no word was seen before."""
    fast = FastTokenizer(tables)

    def call(text):
        for cache in fast._engine.__dict__.values():
            if isinstance(cache, dict) and hasattr(cache, "_compute"):
                cache.clear()
        fast.tokenize(text)

    return median(call, texts)


def per_text(call, texts: list[str]) -> float:
    """Returns the milliseconds per text of a call with all of them, the best of a few."""
    taken = []
    for _ in range(_BATCHES):
        start = time.perf_counter()
        call(texts)
        taken.append(time.perf_counter() - start)
    return 1e3 * min(taken) / len(texts)


def measured(tokenizer, texts: list[str]) -> list[float]:
    """Returns the milliseconds of `_COLUMNS`."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        peer = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
    peer.encode_special_tokens = True
    fast = FastTokenizer(tokenizer)

    def ids_of_peer(text):
        return peer.encode(text, add_special_tokens=False).ids

    tokenizer.tokenize(texts[:1])
    return [
        median(lambda text: tokenizer.tokenize([text]), texts), new_words(tokenizer, texts),
        median(fast.tokenize, texts), median(fast.tokenize, texts), median(fast.tokenize_with_offsets, texts),
        median(ids_of_peer, texts), per_text(tokenizer.tokenize, texts),
        per_text(lambda texts: list(map(ids_of_peer, texts)), texts),
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text_file", help="lines of text")
    parser.add_argument("--words", default="24,128", help="words of a text")
    parser.add_argument("--characters", action="store_true", help="`--words` counts characters")
    parser.add_argument("--texts", type=int, default=1000, help="number of texts")
    parser.add_argument("--vocab_size", type=int, default=30000, help="maximum tokens of each vocabulary")
    args = parser.parse_args()
    files = [pathlib.Path(args.text_file)] if args.text_file else sorted(_PAGES.rglob("*.md"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    with tempfile.TemporaryDirectory() as folder:
        made = learn_tokenizers(lines, args.vocab_size, pathlib.Path(folder))
    print(f"{'':10} {'words':>6} " + " ".join(f"{each:>8}" for each in _COLUMNS))
    for name, tokenizer in made.items():
        for words in map(int, args.words.split(",")):
            taken = measured(tokenizer, texts_of(lines, words, args.texts, args.characters))
            print(f"{name:10} {words:6} " + " ".join(f"{each:8.3f}" for each in taken), flush=True)


if __name__ == "__main__":
    main()
