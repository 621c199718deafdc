"""BertJapaneseTokenizer with MeCab: ids of Transformers, spans of the original text, and settings that are refused."""

import json
import pathlib
import random
import subprocess
import types
import unicodedata

import numpy as np
import pytest

from bert_tf.models.family_registry import family
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.fast_composition import compatible_spans
from bert_tf.tokenization.fast_tokenizer import FastTokenizer, load_fast_tokenizer
from bert_tf.tokenization.mecab import MecabTokenizer
from bert_tf.tokenization.mecab_tables import MecabTables
from bert_tf.tokenization.registry import read_tokenizer
from bert_tf.tokenization.table_registry import read_tables, save_tables
from bert_tf.utils import extras
from tests import japanese, other_envs
from tests.tokenization import material
from tests.tokenization.rust import mixed_texts

pytestmark = pytest.mark.usefixtures("run_eagerly")

TEXTS = japanese.sentences(60, seed=1)
VOCAB = japanese.vocabulary(TEXTS)
BERT = family("bert")
VARIANTS = [{}, {"do_lower_case": True}, {"subword_tokenizer_type": "character"}]
_THEIRS = """
import json, sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
assert type(tokenizer).__name__ == "BertJapaneseTokenizer"
texts = json.load(open(sys.argv[2], encoding="utf-8"))
rows = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
decoded = [[tokenizer.decode(ids, skip_special_tokens=skip) for ids in rows] for skip in (True, False)]
print(json.dumps([rows, *decoded]))
"""


@pytest.fixture
def by_script(monkeypatch):
    japanese.without_mecab(monkeypatch)


def _folder(tmp_path, **changes):
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCAB), encoding="utf-8")
    japanese.write_settings(tmp_path, **changes)
    return str(tmp_path)


def _read(folder, **options):
    return read_tokenizer(folder, BERT, BERT.template, **options)


def _spelled(tokenizer, text):
    """Returns [(token, the text that it came from)]."""
    [ids], [starts], [ends] = (each.to_list() for each in tokenizer.tokenize_with_offsets([text]))
    return [(tokenizer.vocab[i], text[start:end]) for i, start, end in zip(ids, starts, ends, strict=True)]


def test_nfkc_with_the_places_that_characters_came_from():
    rng = random.Random(3)
    chars = [*material.assigned()]
    texts = ["", "が", "か\u3099", "ｶﾞｷﾞ", "㍿です", "a\u0327\u0301b", "\uff9e", "각\u11a8", "\u1112\u1161\u11ab"]
    texts += ["ﬁ\u0301" * 40, "a" + "\u0301\u0323" * 40]
    texts += ["".join(rng.choices(chars, k=6)) for _ in range(2000)] + mixed_texts()[:1500] + TEXTS
    for text in texts:
        made, starts, ends = compatible_spans(text)
        assert made == unicodedata.normalize("NFKC", text)
        assert len(made) == len(starts) == len(ends) and starts == sorted(starts) and ends == sorted(ends)
        assert all(0 <= start < end <= len(text) for start, end in zip(starts, ends, strict=True))
        assert all(char in unicodedata.normalize("NFKC", text[start:end])
                   for char, start, end in zip(made, starts, ends, strict=True))  # fmt: skip
    assert compatible_spans("aｶﾞ㍿") == ("aガ株式会社", [0, 1, 3, 3, 3, 3], [1, 3, 4, 4, 4, 4])


