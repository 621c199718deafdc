"""What is counted of the examples, and what is left next to the records of how they were made."""

import dataclasses
import hashlib
import json
import os
import pickle
from collections import Counter

import numpy as np
import pytest

import bert_tf
from bert_tf.pretraining import record_compatibility
from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.corpus import job as jobs
from bert_tf.pretraining.corpus import statistics, unit
from bert_tf.pretraining.corpus.examples import CHOSEN, FORCED_ACTUAL, FORCED_RANDOM, CorpusOptions
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.pretraining.record_metadata import RecordMetadata, find_vocabulary, vocabulary_fingerprint
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.wordpiece import Tokenizer
from tests.pretraining.corpus import support

PAD, _, CLS, SEP, MASK = range(5)
PIECES = support.pieces(words=95, continuations=5)
OPTIONS = CorpusOptions(max_seq_length=8, max_predictions_per_seq=3)


def _masked():
    """Three examples. One prediction is hidden, two are random, of which one is the original piece, and one is kept."""
    return {
        "input_ids": np.array(
            [
                [CLS, 11, MASK, SEP, 77, SEP, PAD, PAD],
                [CLS, 21, 22, 23, SEP, 24, 25, SEP],
                [CLS, 11, SEP, 31, SEP, PAD, PAD, PAD],
            ]
        ),
        "input_mask": np.array([[1, 1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0, 0]]),
        "next_sentence_labels": np.array([[1], [0], [1]]),
        "masked_lm_positions": np.array([[2, 4, 0], [1, 5, 0], [0, 0, 0]]),
        "masked_lm_ids": np.array([[12, 12, 0], [21, 24, 0], [0, 0, 0]]),
        "masked_lm_weights": np.array([[1, 1, 0], [1, 1, 0], [0, 0, 0]], np.float32),
    }


def _counted(rows, forced=(CHOSEN, FORCED_ACTUAL, FORCED_RANDOM)):
    statistics = Statistics.empty(OPTIONS, PIECES.vocab_size)
    statistics.add_examples(rows, np.array(forced, np.int8), PIECES)
    return statistics


def test_three_examples_drawn_by_hand():
    statistics = _counted(_masked())
    statistics.add_rows(_masked()["input_mask"])
    assert (statistics.examples, statistics.tokens, statistics.chosen) == (3, 6 + 8 + 5, 4)
    assert (statistics.rows, statistics.padding) == (3, 2 + 0 + 3)
    #                                    0  1  2  3  4  5  6  7  8
    assert statistics.lengths.tolist() == [0, 0, 0, 0, 0, 1, 1, 0, 1]
    assert statistics.predictions.tolist() == [1, 0, 2, 0]
    assert statistics.fates.tolist() == [1, 1, 2]  # hidden; random; kept
    assert statistics.pairs.tolist() == [[0, 0, 1], [1, 1, 0]]
    assert {i: n for i, n in enumerate(statistics.masked_ids.tolist()) if n} == {12: 2, 21: 1, 24: 1}
    assert statistics.masked_ids.dtype == np.int64


def test_json_holds_every_count():
    statistics = _counted(_masked())
    statistics.add_rows(_masked()["input_mask"])
    statistics.text.update(Counter(documents=2, junk_lines=1))
    statistics.text.update(Counter(documents=3))
    told = json.loads(json.dumps(statistics.to_json()))
    assert sum(told.pop("masked_ids")) == 4
    assert told == {
        "examples": 3, "tokens": 19, "rows": 3, "padding": 5,
        "lengths": [0, 0, 0, 0, 0, 1, 1, 0, 1], "predictions": [1, 0, 2, 0],
        "shapes": [[5, 0, 1], [6, 2, 1], [8, 2, 1]],
        "pairs": {"actual": [0, 0, 1], "random": [1, 1, 0]},
        "fates": {"hidden": 1, "swapped": 1, "kept": 2},
        "text": {"documents": 5, "junk_lines": 1},
        "phrases": {"found": 0, "masked": 0},
    }  # fmt: skip


def test_examples_of_one_text_without_masks():
    rows = {name: _masked()[name] for name in ("input_ids", "input_mask")}
    statistics = _counted(rows)
    assert statistics.lengths.sum() == statistics.predictions[0] == 3
    assert not statistics.pairs.any() and not statistics.fates.any() and not statistics.masked_ids.any()


def test_parts_add_up_to_the_whole_and_travel_between_processes():
    whole, parts = _counted(_masked()), []
    for i in range(3):
        parts.append(_counted({name: rows[i : i + 1] for name, rows in _masked().items()}, [(0, 2, 1)[i]]))
        parts[-1].text.update(Counter(documents=1))
        parts[-1].add_rows(_masked()["input_mask"][i : i + 1])
    first, *others = pickle.loads(pickle.dumps(parts))
    added = sum(others, first)
    whole.text.update(Counter(documents=3))
    whole.add_rows(_masked()["input_mask"])
    assert added.to_json() == whole.to_json()
    assert first.examples == 1  # adding leaves the parts as they were


