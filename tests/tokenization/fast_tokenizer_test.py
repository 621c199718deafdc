"""The tokenizers in plain Python against those of the graph: no id and no offset may differ."""

import functools
import itertools
import json
import random
import re
import subprocess
import sys
import unicodedata

import numpy as np
import pytest

from bert_tf.models.family_registry import family
from bert_tf.tokenization import fast_tokens
from bert_tf.tokenization import sentencepiece_model as models
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.fast_tokenizer import FastTokenizer, load_fast_tokenizer
from bert_tf.tokenization.question_windows import encode_questions
from bert_tf.tokenization.table_registry import TABLES_FILE, save_tables
from bert_tf.tokenization.unigram import UnigramTokenizer
from bert_tf.tokenization.windows import find_windows
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.tokenization.wordpiece_tables import WordPieceTables
from tests import parity
from tests.conftest import ROOT
from tests.tokenization import material
from tests.tokenization.added_tokens_test import NAMES, plain, with_tokens
from tests.tokenization.rust import mixed_texts, xnli_texts
from tests.tokenization.rust_test import random_tokens, texts_with_tokens

pytestmark = pytest.mark.usefixtures("run_eagerly")
GOLDENS = parity.GOLDENS / "tokenizers"
_BATCH = 1000


def _wordpiece(do_lower_case, strip_accents=None, vocab=None):
    return WordPieceTokenizer(vocab or material.small_vocabulary(), do_lower_case, strip_accents=strip_accents)


def _byte_bpe(folder, add_prefix_space):
    tokenizer = ByteBpeTokenizer.from_directory(GOLDENS / folder, family=family("roberta"))
    tokenizer.add_prefix_space = add_prefix_space
    return tokenizer


def _unigram(model_type="albert", **settings):
    tokenizer = UnigramTokenizer.from_directory(GOLDENS / "unigram", family=family(model_type))
    return UnigramTokenizer(tokenizer.vocab_file, tokenizer.template, **{**tokenizer.settings, **settings})


MAKERS = {
    "wordpiece": functools.partial(_wordpiece, True),
    "wordpiece with accents": functools.partial(_wordpiece, True, False),
    "wordpiece cased": functools.partial(_wordpiece, False),
    "byte_bpe": functools.partial(_byte_bpe, "byte_bpe", False),
    "byte_bpe with space": functools.partial(_byte_bpe, "byte_bpe", True),
    "modernbert": lambda: ByteBpeTokenizer.from_directory(GOLDENS / "modernbert", family=family("modernbert")),
    "unigram": _unigram,
    "unigram cased": functools.partial(_unigram, do_lower_case=False, keep_accents=True, straight_quotes=False),
    "unigram in front": functools.partial(_unigram, model_type="xlm-roberta"),
    "unigram with spaces": functools.partial(_unigram, trailing_space="kept"),
    "unigram with spaces inside": functools.partial(_unigram, trailing_space="kept_inside"),
    "deberta": lambda: UnigramTokenizer.from_directory(GOLDENS / "deberta", family=family("deberta-v2")),
}


@functools.cache
def make(name):
    return MAKERS[name]()


FAST = ("wordpiece", "byte_bpe with space", "unigram in front")
PARAMS = [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in MAKERS]


@pytest.fixture(scope="module", params=PARAMS)
def tokenizer(request):
    return make(request.param)


@functools.cache
def _texts():
    """Hostile, random and ordinary texts, and characters of all sorts within a word."""
    rng = random.Random(5)
    around = [f"a{c}b {c}\u0301" for c in material.assigned() if ord(c) < 0x3400 and ord(c) % 11 == 3]
    atoms = " \u3000\u2581a`'\u0301\r\n\t\u00a0\x07\x85\uff21x1,"
    blanks = ["".join(rng.choices(atoms, k=rng.randrange(9))) for _ in range(600)]
    golden = json.loads((GOLDENS / "rust.json").read_text(encoding="utf-8"))["texts"]
    return [*material.TRICKY, *golden, *mixed_texts()[::40], *material.random_texts(400, seed=6), *around, *blanks]


