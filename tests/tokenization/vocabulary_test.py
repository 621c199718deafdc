"""Vocabulary files and letter case: what is read, written and refused, and the words of the refusals."""

import json

import pytest

from bert_tf.tokenization.letter_case import check_case
from bert_tf.tokenization.wordpiece import WordPieceTokenizer

pytestmark = pytest.mark.usefixtures("run_eagerly")

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "É"]


def directory(tmp_path, config=None, vocab="[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\nÉ\n", name="model"):
    path = tmp_path / name
    path.mkdir()
    (path / "vocab.txt").write_bytes(vocab.encode())
    if config is not None:
        (path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


def test_attributes_of_a_tokenizer(tmp_path):
    path = directory(tmp_path)
    tokenizer = WordPieceTokenizer(str(path / "vocab.txt"))
    assert tokenizer.vocab == TOKENS and tokenizer.vocab_size == 7
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id) == (0, 1, 2, 3)
    assert tokenizer.mask_id is None
    assert tokenizer.vocab_file == str(path / "vocab.txt") and tokenizer.do_lower_case is True
    assert WordPieceTokenizer([*TOKENS, "[MASK]"], False).mask_id == 7
    assert WordPieceTokenizer(TOKENS).vocab_file is None


def test_line_ends_and_blanks_are_no_part_of_a_token(tmp_path):
    path = directory(tmp_path, vocab=" \r\n".join([*TOKENS[:4], "", "x\u2028y", "a"]) + "\r\n\n\n")
    assert WordPieceTokenizer(path / "vocab.txt").vocab == [*TOKENS[:4], "", "x\u2028y", "a"]


def test_a_byte_order_mark_is_no_part_of_a_token(tmp_path):
    path = directory(tmp_path, vocab="\ufeff" + "\n".join(TOKENS) + "\n")
    tokenizer = WordPieceTokenizer(path / "vocab.txt")
    assert tokenizer.vocab == TOKENS and tokenizer.pad_id == 0


def test_ids_are_the_numbers_of_lines(shared_cases):
    """Files as people have them: other ends of lines, blank lines, a byte-order mark, tokens that are white space."""
    folder = shared_cases / "vocab_variants"
    paths = [path for path in folder.glob("*.txt") if path.name not in ("cr.txt", "tabcount.txt", "dups.txt")]
    ids = {path.name: WordPieceTokenizer(path).tokenize(["the seaside hill!"])[0].numpy().tolist() for path in paths}
    moved = ("blank_mid.txt", "ideosp.txt", "u0085.txt", "u2028.txt")  # a line more before "sea"
    assert ids == {name: [5, 7, 8, 9, 10] if name in moved else [5, 6, 7, 8, 9] for name in ids}
    assert len(ids) == 11


def test_saved_and_read_again(tmp_path):
    first = WordPieceTokenizer([*TOKENS, "x\u2028y", "中"], do_lower_case=False)
    first.save(tmp_path / "out")
    again = WordPieceTokenizer.from_directory(tmp_path / "out")
    assert again.vocab == first.vocab and again.do_lower_case is False
    assert json.loads((tmp_path / "out/tokenizer_config.json").read_text()) == {
        "do_lower_case": False,
        "tokenizer_class": "BertTokenizer",
    }
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert files == ["tokenizer.json", "tokenizer_config.json", "vocab.txt"]


@pytest.mark.parametrize(
    "config, asked, want",
    [(None, None, True), (None, False, False), ({"do_lower_case": False}, None, False), ({}, None, True),
     ({"do_lower_case": True, "strip_accents": None}, True, True),
     ({"do_lower_case": False, "strip_accents": False, "tokenize_chinese_chars": True}, None, False)],
)  # fmt: skip
def test_case_of_a_directory(tmp_path, config, asked, want):
    assert WordPieceTokenizer.from_directory(directory(tmp_path, config), asked).do_lower_case is want


@pytest.mark.parametrize(
    "config, asked, words",
    [({"do_lower_case": False}, True, r"`do_lower_case` does not match.*_config.json has false; got true"),
     ({"do_lower_case": "no"}, None, r"do_lower_case must be true or false; got 'no'"),
     ({"do_lower_case": False, "strip_accents": True}, None, r"strip_accents must be false or absent"),
     ({"tokenize_chinese_chars": False}, None, r"tokenize_chinese_chars must be true.*remove the key"),
     ([1], None, r"must be the settings of a tokenizer in JSON; got a list in place of an object")],
)  # fmt: skip
def test_settings_that_are_refused(tmp_path, config, asked, words):
    with pytest.raises(ValueError, match=words):
        WordPieceTokenizer.from_directory(directory(tmp_path, config), asked)


