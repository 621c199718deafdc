"""Folders with tokenizer.json and tokenizer_config.json alone, as Transformers writes them: ids and refusals."""

import dataclasses
import functools
import json
import logging
import operator
import os
import pathlib
import re
import shutil

import pytest

from bert_tf.models import family_registry
from bert_tf.tokenization import tokenizer_json
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.registry import read_tokenizer
from bert_tf.tokenization.table_registry import tokenizer_in
from bert_tf.tokenization.unigram import UnigramTokenizer
from bert_tf.tokenization.wordpiece import WordPieceTokenizer

pytestmark = pytest.mark.usefixtures("run_eagerly")

WHOLE = pathlib.Path(__file__).parents[1] / "goldens" / "tokenizers" / "whole"
NAMES = ("5/bert", "5/bert-cased", "5/roberta", "5/albert", "5/xlm-roberta", "4/albert", "4/xlm-roberta",
         "4/camembert", "4/mpnet")  # fmt: skip
KINDS = {"bert": WordPieceTokenizer, "mpnet": WordPieceTokenizer, "roberta": ByteBpeTokenizer,
         "albert": UnigramTokenizer, "camembert": UnigramTokenizer, "xlm-roberta": UnigramTokenizer}  # fmt: skip
# SentencePiece's control pieces in a text, which stay text here; Hugging Face's unigram model finds them.
LITERALS = "<s> a </s> <mask>"
BERTS_TEMPLATE = dataclasses.replace(family_registry.family("bert").template, segments=2)


def _read(folder, model_type, do_lower_case=None, vocab_file=None):
    family = family_registry.family(model_type)
    return read_tokenizer(folder, family, family.template, do_lower_case, vocab_file)


def _model_type(name):
    return name.partition("/")[2].removesuffix("-cased")


@pytest.fixture
def folder(tmp_path):
    """Makes a copy of a golden folder with other values in its two files; None as config: without that file."""

    def make(name, config=(), **sections):
        copy = pathlib.Path(shutil.copytree(WHOLE / name, tmp_path / name.replace("/", "_"), dirs_exist_ok=True))
        for file, changes in (("tokenizer.json", sections), ("tokenizer_config.json", config)):
            values = json.loads((WHOLE / name / file).read_text(encoding="utf-8"))
            for path, value in dict(changes or ()).items():
                *parents, last = path.split("__")
                inner = values
                for key in parents:
                    inner = inner[int(key) if key.isdecimal() else key]
                last = int(last) if last.isdecimal() else last
                if value is ...:
                    del inner[last]
                else:
                    inner[last] = value
            (copy / file).write_text(json.dumps(values), encoding="utf-8")
        if config is None:
            (copy / "tokenizer_config.json").unlink()
        return copy

    return make


def _warnings(caplog):
    return [message for message in caplog.messages if "as in Transformers" in message]


def _tokens(tokenizer, text):
    return [tokenizer.vocab[i] for i in tokenizer.tokenize([text]).to_list()[0]]


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_those_of_transformers_and_stay_when_saved(name, tmp_path):
    model_type = _model_type(name)
    tokenizer = _read(WHOLE / name, model_type)
    assert type(tokenizer) is KINDS[model_type] and tokenizer_in(WHOLE / name) == tokenizer.KIND
    assert tokenizer.vocab_file == str(WHOLE / name / "tokenizer.json")
    expected = json.loads((WHOLE / name / "rows.json").read_text(encoding="utf-8"))
    texts = expected["texts"]
    ids = tokenizer.tokenize(texts)
    ours = [(own, theirs) for text, own, theirs in zip(texts, ids.to_list(), expected["ids"], strict=True)
            if text != LITERALS]  # fmt: skip
    assert len(ours) == 39 and all(own == theirs for own, theirs in ours)
    rows = tokenizer.pack(ids[:10], ids[1:11])
    assert rows["input_ids"].to_list() == [ids for ids, _ in expected["pairs"]]
    if name != "4/mpnet":  # which has no segments, although its tokenizer.json numbers them
        assert rows["segment_ids"].to_list() == [segments for _, segments in expected["pairs"]]
    tokenizer.save(tmp_path)
    assert "tokenizer.json" in os.listdir(tmp_path)
    for again in (_read(tmp_path, model_type), type(tokenizer).from_saved(
        str(tmp_path), tokenizer.template, json.loads(json.dumps(tokenizer.settings))
    )):  # fmt: skip
        assert again.vocab == tokenizer.vocab and again.settings == tokenizer.settings
        assert again.tokenize(texts).to_list() == ids.to_list()