def test_words_are_split_and_come_from_the_original_text(tmp_path, by_script):
    tokenizer = _read(_folder(tmp_path))
    assert type(tokenizer) is MecabTokenizer and (tokenizer.dictionary, tokenizer.do_lower_case) == ("ipadic", False)
    assert _spelled(tokenizer, "東京タワーのﾃﾚﾋﾞ㍿BERT！") == [
        ("東京", "東京"), ("タワー", "タワー"), ("の", "の"), ("テレビ", "ﾃﾚﾋﾞ"), ("株式", "㍿"), ("会", "㍿"),
        ("##社", "㍿"), ("BERT", "BERT"), ("!", "！"),
    ]  # fmt: skip
    assert _spelled(tokenizer, "京 XQ") == [("京", "京"), ("[UNK]", "XQ")]
    assert _spelled(tokenizer, "ー" * 101) == [("[UNK]", "ー" * 101)] and len(_spelled(tokenizer, "ー" * 100)) == 100
    assert _spelled(tokenizer, " \u3000\n") == []
    lower = _read(_folder(tmp_path, do_lower_case=True))
    assert _spelled(lower, "BERTとİ") == [("bert", "BERT"), ("と", "と"), ("[UNK]", "İ"), ("[UNK]", "İ")]
    single = _read(_folder(tmp_path, subword_tokenizer_type="character", do_lower_case=True))
    assert _spelled(single, "東京 ﾋﾞ℡") == [
        ("東", "東"), ("京", "京"), ("ビ", "ﾋﾞ"), ("t", "℡"), ("e", "℡"), ("l", "℡"),
    ]  # fmt: skip


@pytest.mark.parametrize("changes", VARIANTS)
def test_plain_python_and_the_graph_are_equal(tmp_path, by_script, changes):
    tokenizer = _read(_folder(tmp_path, **changes))
    texts = [text.encode() for text in (*TEXTS, *mixed_texts()[:1500], "", "a\0東京")] + [b"\xff\xe6\x9d\xb1\xe4"]
    columns = [each.to_list() for each in tokenizer.tokenize_with_offsets(texts)]
    fast = FastTokenizer(tokenizer)
    for text, *ours in zip(texts, *columns, strict=True):
        assert list(fast.tokenize_with_offsets(text)) == ours, text
    assert tokenizer.tokenize([]).to_list() == []
    words = tokenizer.tokenize_by_words(texts[:3])[0]
    assert words.ragged_rank == 2 and words.merge_dims(1, 2).to_list() == columns[0][:3]


def test_a_mask_is_found_and_other_added_tokens_are_refused(tmp_path, by_script):
    tokenizer = _read(_folder(tmp_path))
    found = tokenizer.tokenize_matching(["東京[MASK]です"], tokenizer.matcher_with_special(["[MASK]"]))
    assert [tokenizer.vocab[i] for i in found[0].to_list()[0]][:2] == ["東京", "[MASK]"]
    assert found[1].to_list()[0][:3] == [0, 2, 8] and tokenizer.tokenize(["[MASK]"]).to_list() != [[tokenizer.mask_id]]
    with pytest.raises(ValueError, match=r"must have no added tokens except special ones; got '\[E1\]' with the id"):
        MecabTables(VOCAB, added_tokens=[AddedToken("[E1]", len(VOCAB))])


def test_ids_become_words_with_spaces_between_them(tmp_path, by_script):
    tokenizer = _read(_folder(tmp_path))
    ids = tokenizer(["東京タワーの株式会社、ﾃﾚﾋﾞ！ XQ"], max_seq_length=32)["input_ids"]
    assert tokenizer.decode(ids) == ["東京 タワー の 株式 会社 、 テレビ !"]
    assert tokenizer.decode(ids[0][:3], skip_special_tokens=False) == "[CLS] 東京 タワー"
    single = _read(_folder(tmp_path, subword_tokenizer_type="character"))
    assert single.decode(single.tokenize(["東京です。", ""])) == ["東 京 で す 。", ""]


@pytest.mark.parametrize("changes", VARIANTS)
def test_what_is_saved_reads_back(tmp_path, by_script, changes):
    tokenizer = _read(_folder(tmp_path, **changes))
    tokenizer.save(tmp_path / "saved")
    assert not (tmp_path / "saved" / "tokenizer.json").exists()
    again = _read(str(tmp_path / "saved"))
    assert again.settings == tokenizer.settings and again.deciding_values == tokenizer.deciding_values
    save_tables(tokenizer, tmp_path / "tables")
    fast = load_fast_tokenizer(tmp_path / "tables")
    expected = tokenizer.tokenize(TEXTS).to_list()
    assert again.tokenize(TEXTS).to_list() == [fast.tokenize(text) for text in TEXTS] == expected


