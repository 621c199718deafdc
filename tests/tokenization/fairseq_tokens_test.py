"""Vocabularies with fairseq's special tokens around them: MPNet's WordPiece and CamemBERT's SentencePiece model."""

import json
import os
import shutil

import pytest
import tensorflow as tf

from bert_tf.checkpoints.vocabulary_extension import Extension
from bert_tf.models.family_registry import family
from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization.registry import read_tokenizer
from bert_tf.tokenization.special_token_files import family_of_tokenizer
from bert_tf.tokenization.table_registry import read_saved_tables, save_tables
from tests import parity, tiny

pytestmark = pytest.mark.usefixtures("run_eagerly")

WHOLE = parity.GOLDENS / "tokenizers" / "whole" / "4"
PIECES = tiny.FAIRSEQ_VOCAB


def _read(folder, model_type, **options):
    row = family(model_type)
    return read_tokenizer(str(folder), row, row.template, **options)


@pytest.fixture
def mpnet(tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES), encoding="utf-8")
    return tmp_path


def test_mpnet_s_vocabulary(mpnet):
    tokenizer, unknown, film = _read(mpnet, "mpnet"), PIECES.index("[UNK]"), PIECES.index("film")
    assert (tokenizer.cls_id, tokenizer.pad_id, tokenizer.sep_id) == (0, 1, 2)
    assert (tokenizer.unk_id, tokenizer.mask_id, tokenizer.mask) == (unknown, len(PIECES) - 1, "<mask>")
    assert tokenizer.tokenize(["Film xyz films"]).to_list() == [[film, unknown, film, PIECES.index("##s")]]
    rows = tokenizer(["film"], ["film"], max_seq_length=8)
    assert rows["input_ids"].numpy().tolist() == [[0, film, 2, 2, film, 2, 1, 1]]
    assert rows["segment_ids"].numpy().tolist() == [[0] * 8]
    flags = {token.content: token.lstrip for token in tokenizer.special_added_tokens}
    assert flags == {"<s>": False, "<pad>": False, "</s>": False, "[UNK]": False, "<mask>": True}


def test_mpnet_s_tokenizer_is_saved_and_read_again(mpnet, tmp_path):
    tokenizer = _read(mpnet, "mpnet")
    save_tables(tokenizer, tmp_path / "saved")
    config = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert (config["tokenizer_class"], config["cls_token"], config["sep_token"]) == ("MPNetTokenizer", "<s>", "</s>")
    tables = read_saved_tables(tmp_path / "saved")
    assert tables.settings == tokenizer.settings and tables.template == tokenizer.template
    for drop in (None, "tokenizer.json"):
        if drop:
            os.remove(tmp_path / "saved" / drop)
        again = _read(tmp_path / "saved", "mpnet")
        assert (again.vocab, again.settings, again.template) == (tables.vocab, tables.settings, tables.template)


def test_an_extended_vocabulary_is_mpnet_s_too(mpnet):
    tokenizer = _read(mpnet, "mpnet")
    more = Extension.of(tokenizer, ["cinema"]).tokenizer()
    assert (more.settings, more.template, more.vocab) == (tokenizer.settings, tokenizer.template, [*PIECES, "cinema"])
    assert more.settings["tokenizer_class"] == "MPNetTokenizer"


@pytest.mark.parametrize(
    ("model_type", "config", "message"),
    [
        ("mpnet", {"tokenizer_class": "BertTokenizer"}, "tokenizer_class must be MPNetTokenizer, to match .*'BertTok"),
        ("bert", {"tokenizer_class": "MPNetTokenizer"}, "tokenizer_class must be BertTokenizer or .*'MPNetTokenizer'"),
        ("mpnet", {"pad_token": "[PAD]"}, r"pad_token in .* must be <pad> for a WordPiece model; got '\[PAD\]'"),
        ("mpnet", {"unk_token": "<unk>"}, r"unk_token in .* must be \[UNK\] for a WordPiece model; got '<unk>'"),
    ],
)
def test_files_of_another_tokenizer_are_refused(mpnet, model_type, config, message):
    (mpnet / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        _read(mpnet, model_type)


def test_a_vocabulary_without_the_special_tokens(tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in tiny.VOCAB), encoding="utf-8")
    message = r"must contain <pad>, \[UNK\], <s>, </s>, .* but lacks <pad>, <s>, </s>\. It may belong"
    with pytest.raises(ValueError, match=message):
        _read(tmp_path, "mpnet")


def test_camembert_s_model_keeps_its_own_begin_and_end(tmp_path):
    """As in the releases: <unk> of the model is "<unk>NOTUSED", its <s> and </s> are the tokens 5 and 6."""
    whole = _read(WHOLE / "camembert", "camembert")
    whole.save(tmp_path)
    assert os.path.basename(_read(tmp_path, "camembert").asset_file) == "sentencepiece.bpe.model"
    os.remove(tmp_path / "tokenizer.json")
    for tokenizer in (whole, _read(tmp_path, "camembert")):
        assert tokenizer.vocab[:7] == ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"]
        assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id) == (1, 3, len(tokenizer.vocab) - 1)
        row = tokenizer(["the"], ["\U0001f600"], max_seq_length=12)["input_ids"].numpy()[0].tolist()
        first = tokenizer.tokenize(["the"]).to_list()[0]
        assert row[: len(first) + 6] == [5, *first, 6, 6, tokenizer.id_of("\u2581"), 3, 6]


@pytest.mark.slow
def test_a_graph_with_camembert_s_tokenizer_is_saved(tmp_path):
    served = tf.Module()
    served.tokenizer = _read(WHOLE / "camembert", "camembert")
    served.read = tf.function(served.tokenizer.tokenize, [tf.TensorSpec([None], tf.string)])
    expected = served.read(["the"]).to_list()
    tf.saved_model.save(served, str(tmp_path))
    assert tf.saved_model.load(str(tmp_path)).read(tf.constant(["the"])).to_list() == expected


@pytest.mark.parametrize("name", ["XLMRobertaTokenizer", "CamembertTokenizer"])
def test_the_class_tells_tokenizers_with_equal_special_tokens_apart(name, tmp_path):
    special = [[(token, 0) for token in text.split()] for text in ("<s> $A </s>", "<s> $A </s> </s> $B </s>")]
    path, config = str(tmp_path / "tokenizer_config.json"), {"tokenizer_class": name}
    for layout in (special, None):
        owner, _ = family_of_tokenizer(path, config, "unigram", family("bert"), InputTemplate(), layout)
        assert owner.tokenizing["tokenizer_class"] == name


def test_a_bert_with_the_tokenizer_of_camembert(tmp_path):
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(WHOLE / "camembert" / file, tmp_path)
    ours, theirs = _read(tmp_path, "bert"), _read(WHOLE / "camembert", "camembert")
    assert ours.vocab == theirs.vocab and ours.template.pieces(2) == theirs.template.pieces(2)
    assert ours.tokenize(["the sea"]).to_list() == theirs.tokenize(["the sea"]).to_list()
