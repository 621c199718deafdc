"""Added tokens of a directory: each file that has them, which of two counts, and what is refused.

The expected tokens are those of Transformers 4.57.6 and 5.24.0 for the same files.
"""

import json

import pytest

from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests.tokenization.added_tokens_test import GOLDENS

pytestmark = pytest.mark.usefixtures("run_eagerly")

VOCAB = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "a", "b", "[", "]", "e", "##1")
N = len(VOCAB)
LSTRIP = {"lstrip": True, "rstrip": False, "single_word": False, "normalized": False, "special": False}
RSTRIP = LSTRIP | {"lstrip": False, "rstrip": True}


def write(folder, config=None, **files):
    """Writes vocab.txt, tokenizer_config.json if there is one, and other files: their names without .json."""
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCAB), encoding="utf-8")
    for name, values in {"tokenizer_config": config, **files}.items():
        if values is not None:
            (folder / f"{name}.json").write_text(json.dumps(values), encoding="utf-8")
    return folder


def whole(content, number, **flags):
    """Returns a tokenizer.json of VOCAB with one added token."""
    model = {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {token: i for i, token in enumerate(VOCAB)}}
    parts = {"model": model, "normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"}}
    return parts | {"added_tokens": [{"id": number, "content": content, **LSTRIP, **flags}]}


def found(folder):
    return list(WordPieceTokenizer.from_directory(folder).added_tokens)


