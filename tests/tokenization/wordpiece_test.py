"""The tokenizer in the graph against the plain-Python reference: no id may differ; and where in the text tokens lie."""

import functools
import random
import unicodedata

import pytest
import tensorflow as tf

from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests.fake_pandas import Series
from tests.tokenization import material
from tests.tokenization.reference import Reference, is_chinese, is_dropped


@pytest.fixture(
    scope="module", params=[True, pytest.param(False, marks=pytest.mark.slow)], ids=["uncased", "cased"]
)
def pair(request):
    """(tokenizer, reference) with the small vocabulary."""
    return _pair(request.param)


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def whole_pair(request):
    """The same with every ideograph."""
    return _pair(request.param, ideographs=1)


def _pair(do_lower_case, **options):
    vocab = material.small_vocabulary(**options)
    return WordPieceTokenizer(vocab, do_lower_case), Reference(vocab, do_lower_case)


def differences(pair, texts):
    tokenizer, reference = pair
    got = tokenizer.tokenize(texts).to_list()
    assert len(got) == len(texts)
    return [(text, ids, want) for text, ids in zip(texts, got, strict=True) if ids != (want := reference.ids(text))]


@pytest.mark.usefixtures("run_eagerly")
def test_a_drawn_row():
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "!", "cafe", "中"]
    texts = ["Unaffable!", "CAFÉ中", "cafe\u0301 xyz", ""]
    assert WordPieceTokenizer(vocab).tokenize(texts).to_list() == [[4, 5, 6, 7], [8, 9], [8, 1], []]
    assert WordPieceTokenizer(vocab, do_lower_case=False).tokenize(texts).to_list() == [[1, 7], [1, 9], [1, 1], []]


def test_tricky_strings(pair):
    assert differences(pair, material.TRICKY) == []


@pytest.mark.slow
def test_every_assigned_code_point(whole_pair):
    assert differences(whole_pair, material.assigned()) == []


@pytest.mark.slow
def test_every_assigned_code_point_inside_words(whole_pair):
    chars = [c for c in material.assigned() if not is_chinese(c) or ord(c) % 64 in (0, 63)]  # all: in google_test.py
    assert differences(whole_pair, [f"aB{c}ΣΑΣ{c} {c}\u0301Σ" for c in chars]) == []


def test_unassigned_and_private_code_points(pair):
    codes = [*range(0xE000, 0xE100), *range(0x378, 0x110000, 211), 0xFFFE, 0xFFFF, 0x10FFFF]
    assert differences(pair, [f"x{chr(c)}y {chr(c)}" for c in codes if not 0xD800 <= c <= 0xDFFF]) == []


def test_random_strings(pair):
    assert differences(pair, list(material.random_texts(800, seed=1))) == []


def test_bytes_that_are_no_utf8(pair):
    rng = random.Random(3)
    likely = b"\xe4\xbd\xa0\xf0\x9f\x98\x80\xed\xa0\x80\xc0\xaf\xef\xbf\xbdaB \xcc\x81"
    texts = [bytes(rng.choice(likely) for _ in range(rng.randint(0, 12))) for _ in range(600)]
    assert differences(pair, texts) == []


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_random_strings_with_a_real_vocabulary(minilm, do_lower_case):
    tokenizer = WordPieceTokenizer(f"{minilm}/vocab.txt", do_lower_case)
    pair = tokenizer, Reference(tokenizer.vocab, do_lower_case)
    assert differences(pair, [*material.TRICKY, *material.random_texts(1500, seed=2)]) == []


def test_many_words_and_no_texts_at_all(pair):
    tokenizer, reference = pair
    long = "Tea's rest, 中 é " * 1000
    assert differences(pair, [long, "", long[:99]]) == []
    assert tokenizer.tokenize([]).to_list() == []
    assert tokenizer.tokenize([]).dtype == tf.int32
    assert [t.to_list() for t in tokenizer.tokenize_with_offsets([])] == [[], [], []]


def test_tokens_that_no_word_can_hold_and_repeated_tokens():
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "", "a b", "\0", "a", "##a", "##", "##a", "b", ""]
    with pytest.warns(UserWarning, match=r"2 lines contain a token .* line is 5: 'a'"):
        tokenizer = WordPieceTokenizer(vocab)
    texts = ["a", "aa", "aab", "b a", "a\0b", "##", " 4"]
    assert tokenizer.tokenize(texts).to_list() == [Reference(vocab, True).ids(text) for text in texts]


@pytest.mark.parametrize("pair", [True], ids=["uncased"], indirect=True)
def test_the_same_in_tf_data(pair):
    tokenizer, reference = pair
    batches = tf.data.Dataset.from_tensor_slices(material.TRICKY).batch(7).map(tokenizer.tokenize)
    assert [ids for batch in batches for ids in batch.to_list()] == [reference.ids(text) for text in material.TRICKY]


