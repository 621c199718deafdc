"""Conversions keep added tokens, or say that they cannot; a proof fails where they get lost."""

import dataclasses
import json

import pytest

import bert_tf
from bert_tf.checkpoints import writers
from bert_tf.checkpoints.formats import keras_hub_models
from bert_tf.checkpoints.loading import load_description
from bert_tf.export.conversion import round_trip, tokenizer_samples
from bert_tf.export.conversion.convert import convert_model
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests.export.conversion import models

TOKENS = (
    {"content": "[E1]", "special": True},
    {"content": "filmology", "normalized": True},
    {"content": "<a b>", "lstrip": True, "rstrip": True, "single_word": True},
)


@pytest.fixture(scope="module", autouse=True)
def _quickly():
    with models.quick_proofs():
        yield


def with_tokens(tokenizer, tokens=TOKENS):
    added = [AddedToken(id=tokenizer.vocab_size + n, **token) for n, token in enumerate(tokens)]
    return WordPieceTokenizer(tokenizer.vocab, template=tokenizer.template, added_tokens=added)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A folder of ours with an encoder whose last three rows are those of added tokens."""
    folder = tmp_path_factory.mktemp("source") / "run"
    folder.mkdir()
    model = models.model("bert", "encoder")
    writers.write_model(folder, "bert_tf", dataclasses.replace(model, tokenizer=with_tokens(model.tokenizer)))
    return folder


OTHER_FORMS = ("sentence_transformers", "tf1", "bert_tf")


@pytest.mark.parametrize(
    "form",
    ["huggingface", *(pytest.param(form, marks=pytest.mark.slow) for form in OTHER_FORMS)],
)
def test_added_tokens_come_along(source, form, tmp_path):
    proof = convert_model(source, tmp_path / form, form)
    old, new = (load_description([path]).tokenizer for path in (source, tmp_path / form))
    assert list(new.added_tokens) == list(old.added_tokens) and len(new.added_tokens) == 3
    assert new.tokenize(["a [E1] FILMOLOGYs"]).to_list() == [[old.vocab.index(p) for p in ("a", "[E1]", "filmology")]
                                                               + [old.unk_id]]  # fmt: skip
    assert proof.text.startswith("[E1] filmology <a b> Unaffable")
    assert ("cannot store the 3 added tokens" in str(proof)) == (form == "tf1")


def test_kerashub_has_no_place_for_them(source, tmp_path):
    with pytest.raises(ValueError, match=r"does not support added tokens.* has 3, the first '\[E1\]'"):
        convert_model(source, tmp_path / "keras_hub", "keras_hub")


@pytest.mark.parametrize("lost", [*(pytest.param(n, marks=pytest.mark.slow) for n in range(2)), 2])
def test_the_proof_fails_where_a_token_gets_lost(source, lost, tmp_path, monkeypatch):
    kept, save = [token for n, token in enumerate(TOKENS) if n != lost], WordPieceTokenizer.save
    monkeypatch.setattr(
        WordPieceTokenizer,
        "save",
        lambda _, directory: save(with_tokens(WordPieceTokenizer(models.PIECES), kept), directory),
    )
    with pytest.raises(ValueError, match="its tokenizer produces different ids for"):
        convert_model(source, tmp_path / "lost", "huggingface")
    assert not (tmp_path / "lost").exists()


def test_the_proof_fails_where_a_flag_gets_lost(source, tmp_path, monkeypatch):
    plain, save = [dict(token) for token in TOKENS], WordPieceTokenizer.save
    del plain[2]["lstrip"]  # white space, which word pieces do not have anyway: ids and offsets stay the same
    monkeypatch.setattr(
        WordPieceTokenizer,
        "save",
        lambda _, directory: save(with_tokens(WordPieceTokenizer(models.PIECES), plain), directory),
    )
    with pytest.raises(ValueError, match="its added token '<a b>' has different flags"):
        convert_model(source, tmp_path / "lost", "huggingface")


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word", "normalized"])
def test_the_texts_of_a_proof_tell_every_flag(flag):
    """Of word pieces lstrip and rstrip make no difference, so that only the others show."""
    plain = WordPieceTokenizer(models.PIECES)
    token = {"content": "filmology", "normalized": True}
    one, other = with_tokens(plain, [token]), with_tokens(plain, [token | {flag: not token.get(flag, False)}])
    texts = tokenizer_samples.tokenizer_samples(one)
    differ = one.tokenize(texts).to_list() != other.tokenize(texts).to_list()
    assert differ == (flag in ("single_word", "normalized"))


def test_texts_of_a_proof_hold_every_token_and_the_special_ones():
    tokenizer = with_tokens(WordPieceTokenizer(models.PIECES))
    found = {i for ids in tokenizer.tokenize(tokenizer_samples.tokenizer_samples(tokenizer)).to_list() for i in ids}
    assert found >= {token.id for token in tokenizer.added_tokens}
    assert "[CLS]" in " ".join(tokenizer_samples.tokenizer_samples(tokenizer)) and tokenizer.cls_id not in found
    assert tokenizer_samples.sample_text(WordPieceTokenizer(models.PIECES)) == tokenizer_samples.PLAIN


@pytest.mark.slow
def test_saved_and_loaded_they_are_found(source, tmp_path):
    bert = bert_tf.load(source)
    bert_tf.save(bert, tmp_path / "saved", format="huggingface")
    config = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text(encoding="utf-8"))
    size = len(models.PIECES)
    flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True}
    assert config["added_tokens_decoder"][str(size)] == {"content": "[E1]", **flags}
    assert config["additional_special_tokens"] == ["[E1]"]
    added = json.loads((tmp_path / "saved" / "added_tokens.json").read_text(encoding="utf-8"))
    assert added == {"[E1]": size, "filmology": size + 1, "<a b>": size + 2}
    assert "[E1]" not in (tmp_path / "saved" / "vocab.txt").read_text(encoding="utf-8")


@pytest.mark.slow
def test_more_tokens_than_rows_are_refused_by_name(source, tmp_path):
    convert_model(source, tmp_path / "more", "huggingface")
    path = tmp_path / "more" / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["additional_special_tokens"].append("[E9]")
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match=r"including the added tokens '\[E9\]'"):
        load_description([tmp_path / "more"])


@pytest.mark.parametrize(
    ("flag", "message"),
    [("single_word", r"different ids for 'paid\[MASK\]she'"), ("lstrip", r"special token '\[MASK\]' has different")],
)
def test_the_proof_fails_where_a_special_token_s_flag_gets_lost(flag, message):
    plain = WordPieceTokenizer(models.PIECES)
    token = AddedToken("[MASK]", plain.mask_id, special=True, **{flag: True})
    flagged = WordPieceTokenizer(models.PIECES, added_tokens=[token])
    assert flagged.added_tokens == () and flagged.listed_tokens == [token]
    with pytest.raises(ValueError, match=message):
        round_trip._check_tokens(flagged, plain, keeps_flags=True)
    round_trip._check_tokens(flagged, plain, keeps_flags=False)  # a KerasHub preset, whose remark names the token
    assert keras_hub_models._remarks_on(flagged) == (
        "A preset cannot store the flags of special tokens, in this model those of [MASK].",
    )
