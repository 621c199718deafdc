"""What `pretrain data` writes of a corpus, in its record files and next to them."""

import dataclasses
import hashlib
import json
import os

import pytest

import bert_tf
from bert_tf.pretraining import record_compatibility, record_files
from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.corpus import description
from bert_tf.pretraining.corpus.local_run import create_pretraining_data
from bert_tf.pretraining.record_metadata import RecordMetadata, tokenizer_fingerprint, vocabulary_fingerprint
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.tokenization.wordpiece_tables import WordPieceTables
from tests.pretraining.corpus import support


@pytest.fixture(scope="module")
def described(corpus, tmp_path_factory):
    """Two files in two folders, made with a cased vocabulary, and the statistics of the run."""
    folder = tmp_path_factory.mktemp("made")
    paths = [folder / str(n) / f"train-0000{n}-of-00002.tfrecord" for n in range(2)]
    job = support.job(corpus, paths, dupe_factor=1, sentence_objective="sop", masking="whole_word")
    return folder, create_pretraining_data(dataclasses.replace(job, do_lower_case=False))


@pytest.mark.parametrize("number", [0, 1])
def test_it_says_what_was_made_of_what(described, corpus, number):
    (folder, statistics), text = described, (corpus / "1.txt").read_bytes()
    values = json.loads((folder / str(number) / "train_records.json").read_text(encoding="utf-8"))
    name = f"train-0000{number}-of-00002.tfrecord"
    assert values["files"] == {name: os.path.getsize(folder / str(number) / name)}
    assert values["rows"] == statistics.rows and values["examples"] == statistics.examples
    assert values["sources"]["files"] == 3 and values["sources"]["each"][1] == {
        "path": f"{corpus}/1.txt", "bytes": len(text), "sha256": hashlib.sha256(text).hexdigest(),
    }  # fmt: skip
    assert values["versions"]["bert_tf"] == bert_tf.__version__
    chosen = {"sentence_objective": "sop", "masking": "whole_word", "max_seq_length": 48, "random_seed": 12345,
              "dupe_factor": 1, "packing": False, "dynamic_masking": False}  # fmt: skip
    assert {name: values["options"][name] for name in chosen} == chosen
    assert values["vocabulary"]["tokens"] == len(support.VOCAB) and not values["vocabulary"]["do_lower_case"]


def test_the_tokenizer_beside_is_the_one_that_made_them(described, corpus):
    for number in range(2):
        tokenizer = WordPieceTokenizer.from_directory(described[0] / str(number) / "train_vocabulary")
        assert tokenizer.vocab == support.VOCAB and not tokenizer.do_lower_case and not tokenizer.strip_accents


def test_each_file_says_the_same_of_itself(described):
    held = Records.of([str(described[0])])
    assert set(held.metadata.values()) == {
        RecordMetadata(
            *(vocabulary_fingerprint(support.VOCAB), tokenizer_fingerprint(WordPieceTables(support.VOCAB))),
            *(False, False, "sop", "whole_word"),
        )
    }
    assert held.sentence_objective == "sop"


def test_accents_that_stay(corpus, tmp_path):
    job = support.job(corpus, [tmp_path / "a"], dupe_factor=1, dynamic_masking=True, sentence_objective="none")
    create_pretraining_data(dataclasses.replace(job, strip_accents=False))
    metadata = RecordMetadata.of(tmp_path / "a")
    assert (metadata.do_lower_case, metadata.strip_accents, metadata.masking) == (True, False, None)
    assert not WordPieceTokenizer.from_directory(tmp_path / "a_vocabulary").strip_accents


def test_of_many_sources_only_some_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(description, "_LISTED", 2)
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_text(path.name)
    one = description.hash_sources([str(path) for path in paths])
    paths[2].write_text("d")
    other = description.hash_sources([str(path) for path in paths])
    assert one["each"] == other["each"] and len(one["each"]) == 2 and one["files"] == one["bytes"] == 3
    assert one["sha256"] != other["sha256"]


def test_added_tokens_are_part_of_the_records_and_of_what_lies_beside(corpus, tmp_path):
    sentences = [f"{one} [E1] {other} ." for one, other in zip(support.WORDS, support.WORDS[1:], strict=False)]
    (tmp_path / "text.txt").write_text("\n\n".join(sentences) + "\n")
    added = (AddedToken("[E1]", len(support.VOCAB)),)
    job = support.job(corpus, [tmp_path / "train.tfrecord"], dupe_factor=1, dynamic_masking=True)
    job = dataclasses.replace(job, paths=[str(tmp_path / "text.txt")], formats=["sentences"], added_tokens=added)
    create_pretraining_data(job)
    tokenizer = WordPieceTokenizer.from_directory(tmp_path / "train_vocabulary")
    assert tokenizer.added_tokens == added
    records = Records.of([str(tmp_path / "train.tfrecord")])
    ids = next(iter(records.in_order(1)))["input_ids"].numpy()
    assert len(support.VOCAB) in ids
    record_compatibility.check_compatibility([records], tokenizer, ("nsp",))
    with pytest.raises(ValueError, match="must be made with the model's vocabulary"):
        record_compatibility.check_compatibility([records], WordPieceTokenizer(support.VOCAB), ("nsp",))
    (path, metadata), *_ = records.metadata.items()
    assert record_files.find_vocabulary(path, metadata) == str(tmp_path / "train_vocabulary" / "vocab.txt")
