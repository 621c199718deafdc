"""How much is computed at a time: tokens of a request and of all, turns, parts of a large request."""

import contextlib
import dataclasses
import math
import threading
import time

import grpc
import numpy as np
import pytest

from bert_tf.serving.errors import ServingError
from bert_tf.serving.limits import Limits
from bert_tf.serving.server.dtypes import as_dtype
from bert_tf.serving.server.fair_semaphore import InterpreterSlot
from bert_tf.serving.server.request_context import INTERNAL, RequestContext
from bert_tf.serving.server.scheduling import Scheduler
from bert_tf.serving.server.sequences import Sequences
from bert_tf.serving.server.signatures import Endpoint, Signature
from bert_tf.serving.server.versions import direct

STRING, INT32, FLOAT32 = map(as_dtype, (object, np.int32, np.float32))


def texts(*sizes):
    array = np.empty(len(sizes), object)
    array[:] = [b"x" * size for size in sizes]
    return {"text": array}


def signature(inputs, outputs):
    def side(shapes):
        return {alias: Endpoint(f"{alias}:0", dtype, shape) for alias, (dtype, shape) in shapes.items()}

    return Signature(side(inputs), side(outputs), {}, None)


BY_TEXT = signature({"text": (STRING, (None,))}, {"y": (FLOAT32, (None, 2))})
BY_IDS = signature({"input_ids": (INT32, (None, None))}, {"y": (FLOAT32, (None, 2))})
OF_TOKENS = signature({"text": (STRING, (None,))}, {"y": (FLOAT32, (None, None))})


@pytest.mark.parametrize(
    ("sequences", "inputs", "expected"),
    [
        (Sequences(512, 64), texts(40, 4_000_000), 2 * 64),
        (Sequences(512, 0), texts(40, 4_000_000), 12 + 1_000_002),
        (Sequences(), texts(4_000_000), 512),
        (Sequences(512, 64), {"input_ids": np.zeros([3, 7], np.int32), "input_mask": np.zeros([3, 7], np.int32)}, 21),
        (Sequences(512, 64), {"scale": np.float32(1)}, 1),
        (Sequences(), {"x": np.zeros([4096, 1], np.int32), "y": np.zeros([1, 512], np.int32)}, 4096 * 512),
        (Sequences(), {"x": np.zeros([400, 3], np.int32), "scale": np.zeros([400], np.int32)}, 1200),
        (Sequences(512, 64), {}, 0),
    ],
    ids=["texts that are cut", "texts read whole", "another's model", "ids", "a number", "numbers that are broadcast",
         "numbers of two ranks", "nothing"],
)
def test_tokens_are_counted(sequences, inputs, expected):
    assert sequences.plan(BY_TEXT, inputs).tokens == expected


def several(contexts, choices):
    """Multiple-choice questions of equally many choices."""
    array = np.empty([len(contexts), len(choices)], object)
    array[:] = [[b"x" * size for size in choices] for _ in contexts]
    return {"context": texts(*contexts)["text"], "choices": array}


def test_tokens_are_counted_as_they_are_computed():
    one_is_long = texts(*[0] * 1000, 100_000)
    assert Sequences(512, 512).plan(BY_TEXT, one_is_long).tokens == 1000 * 2 + 512  # in two parts
    assert Sequences(512, 512).plan(OF_TOKENS, one_is_long).tokens == 1001 * 512  # all at once, as long as the longest
    assert Sequences(512, 0).plan(OF_TOKENS, one_is_long).tokens == 1000 * 512 + 25_002  # a window each, at least
    # A context stands before each of its choices.
    assert Sequences(512, 64).plan(OF_TOKENS, several([120], [0] * 50)).tokens == 50 * (2 + 30)
    assert Sequences(512, 64).plan(OF_TOKENS, several([4_000_000], [40] * 50)).tokens == 50 * 64