def _differences(tokenizer, texts):
    """Returns (text, tokens of the graph, tokens here) where they differ."""
    fast, found = FastTokenizer(tokenizer), []
    for begin in range(0, len(texts), _BATCH):
        part = texts[begin : begin + _BATCH]
        columns = [each.to_list() for each in tokenizer.tokenize_with_offsets(part)]
        for text, *want in zip(part, *columns, strict=True):
            got = list(fast.tokenize_with_offsets(text))
            found += [(text, want, got)] if got != want or fast.tokenize(text) != want[0] else []
    return found


def test_ids_and_offsets_are_those_of_the_graph(tokenizer):
    found = _differences(tokenizer, _texts())
    if getattr(tokenizer, "nfc", False):
        assert all(want[0] == got[0] and _has_other_spans(text) for text, want, got in found)
        assert len(found) < 20
        return
    assert found == []


def _has_other_spans(text):
    """Whether ICU moves or composes marks, whose spans are not all known, or many follow one another."""
    return unicodedata.normalize("NFC", text) != text or re.search("[\u0300-\u0345]{31}", text)


def test_bytes_that_are_no_utf8(tokenizer):
    rng = random.Random(3)
    likely = b"\xe4\xbd\xa0\xf0\x9f\x98\x80\xed\xa0\x80\xc0\xaf\xef\xbf\xbdaB \xe9\x80"
    texts = [bytes(rng.choice(likely) for _ in range(rng.randint(0, 12))) for _ in range(300)]
    assert _differences(tokenizer, texts) == []


def test_equally_probable_ways_are_told_apart_by_rounding(tmp_path):
    """All ways to split a word have the same score but for single precision, in which SentencePiece adds up."""
    texts = ["".join(each) for size in (1, 2, 3) for each in itertools.product("ab", repeat=size)]
    pieces = [("<pad>", 0.0, models.CONTROL), ("<unk>", 0.0, models.UNKNOWN), ("\u2581", -0.1, models.NORMAL)]
    pieces += [(each, 0.0, models.CONTROL) for each in ("[CLS]", "[SEP]", "[MASK]")]
    pieces += [(text, -0.1 * len(text), models.NORMAL) for text in texts]
    path, template = tmp_path / "spiece.model", family("albert").template
    path.write_bytes(models.model_bytes(pieces, b""))
    rng = random.Random(1)
    words = ["".join(rng.choices("ab", k=rng.randrange(1, 25))) for _ in range(300)]
    assert _differences(UnigramTokenizer(path, template), words) == []


@pytest.mark.slow
def test_every_assigned_character(tokenizer):
    found = _differences(tokenizer, [f"aB{c}ΣΑ{c} {c}" for c in material.assigned() if ord(c) < 0x20000])
    of_ids = [text for text, want, got in found if want[0] != got[0]]
    assert of_ids == [] and (found == [] or tokenizer.KIND == "byte_bpe" and tokenizer.nfc)