@pytest.mark.parametrize("changes, message", [
    ({"word_tokenizer_type": "sudachi"}, "word_tokenizer_type must be 'mecab', because in bert_tf MeCab finds the "
                                         "words; got 'sudachi', which bert_tf does not support."),
    ({"word_tokenizer_type": "jumanpp"}, "word_tokenizer_type must be 'mecab'"),
    ({"word_tokenizer_type": None}, "word_tokenizer_type must be 'mecab', .* got None"),
    ({"subword_tokenizer_type": "sentencepiece"}, "subword_tokenizer_type must be 'wordpiece' or 'character' or abs"),
    ({"mecab_kwargs": {"mecab_dic": None, "mecab_option": "-d x"}}, "mecab_kwargs must be .*'ipadic'.* or absent"),
    ({"sudachi_kwargs": {"sudachi_dict_type": "core"}}, "sudachi_kwargs must be None or absent"),
    ({"do_subword_tokenize": False}, "do_subword_tokenize must be true or absent"),
    ({"never_split": ["東京"]}, "never_split must be"),
    ({"pad_token": "<pad>"}, r"pad_token in .* must be \[PAD\]"),
])  # fmt: skip
def test_settings_that_give_other_ids_are_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        read_tables(_folder(tmp_path, **changes), BERT, BERT.template)


def test_a_class_that_config_json_names(tmp_path, by_script):
    folder = pathlib.Path(_folder(tmp_path, tokenizer_class=None, mecab_kwargs=None, do_lower_case=None))
    (folder / "config.json").write_text(json.dumps({"tokenizer_class": "BertJapaneseTokenizer"}), encoding="utf-8")
    tokenizer = _read(str(folder))
    assert (tokenizer.KIND, tokenizer.dictionary, tokenizer.do_lower_case) == ("mecab", "unidic_lite", False)


def test_without_the_extra_the_message_says_what_to_install(tmp_path, monkeypatch):
    tables = read_tables(_folder(tmp_path), BERT, BERT.template)  # its files can be read and written without MeCab

    def refuse(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(extras, "importlib", types.SimpleNamespace(import_module=refuse))
    message = r"A model with the words of MeCab requires fugashi. Install it: pip install 'bert-tf\[mecab\]'"
    for make in (lambda: FastTokenizer(tables), lambda: _read(str(tmp_path))):
        with pytest.raises(ValueError, match=message):
            make()


@pytest.mark.parametrize("dictionary", ["ipadic", "unidic_lite"])
@pytest.mark.parametrize("changes", VARIANTS)
@pytest.mark.slow
def test_the_ids_are_those_of_transformers(tmp_path, changes, dictionary):
    for package in ("fugashi", dictionary):
        pytest.importorskip(package, reason=f"needs {package} (bert-tf[mecab])")
    python = other_envs.torch_python()
    if subprocess.run([python, "-c", f"import fugashi, {dictionary}"], capture_output=True).returncode:
        pytest.skip(f"needs fugashi and {dictionary}, which {python} has not: BERT_TF_TORCH_PYTHON names another")
    folder = _folder(tmp_path, mecab_kwargs={"mecab_dic": dictionary}, **changes)
    texts = japanese.sentences(300) + [text for text in mixed_texts()[:600] if "[CLS]" not in text]
    (tmp_path / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    theirs = json.loads(other_envs.run(python, _THEIRS, folder, tmp_path / "texts.json"))
    expected, *decoded = theirs
    tokenizer = _read(folder)
    ids, starts, ends = (each.to_list() for each in tokenizer.tokenize_with_offsets([text.encode() for text in texts]))
    different = [each for each in zip(texts, ids, expected, strict=True) if each[1] != each[2]]
    assert not different, f"{len(different)} of {len(texts)}: {different[:3]}"
    assert [tokenizer.decode(ids, skip) for skip in (True, False)] == decoded
    unknown = np.mean([i == tokenizer.unk_id for row in ids[:300] for i in row])
    assert unknown < 0.1 and len({i for row in ids for i in row}) > 80
    fast = FastTokenizer(tokenizer)
    for text, *ours in zip(texts, ids, starts, ends, strict=True):
        assert list(fast.tokenize_with_offsets(text)) == ours
    tokenizer.save(tmp_path / "saved")
    saved = json.loads(other_envs.run(python, _THEIRS, tmp_path / "saved", tmp_path / "texts.json"))
    assert saved == theirs
