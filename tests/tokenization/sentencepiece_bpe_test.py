"""mmBERT's tokenizer.json: BPE with byte_fallback, as of Gemma, and its template; equal to the Rust tokenizer."""

import itertools
import json
import random
import shutil
import string

import pytest

from bert_tf.models.family_registry import family
from bert_tf.tokenization.byte_pair_merges import effective_merges
from bert_tf.tokenization.fast_tokenizer import FastTokenizer, load_fast_tokenizer
from bert_tf.tokenization.registry import read_tokenizer
from bert_tf.tokenization.sentencepiece_bpe import SentencePieceBpeTokenizer
from tests import other_envs, parity
from tests.conftest import ROOT
from tests.tokenization.byte_pairs_test import plain
from tests.tokenization.rust import differences, mixed_texts, xnli_texts

pytestmark = pytest.mark.usefixtures("run_eagerly")
FOLDER = parity.GOLDENS / "tokenizers" / "mmbert"


def _read(folder):
    row = family("modernbert")
    return read_tokenizer(str(folder), row, row.template)


@pytest.fixture(scope="module")
def tokenizer():
    return _read(FOLDER)


def _check(tokenizer, folder):
    golden = json.loads((folder / "rust.json").read_text(encoding="utf-8"))
    found = differences(tokenizer, golden["texts"], golden["encoded"])
    assert not [each for each in found if not _is_about_white_space(each)]
    (a, b), pair = golden["texts"][:2], golden["pair"]
    assert tokenizer([a], [b], max_seq_length=len(pair))["input_ids"].numpy().tolist() == [pair]
    fast = FastTokenizer(tokenizer)
    columns = [each.to_list() for each in tokenizer.tokenize_with_offsets(golden["texts"])]
    for text, *want in zip(golden["texts"], *columns, strict=True):
        assert list(fast.tokenize_with_offsets(text)) == want and fast.tokenize(text) == want[0], text


def _is_about_white_space(difference):
    """Whether spans are the same but for white space at their ends: a token of white space alone is nowhere."""
    text, pairs = difference.text, zip(difference.ours[1], difference.theirs[1], strict=True)
    return not difference.of_ids and all(_solid(text, *ours) == _solid(text, *theirs) for ours, theirs in pairs)


def _solid(text, start, end):
    part = text[start:end]
    return (start + len(part) - len(part.lstrip()), part.strip()) if part.strip() else None


def test_ids_and_offsets_are_those_of_the_rust_tokenizer(tokenizer):
    assert isinstance(tokenizer, SentencePieceBpeTokenizer)
    assert tokenizer.template.pieces(2) == ("<bos>", "<eos>", "<eos>")
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id) == (0, 3, 4)
    _check(tokenizer, FOLDER)


def test_words_begin_at_spaces_and_bytes_continue_characters(tokenizer):
    edges = tokenizer.token_edges
    tokens = {name: tokenizer.id_of(name) for name in ("\u2581the", "a", "<0xE4>", "<0xB8>", "<eos>", ",")}
    continues = {name: bool(edges.continues[i]) for name, i in tokens.items()}
    assert continues == {
        "\u2581the": False, "a": True, "<0xE4>": False, "<0xB8>": True, "<eos>": False, ",": False,
    }  # fmt: skip


def test_a_saved_tokenizer_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    shutil.copy(FOLDER / "rust.json", tmp_path)
    _check(_read(tmp_path), tmp_path)
    again = SentencePieceBpeTokenizer.from_saved(str(tmp_path), tokenizer.template, tokenizer.settings)
    assert again.settings == tokenizer.settings and again.merges == tokenizer.merges
    config = {"model_type": "modernbert", "vocab_size": tokenizer.vocab_size}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert load_fast_tokenizer(tmp_path).tokenize("a\tb  \u4e2d") == tokenizer.tokenize(["a\tb  \u4e2d"]).to_list()[0]


def test_the_one_merge_that_makes_a_token_is_found_among_all_its_divisions():
    rng = random.Random(1)
    for alphabet in ("a", "ab", "an", "abc"):
        vocab = dict.fromkeys(alphabet)
        for _ in range(40):
            vocab["".join(rng.choices(list(vocab), k=2))[:10]] = None
        tokens = [token for token in vocab if len(token) > 1]
        merges = [(token[:at], token[at:]) for token in tokens for at in range(len(token) - 1, 0, -1)]
        merges = [pair for pair in merges if {*pair} <= vocab.keys()]
        ranks = {pair: number for number, pair in enumerate(merges)}
        made = effective_merges(merges, alphabet)
        for token in tokens:
            assert (plain(token, ranks) == [token]) == (token in made)
        by_token = {pair: made["".join(pair)] for pair in itertools.product(vocab, vocab) if "".join(pair) in made}
        for _ in range(60):
            word = "".join(rng.choices(alphabet, k=rng.randrange(1, 30)))
            assert plain(word, by_token) == plain(word, ranks)


