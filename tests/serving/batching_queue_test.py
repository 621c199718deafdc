"""The queue: who shares a batch with whom."""

import random

from bert_tf.serving.server.batching_queue import BatchItem, LengthQueue


def fill(queue, lengths, group="one"):
    for index, length in enumerate(lengths):
        queue.add(group, BatchItem("task", index, length))


def lengths_of_batches(queue):
    batches = []
    while taken := queue.take():
        batches.append([row.length for row in taken[1]])
    return batches


def test_neighbours_in_length_share_a_batch_within_the_budget():
    queue = LengthQueue(max_rows=8, max_tokens=40)
    fill(queue, [10, 40, 10, 9, 38, 3, 10])
    assert lengths_of_batches(queue) == [[9, 10, 10, 10], [40], [38], [3]]


def test_the_first_row_that_waits_is_in_the_next_batch_however_long_it_is():
    queue = LengthQueue(max_rows=2, max_tokens=20)
    fill(queue, [500, 1, 2, 1])
    assert [row.length for row in queue.take()[1]] == [500]
    assert [row.index for row in queue.take()[1]] == [1, 3]


def test_a_batch_has_rows_of_one_group_and_groups_come_in_the_order_of_their_first_rows():
    queue = LengthQueue(max_rows=4, max_tokens=100)
    fill(queue, [5], "one")
    fill(queue, [5, 5], "two")
    fill(queue, [5], "one")
    assert [(group, len(rows)) for group, rows in (queue.take(), queue.take())] == [("one", 2), ("two", 2)]
    assert queue.take() is None and len(queue) == 0


def test_requests_take_turns_so_that_a_short_one_does_not_wait_for_all_of_a_long_one():
    queue = LengthQueue(max_rows=2, max_tokens=1000)
    for index in range(8):
        queue.add("one", BatchItem("large", index, 5))
    assert queue.load(100) == 8 and queue.load(3) == 3
    assert [row.index for row in queue.take()[1]] == [0, 1]
    for name in ("short", "other"):
        queue.add("one", BatchItem(name, 0, 900))
    assert queue.load(4) == 4 + 1 + 1
    assert [[row.task for row in queue.take()[1]] for _ in range(4)] == [
        ["large"] * 2, ["short"], ["other"], ["large"] * 2
    ]  # fmt: skip
    queue.remove("one", "large")
    assert queue.load(4) == len(queue) == 0 and queue.take() is None


def test_full_is_what_more_rows_would_not_make_larger():
    queue = LengthQueue(max_rows=3, max_tokens=100)
    assert not queue.is_full()
    fill(queue, [10, 10])
    assert not queue.is_full()
    fill(queue, [10])
    assert queue.is_full()
    long = LengthQueue(max_rows=3, max_tokens=100)
    fill(long, [60])
    assert long.is_full()


def test_rows_of_one_task_can_be_taken_out():
    queue = LengthQueue(max_rows=4, max_tokens=100)
    queue.add("one", BatchItem("gone", 0, 5))
    queue.add("one", BatchItem("stays", 0, 6))
    queue.add("one", BatchItem("gone", 1, 7))
    queue.remove("one", "gone")
    assert len(queue) == 1
    assert [row.task for row in queue.take()[1]] == ["stays"]
    queue.add("two", BatchItem("gone", 0, 5))
    queue.remove("two", "gone")
    assert queue.take() is None and queue.next() is None


def test_every_row_is_taken_once_and_no_batch_is_over_its_bounds():
    chance = random.Random(3)
    queue = LengthQueue(max_rows=7, max_tokens=90)
    lengths = [chance.randint(1, 120) for _ in range(300)]
    fill(queue, lengths)
    batches = lengths_of_batches(queue)
    assert sorted(length for batch in batches for length in batch) == sorted(lengths)
    assert all(len(batch) <= 7 and (len(batch) == 1 or len(batch) * max(batch) <= 90) for batch in batches)
