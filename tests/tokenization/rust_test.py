"""All tokenizers against Hugging Face's, on real text of seven scripts and on 20,000 random strings.

Vocabularies are trained on the spot: a SentencePiece model with the whole of nmt_nfkc, byte-level BPE and WordPiece.
What our `save` wrote is read by Transformers' AutoTokenizer, so that this holds the files, too.
"""

import io
import json
import random
import unicodedata
from collections import Counter

import pytest

from bert_tf.tokenization.added_tokens import FLAGS
from bert_tf.tokenization.registry import TOKENIZERS
from tests.other_envs import run, torch_python
from tests.tokenization.added_tokens_test import NAMES, folded, plain, with_tokens
from tests.tokenization.rust import differences, mixed_texts, xnli_texts

TRAIN = """
import json, sys
from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer
texts, folder = sys.argv[1:]
texts = json.load(open(texts, encoding="utf-8"))[::20]
bpe = ByteLevelBPETokenizer()
bpe.train_from_iterator(texts, vocab_size=3000, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
bpe.save_model(folder)
tokens = BertWordPieceTokenizer(lowercase=True)
tokens.train_from_iterator(texts, vocab_size=3000)
tokens.save_model(folder)
"""
READ = """
import json, sys
from transformers import AutoTokenizer
folder, texts, out = sys.argv[1:]
texts = json.load(open(texts, encoding="utf-8"))
tokenizer = AutoTokenizer.from_pretrained(folder)._tokenizer
tokenizer.encode_special_tokens = True  # as we do: special tokens in a text stay text
read = tokenizer.encode_batch(texts, add_special_tokens=False)
json.dump([[each.ids, [x for span in each.offsets for x in span]] for each in read], open(out, "w"))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, shared_data):
    """A folder with real.json, random.json and a vocabulary of each kind."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, which trains a model here")
    path, real = tmp_path_factory.mktemp("rust"), xnli_texts(shared_data)
    for name, texts in (("real", real), ("random", mixed_texts())):
        (path / f"{name}.json").write_text(json.dumps(texts), encoding="utf-8")
    run(torch_python(), TRAIN, path / "real.json", path)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(real[::20]), model_writer=model, vocab_size=2000, character_coverage=0.99, pad_id=0,
        unk_id=1, bos_id=-1, eos_id=-1, pad_piece="<pad>", minloglevel=2, control_symbols=["[CLS]", "[SEP]", "[MASK]"],
    )  # fmt: skip
    (path / "spiece.model").write_bytes(model.getvalue())
    return path


# Kind -> how many texts of each sort may have other ids; docs/concepts/tokenizers.md says which they are, and why.
LIMITS = {"byte_bpe": (0, 0), "unigram": (100, 20), "wordpiece": (90, 450)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LIMITS)
def test_real_and_random_text(kind, folder, tmp_path):
    tokenizer = TOKENIZERS[kind].from_directory(folder)
    tokenizer.save(tmp_path)
    for name, end in zip(("real", "random"), LIMITS[kind], strict=True):
        run(torch_python(), READ, tmp_path, folder / f"{name}.json", tmp_path / "read.json")
        texts = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        expected = json.loads((tmp_path / "read.json").read_text(encoding="utf-8"))
        found = list(differences(tokenizer, texts, expected))
        why = Counter(reason(kind, each) for each in found)
        print(f"{kind}, {name}: {len(texts)} texts, {sum(each.of_ids for each in found)} with other ids, {dict(why)}")
        assert None not in why, next(each for each in found if reason(kind, each) is None)
        assert sum(each.of_ids for each in found) <= end