def test_a_sequence_must_fit_the_positions():
    inputs = {"input_ids": np.zeros([2, 513], np.int32)}
    message = "The input input_ids may have 512 tokens in a sequence and has 513; shorten it"
    with pytest.raises(ServingError, match=message):
        Sequences(512, 64).check(BY_IDS, inputs)
    Sequences(513, 64).check(BY_IDS, inputs)
    Sequences().check(BY_IDS, inputs)  # what is not known is not guessed
    Sequences(2, 64).check(signature({"x": (FLOAT32, (None, 3))}, {}), {"x": np.zeros([1, 3], np.float32)})


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (([4096, 1], [1, 512]), "The inputs input_ids, segment_ids must have the same number of rows; got 4096, 1"),
        (([3, 1], [3, 512]), r"The inputs input_ids, segment_ids must have the same shape; got \[3, 1\], \[3, 512\]"),
    ],
    ids=["rows", "widths"],
)
def test_ids_that_the_graph_would_broadcast_are_refused(shapes, words):
    names = ("input_ids", "segment_ids")
    wanted = signature({name: (INT32, (None, None)) for name in names}, {})
    with pytest.raises(ServingError, match=words):
        Sequences(512, 64).check(wanted, dict(zip(names, map(np.zeros, shapes), strict=True)))
    Sequences(512, 64).check(wanted, {name: np.zeros([3, 512]) for name in names})


def test_a_context_without_choices_is_refused():
    wanted = signature({"choices": (STRING, (None, None)), "context": (STRING, (None,))}, {})
    with pytest.raises(ServingError, match="The inputs choices, context must have the same number of rows; got 1, 2"):
        Sequences(512, 64).check(wanted, several([9], [3, 3]) | {"context": texts(1, 1)["text"]})


def test_a_single_value_is_left_to_the_graph():
    value = {"text": np.array(b"", object)}
    for sequences in (Sequences(512, 64), Sequences(512, 0), Sequences()):
        sequences.check(BY_TEXT, value)
        assert sequences.plan(BY_TEXT, value).tokens == 2 and not sequences.plan(BY_TEXT, value).parts
    pair = signature({name: (STRING, (None,)) for name in ("text_a", "text_b")}, {})
    with pytest.raises(ServingError, match=r"must have the same number of rows; got a single value, 2"):
        Sequences(512, 64).check(pair, {"text_a": value["text"], "text_b": texts(1, 1)["text"]})


def test_a_request_of_too_many_tokens_is_refused():
    with pytest.raises(ServingError, match="A request may have 100 tokens and has about 101; send it in parts"):
        Limits(max_request_tokens=100).check_tokens(101)


def test_a_thousand_texts_of_128_tokens_are_no_more_than_a_request_may_have():
    words = texts(*[5 * 128] * 1000)  # of English a token takes about five bytes with its space
    Limits().check_tokens(Sequences(512, 512).plan(BY_TEXT, words).tokens)
    Limits().check_tokens(Sequences(512, 512).plan(BY_IDS, {"input_ids": np.zeros([1000, 128], np.int32)}).tokens)
    with pytest.raises(ServingError):
        Limits().check_tokens(Sequences(512, 512).plan(BY_IDS, {"input_ids": np.zeros([4096, 128], np.int32)}).tokens)


def lengths(signature, sequences, inputs):
    return [*map(len, sequences.plan(signature, inputs).parts)]


def test_many_rows_are_computed_in_parts_of_bounded_size():
    inputs = texts(*[2040] * 100)  # 512 tokens each, with two special ones
    assert lengths(BY_TEXT, Sequences(512, 512), inputs) == [8] * 12 + [4]
    assert lengths(BY_TEXT, Sequences(512, 128), texts(*[2040] * 30)) == []  # all of it is 3,840 tokens
    assert lengths(BY_TEXT, Sequences(512, 128), texts(*[2040] * 50)) == [32, 18]
    assert lengths(BY_TEXT, Sequences(512, 512), texts(*[2040] * 8)) == []  # they are few


def test_parts_are_bounded_whatever_a_text_holds():
    dots = texts(*[510] * 100)  # of punctuation, each byte is a token
    assert lengths(BY_TEXT, Sequences(512, 512), dots) == [8] * 12 + [4]
    long = texts(*[2**20] * 100)  # of which 64 KiB are tokenized, and 64 tokens kept
    assert lengths(BY_TEXT, Sequences(512, 64), long) == [8] * 12 + [4]
    assert lengths(BY_TEXT, Sequences(512, 0), texts(*[65_528] * 4)) == [1, 1, 1, 1]  # 32 windows each, at least
    ids = {"input_ids": np.zeros([8, 2048], np.int32)}  # attention takes as much as of sixteen times 512
    assert lengths(BY_IDS, Sequences(2048, 512), ids) == [1] * 8


