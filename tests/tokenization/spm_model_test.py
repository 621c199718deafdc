"""DeBERTa's tokenizer: spm.model and a mask behind it, or tokenizer.json; ids as by SentencePiece and Transformers."""

import json
import os
import re
import shutil
import unicodedata
from collections import Counter

import pytest

from bert_tf.models.family_registry import family
from bert_tf.tokenization.registry import read_tokenizer
from tests import parity
from tests.other_envs import run, torch_python, transformers_5_python
from tests.tokenization.rust import differences, mixed_texts, same_span, xnli_texts
from tests.tokenization.special_flags_test import READ

FOLDER = parity.GOLDENS / "tokenizers" / "deberta"
FILES = {"model": ("spm.model",), "whole": ("tokenizer.json", "tokenizer_config.json")}


def _has_mark(text):
    """Whether Hugging Face maps characters as whole graphemes, which SentencePiece does not know."""
    return any(unicodedata.category(char)[0] == "M" or char == "\u0e33" for char in text)


# Why a tokenizer differs from the fast one -> in how many of the real texts and of the random strings it may.
LIMITS = {
    "offsets of a marker alone": (30_000, 8_000),  # there it is the space, here the character behind it
    "offsets at invisible characters": (50, 3_000),
    "offsets of a letter and its mark": (0, 40),  # of which several pieces are made
    "a special token": (0, 2_000),  # there, "[CLS]" in a text is one
    "SentencePiece": (10, 600),  # whose ids are ours
    "a marker at the end": (0, 30),  # there, invisible characters become one
    "equally probable ways": (60, 90),
    "a no-break space in front": (0, 12),  # there, it is removed before it is joined with what follows
    "U+0085": (0, 6),  # white space here, an unknown character there and in SentencePiece
}


def _reason(difference, slow, marker):
    """Returns why ids or offsets are not those of the fast tokenizer, None where they should be.

    Args:
        difference: from the fast tokenizer.
        slow: ids of the slow tokenizer, which is SentencePiece.
        marker: id of the marker of a space.
    """
    text, (ours, spans), (theirs, their_spans) = difference
    if ours == theirs:
        pairs = zip(ours, spans, their_spans, strict=True)
        if all(same_span(text, *pair) for piece, *pair in pairs if piece != marker):
            return "offsets of a marker alone"
        if any(map(_is_invisible, text)):
            return "offsets at invisible characters"
        return "offsets of a letter and its mark" if _has_mark(text) else None
    if "[CLS]" in text:
        return "a special token"
    if ours == slow:
        return "SentencePiece"
    without_end = theirs[:-1] if theirs[-1:] == [marker] else theirs
    if ours == without_end:
        return "a marker at the end"
    if sorted(ours) in (sorted(theirs), sorted(without_end), sorted(slow)):
        return "equally probable ways"
    if "\x85" in text:
        return "U+0085"
    start = text.lstrip(" \t\r\n\u3000")
    joined = start[:1] == "\u00a0" and unicodedata.category(start[1])[0] in "MC"
    return "a no-break space in front" if joined else None


def _is_invisible(char):
    """Whether a character is deleted, or becomes a space."""
    return unicodedata.category(char) in ("Cc", "Cf", "Zs") and char != " " or char == "\u2581"


# What Transformers 4.57.6 and 5.24.0 read, from what `save` writes with the golden spm.model.
FULL_WIDTH = {"ab\uff0cab": ([260, 428, 270, 428], [260, 428, 3, 428]), "the film": ([267, 313, 426, 409],) * 2}


def test_full_width_forms_are_mapped_as_by_sentencepiece_and_transformers_4_and_convert_notes_it():
    row = family("deberta-v2")
    tokenizer = read_tokenizer(str(FOLDER), row, row.template, vocab_file=str(FOLDER / "spm.model"))
    assert tokenizer.tokenize([*FULL_WIDTH]).to_list() == [mapped for mapped, _ in FULL_WIDTH.values()]
    (remark,) = tokenizer.remarks_for_transformers
    assert remark.startswith("Transformers 5 does not apply the character map") and "'\uff0c'" in remark


@pytest.mark.slow
@pytest.mark.parametrize(("python", "version"), [(torch_python, 0), (transformers_5_python, 1)])
def test_full_width_forms_in_transformers(python, version, tmp_path):
    row = family("deberta-v2")
    read_tokenizer(str(FOLDER), row, row.template, vocab_file=str(FOLDER / "spm.model")).save(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "deberta-v2"}), encoding="utf-8")
    (tmp_path / "texts.json").write_text(json.dumps([*FULL_WIDTH]), encoding="utf-8")
    run(python(), READ, tmp_path / "texts.json", tmp_path / "out.json", tmp_path)
    (found,) = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert found == [each[version] for each in FULL_WIDTH.values()]


def _without_bytes(ids):
    """Returns SentencePiece's ids with the unknown token for each run of bytes, whose ids are behind its own."""
    kept = [3 if 3 < i < 260 else i for i in ids]
    return [i for n, i in enumerate(kept) if i != 3 or kept[n - 1 : n] != [3]]


