"""Which tokenizer a directory has, and what is wrong with its files: each told in one clear sentence."""

import dataclasses
import json
import os
import pathlib
import re
import shutil

import pytest

from bert_tf.models import family_registry
from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization import sentencepiece_model
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.registry import read_tokenizer
from bert_tf.tokenization.unigram import UnigramTokenizer
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny

pytestmark = pytest.mark.usefixtures("run_eagerly")

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens" / "tokenizers"
ALBERT, ROBERTA = (family_registry.with_tokenizer(kind) for kind in ("unigram", "byte_bpe"))


@pytest.fixture
def bpe(tmp_path):
    return pathlib.Path(shutil.copytree(GOLDENS / "byte_bpe", tmp_path / "bpe"))


@pytest.fixture
def unigram(tmp_path):
    return pathlib.Path(shutil.copytree(GOLDENS / "unigram", tmp_path / "unigram"))


def test_a_directory_is_read_by_the_files_that_are_there(tmp_path, unigram, bpe):
    assert type(read_tokenizer(unigram, ALBERT, ALBERT.template)) is UnigramTokenizer
    (tmp_path / "vocab.txt").write_text("\n".join(tiny.VOCAB), encoding="utf-8")
    korean = read_tokenizer(tmp_path, ALBERT, ALBERT.template)  # an ALBERT with BERT's vocabulary
    assert type(korean) is WordPieceTokenizer and (korean.pad_id, korean.unk_id, korean.mask_id) == (0, 1, 4)
    assert type(read_tokenizer(tmp_path, ROBERTA, ROBERTA.template, None, bpe / "vocab.json")) is ByteBpeTokenizer
    with pytest.raises(ValueError, match=r"Vocabulary file not found: .*spiece.model"):
        read_tokenizer(tmp_path / "none", ALBERT, ALBERT.template)