def test_texts_of_about_one_length_are_computed_together():
    parts = Sequences(512, 512).plan(BY_TEXT, texts(*[2040, 0, 0, 0] * 100)).parts
    assert [len(part) for part in parts] == [300] + [8] * 12 + [4]
    assert sorted(np.concatenate(parts)) == list(range(400))
    assert parts[0][:4].tolist() == [1, 2, 3, 5] and parts[1].tolist() == list(range(0, 32, 4))
    assert Sequences(512, 512).plan(BY_TEXT, texts(*[2040, 0, 0, 0] * 100)).tokens == 300 * 2 + 100 * 512


def test_rows_stay_together_where_their_answers_may_not_be_independent():
    inputs = texts(*[2040] * 100)
    assert lengths(OF_TOKENS, Sequences(512, 512), inputs) == []  # as wide as the longest of all
    assert lengths(BY_TEXT, Sequences(), inputs) == []  # another's model: what its rows do is not known


class Model:
    """A model that gives each text's length twice, and notes how many rows it was asked for."""

    sequences = Sequences(512, 512)

    def __init__(self, running=None):
        self.asked, self.running, self.most, self.lock = [], 0, 0, threading.Lock()

    def turn(self, call):
        return contextlib.nullcontext()

    def run(self, feeds, fetches):
        (array,) = feeds.values()
        with self.lock:
            self.asked.append(len(array))
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(0.02)
        with self.lock:
            self.running -= 1
        return [np.array([[len(text)] * 2 for text in array], np.float32)]


def test_parts_are_put_together_again():
    model = Model()
    inputs = texts(*np.random.default_rng(1).permutation(np.arange(2000, 2100)).tolist())
    answer = direct(model, Scheduler())(BY_TEXT, inputs, ["y"], INTERNAL)
    assert len(model.asked) > 2 and sum(model.asked) == 100
    np.testing.assert_array_equal(answer["y"][:, 0], [len(text) for text in inputs["text"]])


def test_a_request_that_nobody_waits_for_ends_between_two_parts():
    model = Model()
    gone = RequestContext(is_gone=lambda: len(model.asked) >= 2)
    with pytest.raises(ServingError, match="The client disconnected"):
        direct(model, Scheduler())(BY_TEXT, texts(*[2040] * 200), ["y"], gone)
    assert model.asked == [8, 8]


def test_two_requests_in_parts_run_at_a_time():
    model, scheduler = Model(), Scheduler(max_concurrent_runs=8)
    compute = direct(model, scheduler)
    with scheduler.begun(INTERNAL), scheduler.begun(INTERNAL):
        with pytest.raises(ServingError, match="The deadline passed"):
            compute(BY_TEXT, texts(*[2040] * 200), ["y"], soon())
        compute(BY_TEXT, texts(2040), ["y"], INTERNAL)
    assert model.asked == [1]


