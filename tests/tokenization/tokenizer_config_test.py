"""Settings of Transformers' tokenizers: followed, or refused by name; never passed over."""

import json
import logging

import pytest

from bert_tf.models.config import EncoderConfig, template_for
from bert_tf.models.family_registry import family
from bert_tf.tokenization.registry import read_tokenizer
from bert_tf.tokenization.tokenizer_config import ADDED, FOLLOWED, HARMLESS, ONLY
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny

pytestmark = pytest.mark.usefixtures("run_eagerly")


def _folder(tmp_path, config=None, special=None, vocab=tiny.VOCAB, **model):
    for name, values in (("tokenizer_config", config), ("special_tokens_map", special), ("config", model or None)):
        if values is not None:
            (tmp_path / f"{name}.json").write_text(json.dumps(values), encoding="utf-8")
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in vocab), encoding="utf-8")
    return tmp_path


def _read(folder):
    config = EncoderConfig.load(folder)
    return read_tokenizer(str(folder), family(config.model_type), template_for(config))


def test_every_key_is_in_one_table():
    tables = [FOLLOWED, ADDED, set(ONLY), *HARMLESS.values()]
    assert len(set().union(*tables)) == sum(map(len, tables))


def test_what_transformers_writes_by_default_is_read(tmp_path):
    """tokenizer_config.json of BertTokenizer in 4.57 and 5."""
    said = {
        **{"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True, "do_basic_tokenize": True},
        **{"never_split": None, "clean_up_tokenization_spaces": True, "model_max_length": 10**30},
        **{"extra_special_tokens": {}, "added_tokens_decoder": {}, "tokenizer_class": "BertTokenizerFast"},
        **{"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"},
        **{"mask_token": {"content": "[MASK]", "lstrip": False}, "backend": "tokenizers", "padding_side": "right"},
    }
    tokenizer = WordPieceTokenizer.from_directory(_folder(tmp_path, said))
    assert tokenizer.tokenize(["Good film"])[0].numpy().tolist() == [5, 14]


@pytest.mark.parametrize(
    "key, value, must",
    [
        ("tokenizer_class", "BertJapaneseTokenizer", "must be BertTokenizer or DistilBertTokenizer or "),
        ("tokenizer_class", "RobertaTokenizer", "must be BertTokenizer or DistilBertTokenizer or "),
        ("tokenizer_class", 3, "must be BertTokenizer or DistilBertTokenizer or "),
        ("word_tokenizer_type", "mecab", "must be .basic. or absent, because in bert_tf words end at whitespace"),
        ("subword_tokenizer_type", "character", "must be .wordpiece. or absent"),
        ("mecab_kwargs", {"mecab_dic": "ipadic"}, "must be None or absent"),
        ("never_split", ["film"], "must be .* or absent, because in bert_tf every word is tokenized"),
        ("truncation_side", "left", "must be .right. or absent, because in bert_tf a long text is truncated at its"),
        ("padding_side", "left", "must be .right. or absent"),
        ("do_subword_tokenize", False, "must be true or absent"),
        ("wordpieces_prefix", "@@", "must be .##. or absent"),
        ("split_special_tokens", True, "must be false or absent"),
        ("tokenize_chinese_chars", False, "must be true or absent"),
        ("pad_token", "<pad>", r"must be \[PAD\] for a WordPiece model"),
        ("mask_token", "<mask>", r"must be \[MASK\] for a WordPiece model"),
        ("cls_token", 7, "must be a string"),
    ],
)
def test_a_setting_that_makes_other_ids_is_refused_by_name(tmp_path, key, value, must):
    with pytest.raises(ValueError, match=f"{key}.* {must}"):
        WordPieceTokenizer.from_directory(_folder(tmp_path, {key: value}))


def test_the_class_that_the_configuration_names(tmp_path):
    """As cl-tohoku/bert-base-japanese has it: config.json alone says that words are found by MeCab."""
    folder = _folder(tmp_path, {}, vocab_size=len(tiny.VOCAB), tokenizer_class="BertJapaneseTokenizer")
    with pytest.raises(ValueError, match="config.json: tokenizer_class must be .* got 'BertJapaneseTokenizer'"):
        WordPieceTokenizer.from_directory(folder)


def test_settings_that_nobody_knows_are_named_once(tmp_path, caplog):
    folder = _folder(tmp_path, {"do_lower_case": True, "lattice_width": 3, "errors": "replace"})
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            WordPieceTokenizer.from_directory(folder)
    said = [record.getMessage() for record in caplog.records if "lattice_width" in record.getMessage()]
    assert said == [f"{folder}/tokenizer_config.json: unknown settings are ignored: lattice_width."]


def _row(tokenizer):
    packed = tokenizer(["good film"], ["bad"], 10)
    tokens = [tokenizer.vocab[n] for n in packed["input_ids"].numpy()[0] if n]
    return " ".join(tokens), packed["segment_ids"].numpy()[0][: len(tokens)].tolist()


def test_roberta_with_a_wordpiece_vocabulary(tmp_path):
    """As klue/roberta-base: BERT's special tokens, one segment, positions behind the padding's id."""
    said = {"tokenizer_class": "BertTokenizer", "cls_token": "[CLS]", "sep_token": "[SEP]", "do_lower_case": False}
    shape = {"model_type": "roberta", "vocab_size": len(tiny.VOCAB), "type_vocab_size": 1, "pad_token_id": 1}
    folder = _folder(tmp_path, said, **shape)
    assert _row(_read(folder)) == ("[CLS] good film [SEP] bad [SEP]", [0] * 6)
    assert _row(WordPieceTokenizer.from_directory(folder)) == _row(_read(folder))
    assert EncoderConfig.load(folder).first_position == 2
    _folder(tmp_path, said, **{**shape, "type_vocab_size": 2})  # BertTokenizer tells its texts apart
    assert _row(_read(folder)) == ("[CLS] good film [SEP] bad [SEP]", [0, 0, 0, 0, 1, 1])


def test_special_tokens_of_other_names(tmp_path):
    vocab = (*tiny.VOCAB, "<s>", "</s>")
    model = {"model_type": "bert", "vocab_size": len(vocab)}
    folder = _folder(tmp_path, {"cls_token": "<s>", "sep_token": {"content": "</s>"}}, vocab=vocab, **model)
    tokenizer = _read(folder)
    assert _row(tokenizer) == ("<s> good film </s> bad </s>", [0, 0, 0, 0, 1, 1])
    tokenizer.save(tmp_path / "saved")
    assert _row(WordPieceTokenizer.from_directory(tmp_path / "saved")) == _row(tokenizer)


def test_the_map_of_special_tokens_counts_where_added_tokens_are_not_listed(tmp_path):
    vocab, model = (*tiny.VOCAB, "<s>"), {"model_type": "bert", "vocab_size": len(tiny.VOCAB) + 1}
    folder = _folder(tmp_path, {"cls_token": "[CLS]"}, {"cls_token": "<s>"}, vocab, **model)
    assert _row(_read(folder))[0].startswith("<s> good")
    folder = _folder(tmp_path, {"cls_token": "[CLS]", "added_tokens_decoder": {}}, {"cls_token": "<s>"}, vocab, **model)
    assert _row(_read(folder))[0].startswith("[CLS] good")