def reason(kind, difference):
    """Returns why we differ, None where we should not."""
    text, (ours, _), (theirs, _) = difference
    if kind == "unigram" and sorted(ours) == sorted(theirs) and ours != theirs:
        return "two ways of the same score"
    if kind == "wordpiece" and "\u03a3" in text:
        return "final sigma"  # Python lowers it by its place, Rust by itself
    if kind == "wordpiece" and max(map(len, text.split())) > 100:
        return "a word of more than 100 characters"  # Google reads 200
    if kind != "byte_bpe" and any(unicodedata.category(char) in ("Co", "Cn") for char in text):
        return "private or unassigned characters"
    if kind != "byte_bpe" and any(map(_is_new, text)):
        return "characters newer than Unicode 3.2"
    deleted = any(unicodedata.category(char) in ("Cc", "Cf") for char in text)
    return "offsets at deleted characters" if kind != "byte_bpe" and deleted and not difference.of_ids else None


def _is_new(char):
    """Whether Unicode 3.2 does not know the character: the oldest version that Python has besides its own."""
    return unicodedata.ucd_3_2_0.category(char) == "Cn"


# === Added tokens ===
# Added tokens of every kind of tokenizer against Transformers' AutoTokenizer, which reads what our `save` wrote.


MODEL_TYPES = {"wordpiece": "bert", "byte_bpe": "roberta", "unigram": "albert", "unigram_in_front": "xlm-roberta"}
SPECIAL = ("<s>", "</s>", "<mask>", "[CLS]")
TAKES_SPECIAL = ("unigram_in_front",)  # with capital letters kept theirs takes such a token of the vocabulary in a text
# Texts that may differ elsewhere: theirs finds a special token first, although it then stays text, and so misses an
# added token that begins with its last letter.
OVERLAPS = 10
AROUND_TOKENS = (
    " ", " ", "  ", "\t", "\n", "\u00a0", "\u3000", ",", ".", "-", "_", "e\u0301", "CAF\u00c9", "x", "s", "\u4e2d",
    "\u6587", "\u200d", "\u0301", "\U0001f600", "word1s", "NEW york", "\u24b6", "``", "'s", "1", *SPECIAL,
)  # fmt: skip


def random_tokens(rng):
    """40 tokens with flags drawn by chance: words, parts of words and of each other, brackets, Chinese, white space."""
    parts = ("covid", "ology", "Caf\u00e9", "[E", "]", "<", ">", "x", "\u65b0", "\u51a0", " ", "New York", "!!", "word")
    contents = dict.fromkeys("".join(rng.choices(parts, k=rng.randrange(1, 4))) + str(n % 7) for n in range(40))
    return [{"content": content, **{flag: rng.random() < 0.4 for flag in FLAGS[:4]}} for content in contents]


def texts_with_tokens(rng, tokens):
    atoms = [
        *AROUND_TOKENS,
        *(change(token["content"]) for token in tokens for change in (str, str, str.lower, str.upper)),
    ]
    return ["".join(rng.choices(atoms, k=rng.randrange(10))) for _ in range(3000)]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_random_tokens_in_random_texts(name, tmp_path):
    rng = random.Random(name)
    tokens = random_tokens(rng)
    tokenizer = with_tokens(plain(name), tokens)
    tokenizer.save(tmp_path)
    model_type = next(MODEL_TYPES[each] for each in sorted(MODEL_TYPES, key=len, reverse=True) if name.startswith(each))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}), encoding="utf-8")
    texts = texts_with_tokens(rng, tokens)
    (tmp_path / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    run(torch_python(), READ, tmp_path, tmp_path / "texts.json", tmp_path / "read.json")
    expected = json.loads((tmp_path / "read.json").read_text(encoding="utf-8"))
    ids, starts, ends = (each.to_list() for each in tokenizer.tokenize_with_offsets(texts))
    added, seen, overlaps = {token.id: token for token in tokenizer.added_tokens}, set(), 0
    for text, own, first, last, (theirs, _) in zip(texts, ids, starts, ends, expected, strict=True):
        assert own == theirs or any(special in text for special in SPECIAL), text
        overlaps += own != theirs
        for number, span in zip(own, zip(first, last, strict=True), strict=True):
            if number in added:
                assert folded(text[slice(*span)]) == folded(added[number].content), text
                seen.add(number)
    assert len(seen) > 0.9 * len(added)
    assert overlaps <= OVERLAPS or name in TAKES_SPECIAL