def test_a_model_of_sentencepiece_is_written_as_its_own_readers_expect_it(folder, tmp_path):
    """Transformers' XLMRobertaTokenizer without tokenizer.json puts <s> <pad> </s> <unk> in place of three pieces."""
    _read(WHOLE / "5/xlm-roberta", "xlm-roberta").save(tmp_path / "saved")
    os.remove(tmp_path / "saved" / "tokenizer.json")
    again = _read(tmp_path / "saved", "xlm-roberta")
    whole = _read(WHOLE / "5/xlm-roberta", "xlm-roberta")
    assert os.path.basename(again.vocab_file) == "sentencepiece.bpe.model" and again.vocab == whole.vocab
    assert again.tokenize(["the sea"]).to_list() == whole.tokenize(["the sea"]).to_list()
    # One that was learned again has its mask elsewhere: its tokens keep their positions.
    scores = json.loads((WHOLE / "5/xlm-roberta/tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    moved = [*scores[:4], scores[-1], *scores[4:-1]]
    added = [{"id": i, "content": moved[i][0], "special": True} for i in range(5)]
    other = _read(folder("5/xlm-roberta", model__vocab=moved, added_tokens=added), "xlm-roberta")
    assert other.vocab == [token for token, _ in moved] and other.mask_id == 4
    assert [other.vocab[i] for i in other.tokenize(["the sea"]).to_list()[0]] == _tokens(whole, "the sea")
    other.save(tmp_path / "other")
    assert sorted(os.listdir(tmp_path / "other")) == ["tokenizer.json", "tokenizer.model", "tokenizer_config.json"]
    assert _read(tmp_path / "other", "xlm-roberta").vocab == other.vocab


@pytest.mark.parametrize(
    "config, settings",
    [("tokenizer_config.json", {"tokenizer_class": "XLMRobertaTokenizerFast"}),
     ("config.json", {"tokenizer_class": "XLMRobertaTokenizer"}),
     ("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": True}), (None, {})],
)  # fmt: skip
def test_a_bert_with_the_tokenizer_of_xlm_roberta(config, settings, folder, tmp_path):
    """As multilingual-e5-small, Multilingual-MiniLM-L12-H384 and paraphrase-multilingual-MiniLM-L12-v2."""
    copy = folder("5/xlm-roberta", None)
    (copy / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    if config:
        (copy / config).write_text(json.dumps({"model_type": "bert"} | settings), encoding="utf-8")
    expected = json.loads((WHOLE / "5/xlm-roberta" / "rows.json").read_text(encoding="utf-8"))
    _read(copy, "bert").save(tmp_path / "saved")
    shutil.copy(copy / "config.json", tmp_path / "saved")
    shutil.copytree(tmp_path / "saved", tmp_path / "model")
    os.remove(tmp_path / "model" / "tokenizer.json")
    for path in (copy, tmp_path / "saved", tmp_path / "model"):
        tokenizer = read_tokenizer(path, family_registry.family("bert"), BERTS_TEMPLATE)
        assert (tokenizer.template.segments, tokenizer.pad_id, tokenizer.mask_id) == (2, 1, 300)
        ids = tokenizer.tokenize(expected["texts"][:11])
        assert tokenizer.pack(ids[:10])["input_ids"].to_list() == [[0, *row, 2] for row in expected["ids"][:10]]
        assert not tokenizer.pack(ids)["segment_ids"].flat_values.numpy().any()
        rows = tokenizer.pack(ids[:10], ids[1:])
        assert [list(row) for row in zip(rows["input_ids"].to_list(), rows["segment_ids"].to_list(), strict=True)] == (
            expected["pairs"]
        )
        assert not tokenizer.do_lower_case  # which only other classes read from tokenizer_config.json


def test_only_the_tokenizer_of_xlm_roberta_has_its_special_tokens_in_a_bert(folder):
    albert = folder("5/albert", {"tokenizer_class": "XLMRobertaTokenizer"})
    assert _read(albert, "bert").template.pieces(2) == ("[CLS]", "[SEP]", "[SEP]")  # as in tokenizer.json
    layout = {"post_processor__pair__2__SpecialToken__type_id": 1}
    with pytest.raises(ValueError, match=r"<s> \$A </s> </s> \$B </s> for two; got .* </s>:1 </s> \$B </s>;"):
        read_tokenizer(folder("5/xlm-roberta", **layout), family_registry.family("bert"), BERTS_TEMPLATE)
    with pytest.raises(ValueError, match=r"tokenizer_class must be XLMRobertaTokenizer, .* 'AlbertTokenizer'"):
        _read(folder("5/xlm-roberta", {"tokenizer_class": "AlbertTokenizer"}), "bert")


def test_the_longest_word_is_the_files(folder):
    short = _read(folder("5/bert", model__max_input_chars_per_word=3), "bert")
    assert _tokens(short, "sea ship the caf\u00e9") == ["sea", "[UNK]", "the", "[UNK]"]
    assert short.max_input_chars_per_word == 3
    usual = _read(folder("5/bert", model__max_input_chars_per_word=...), "bert")
    assert _tokens(usual, "b" * 101) == ["[UNK]"] and len(_tokens(usual, "b" * 100)) == 100
    google = WordPieceTokenizer(usual.vocab)
    assert google.max_input_chars_per_word == 200 and len(_tokens(google, "b" * 101)) == 101


def test_ids_without_a_token_and_added_tokens_behind(folder):
    vocab = json.loads((WHOLE / "5/bert/tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    size = len(vocab)
    del vocab["ship"]
    added = [{"id": vocab[t], "content": t, "special": True} for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
    copy = folder("5/bert", model__vocab=vocab, added_tokens=[*added, {"id": size, "content": "[E1]"}])
    tokenizer = _read(copy, "bert")
    assert tokenizer.vocab_size == size + 1 and tokenizer.vocab[size:] == ["[E1]"]
    assert tokenizer.vocab[6] == "sea" and tokenizer.vocab[7] == "" and tokenizer.id_of("[E1]") == size
    assert _tokens(tokenizer, "the sea ship[E1]") == ["the", "sea", "[UNK]", "[E1]"]


NO_LOWER = {"do_lower_case": ..., "strip_accents": ..., "tokenize_chinese_chars": ...}
CASED = ["The", "sea", "caf\u00e9"]
LOWERED = ["the", "sea", "caf", "##e"]


@pytest.mark.parametrize(
    "config, lowercase, tokens, words",
    [
        ({"do_lower_case": False}, True, CASED, "izer.json has {\"do_lower_case\": true}, but .*r_config.json has"),
        ({"do_lower_case": True}, False, LOWERED, "has {\"do_lower_case\": false}, .*_config.json has .* The latter"),
        (NO_LOWER, False, LOWERED, r"tokenizer_config.json \(by default\) has"),
        (None, False, LOWERED, r"tokenizer_config.json \(by default\) has"),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, False, CASED, "_config.json has .*true.*, but .*er.json"),
        ({"tokenizer_class": "PreTrainedTokenizer"}, False, CASED, "_config.json has .*true.*, but .*er.json"),
        ({"tokenizer_class": "TokenizersBackend", "do_lower_case": False}, True, LOWERED, "The latter takes pre"),
        ({}, True, LOWERED, None),
        ({**NO_LOWER, "tokenizer_class": "TokenizersBackend"}, False, CASED, None),
    ],
)  # fmt: skip
def test_letter_case_is_that_of_the_file_which_transformers_follows(config, lowercase, tokens, words, folder, caplog):
    """Transformers 4.57 and 5 give these very tokens."""
    with caplog.at_level(logging.WARNING):
        tokenizer = _read(folder("5/bert", config, normalizer__lowercase=lowercase), "bert")
    assert _tokens(tokenizer, "The sea caf\u00e9") == tokens
    found = _warnings(caplog)
    assert len(found) == (words is not None) and all(re.search(words, message) for message in found)


def test_a_caller_who_asks_for_a_letter_case(folder):
    silent = folder("5/bert", NO_LOWER, normalizer__lowercase=False)
    assert _tokens(_read(silent, "bert", False), "The sea") == ["The", "sea"]
    alone = folder("5/bert-cased", {**NO_LOWER, "tokenizer_class": "PreTrainedTokenizerFast"})
    with pytest.raises(ValueError, match=r"`do_lower_case` does not match .*tokenizer.json has false; got true"):
        _read(alone, "bert", True)
    albert = folder("5/albert", {"do_lower_case": ..., "keep_accents": ...})
    with pytest.raises(ValueError, match=r"`do_lower_case` does not match .*tokenizer.json has true; got false"):
        _read(albert, "albert", False)


def test_accents_of_a_file_that_counts_alone(folder):
    alone = {"tokenizer_class": "PreTrainedTokenizerFast"}
    kept = _read(folder("5/bert", alone, normalizer__strip_accents=False), "bert")
    assert _tokens(kept, "CAF\u00c9") == ["caf\u00e9"] and (kept.do_lower_case, kept.strip_accents) == (True, False)


@pytest.mark.slow
def test_settings_of_albert_that_contradict_each_other(folder, caplog):
    """Transformers 5 follows tokenizer_config.json; where that is silent, 4 follows tokenizer.json."""
    steps = json.loads((WHOLE / "5/albert/tokenizer.json").read_text(encoding="utf-8"))["normalizer"]["normalizers"]
    cased = [step for step in steps if step["type"] != "Lowercase"]
    lowered = _read(folder("5/albert", normalizer__normalizers=cased), "albert")
    assert _tokens(lowered, "The") == ["\u2581the"] and "The latter takes precedence" in caplog.text
    caplog.clear()
    silent = {"do_lower_case": ..., "keep_accents": ...}
    followed = _read(folder("5/albert", silent, normalizer__normalizers=cased), "albert")
    assert _tokens(followed, "The")[0] == "\u2581" and not followed.do_lower_case and not _warnings(caplog)
    alone = {"tokenizer_class": "TokenizersBackend"}
    assert not _read(folder("5/albert", alone, normalizer__normalizers=cased), "albert").do_lower_case


def test_the_space_in_front_is_that_of_the_file_which_transformers_follows(folder, caplog):
    silent = folder("5/roberta", {"add_prefix_space": ...}, pre_tokenizer__add_prefix_space=True)
    assert not _read(silent, "roberta").add_prefix_space and "(by default) has" in caplog.text
    alone = {"add_prefix_space": ..., "tokenizer_class": "TokenizersBackend"}
    assert _read(folder("5/roberta", alone, pre_tokenizer__add_prefix_space=True), "roberta").add_prefix_space
    said = _read(folder("5/roberta", {"add_prefix_space": True}), "roberta")
    assert _tokens(said, "the") == ["\u0120the"]


def test_a_tokenizer_that_is_named_brings_its_settings(folder):
    """As one file names it, so its tokenizer_config.json comes from there, too; without one the model's own counts."""
    model, other = folder("5/bert"), folder("5/bert-cased")
    assert _tokens(_read(model, "bert", vocab_file=other / "tokenizer.json"), "The") == ["The"]
    (other / "tokenizer_config.json").unlink()
    assert _tokens(_read(model, "bert", vocab_file=other / "tokenizer.json"), "The") == ["the"]


def test_a_vocabulary_beside_it_does_not_count(folder, caplog):
    copy = folder("5/bert")
    tokens = _read(copy, "bert").vocab
    (copy / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    assert _read(copy, "bert").vocab == tokens and not _warnings(caplog)
    other = [*tokens[:5], "ship", "sea", "the", *tokens[8:]]
    (copy / "vocab.txt").write_text("\n".join(other) + "\n", encoding="utf-8")
    assert _read(copy, "bert").vocab == tokens
    assert "contain different vocabularies (id 5 is 'the' and 'ship'). The former takes precedence" in caplog.text
    assert _read(copy, "bert", vocab_file=copy / "vocab.txt").vocab == other  # as the caller says
    model = folder("4/albert")
    shutil.copy(WHOLE.parent / "unigram" / "spiece.model", model)
    caplog.clear()
    assert _read(model, "albert").vocab_file == str(model / "tokenizer.json") and not _warnings(caplog)
    bpe = folder("5/roberta")
    (bpe / "vocab.json").write_text('{"<s>": 0, "a": 1}', encoding="utf-8")
    assert _read(bpe, "roberta").vocab_size == 601
    assert "(id 1 is '<pad>' and 'a')" in caplog.text


TEMPLATE = "post_processor must add the special .* that this model_type uses with a WordPiece tokenizer: "
BERTS = r"\[CLS\] \$A \[SEP\] for one text and \[CLS\] \$A \[SEP\] \$B:1 \[SEP\]:1 for two; got "


@pytest.mark.parametrize(
    "name, change, words",
    [
        ("5/bert", {"model__type": "WordLevel"}, "type must be WordPiece or BPE or Unigram; got 'WordLevel'"),
        ("5/bert", {"more": 1}, r"its sections must be among .* got 'more'"),
        ("5/bert", {"model__more": 1}, r"the keys of model must be among type, vocab, .* got 'more'"),
        ("5/bert", {"model__unk_token": "<unk>"}, r"model.unk_token must be '\[UNK\]'; got '<unk>'"),
        ("5/bert", {"model__continuing_subword_prefix": "@@"}, "_subword_prefix must be '##'; got '@@'"),
        ("5/bert", {"model__max_input_chars_per_word": 0}, "a number from 1 to 10000; got 0"),
        ("5/bert", {"normalizer__clean_text": False}, "normalizer.clean_text must be true; got False"),
        ("5/bert", {"normalizer": {"type": "Lowercase"}}, "normalizer must be BertNormalizer; got .*Lowercase"),
        ("5/bert", {"normalizer": None}, "normalizer must be BertNormalizer; got None"),
        ("5/bert", {"pre_tokenizer__type": "Whitespace"}, "must be BertPreTokenizer; got .*Whitespace"),
        ("5/bert", {"truncation": {"direction": "Left"}}, "truncation.direction must be 'Right'; got .*'Left'"),
        ("5/bert", {"padding": {"direction": "Left"}}, "padding.direction must be 'Right'"),
        ("5/bert", {"post_processor__single": []}, TEMPLATE + BERTS + r" and \[CLS\] \$A \[SEP\] \$B:1"),
        ("5/bert", {"post_processor__pair__3__Sequence__type_id": 0}, TEMPLATE + BERTS + r".* \$B \[SEP\]:1; use"),
        ("5/bert", {"post_processor": {"type": "RobertaProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]}},
         TEMPLATE + BERTS + r".*\$A \[SEP\] \[SEP\] \$B"),
        ("5/bert", {"post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 3], "sep": ["[SEP]", 3]}},
         r"post_processor.cls must be a token of the vocabulary and its id; got \['\[CLS\]', 3\]"),
        ("5/bert", {"added_tokens__0__id": 3}, r"added_tokens\[0\].id must be 0, as in model.vocab; got 3"),
        ("5/bert", {"model__vocab__more": 7}, r"the id 7 must be an id of one token; got \['ship', 'more'\]"),
        ("5/bert", {"model__vocab__more": -1}, "each token to an id of 0 or more"),
        ("5/roberta", {"model__ignore_merges": True}, "model.ignore_merges must be false; got True"),
        ("5/roberta", {"model__dropout": 0.1}, "model.dropout must be null or 0 or 0.0; got 0.1"),
        ("5/roberta", {"pre_tokenizer__use_regex": False}, "pre_tokenizer.use_regex must be true; got False"),
        ("5/roberta", {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits"}]}},
         "pre_tokenizer must be ByteLevel; got .*Digits"),
        ("5/roberta", {"normalizer": {"type": "NFKC"}}, "normalizer must be null, as in RoBERTa, or NFC, .*NFKC"),
        ("5/albert", {"model__byte_fallback": True}, "model.byte_fallback must be false; got True"),
        ("5/albert", {"model__unk_id": 3}, "model.unk_id must be the id of <unk>; got 3"),
        ("5/albert", {"model__vocab__7": ["s", "high"]}, r"model.vocab\[7\] must be a token and its score"),
        ("5/albert", {"normalizer__normalizers__2": {"type": "NFKC"}}, "normalizer must be among .*got .*'NFKC'"),
        ("5/albert", {"normalizer": {"type": "NFC"}}, "NFC instead, .* Transformers 5, .* copy the spm.model of"),
        ("5/albert", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}}, "must be base64"),
        ("5/albert", {"pre_tokenizer__pretokenizers__1__prepend_scheme": "first"},
         "prepend_scheme must be 'always'; got 'first'"),
        ("5/albert", {"pre_tokenizer__pretokenizers__0__type": "Digits"}, "must be WhitespaceSplit and Metaspace"),
    ],
)  # fmt: skip
def test_refuses_settings_that_are_not_followed_by_name(name, change, words, folder):
    with pytest.raises(ValueError, match=words):
        _read(folder(name, **change), _model_type(name))


def test_the_special_tokens_in_the_message_are_those_of_the_tokenizer(folder):
    """Those that a BERT model has with a byte-level BPE, which are not BERT's."""
    words = r"this model_type uses with a BPE tokenizer: <s> \$A </s> for one text and <s> \$A </s> </s> \$B </s> for"
    with pytest.raises(ValueError, match=words):
        _read(folder("5/roberta", {"tokenizer_class": "PreTrainedTokenizerFast"}, post_processor=None), "bert")


@pytest.mark.parametrize(
    "name, config, change, words",
    [
        ("5/bert", {}, {"normalizer__handle_chinese_chars": False}, "handle_chinese_chars true"),
        ("5/bert-cased", {}, {"normalizer__strip_accents": True}, "strip_accents only with lowercase"),
        ("5/bert", {}, {"post_processor": None}, TEMPLATE + BERTS + "null"),
        ("5/bert", {"truncation_side": "left"}, {}, "truncation_side must be .right. or absent"),
        ("5/xlm-roberta", {"add_prefix_space": False}, {}, "add_prefix_space must be true or absent"),
    ],
)
def test_refuses_more_where_tokenizer_json_counts_alone(name, config, change, words, folder):
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **config}
    with pytest.raises(ValueError, match=words):
        _read(folder(name, config, **change), _model_type(name))


@pytest.mark.parametrize(
    "name, inside, at_the_end, alone",
    [
        ("4/albert", "the ▁ se a ▁ [e1] the ▁ <ent> ▁ se a ▁", "the ▁ se a ▁", "▁"),
        pytest.param("4/xlm-roberta", "the ▁ se a ▁ [E1] the <ent> ▁ se a", "the ▁ se a", "", marks=pytest.mark.slow),
        pytest.param("5/albert", "the ▁ se a [E1] the <ent> ▁ se a", "the ▁ se a", "", marks=pytest.mark.slow),
    ],
)
def test_a_space_at_the_end_is_a_token_where_the_file_says_so(name, inside, at_the_end, alone, folder):
    """Metaspace alone, as Transformers 4.57 writes it, keeps such a space; the tokens are those of version 4.57."""
    listed = json.loads((WHOLE / name / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
    flags = {"lstrip": False, "rstrip": False, "single_word": False, "special": False}
    more = [{"id": 301, "content": "[E1]", "normalized": True}, {"id": 302, "content": "<ent>", "normalized": False}]
    copy = folder(name, {"added_tokens_decoder": ...} if name[0] == "4" else (),
                  added_tokens=[*listed, *(token | flags for token in more)])  # fmt: skip
    read = _read(copy, _model_type(name))
    read.save(copy.parent / "again")
    for tokenizer in (read, _read(copy.parent / "again", _model_type(name))):
        for text, expected in (("the sea [E1] the <ent> sea ", inside), ("the sea  ", at_the_end), (" ", alone)):
            tokens = [token.replace("▁", "", len(token) > 1) for token in _tokens(tokenizer, text)]
            assert " ".join(tokens) == expected.replace("[e1]", "[E1]")
    ids, starts, ends = read.tokenize_with_offsets(["the sea  "])
    if name == "4/albert":  # a token of white space alone has no extent
        assert starts.to_list()[0][-1] == ends.to_list()[0][-1] == 8


SPACES = json.loads((WHOLE.parent / "spaces.json").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("which", SPACES["ids"])
def test_white_space_where_metaspace_alone_splits(which, folder):
    """As Transformers 4.57 converts ALBERT and XLM-RoBERTa; goldens/rust_spaces.py asked tokenizers 0.22.2."""
    name = which.partition(" ")[0]
    whole = json.loads((WHOLE / "4" / name / "tokenizer.json").read_text(encoding="utf-8"))
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False) | {"normalized": True}
    first = len(whole["model"]["vocab"])
    more = [{"id": first + n, "content": c, **flags, **own} for n, (c, own) in enumerate(SPACES["tokens"].items())]
    steps = [step for step in whole["normalizer"]["normalizers"] if "map" not in which or step["type"] != "Precompiled"]
    copy = folder(f"4/{name}", {"added_tokens_decoder": ...}, added_tokens=[*whole["added_tokens"], *more],
                  normalizer={"type": "Sequence", "normalizers": steps})  # fmt: skip
    read = _read(copy, name)
    read.save(copy.parent / "again")
    for tokenizer in (read, _read(copy.parent / "again", name)):
        got = tokenizer.tokenize(SPACES["texts"]).to_list()
        wrong = [each for each in zip(SPACES["texts"], SPACES["ids"][which], got, strict=True) if each[1] != each[2]]
        assert not wrong, wrong[:3]


def test_metaspace_alone_needs_the_step_that_joins_spaces(folder):
    whole = json.loads((WHOLE / "4/albert/tokenizer.json").read_text(encoding="utf-8"))
    steps = [step for step in whole["normalizer"]["normalizers"] if step.get("pattern") != {"Regex": " {2,}"}]
    copy = folder("4/albert", normalizer={"type": "Sequence", "normalizers": steps})
    words = r'the steps of normalizer must be .*Replace of " \{2,\}", because only Metaspace splits'
    with pytest.raises(ValueError, match=words):
        _read(copy, "albert")


def test_refuses_an_unknown_trailing_space():
    model = WHOLE.parent / "unigram" / "spiece.model"
    with pytest.raises(ValueError, match="`trailing_space` must be dropped, kept or kept_inside; got 'keep'"):
        UnigramTokenizer(model, family_registry.family("albert").template, trailing_space="keep")


def test_refuses_files_that_hold_no_tokenizer(tmp_path):
    path = tmp_path / "tokenizer.json"
    for text, words in (
        ("{", "must be a tokenizer in JSON; got Expecting"),
        ("[]", "a list in place of an object"),
        ('{"model": 1}', "model.type must be WordPiece or BPE or Unigram; got None"),
        ('{"model": {"unk_id": 0, "vocab": 3}}', "must contain a JSON object that maps each token to an id of 0"),
        ('{"model": {"merges": 0, "vocab": {}}}', "model.merges must be a list; got 0"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=words):
            tokenizer_json.read_whole(path, tokenizer_json.tokenizer_kind(path))
    with pytest.raises(ValueError, match="model.type must be 'BPE'; got 'WordPiece'; use the file of such"):
        tokenizer_json.read_whole(WHOLE / "5/bert/tokenizer.json", "byte_bpe")


def test_older_files_name_no_type_and_other_post_processors(folder):
    processing = {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]}
    bert = _read(folder("5/bert", model__type=..., post_processor=processing), "bert")
    assert _tokens(bert, "The sea") == ["the", "sea"]
    roberta = _read(folder("5/roberta", model__type=...), "roberta")
    assert type(roberta) is ByteBpeTokenizer
    albert = _read(folder("5/albert", model__type=...), "albert")
    assert type(albert) is UnigramTokenizer


def test_segments_that_a_model_does_not_know_are_not_compared():
    """Transformers writes BERT's tokenizer.json for DistilBERT, whose model has no segments."""
    tokenizer = _read(WHOLE / "5/bert", "distilbert")
    assert tokenizer.template.second_segment == 0


def test_the_vocabulary_of_pretraining_may_be_a_tokenizer_json(folder):
    path = folder("5/bert-cased") / "tokenizer.json"
    tokenizer = WordPieceTokenizer(path, False)
    assert tokenizer.max_input_chars_per_word == 100 and tokenizer.vocab[7] == "ship"


JUNK = (None, True, -1, 10**400, float("nan"), "", "x", [], [None], {}, {"type": 3}, {"type": "Sequence"}, [[1, 2, 3]])


def _paths(value, path=()):
    """Yields the way to every value in JSON; of long objects and lists to the first four only."""
    yield path
    if isinstance(value, (dict, list)):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        for key in keys if len(keys) < 12 else keys[:4]:
            yield from _paths(value[key], (*path, key))


_WHOLE = [pytest.param(n, 1, marks=pytest.mark.slow) for n in ("5/albert", "5/bert", "5/roberta", "4/xlm-roberta")]


@pytest.mark.parametrize("name, every", [("5/albert", 5), *_WHOLE])
def test_any_json_value_anywhere_is_read_or_refused(name, every, tmp_path):
    values = json.loads((WHOLE / name / "tokenizer.json").read_text(encoding="utf-8"))
    if name == "5/albert":
        del values["model"]["vocab"][40:]  # the first of them are enough, and quick to write
    path, kind = tmp_path / "tokenizer.json", tokenizer_json.tokenizer_kind(WHOLE / name / "tokenizer.json")
    template = family_registry.family(_model_type(name)).template
    ended = {"read": 0, "refused": 0}
    for *way, last in list(_paths(values))[1::every]:
        inner = functools.reduce(operator.getitem, way, values)
        good = inner[last]
        for junk in JUNK:
            inner[last] = junk
            path.write_text(json.dumps(values), encoding="utf-8")
            try:
                tokenizer_json.read_whole(path, kind).check_template(template, True)
                ended["read"] += 1
            except ValueError as error:
                assert str(error).startswith(str(path))
                ended["refused"] += 1
        inner[last] = good
    # Read are decoders, names and flags that make no difference here.
    assert ended["refused"] > 500 / every and ended["read"] > 100 / every