@pytest.mark.slow
def test_real_texts(tokenizer, shared_data):
    assert _differences(tokenizer, xnli_texts(shared_data)[::5]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_added_tokens(name):
    rng = random.Random(name)
    tokens = random_tokens(rng)
    assert _differences(with_tokens(plain(name), tokens), texts_with_tokens(rng, tokens)[:500]) == []


@pytest.mark.slow
@pytest.mark.parametrize("trailing_space", ["kept", "kept_inside"])
def test_added_tokens_behind_spaces_that_count(trailing_space):
    rng = random.Random(trailing_space)
    tokens = random_tokens(rng)
    tokenizer = with_tokens(_unigram(trailing_space=trailing_space), tokens)
    assert _differences(tokenizer, texts_with_tokens(rng, tokens)[:500]) == []


def test_what_a_normalizer_removes_is_refused_as_an_added_token():
    tokens = [{"content": "\u0301", "normalized": True}]
    with pytest.raises(ValueError, match="must not be empty after normalization") as graph:
        with_tokens(plain("wordpiece"), tokens)
    token = AddedToken("\u0301", plain("wordpiece").vocab_size, normalized=True)
    with pytest.raises(ValueError) as here:
        FastTokenizer(WordPieceTables(plain("wordpiece").vocab, added_tokens=[token]))
    assert str(here.value) == str(graph.value)


# === Model inputs ===


def test_model_inputs_are_those_of_the_graph(tokenizer):
    fast, rng = FastTokenizer(tokenizer), random.Random(7)
    texts = [["".join(rng.choices("ab c中é!", k=rng.randrange(20))) for _ in range(40)] for _ in range(2)]
    tokens = [tokenizer.tokenize_with_offsets(each) for each in texts]
    for length in (4, 5, 7, 16, 64):
        want = tokenizer.pad(tokenizer.pack(tokens[0][0], max_seq_length=length))
        _assert_same(fast.encode([[text] for text in texts[0]], length), want)
        want = tokenizer.pad(tokenizer.pack(tokens[0][0], tokens[1][0], max_seq_length=length))
        _assert_same(fast.encode(zip(*texts, strict=True), length), want)
        encoded = fast.encode_with_origins(zip(*texts, strict=True), length)
        _assert_same(encoded.inputs, want)
        _assert_origins(tokenizer.template, [[each.to_list() for each in columns] for columns in tokens], encoded)


def _assert_same(got, want):
    assert got.keys() == want.keys() == {"input_ids", "input_mask", "segment_ids"}
    for name, values in want.items():
        assert got[name].dtype == np.int32
        np.testing.assert_array_equal(got[name], values.numpy(), name)


def _assert_origins(template, tokens, encoded):
    """Each token that is not special is one of its text, counted from the first, and has its span."""
    assert encoded.rows.tolist() == list(range(len(encoded.of_text))) and not encoded.firsts.any()
    for n, of_text in enumerate(encoded.of_text):
        for which, columns in enumerate(tokens):
            mine = of_text == which
            for got, column in zip((encoded.inputs["input_ids"], encoded.starts, encoded.ends), columns, strict=True):
                assert got[n][mine].tolist() == column[n][: mine.sum()]
        nowhere = of_text < 0
        assert (nowhere & (encoded.inputs["input_mask"][n] == 1)).sum() == template.special(2)
        assert not encoded.starts[n][nowhere].any() and not encoded.ends[n][nowhere].any()


@pytest.mark.parametrize("name", ["wordpiece", "byte_bpe", "unigram"])
def test_questions_and_windows_are_those_of_the_graph(name):
    tokenizer = make(name)
    fast, rng = FastTokenizer(tokenizer), random.Random(name)
    questions = ["a b?", "", "e " * 30]
    contexts = ["".join(rng.choices("ae inst中!", k=length)) for length in (120, 0, 60)]
    want = encode_questions(tokenizer, questions, contexts, 24, 6, 8)
    got = fast.encode_questions(questions, contexts, 24, 6, 8)
    _assert_same(got.inputs, tokenizer.pad(want.packed))
    assert got.rows.tolist() == want.windows.rows.numpy().tolist()
    assert got.firsts.tolist() == want.windows.starts.numpy().tolist()
    for ours, theirs in ((got.starts, want.starts), (got.ends, want.ends)):
        there = theirs.to_tensor(-1, shape=[None, ours.shape[1]]).numpy()
        np.testing.assert_array_equal(np.where(got.of_text == 1, ours, -1), there)
    ids = tokenizer.tokenize(contexts)
    cut = find_windows(ids.row_lengths(), 24 - tokenizer.template.special(1), 6)
    windows = fast.encode_windows(contexts, 24, 6)
    _assert_same(windows.inputs, tokenizer.pad(tokenizer.pack(cut.take(ids), max_seq_length=24)))
    assert windows.rows.tolist() == cut.rows.numpy().tolist()
    assert windows.firsts.tolist() == cut.starts.numpy().tolist()


def test_no_texts_and_empty_texts():
    fast = FastTokenizer(make("wordpiece"))
    assert {name: each.shape for name, each in fast.encode([], 8).items()} == dict.fromkeys(
        ("input_ids", "input_mask", "segment_ids"), (0, 1)
    )
    assert fast.encode([[""]], 8)["input_ids"].shape == (1, 2)
    assert fast.tokenize("") == fast.tokenize(" \0\t") == []


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda fast: fast.encode(["a text"], 8), "`texts` must be rows of one text each, or of two each; got 'a"),
        (lambda fast: fast.encode([["a"], ["a", "b"]], 8), r"rows of one text each, or of two each; got \['a', "),
        (lambda fast: fast.encode([[None]], 8), "must be a str or bytes; got NoneType: None"),
        (lambda fast: fast.tokenize("a\ud800"), r"valid Unicode; got half of a surrogate pair in 'a\\ud800'; rem"),
        (lambda fast: fast.encode([["a"]], 1), r"`max_seq_length` must be at least 2, .*\[CLS\] \[SEP\]; got 1;"),
        (lambda fast: fast.encode_windows(["a"], 8, 7), "`stride` must be from 1 to 6, .* got 7; with a larger"),
        (lambda fast: fast.encode_questions(["a"], ["b"], 8, 1, 6), "must be greater than `max_query_length` \\+ 3"),
    ],
)
def test_what_is_no_text_or_has_no_room(call, message):
    with pytest.raises(ValueError, match=message):
        call(FastTokenizer(make("wordpiece")))