PLAIN = {"normalized": True}  # what a token of added_tokens.json is
SPECIAL = {"special": True}  # and one of the lists of special tokens
E1 = {"content": "[E1]", "id": N}
E2 = {"content": "[E2]", "id": N + 1}
CASES = {
    "tokenizer.json alone": ({"tokenizer": whole("[E1]", N)}, [E1 | {"lstrip": True}]),
    "the decoder's flags count": (
        {"tokenizer": whole("[E1]", N), "config": {"added_tokens_decoder": {N: {"content": "[E1]", **RSTRIP}}}},
        [E1 | {"rstrip": True}],
    ),
    "the lists of special tokens change no flag": (
        {"tokenizer": whole("[E1]", N), "config": {"additional_special_tokens": ["[E1]"]}},
        [E1 | {"lstrip": True} | SPECIAL],
    ),
    "tokenizer.json before added_tokens.json": (
        {"tokenizer": whole("[E1]", N), "added_tokens": {"[E2]": N + 1, "[E1]": N}},
        [E1 | {"lstrip": True}, E2 | PLAIN],
    ),
    "added_tokens.json alone": ({"added_tokens": {"[E2]": N + 1, "[E1]": N}}, [E1 | PLAIN, E2 | PLAIN]),
    "special ones of added_tokens.json": (
        {"added_tokens": {"[E2]": N + 1, "[E1]": N}, "config": {"additional_special_tokens": ["[E1]"]}},
        [E1 | SPECIAL, E2 | PLAIN],
    ),
    "the list alone, behind the vocabulary": ({"config": {"additional_special_tokens": ["[E1]"]}}, [E1 | SPECIAL]),
    "the list alone, in the vocabulary": (
        {"config": {"additional_special_tokens": ["[unused1]"]}},
        [{"content": "[unused1]", "id": 5} | SPECIAL],
    ),
    "special_tokens_map.json": (
        {"special_tokens_map": {"additional_special_tokens": ["[E1]", {"content": "[E2]", **LSTRIP}]}},
        [E1 | SPECIAL, E2 | SPECIAL | {"lstrip": True}],
    ),
    "Transformers 5's names": ({"config": {"extra_special_tokens": {"entity_token": "[E1]"}}}, [E1 | SPECIAL]),
    "Transformers 5's list": ({"config": {"extra_special_tokens": ["[E1]"]}}, [E1 | SPECIAL]),
    "a beginning that the vocabulary lacks": ({"config": {"bos_token": "[E1]", "cls_token": "[CLS]"}}, [E1 | SPECIAL]),
    "special tokens of the rows": (
        {"tokenizer": whole("[CLS]", 2), "config": {"added_tokens_decoder": {"0": {"content": "[PAD]"}}}}, [],
    ),
    "none": ({"config": {"bos_token": None, "additional_special_tokens": None}, "special_tokens_map": {}}, []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_tokens_that_transformers_finds(case, tmp_path):
    files, expected = CASES[case]
    assert found(write(tmp_path, **files)) == [AddedToken(**each) for each in expected]


def test_where_the_decoder_is_there_added_tokens_json_does_not_count_and_that_is_said(tmp_path, caplog):
    decoder = {"added_tokens_decoder": {str(N): {"content": "[E1]", **RSTRIP}}}
    tokens = found(write(tmp_path, config=decoder, added_tokens={"[E2]": N + 1}))
    assert [token.content for token in tokens] == ["[E1]"]
    assert "added_tokens.json lists '[E2]', but added_tokens_decoder" in caplog.text


@pytest.mark.parametrize(
    "files, message",
    [
        ({"added_tokens": {"[E1]": N + 3}}, rf"added_tokens.json: .* '\[E1\]' with the id {N + 3} instead of {N}"),
        ({"tokenizer": whole("[E1]", 7)}, r"json: the id 7 must be an id of one token; got \['b', '\[E1\]'\]"),
        ({"tokenizer": whole("[CLS]", 5)}, r"added_tokens\[0\].id must be 2, as in model.vocab; got 5"),
        ({"tokenizer": whole("[E1]", N), "added_tokens": {"[E1]": N + 1}}, rf"{N} in .*tokenizer.json and {N + 1} in"),
        ({"added_tokens": {"[E1]": N, "[E2]": N}}, rf"'\[E2\]' with the id {N} instead of {N + 1}"),
        ({"added_tokens": {"[E1]": "7"}}, "must map each token to an id of 0 or more; got '7' for"),
        ({"config": {"added_tokens_decoder": ["[E1]"]}}, "must be an object with a token for each id"),
        ({"config": {"added_tokens_decoder": {"x": {"content": "[E1]"}}}}, "with the id 'x'"),
        ({"tokenizer": whole("[E1]", N, lstrip="yes")}, "true or false"),
        ({"tokenizer": whole("[E1]", N) | {"added_tokens": {"[E1]": N}}}, "added_tokens must be a list of objects"),
        ({"config": {"additional_special_tokens": "[E1]"}}, "additional_special_tokens must be a list of tokens"),
    ],
)
def test_contradictions_and_damage_are_refused_by_name(files, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        WordPieceTokenizer.from_directory(write(tmp_path, **files))


def test_matches_added_tokens_of_a_byte_level_tokenizer_json(tmp_path):
    vocab = json.loads((GOLDENS / "byte_bpe" / "vocab.json").read_text(encoding="utf-8"))
    merges = (GOLDENS / "byte_bpe" / "merges.txt").read_text(encoding="utf-8").split("\n")
    model = {"type": "BPE", "vocab": vocab, "merges": [line for line in merges if line and line[0] != "#"]}
    values = {"model": model, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}}
    values |= {"added_tokens": whole("<E1>", len(vocab))["added_tokens"]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(values), encoding="utf-8")
    tokenizer = ByteBpeTokenizer.from_directory(tmp_path)
    assert tokenizer.vocab_size == len(vocab) + 1
    ids = tokenizer.tokenize(["a <E1>", "<mask>"]).to_list()
    assert [tokenizer.vocab[i] for i in ids[0]] == ["a", "<E1>"] and tokenizer.mask_id not in ids[1]
    tokenizer.save(tmp_path / "again")
    assert list(ByteBpeTokenizer.from_directory(tmp_path / "again").added_tokens) == list(tokenizer.added_tokens)


def test_a_vocabulary_from_elsewhere_brings_its_own_tokens(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir(), other.mkdir()
    write(one, added_tokens={"[E1]": N})
    write(other)
    assert WordPieceTokenizer.from_directory(one, vocab_file=other / "vocab.txt").added_tokens == ()
    assert found(one) == list(WordPieceTokenizer.from_directory(other, vocab_file=one / "vocab.txt").added_tokens)
