"""Writes a small tokenizer.json of mmBERT's shape, and what Hugging Face's tokenizers (in Rust) make of texts.

    PYTHON_WITH_TOKENIZERS tests/goldens/mmbert_tokenizer.py FOLDER [TEXTS.json VOCAB_SIZE]

FOLDER gets tokenizer.json, tokenizer_config.json and rust.json, as of modernbert_tokenizer.py. Like Gemma's, the file
has a merge for each way in which a token can be divided into two others, a tab in place of its byte, and added tokens
for line feeds. Made with tokenizers 0.22.2.
"""

import collections
import json
import pathlib
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SPECIAL = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>")
BYTES = tuple("\t" if byte == 9 else f"<0x{byte:02X}>" for byte in range(256))
PLAIN = ("\n", "\n\n", "\n\n\n", "<table>", "\u2581\u2581", "<unused0>")
ATOMS = (
    "a", "aa", "aaa", "the", " ", "  ", "   ", "     ", "\u2581", "\u2581\u2581", "\t", "\n", "\n\n", "\r", "\0", "'s",
    "12,5", "\u00e9", "e\u0301", "\ud55c", "\u4e2d\u6587", "\u0915\u093c", "\ufb01", "\U0001f600", "\u3000", "\u00a0",
    "<mask>", "<eos>", "<table>", "<0x41>", "<unused0>", "haha", "hahaha", "====", "ana", "banana",
)  # fmt: skip


def all_divisions(vocab, learned):
    """Returns each way to divide a learned token in two, in the order of the tokens; the longer left part first."""
    merges = []
    for token in learned:
        places = range(len(token) - 1, 0, -1)
        merges += [(token[:at], token[at:]) for at in places if token[:at] in vocab and token[at:] in vocab]
    return merges


def train(texts, vocab_size):
    marks = normalizers.Replace(" ", "\u2581")
    split = pre_tokenizers.Split(" ", "merged_with_previous")
    words = pre_tokenizers.Split("\u2581", "merged_with_next")  # so that no token goes beyond the space before a word
    learner = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    learner.normalizer, learner.pre_tokenizer = marks, words
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=[*SPECIAL, *PLAIN, *BYTES], show_progress=False)
    counts = collections.Counter("".join(texts))  # rare characters get bytes; `limit_alphabet` chooses by chance
    learner.train_from_iterator(["".join(char for char in text if counts[char] > 2) for text in texts], trainer)
    learned = json.loads(learner.to_str())["model"]
    vocab = dict(learned["vocab"])
    for run in ("aa", "aaa", "aaaa", "haha", "ana", "anana", "\u2581\u2581\u2581", "\u2581\u2581\u2581\u2581", "==="):
        vocab.setdefault(run, len(vocab))  # tokens that can be divided in several ways
    merges = all_divisions(vocab, [token for token in sorted(vocab, key=vocab.get) if token not in (*SPECIAL, *BYTES)])
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer, tokenizer.pre_tokenizer = marks, split
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(each, normalized=False) for each in SPECIAL])
    tokenizer.add_tokens([AddedToken(each, normalized=False) for each in PLAIN])
    ids = [(each, tokenizer.token_to_id(each)) for each in ("<bos>", "<eos>")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>", pair="<bos> $A <eos> $B <eos>", special_tokens=ids
    )
    return tokenizer


def main(folder, texts=None, vocab_size=500):
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from modernbert_tokenizer import write

    names = dict(zip(("pad_token", "eos_token", "bos_token", "unk_token", "mask_token"), SPECIAL, strict=True))
    write(folder, texts, vocab_size, train, ATOMS, names | {"cls_token": "<bos>", "sep_token": "<eos>"})


if __name__ == "__main__":
    main(*sys.argv[1:])