@pytest.mark.parametrize("masking", ["token", "whole_word", "span"])
@pytest.mark.parametrize("packing", [False, True])
def test_what_is_counted_is_what_the_rows_hold(masking, packing):
    options = CorpusOptions(max_seq_length=64, max_predictions_per_seq=10, masking=masking, packing=packing)
    documents = support.random_documents(np.random.default_rng(1), vocab=(5, 105))
    statistics = Statistics.empty(options, PIECES.vocab_size)
    made = list(unit.make_batches(documents, options, PIECES, 0, 0, statistics))
    weights = np.concatenate([rows["masked_lm_weights"].ravel() for rows in made]) > 0
    ids = np.concatenate([rows["masked_lm_ids"].ravel() for rows in made])[weights]
    tokens = sum(int(rows["input_mask"].sum()) for rows in made)
    assert statistics.rows == sum(len(rows["input_ids"]) for rows in made)
    assert statistics.tokens == tokens == statistics.rows * 64 - statistics.padding
    assert statistics.chosen == len(ids) == statistics.predictions @ np.arange(11)
    np.testing.assert_array_equal(statistics.masked_ids, np.bincount(ids, minlength=PIECES.vocab_size))
    assert statistics.examples == statistics.pairs.sum()
    assert (statistics.examples > statistics.rows) == packing


@pytest.fixture(scope="module")
def made(corpus, tmp_path_factory):
    """Two files in two folders, made with a cased vocabulary, and the statistics of the run."""
    folder = tmp_path_factory.mktemp("made")
    paths = [folder / str(n) / f"train-0000{n}-of-00002.tfrecord" for n in range(2)]
    job = support.job(corpus, paths, dupe_factor=1, sentence_objective="sop", masking="whole_word")
    return folder, jobs.create_pretraining_data(dataclasses.replace(job, do_lower_case=False))


@pytest.mark.parametrize("number", [0, 1])
def test_it_says_what_was_made_of_what(made, corpus, number):
    (folder, statistics), text = made, (corpus / "1.txt").read_bytes()
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
    assert values["vocabulary"]["pieces"] == len(support.VOCAB) and not values["vocabulary"]["do_lower_case"]


def test_the_tokenizer_beside_is_the_one_that_made_them(made, corpus):
    for number in range(2):
        tokenizer = Tokenizer.from_directory(made[0] / str(number) / "train_vocabulary")
        assert tokenizer.vocab == support.VOCAB and not tokenizer.do_lower_case and not tokenizer.strip_accents


def test_each_file_says_the_same_of_itself(made):
    held = Records.of([str(made[0])])
    assert set(held.metadata.values()) == {
        RecordMetadata(vocabulary_fingerprint(support.VOCAB), False, False, "sop", "whole_word")
    }
    assert held.sentence_objective == "sop"


def test_accents_that_stay(corpus, tmp_path):
    job = support.job(corpus, [tmp_path / "a"], dupe_factor=1, dynamic_masking=True, sentence_objective="none")
    jobs.create_pretraining_data(dataclasses.replace(job, strip_accents=False))
    origin = RecordMetadata.of(tmp_path / "a")
    assert (origin.do_lower_case, origin.strip_accents, origin.masking) == (True, False, None)
    assert not Tokenizer.from_directory(tmp_path / "a_vocabulary").strip_accents


def test_of_many_sources_only_some_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(statistics, "_LISTED", 2)
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_text(path.name)
    one = statistics.hash_sources([str(path) for path in paths])
    paths[2].write_text("d")
    other = statistics.hash_sources([str(path) for path in paths])
    assert one["each"] == other["each"] and len(one["each"]) == 2 and one["files"] == one["bytes"] == 3
    assert one["sha256"] != other["sha256"]


def test_added_tokens_are_part_of_the_records_and_of_what_lies_beside(corpus, tmp_path):
    sentences = [f"{one} [E1] {other} ." for one, other in zip(support.WORDS, support.WORDS[1:], strict=False)]
    (tmp_path / "text.txt").write_text("\n\n".join(sentences) + "\n")
    added = (AddedToken("[E1]", len(support.VOCAB)),)
    job = support.job(corpus, [tmp_path / "train.tfrecord"], dupe_factor=1, dynamic_masking=True)
    job = dataclasses.replace(job, paths=[str(tmp_path / "text.txt")], formats=["sentences"], added_tokens=added)
    jobs.create_pretraining_data(job)
    tokenizer = Tokenizer.from_directory(tmp_path / "train_vocabulary")
    assert tokenizer.added_tokens == added
    records = Records.of([str(tmp_path / "train.tfrecord")])
    ids = next(iter(records.in_order(1)))["input_ids"].numpy()
    assert len(support.VOCAB) in ids
    record_compatibility.check_compatibility([records], tokenizer, ("nsp",))
    with pytest.raises(ValueError, match="must be made with the vocabulary of the model"):
        record_compatibility.check_compatibility([records], Tokenizer(support.VOCAB), ("nsp",))
    (path, origin), *_ = records.metadata.items()
    assert find_vocabulary(path, origin) == str(tmp_path / "train_vocabulary" / "vocab.txt")