# === Where its tables come from, and what it needs ===


@pytest.mark.slow
@pytest.mark.parametrize("name", PARAMS)
def test_saved_tables_are_enough(name, tmp_path):
    tokenizer = make(name)
    save_tables(tokenizer, tmp_path)
    saved, fast = load_fast_tokenizer(tmp_path), FastTokenizer(tokenizer)
    assert saved.tables.settings == tokenizer.settings and saved.tables.template == tokenizer.template
    for text in [*material.TRICKY, "foo  bar. `` it's ''"]:
        assert saved.tokenize_with_offsets(text) == fast.tokenize_with_offsets(text)
    (tmp_path / TABLES_FILE).write_text('{"kind": "words"}', encoding="utf-8")
    with pytest.raises(ValueError, match="must have the kind, the template and the settings of a tokenizer; got"):
        load_fast_tokenizer(tmp_path)


_WITHOUT_TENSORFLOW = """
import json, sys
from bert_tf.tokenization.fast_tokenizer import load_fast_tokenizer
rows = [load_fast_tokenizer(folder).tokenize("the ship, e\\u0301") for folder in sys.argv[1:]]
print(json.dumps([rows, [name for name in ("tensorflow", "keras", "tensorflow_text") if name in sys.modules]]))
"""


def test_no_tensorflow_is_imported(tmp_path):
    for name in ("wordpiece", "modernbert"):
        save_tables(make(name), tmp_path / name)
    folders = [tmp_path / "wordpiece", GOLDENS / "byte_bpe", GOLDENS / "unigram", tmp_path / "modernbert"]
    command = [sys.executable, "-c", _WITHOUT_TENSORFLOW, *map(str, folders)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    rows, imported = json.loads(done.stdout)
    assert imported == []
    tokenizers = [make(name) for name in ("wordpiece", "byte_bpe", "unigram", "modernbert")]
    assert rows == [FastTokenizer(each).tokenize("the ship, e\u0301") for each in tokenizers]


def test_a_real_model_by_its_directory(minilm):
    tokenizer, fast = WordPieceTokenizer.from_directory(minilm), load_fast_tokenizer(minilm)
    texts = [*material.TRICKY, *material.random_texts(500, seed=2)]
    want = tokenizer.tokenize(texts).to_list()
    assert [fast.tokenize(text) for text in texts] == want


def test_the_cache_of_words_stays_small(monkeypatch):
    monkeypatch.setattr(fast_tokens, "_MOST_WORDS", 10)
    fast = FastTokenizer(make("wordpiece"))
    texts = [f"a{n} b{n} {'c' * (n + 40)}" for n in range(30)]
    first = [fast.tokenize(text) for text in texts]
    assert len(fast._engine._chunks) <= 10 and max(map(len, fast._engine._chunks)) <= 48
    assert [fast.tokenize(text) for text in texts] == first