@pytest.mark.parametrize("pair", [True], ids=["uncased"], indirect=True)
def test_one_text_that_is_not_in_a_list_is_refused(pair):
    with pytest.raises(ValueError, match="`texts` must be several texts, such as a list; got one text, 'a text'"):
        pair[0].tokenize("a text")
    with pytest.raises(ValueError, match=r"vector of strings.*got string of shape \(\); put a single text into"):
        pair[0].tokenize(tf.constant("a text"))
    with pytest.raises(ValueError, match="`text_a` and `text_b` must have the same length; got 2 and 1"):
        pair[0](["a", "b"], ["c"])
    with pytest.raises(ValueError, match="`text_b` must not have missing texts; got None at position 0"):
        pair[0](["a"], [None])


@pytest.mark.parametrize("pair", [True], ids=["uncased"], indirect=True)
def test_texts_of_any_kind_are_read_in_their_order(pair):
    expected = pair[0].tokenize(["a b", "c"]).to_list()
    for given in (Series(["a b", "c"], [1, 0]), iter(["a b", "c"]), [b"a b", b"c"], tf.constant(["a b", "c"])):
        assert pair[0].tokenize(given).to_list() == expected


# === Offsets ===
# They point into the text as it came: drawn examples, and laws over random strings.


DRAWN = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "unicode", "ﬁ", "ca", "##fe", "中", "国", "!", "σα", "##ς", "i", "##i",
         "ᄒ", "##ᅡ", "##ᆫ", "a", "##b"]  # fmt: skip


def slices(tokenizer, text):
    ids, starts, ends = (tensor[0].numpy() for tensor in tokenizer.tokenize_with_offsets([text]))
    return [(tokenizer.vocab[i], text[a:b]) for i, a, b in zip(ids, starts, ends, strict=True)]


@pytest.mark.usefixtures("run_eagerly")
@pytest.mark.parametrize(
    "text, want",
    [
        ("Ünïcode ﬁ", [("unicode", "Ünïcode"), ("ﬁ", "ﬁ")]),
        ("CAFÉ!", [("ca", "CA"), ("##fe", "FÉ"), ("!", "!")]),
        ("cafe\u0301!", [("ca", "ca"), ("##fe", "fe\u0301"), ("!", "!")]),
        ("  中国\u0301 ", [("中", "中"), ("国", "国\u0301")]),
        ("ΣΑΣ", [("σα", "ΣΑ"), ("##ς", "Σ")]),
        ("Iİ\u0323", [("i", "I"), ("##i", "İ\u0323")]),
        ("한", [("ᄒ", "한"), ("##ᅡ", "한"), ("##ᆫ", "한")]),
        ("\u00ada\u200db\u200d!", [("a", "a"), ("##b", "b"), ("!", "!")]),
        ("a\u200d\u0301b", [("a", "a\u200d\u0301"), ("##b", "b")]),
        ("\u0301 \u0301a xyz\u0301 a", [("a", "a"), ("[UNK]", "xyz\u0301"), ("a", "a")]),
        ("a" * 201 + "!", [("[UNK]", "a" * 201), ("!", "!")]),
    ],
)  # fmt: skip
def test_offsets_of_drawn_examples(text, want):
    assert slices(WordPieceTokenizer(DRAWN), text) == want


@pytest.mark.usefixtures("run_eagerly")
def test_offsets_start_at_0_in_each_text_and_skip_bytes_that_are_no_utf8():
    ids, starts, ends = WordPieceTokenizer(DRAWN).tokenize_with_offsets([b"\xe4\xbd a!", "", " é中", "!"])
    assert ids.to_list() == [[18, 10], [], [1, 8], [10]]
    assert starts.to_list() == [[1, 2], [], [1, 2], [0]]
    assert ends.to_list() == [[2, 3], [], [2, 3], [1]]


@pytest.mark.parametrize("pair", [False], ids=["cased"], indirect=True)
def test_cased_text_is_the_text_of_its_tokens(pair):
    for token, part in slices(pair[0], "Tea at Ten, é e\u0301 \u1b05\u1b44 中国 ΣΑΣ!"):
        assert token.removeprefix("##") == part


def test_offsets_of_random_strings_follow_laws(pair):
    tokenizer, reference = pair
    texts = [*material.TRICKY, *material.random_texts(250, seed=4)]
    columns = [tensor.to_list() for tensor in tokenizer.tokenize_with_offsets(texts)]
    assert columns[0] == tokenizer.tokenize(texts).to_list()
    for text, *got in zip(texts, *columns, strict=True):
        spans = list(zip(*got, strict=True))
        assert sorted(got[1]) == got[1] and sorted(got[2]) == got[2], text
        assert [token for token, _, _ in spans] == reference.ids(text)
        for (_, start, end), (_, first, last) in zip(spans, reference.spans(text), strict=True):
            assert 0 <= start <= first < last <= end <= len(text), text
            if not any(is_sorted_by_class(char) for char in text):
                assert start == first
                assert all(is_dropped(c) or unicodedata.category(c) == "Mn" for c in text[last:end]), text


@functools.cache
def is_sorted_by_class(char):
    forms = unicodedata.normalize("NFD", char)
    return any(unicodedata.combining(c) and unicodedata.category(c) != "Mn" for c in forms)
