"""Byte-level BPE and unigram tokenizers against Hugging Face's: a committed golden of ordinary and of hostile texts."""

import functools
import json
import pathlib
import shutil

import pytest
import tensorflow as tf

from bert_tf.models import family_registry
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.fast_tokenizer import FastTokenizer
from bert_tf.tokenization.mask_reader import MaskReader
from bert_tf.tokenization.unigram import UnigramTokenizer
from tests.tokenization.rust import differences

pytestmark = pytest.mark.usefixtures("run_eagerly")

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens" / "tokenizers"
IN_FRONT = family_registry.family("xlm-roberta")  # its tokens stand in front of the SentencePiece model's


@pytest.fixture(scope="module")
def rust():
    return json.loads((GOLDENS / "rust.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Makes each tokenizer once: most of the time here goes into their tables and graphs."""
    return functools.cache(lambda name: _make(name, tmp_path_factory.mktemp(name)))


def _folder(tmp_path, kind, **config):
    folder = tmp_path / kind
    shutil.copytree(GOLDENS / kind, folder)
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def _make(name, tmp_path):
    if name == "byte_bpe":
        return ByteBpeTokenizer.from_directory(GOLDENS / "byte_bpe")
    if name == "byte_bpe_with_space":
        return ByteBpeTokenizer.from_directory(_folder(tmp_path, "byte_bpe", add_prefix_space=True))
    if name == "unigram":
        return UnigramTokenizer.from_directory(GOLDENS / "unigram")
    if name == "unigram_cased":
        folder = _folder(tmp_path, "unigram", do_lower_case=False, keep_accents=True)
        return UnigramTokenizer.from_directory(folder)
    return UnigramTokenizer.from_directory(GOLDENS / "unigram", family=IN_FRONT)


NAMES = ("byte_bpe", "byte_bpe_with_space", "unigram", "unigram_cased", "unigram_in_front")


LITERALS = ("<s>", "</s>", "<mask>", "[CLS]", "[MASK]")
# A character that the model's map deletes, and a letter that it drops with a fraction, which has more letters then.
SLIPS = ("\x07", "\u00bd\u0e33")


@pytest.mark.parametrize("name", NAMES)
def test_ids_and_offsets_are_those_of_the_rust_tokenizers(name, rust, make):
    tokenizer = make(name)
    assert len(rust["texts"]) > 200
    other = [each for each in differences(tokenizer, rust["texts"], rust[name]) if not _on_purpose(tokenizer, each)]
    assert other == []


@pytest.mark.parametrize("name", ["byte_bpe_with_space", "unigram_cased"])
def test_saving_and_reading_gives_the_same_tokenizer(name, rust, make, tmp_path):
    tokenizer = make(name)
    tokenizer.save(tmp_path)
    again = type(tokenizer).from_directory(tmp_path)
    assert again.vocab == tokenizer.vocab
    ids, *offsets = again.tokenize_with_offsets(rust["texts"])
    assert ids.to_list() == tokenizer.tokenize_with_offsets(rust["texts"])[0].to_list()
    assert all(each.flat_values.shape == ids.flat_values.shape for each in offsets)


def _on_purpose(tokenizer, difference):
    """Special tokens in a text stay text; and offsets do not slip where characters go (theirs do)."""
    if difference.of_ids:
        special = {i for i, token in enumerate(tokenizer.vocab) if token in LITERALS}
        return not special & {*difference.ours[0]} and bool(special & {*difference.theirs[0]})
    return any(text in difference.text for text in SLIPS)


def test_pairs_have_the_special_tokens_of_their_family(make):
    bpe, unigram = make("byte_bpe"), make("unigram")
    rows = bpe(["the ship"], ["rain"], 16)
    tokens = "".join(bpe.vocab[i] for i in rows["input_ids"].numpy()[0])
    assert tokens.startswith("<s>the") and "</s></s>" in tokens and tokens.endswith("<pad>")
    assert not rows["segment_ids"].numpy().any()
    rows = unigram(["the ship"], ["rain"], 24)
    tokens = [unigram.vocab[i] for i in rows["input_ids"].numpy()[0]]
    assert tokens[0] == "[CLS]" and tokens.count("[SEP]") == 2 and tokens[-1] == "<pad>"
    assert rows["segment_ids"].numpy().max() == 1 and (unigram.unk_id, unigram.pad_id) == (1, 0)
    assert unigram.mask == "[MASK]" and bpe.mask == "<mask>" and bpe.vocab[bpe.mask_id] == "<mask>"


def test_written_tokens_are_readable_text(make):
    bpe, unigram = make("byte_bpe"), make("unigram")
    assert bpe.written_tokens[bpe.vocab.index("\u0120the")] == " the" and "<mask>" in bpe.written_tokens
    assert unigram.written_tokens[unigram.vocab.index("\u2581the")] == " the"


def test_unknown_characters_in_a_row_are_one_token_and_only_two_are_looked_up(make, monkeypatch):
    unigram, seen = make("unigram_cased"), []
    words = unigram._words.tokenize_with_offsets
    monkeypatch.setattr(unigram._words, "tokenize_with_offsets", lambda x: seen.extend(x.numpy()) or words(x))
    tf.config.run_functions_eagerly(True)
    try:
        found = unigram.tokenize_with_offsets(["\ud55c" * 500 + "the\ud55c\ud55c\ud55c\ud55c \ud55c"])
    finally:
        tf.config.run_functions_eagerly(False)
    ids, starts, ends = (each.to_list()[0] for each in found)
    tokens = [unigram.vocab[i] for i in ids]
    assert "".join(tokens) == "\u2581<unk>the<unk>\u2581<unk>"
    unknown = [n for n, i in enumerate(ids) if i == unigram.unk_id]
    assert [(starts[n], ends[n]) for n in unknown] == [(0, 500), (503, 507), (508, 509)]
    assert [word.decode().count("\ud55c") for word in seen] == [4, 1]


def test_a_sign_before_a_number_is_one_grapheme_with_it(make):
    """A grapheme of 6 bytes is mapped by characters, so that its mark stays; ids of Hugging Face's tokenizers."""
    tokenizer, texts = make("unigram_in_front"), ["a\u2460\u0301", "\u0605\u2460\u0301"]
    ids = tokenizer.tokenize(texts).to_list()
    assert ["".join(tokenizer.vocab[i] for i in row) for row in ids] == ["\u2581a1", "\u2581<unk>1<unk>"]
    assert [FastTokenizer(tokenizer).tokenize(text) for text in texts] == ids


@pytest.mark.parametrize("name, mask", [("byte_bpe", "<mask>"), ("unigram", "[MASK]")])
def test_a_mask_takes_the_space_before_it(name, mask, make):
    reader = MaskReader(make(name))
    one, other = reader.tokenize([f"the {mask} sea", f"the\u00a0 {mask} sea"]).to_list()
    assert one == other and one.count(reader.mask_id) == 1
    assert one[: one.index(reader.mask_id)] == reader.tokenizer.tokenize(["the"]).to_list()[0]
    assert one[one.index(reader.mask_id) + 1 :] == reader.tokenizer.tokenize([" sea"]).to_list()[0]