def test_no_more_graphs_run_at_once_than_may():
    model = Model()
    compute = direct(model, Scheduler(max_concurrent_runs=2))
    threads = [threading.Thread(target=compute, args=(BY_TEXT, texts(4), ["y"], INTERNAL)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.most == 2 and len(model.asked) == 12


def test_of_large_runs_without_parts_one_is_computed_at_a_time():
    scheduler = Scheduler(max_concurrent_runs=3)
    large = Sequences().plan(BY_IDS, {"input_ids": np.zeros([257, 128], np.int32)}).weight
    with scheduler.turn(INTERNAL, large):
        with scheduler.turn(INTERNAL, 1), scheduler.turn(INTERNAL, large - 128):  # others go by
            pass
        passed = pytest.raises(ServingError, match="The deadline passed before the model was run")
        with passed, scheduler.turn(soon(), large):
            pytest.fail("two at once")
    with scheduler.turn(INTERNAL, large):
        pass


def soon():
    return RequestContext(deadline=time.monotonic() + 0.05)


def test_there_is_always_room_for_a_short_run():
    scheduler = Scheduler(max_concurrent_runs=3)
    with scheduler.turn(INTERNAL, 2**12), scheduler.turn(INTERNAL, 2**12):
        with pytest.raises(ServingError, match="The deadline passed"), scheduler.turn(soon(), 2**12):
            pytest.fail("the last place is taken")
        with scheduler.turn(INTERNAL, 2**9):
            pass
    with Scheduler(max_concurrent_runs=1).turn(INTERNAL, 2**12):  # where there is one place, all may have it
        pass


def test_an_explanation_is_a_large_run():
    model, scheduler = Model(), Scheduler()
    compute = direct(model, scheduler)
    explains = dataclasses.replace(BY_TEXT, explains=True)
    with scheduler.turn(INTERNAL, math.inf):
        compute(BY_TEXT, texts(4), ["y"], INTERNAL)
        with pytest.raises(ServingError, match="The deadline passed"):
            compute(explains, texts(4), ["y"], soon())
    compute(explains, texts(4), ["y"], INTERNAL)


def test_all_answers_that_are_being_sent_have_a_bound_in_elements():
    scheduler = Scheduler(max_pending_elements=100_000)
    with contextlib.ExitStack() as sent:
        sent.enter_context(scheduler.answers.take(90_000))
        refused = pytest.raises(ServingError, match="of 90000 elements and buffers at most 100000 .*max_output_el")
        with refused as caught, scheduler.answers.take(20_000):
            pytest.fail("it is too much")
        assert caught.value.http_status == 503
        sent.enter_context(scheduler.answers.take(2**14))  # a small one is always sent
    with scheduler.answers.take(1_000_000):  # alone it is sent: its own limit is another one
        pass


def test_turns_come_in_order_and_those_who_leave_lose_theirs():
    scheduler, order = Scheduler(max_concurrent_runs=1), []

    def wait(number, call=INTERNAL):
        try:
            with scheduler.turn(call, 1):
                order.append(number)
        except ServingError as error:
            order.append(error.code)

    with scheduler.turn(INTERNAL, 1):
        threads = []
        for number in range(4):
            call = RequestContext(is_gone=lambda: True) if number == 1 else INTERNAL
            threads.append(threading.Thread(target=wait, args=(number, call)))
            threads[-1].start()
            while scheduler._runs.waiting + len(order) <= number:
                time.sleep(0.001)
        threads[1].join()  # without its turn
    for thread in threads:
        thread.join()
    assert order == [grpc.StatusCode.CANCELLED, 0, 2, 3]
    with scheduler.turn(INTERNAL, 1):  # it is free again
        pass


def test_a_deadline_that_passes_while_waiting_is_told():
    scheduler = Scheduler(max_concurrent_runs=1)
    passed = pytest.raises(ServingError, match="The deadline passed before the model was run")
    with scheduler.turn(INTERNAL, 1), passed, scheduler.turn(soon(), 1):
        pytest.fail("two at once")
    with scheduler.turn(INTERNAL, 1):
        pass


def test_all_requests_together_have_a_bound_in_tokens():
    scheduler = Scheduler(max_pending_tokens=100)
    with scheduler.requests.take(60):
        with scheduler.requests.take(40):
            pass
        refused = pytest.raises(ServingError, match="of 60 tokens in progress and accepts 100 .*max_pending_tokens")
        with refused as caught, scheduler.requests.take(41):
            pytest.fail("it is too much")
        assert caught.value.http_status == 503
    with scheduler.requests.take(1000):  # alone it is let in: its own limit is another one
        pass


def test_python_works_at_one_large_request_at_a_time():
    one, other, small = InterpreterSlot(), InterpreterSlot(), InterpreterSlot()
    with one.begun(INTERNAL, 2**20):
        with small.begun(INTERNAL, 2**12), pytest.raises(ServingError, match="The deadline passed"):
            small.grow(soon(), 2**20)  # its answer is large
        with pytest.raises(ServingError, match="The deadline passed"), other.begun(soon(), 2**20):
            pytest.fail("two at once")
        with one.paused(INTERNAL), other.begun(INTERNAL, 2**20):  # while the graph of the first runs
            pass
        with pytest.raises(ServingError, match="The deadline passed"), other.begun(soon(), 2**20):
            pytest.fail("the first goes on")
    with other.begun(INTERNAL, 2**20):
        pass