def _read(folder):
    row = family("deberta-v2")
    return read_tokenizer(str(folder), row, row.template)


@pytest.fixture(params=["model", pytest.param("whole", marks=pytest.mark.slow)])
def folder(request, tmp_path):
    for name in FILES[request.param]:
        shutil.copy(FOLDER / name, tmp_path)
    return tmp_path


def test_ids_and_special_tokens(folder):
    tokenizer, size = _read(folder), 556
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id, tokenizer.vocab_size) == (0, 3, size, size + 1)
    texts = json.loads((FOLDER.parent / "rust.json").read_text(encoding="utf-8"))["texts"]
    expected = json.loads((FOLDER / "ids.json").read_text(encoding="utf-8"))
    marker, found = tokenizer.id_of("\u2581"), tokenizer.tokenize(texts).to_list()
    for text, ids, slow, fast in zip(texts, found, expected["slow"], expected["fast"], strict=True):
        # There, the end of a text may become a space, and "[CLS]" in a text its token; SentencePiece has neither.
        assert ids in (fast, fast[:-1]) and fast[len(ids) :] in ([], [marker]) or "[CLS]" in text, text
        assert ids == _without_bytes(slow) or _has_mark(text), text
    assert any(3 < i < 260 for ids in expected["slow"] for i in ids)
    one, two = texts[2], texts[3]
    packed = tokenizer([one], [two], max_seq_length=128)["input_ids"].numpy()[0].tolist()
    assert packed[: packed.index(0)] == [1, *found[2], 2, *found[3], 2]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, shared_data):
    """A folder with a tokenizer that was trained on real texts, texts.json, and ids.json as in the goldens."""
    path = tmp_path_factory.mktemp("trained")
    (path / "texts.json").write_text(json.dumps(xnli_texts(shared_data) + mixed_texts()), encoding="utf-8")
    parity.run_torch("deberta_tokenizer.py", path, path / "texts.json", 3000)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("files", FILES)
def test_real_and_random_texts(trained, files, tmp_path):
    """On 52,290 texts of XNLI and 20,000 random strings; docs/concepts/tokenizers.md says which differ, and why."""
    for name in FILES[files]:
        shutil.copy(trained / name, tmp_path)
    tokenizer = _read(tmp_path)
    texts, golden = (json.loads((trained / name).read_text(encoding="utf-8")) for name in ("texts.json", "ids.json"))
    slow = dict(zip(texts, map(_without_bytes, golden["slow"]), strict=True))
    fast = list(zip(golden["fast"], golden["offsets"], strict=True))
    marker = tokenizer.id_of("\u2581")
    real = len(texts) - len(mixed_texts())
    for column, part in enumerate((slice(real), slice(real, None))):
        found = list(differences(tokenizer, texts[part], fast[part]))
        why = Counter(_reason(each, slow[each.text], marker) for each in found)
        print(f"{files}: {len(texts[part])} texts, {sum(each.of_ids for each in found)} with other ids, {dict(why)}")
        assert None not in why, next(each for each in found if _reason(each, slow[each.text], marker) is None)
        assert all(count <= LIMITS[reason][column] for reason, count in why.items())


@pytest.mark.slow
def test_saved_files_give_the_same_ids_each_alone(folder, tmp_path):
    tokenizer, texts = _read(folder), ["The old film.", "caf\u00e9 [MASK] 12", ""]
    found = tokenizer.tokenize(texts).to_list()
    tokenizer.save(str(tmp_path / "saved"))
    for drop in (None, "tokenizer.json"):
        if drop:
            os.remove(tmp_path / "saved" / drop)
        again = _read(tmp_path / "saved")
        assert again.vocab == tokenizer.vocab and again.tokenize(texts).to_list() == found
    assert os.path.basename(again.vocab_file) == "spm.model"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("split_by_punct", True, "split_by_punct must be false or absent, because in bert_tf punctuation is split by"),
        ("vocab_type", "gpt2", "vocab_type must be 'spm' or absent, because in bert_tf the vocabulary is a Sentence"),
        ("tokenizer_class", "AlbertTokenizer", "tokenizer_class must be DebertaV2Tokenizer, to match the vocabulary"),
    ],
)
def test_what_is_refused(tmp_path, key, value, message):
    shutil.copy(FOLDER / "spm.model", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({key: value}), encoding="utf-8")
    with pytest.raises(ValueError, match=f"tokenizer_config.json: {re.escape(message)}"):
        _read(tmp_path)


@pytest.mark.slow
def test_letter_case_is_kept_unless_the_files_say_otherwise(tmp_path):
    shutil.copy(FOLDER / "spm.model", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true, "vocab_type": "spm"}', encoding="utf-8")
    lower, cased = _read(tmp_path), _read(FOLDER)
    assert lower.tokenize(["The Film"]).to_list() == cased.tokenize(["the film"]).to_list()
    assert lower.tokenize(["The Film"]).to_list() != cased.tokenize(["The Film"]).to_list()


@pytest.mark.slow
def test_transformers_makes_the_same_files_again(tmp_path):
    parity.run_torch("deberta_tokenizer.py", tmp_path)
    for name in ("spm.model", "tokenizer.json", "ids.json"):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()