def test_tokenizer_json_alone_is_enough_for_byte_bpe(tmp_path, bpe):
    vocab = json.loads((bpe / "vocab.json").read_text(encoding="utf-8"))
    mask = vocab.pop("<mask>")
    merges = (bpe / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
    whole = {"added_tokens": [{"id": mask, "content": "<mask>"}], "normalizer": None,
             "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}}  # fmt: skip
    path = tmp_path / "tokenizer.json"
    (tmp_path / "tokenizer_config.json").write_text('{"add_prefix_space": true}', encoding="utf-8")
    pair = ByteBpeTokenizer.from_directory(bpe)
    for form in (merges, [merge.split(" ") for merge in merges]):
        path.write_text(json.dumps(whole | {"model": {"type": "BPE", "vocab": vocab, "merges": form}}))
        alone = ByteBpeTokenizer.from_directory(tmp_path)
        assert alone.vocab == pair.vocab and alone.add_prefix_space and alone.vocab_file == str(path)
    assert alone.tokenize(["the sea"]).to_list() == pair.tokenize([" the sea"]).to_list()
    alone.save(tmp_path / "saved")
    assert sorted(os.listdir(tmp_path / "saved")) == [
        *("merges.txt", "tokenizer.json", "tokenizer_config.json", "vocab.json"),
    ]
    assert ByteBpeTokenizer.from_directory(tmp_path / "saved").add_prefix_space
    for change, words in (
        ({"model": {"type": "WordPiece"}}, "model.type must be 'BPE'; got 'WordPiece'"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer must be ByteLevel"),
        ({"normalizer": {"type": "Lowercase"}}, "normalizer must be null, as in RoBERTa"),
    ):
        path.write_text(json.dumps(whole | {"model": {"vocab": vocab, "merges": merges}} | change))
        with pytest.raises(ValueError, match=words):
            ByteBpeTokenizer.from_directory(tmp_path)


@pytest.mark.parametrize(
    "name, text, words",
    [("merges.txt", "#version: 0.2\nt h\nt\n", r"merges.txt, line 3: a merge must be two tokens .* got 't'"),
     ("merges.txt", "t h\nq q\n", r"merges.txt, line 2: the two tokens .* got 'q q', but 'qq' is missing"),
     ("vocab.json", "{", r"vocab.json must be a vocabulary in JSON; got Expecting property name"),
     ("vocab.json", "[1]", r"vocab.json must be .* got a list in place of an object"),
     ("vocab.json", '{"<s>": 0, "a": 2}', r"merges.txt, line 2: the two tokens of a merge"),
     ("tokenizer_config.json", '{"add_prefix_space": 1}', r"add_prefix_space must be true or false; got 1"),
     ("tokenizer_config.json", '{"do_lower_case": true}', r"`do_lower_case` must be false for .* byte-level BPE")],
)  # fmt: skip
def test_files_of_byte_bpe_that_are_refused(bpe, name, text, words):
    (bpe / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        ByteBpeTokenizer.from_directory(bpe)


def test_refuses_byte_vocabularies_with_gaps_or_without_merges(bpe):
    vocab = json.loads((bpe / "vocab.json").read_text(encoding="utf-8"))
    (bpe / "vocab.json").write_text(json.dumps(vocab | {"more": 9_999}))
    with pytest.raises(ValueError, match=r"vocab.json: ids must be 0, 1, 2 .*got 9999 for 'more' instead of 601"):
        ByteBpeTokenizer.from_directory(bpe)
    (bpe / "merges.txt").unlink()
    with pytest.raises(ValueError, match=r"Merges file not found: .*merges.txt. .* required next to .*vocab.json"):
        ByteBpeTokenizer.from_directory(bpe)
    with pytest.raises(ValueError, match=r"Vocabulary file not found: .*gone.json.* check `vocab_file`"):
        ByteBpeTokenizer.from_directory(bpe, vocab_file=bpe / "gone.json")
    strange = dataclasses.replace(ROBERTA, template=InputTemplate())
    shutil.copy(GOLDENS / "byte_bpe" / "merges.txt", bpe)
    shutil.copy(GOLDENS / "byte_bpe" / "vocab.json", bpe)
    with pytest.raises(ValueError, match=r"lacks the special token \[CLS\]. The model needs \[CLS\]"):
        ByteBpeTokenizer.from_directory(bpe, family=strange)


def test_models_of_sentencepiece_that_are_refused(unigram):
    path = unigram / "spiece.model"
    data = path.read_bytes()
    for broken, words in (
        (b"", r"0 pieces, 0 of them of type UNKNOWN .*\. The file may be incomplete"),
        (b"not a model at all", "is not a valid SentencePiece model: Error parsing"),
        (data[: len(data) // 2], "is not a valid SentencePiece model"),
        (data + b"\x0a\x03\x0a\x01a", "1 pieces that occur twice"),
        (data + b"\x0a\x0a\x0a\x06<0x00>\x18\x06", "pieces of bytes without byte_fallback"),
        (data + b"\x12\x02\x18\x02", "must be a unigram model; got model_type 2"),
        (data + b"\x1a\x05\x12\x03abc", "precompiled_charsmap does not contain a valid trie \\(3 bytes"),
    ):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=words):
            UnigramTokenizer.from_directory(unigram)


def test_settings_of_unigram_models(unigram):
    for config, asked, words in (
        ({"do_lower_case": False}, True, "`do_lower_case` does not match the checkpoint"),
        ({"keep_accents": 1.5}, None, "keep_accents must be true or false; got 1.5"),
        ({"remove_space": False}, None, "remove_space must be true; got false"),
    ):
        (unigram / "tokenizer_config.json").write_text(json.dumps(config))
        with pytest.raises(ValueError, match=words):
            UnigramTokenizer.from_directory(unigram, asked)


@pytest.mark.parametrize(
    "model_type, read, ignored",
    [
        ("albert", (True, False), None),
        ("xlm-roberta", (False, True), "ignoring do_lower_case and keep_accents, which XLMRobertaTokenizer does"),
        ("deberta-v2", (True, True), "ignoring keep_accents, which DebertaV2Tokenizer does not read in Trans"),
    ],
)
def test_a_unigram_class_follows_the_settings_that_it_reads(unigram, tmp_path, model_type, read, ignored, caplog):
    said = {"do_lower_case": True, "keep_accents": False, "pad_token": "<pad>", "unk_token": "<unk>"}
    (unigram / "tokenizer_config.json").write_text(json.dumps(said))
    tokenizer = UnigramTokenizer.from_directory(unigram, family=family_registry.family(model_type))
    assert (tokenizer.do_lower_case, tokenizer.keep_accents) == read
    assert ignored in caplog.text if ignored else not caplog.text
    caplog.clear()
    family = family_registry.family(model_type)
    lowered = UnigramTokenizer.from_directory(unigram, True, family=family)  # as the caller says
    lowered.save(tmp_path / "saved")
    again = UnigramTokenizer.from_directory(tmp_path / "saved", family=family_registry.family(model_type))
    assert again.do_lower_case and again.keep_accents == lowered.keep_accents and not caplog.text


@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
def test_a_unigram_class_may_be_named_in_either_file(unigram, file, caplog):
    for name in ("tokenizer_config.json", "config.json"):
        said = {"do_lower_case": True, "pad_token": "<pad>", "unk_token": "<unk>"}
        said = said if name == "tokenizer_config.json" else {"model_type": "bert"}
        said |= {"tokenizer_class": "XLMRobertaTokenizerFast"} if name == file else {}
        (unigram / name).write_text(json.dumps(said))
    assert not UnigramTokenizer.from_directory(unigram).do_lower_case
    assert "tokenizer_config.json: ignoring do_lower_case, which XLMRobertaTokenizer does not read" in caplog.text


def test_reads_the_character_map_of_sentencepiece():
    model, _ = sentencepiece_model.read_model(GOLDENS / "unigram" / "spiece.model")
    pairs = sentencepiece_model.character_map(model.normalizer_spec.precompiled_charsmap, "here")
    assert (pairs["\u2026"], pairs["e\u0301"], pairs["\u00bd"], pairs["\x07"], pairs["\u3000"]) == (
        *("...", "\u00e9", "1\u20442", "", " "),
    )
    assert "a" not in pairs and len(pairs) == 57


def test_lowercase_with_accents(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*tiny.VOCAB, "caf\u00e9", "\ud55c"]), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true, "strip_accents": false}')
    tokenizer = WordPieceTokenizer.from_directory(tmp_path)
    text = "Caf\u00e9 \ud55c"
    assert [tokenizer.vocab[i] for i in tokenizer.tokenize([text]).to_list()[0]] == ["caf\u00e9", "\ud55c"]
    tokenizer.save(tmp_path / "saved")
    again = WordPieceTokenizer.from_directory(tmp_path / "saved")
    assert again.tokenize([text]).to_list() == tokenizer.tokenize([text]).to_list()
    assert tokenizer.unk_id in WordPieceTokenizer(tmp_path / "vocab.txt").tokenize([text]).to_list()[0]
    with pytest.raises(ValueError, match=re.escape("`strip_accents` requires `do_lower_case`")):
        WordPieceTokenizer(tmp_path / "vocab.txt", False, strip_accents=True)