@pytest.mark.parametrize(
    ("section", "value", "message"),
    [
        ("normalizer", {"type": "NFC"}, "normalizer must be Replace of a space by \u2581, .*NFC"),
        ("pre_tokenizer", {"type": "Metaspace"}, "pre_tokenizer must be null or a Split at a space, .*Metaspace"),
        ("post_processor", None, r"must put special tokens before, between and after texts.* got null"),
    ],
)
def test_a_file_of_another_kind_is_refused(section, value, message, tmp_path):
    values = json.loads((FOLDER / "tokenizer.json").read_text(encoding="utf-8")) | {section: value}
    (tmp_path / "tokenizer.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        _read(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model["vocab"].pop("<0x80>"), "ids must be 0, 1, 2"),
        (lambda model: model["vocab"].update({"<0x41": model["vocab"].pop("<0x80>")}), "It lacks <0x80>"),
        (lambda model: model.update(ignore_merges=True), "model.ignore_merges must be false"),
        (lambda model: model["merges"].insert(0, ["a", "qqq"]), "merge 1: the two tokens .* 'qqq' is missing"),
    ],
)
def test_a_damaged_model_is_refused(change, message, tmp_path):
    values = json.loads((FOLDER / "tokenizer.json").read_text(encoding="utf-8"))
    change(values["model"])
    (tmp_path / "tokenizer.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        _read(tmp_path)


def test_gemma_s_own_class_is_refused(tmp_path):
    shutil.copy(FOLDER / "tokenizer.json", tmp_path)
    config = {"tokenizer_class": "GemmaTokenizerFast", "cls_token": "<bos>", "sep_token": "<eos>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match="tokenizer_class must be PreTrainedTokenizerFast .*GemmaTokenizerFast"):
        _read(tmp_path)


def test_tokens_that_go_beyond_a_word(tmp_path):
    """A vocabulary with "e\u2581t" cannot be merged word by word."""
    values = json.loads((FOLDER / "tokenizer.json").read_text(encoding="utf-8"))
    model = values["model"]
    for token, pair in (("e\u2581", ["e", "\u2581"]), ("e\u2581t", ["e\u2581", "t"])):
        model["vocab"][token] = len(model["vocab"])
        model["merges"].insert(0, pair)
    (tmp_path / "tokenizer.json").write_text(json.dumps(values), encoding="utf-8")
    tokenizer = _read(tmp_path)
    texts = ["the tea", "e t", " e  t e t", *("".join(random.Random(2).choices("et " + string.digits, k=40)),)]
    ids = tokenizer.tokenize(texts).to_list()
    assert [FastTokenizer(tokenizer).tokenize(text) for text in texts] == ids
    assert tokenizer.id_of("e\u2581t") in ids[1]


def test_nul_may_be_a_token_and_part_of_others(tmp_path):
    values = json.loads((FOLDER / "tokenizer.json").read_text(encoding="utf-8"))
    size, model = len(values["model"]["vocab"]), values["model"]
    model["vocab"] |= {"\0": size, "a\0": size + 1, "\0\0": size + 2}
    model["merges"] += [["a", "\0"], ["\0", "\0"]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(values), encoding="utf-8")
    tokenizer, texts = _read(tmp_path), ["\0", "a\0", "\0\0\0", "the\0"]
    ids = tokenizer.tokenize(texts).to_list()
    assert ids[:3] == [[size], [size + 1], [size + 2, size]] and ids[3][-1] == size
    assert [FastTokenizer(tokenizer).tokenize(text) for text in texts] == ids


@pytest.mark.slow
def test_real_texts(shared_data, tmp_path):
    texts = xnli_texts(shared_data) + mixed_texts()
    (tmp_path / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    script = ROOT / "tests" / "goldens" / "mmbert_tokenizer.py"
    code = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    other_envs.run(other_envs.torch_python(), code, script, tmp_path / "model", tmp_path / "texts.json", "6000")
    _check(_read(tmp_path / "model"), tmp_path / "model")
