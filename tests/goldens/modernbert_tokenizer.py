"""Writes a small tokenizer.json of ModernBERT's shape, and what Hugging Face's tokenizers (in Rust) make of texts.

    PYTHON_WITH_TOKENIZERS tests/goldens/modernbert_tokenizer.py FOLDER [TEXTS.json VOCAB_SIZE]

FOLDER gets tokenizer.json, tokenizer_config.json and rust.json: the texts; of each the ids and offsets, in a flat list,
without special tokens; and the ids of the first two texts as a pair. Without TEXTS.json, a list of texts to learn from
and to tokenize, the texts are those of rust_tokenizers.py. Made with tokenizers 0.22.2.
"""

import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SPECIAL = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
PLAIN = ("    ", "   ", "  ", "|||EMAIL_ADDRESS|||", "caf\u00e9s")  # the last one is composed here alone
ATOMS = (
    "a", "the", " ", "  ", "   ", "\t", "\n", "'s", "'ll", "12,5", "\u00e9", "e\u0301", "\u0301", "\u0344", "\u212b",
    "\u1112\u1161\u11ab", "\ud55c", "\u0915\u093c", "\u0958", "\u0627\u0653", "\ufb01", "\u00bd", "\U0001f600",
    "\u3000", "\x00", "caf\u00e9s", "cafe\u0301s", "[MASK]", "[SEP]", "|||EMAIL_ADDRESS|||", "[unused1]", "<|padding",
)  # fmt: skip


def train(texts, vocab_size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=["<|padding|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(each, normalized=True) for each in PLAIN])
    tokenizer.add_special_tokens([AddedToken(each, lstrip=each == "[MASK]", normalized=False) for each in SPECIAL])
    tokenizer.add_tokens([AddedToken(f"[unused{n}]", normalized=True) for n in range(3)])
    ids = [(each, tokenizer.token_to_id(each)) for each in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids
    )
    return tokenizer


def write(folder, texts, vocab_size, train, atoms, names):
    """Writes the three files.

    Args:
        folder: FOLDER.
        texts: path of TEXTS.json, or None.
        vocab_size: of the tokenizer.
        train: (texts, vocab_size) -> the tokenizer.
        atoms: strings of which texts are made where there are none.
        names: role -> special token, as in tokenizer_config.json.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if texts:
        texts = json.loads(pathlib.Path(texts).read_text(encoding="utf-8"))
        learned = texts[::20]
    else:
        sys.path.insert(0, str(pathlib.Path(__file__).parent))
        from rust_tokenizers import SENTENCES as learned

        rng = random.Random(0)
        texts = [*learned, *atoms, *("".join(rng.choices(atoms, k=rng.randrange(1, 9))) for _ in range(150))]
    tokenizer = train(learned, int(vocab_size))
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8192, **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n", encoding="utf-8")
    pair = tokenizer.encode(*texts[:2]).ids
    tokenizer.encode_special_tokens = True  # as we do: special tokens in a text stay text
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    of_texts = [[each.ids, [x for span in each.offsets for x in span]] for each in encoded]
    out = json.dumps({"texts": texts, "encoded": of_texts, "pair": pair}, separators=(",", ":"))
    (folder / "rust.json").write_text(out + "\n", encoding="utf-8")


def main(folder, texts=None, vocab_size=400):
    names = dict(zip(("unk_token", "cls_token", "sep_token", "pad_token", "mask_token"), SPECIAL, strict=True))
    names["model_input_names"] = ["input_ids", "attention_mask"]
    write(folder, texts, vocab_size, train, ATOMS, names)


if __name__ == "__main__":
    main(*sys.argv[1:])
