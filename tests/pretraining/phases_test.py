"""Plans of several phases: read, checked against the files, and what comes at which step."""

import pytest

from bert_tf.pretraining import phases
from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.phases import Phase, Phases


def _records(length, name="a", packed=False):
    lengths = dict.fromkeys(("input_ids", "masked_lm_ids", "next_sentence_labels"), length)
    return Records([f"{name}{length}"], lengths | ({"sentence_ids": length} if packed else {}))


@pytest.fixture(autouse=True)
def select(monkeypatch):
    """Files of every length are there, without being written."""
    monkeypatch.setattr(Records, "select", classmethod(lambda cls, patterns, length: _records(length, patterns[0])))


def test_a_plan_is_read():
    plan = phases.parse_phases("128x900,512x100@8", ["a"], 32)
    assert plan.phases == (Phase(_records(128), 32, 900), Phase(_records(512), 8, 100))
    assert plan.num_train_steps == 1000 and plan.paths == ["a128", "a512"]
    assert plan.lengths == [128, 512] and plan.records == plan.phases[1].records


def test_percentages_are_of_the_run_and_lose_no_step():
    plan = phases.parse_phases("128x90%, 512x10%@4", ["a"], 8, 1005)
    assert [(p.records.max_seq_length, p.num_steps, p.batch_size) for p in plan.phases] == [
        (128, 904, 8),
        (512, 101, 4),
    ]
    thirds = phases.parse_phases("16x33.3%,32x33.3%,64x33.4%", ["a"], 8, 10)
    assert [p.num_steps for p in thirds.phases] == [3, 4, 3]


def test_what_is_left_after_some_steps():
    plan = phases.parse_phases("128x900,512x100", ["a"], 32)
    first, second = plan.phases
    assert plan.left(0) == [(first, 0), (second, 0)]
    assert plan.left(899) == [(first, 899), (second, 0)]
    assert plan.left(900) == [(second, 0)]
    assert plan.left(950) == [(second, 50)]
    assert plan.left(1000) == []


def test_each_phase_goes_on_where_it_was(monkeypatch):
    def batches(self, batch_size, seed, start=0, masks=None, passed=0):
        return ((self.max_seq_length, batch_size, seed, number) for number in range(start, 1000))

    monkeypatch.setattr(Records, "batches", batches)
    plan = phases.parse_phases("8x3,16x2@5", ["a"], 9)
    whole = list(plan.batches(seed=7))
    assert whole == [(8, 9, 7, 0), (8, 9, 7, 1), (8, 9, 7, 2), (16, 5, 7, 0), (16, 5, 7, 1)]
    assert all(list(plan.batches(seed=7, start=start)) == whole[start:] for start in range(6))


def test_a_batch_that_grows_goes_on_in_the_same_files(monkeypatch):
    def batches(self, batch_size, seed, start=0, masks=None, passed=0):
        first = (passed + number * batch_size for number in range(start, 1000))
        return ((self.max_seq_length, range(row, row + batch_size)) for row in first)

    monkeypatch.setattr(Records, "batches", batches)
    plan = phases.parse_phases("8x2@2,16x1@3,8x2@4", ["a"], 9)
    whole = list(plan.batches(seed=7))
    assert [rows for length, rows in whole if length == 8] == [range(2), range(2, 4), range(4, 8), range(8, 12)]
    assert whole[2] == (16, range(3))
    assert all(list(plan.batches(seed=7, start=start)) == whole[start:] for start in range(6))


def test_phases_of_other_kinds_are_refused():
    with pytest.raises(ValueError, match=r"must be made with the same `packing`\. It differs in a128, a512;"):
        Phases((Phase(_records(128), 8, 1), Phase(_records(512, packed=True), 8, 1)))


@pytest.mark.parametrize("plan, steps, message", [
    ("128x", None, r"`phases` must list LENGTHxSTEPS, separated by commas, such as .*; got '128x'\."),
    ("128x900,", None, r"must list LENGTHxSTEPS.*got '128x900,'\."),
    ("128x900,512x100", 999, r"add up to `num_train_steps`; got 128x900,512x100, which add up to 1000, and 999;"),
    ("128x90%,512x20%", 100, r"add up to 100; got 128x90%,512x20%, and `num_train_steps=100`\."),
    ("128x90%,512x10", 100, r"must be in every phase.*got 128x90%,512x10, "),
    ("128x90%,512x10%", None, r"got 128x90%,512x10%, and `num_train_steps=None`\."),
    ("128x99%,512x1%", 10, r"The num_steps of every phase must be at least 1; got 0;"),
    ("128x5@0", None, r"The batch_size of every phase must be at least 1; got 0;"),
])  # fmt: skip
def test_a_plan_that_cannot_be_is_refused(plan, steps, message):
    with pytest.raises(ValueError, match=message):
        phases.parse_phases(plan, ["a"], 8, steps)