def test_tokens_that_are_longer_than_the_op_can_take(tmp_path):
    words = ["w" * 256, "w" * 201, "##" + "é" * 128, "##" + "é" * 201]
    tokenizer = WordPieceTokenizer([*TOKENS, *words])
    ids = tokenizer.tokenize([words[0], "w" * 200, words[1], "w" * 255]).to_list()
    assert ids == [[tokenizer.unk_id]] * 4  # Google's algorithm takes no word of more than 200 characters
    path = directory(tmp_path, vocab="\n".join([*TOKENS, "##" + "好" * 86]))
    with pytest.raises(ValueError, match=r"at most 256 bytes.* got, in line 8 of .*vocab.txt, one of 258: '##好"):
        WordPieceTokenizer.from_directory(path)


def test_a_cased_vocabulary_is_not_lowercased_without_a_word(tmp_path, caplog):
    path = directory(tmp_path, vocab="\n".join([*TOKENS, "A", "B", "C"]))
    with caplog.at_level("WARNING", logger="absl"):
        WordPieceTokenizer.from_directory(path, do_lower_case=True)
        assert not caplog.records
        WordPieceTokenizer.from_directory(path)
    assert "tokens in " in caplog.text and "set do_lower_case=false if the model is cased" in caplog.text


def test_another_vocabulary_and_broken_files(tmp_path):
    path = directory(tmp_path)
    (tmp_path / "other.txt").write_text("\n".join([*TOKENS, "z"]), encoding="utf-8")
    assert WordPieceTokenizer.from_directory(path, vocab_file=tmp_path / "other.txt").vocab_size == 8
    with pytest.raises(ValueError, match=r"not found: .*gone.txt. .*; check `vocab_file`"):
        WordPieceTokenizer.from_directory(path, vocab_file=tmp_path / "gone.txt")
    (path / "tokenizer_config.json").write_text('{\n"do_lower_case": tru\n}')
    with pytest.raises(ValueError, match=r"tokenizer_config.json must be the settings of .*line 2"):
        WordPieceTokenizer.from_directory(path)


@pytest.mark.parametrize("lines, missing", [(TOKENS[:2], r"\[CLS\], \[SEP\]"), ([], r"\[PAD\]"), (["<s>"], r"\[UNK\]")])
def test_a_vocabulary_of_another_kind(tmp_path, lines, missing):
    path = directory(tmp_path, vocab="\n".join(lines))
    with pytest.raises(ValueError, match=rf"must contain \[PAD\].*vocab.txt has {len(lines)} lines, .*{missing}"):
        WordPieceTokenizer.from_directory(path)


def test_a_list_with_something_else(tmp_path):
    with pytest.raises(ValueError, match=r"list of single lines; got 'x\\ny' at index 7"):
        WordPieceTokenizer([*TOKENS, "x\ny"])


LOWER = ["uncased_L-12_H-768_A-12", "wwm_uncased_L-24_H-1024_A-16", "uncased_L-2_H-128_A-2",
         "multilingual_L-12_H-768_A-12", "chinese_L-12_H-768_A-12"]  # fmt: skip
CASED = ["cased_L-12_H-768_A-12", "wwm_cased_L-24_H-1024_A-16", "multi_cased_L-12_H-768_A-12"]


@pytest.mark.parametrize("name, lower", [(n, True) for n in LOWER] + [(n, False) for n in CASED])
@pytest.mark.parametrize("form", ["/models/{}", "/models/{}/", "{}/bert_model.ckpt", "{}/model.ckpt-12"])
def test_names_of_releases(name, lower, form):
    path = form.format(name)
    check_case(path, lower)
    words = rf"`do_lower_case` does not match.*{name}.*Set `do_lower_case={str(lower).lower()}`"
    with pytest.raises(ValueError, match=words):
        check_case(path, not lower)


def test_names_that_say_nothing(tmp_path):
    for path in (None, "", "/runs/my_cased_L-4/x/model.ckpt-1", "/data/bert"):
        check_case(path, True)
        check_case(path, False)
    path = directory(tmp_path, name="cased_L-12_H-768_A-12")
    with pytest.raises(ValueError, match="`do_lower_case=false`"):
        WordPieceTokenizer.from_directory(path)
    assert WordPieceTokenizer.from_directory(path, do_lower_case=False).do_lower_case is False
