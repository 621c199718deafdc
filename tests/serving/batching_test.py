"""Batches: who is computed with whom, who is refused, and that nobody gets another's answer."""

import concurrent.futures
import threading
import time

import grpc
import numpy as np
import pytest
from tensorflow.core.protobuf import meta_graph_pb2

from bert_tf.serving.client.client import Client
from bert_tf.serving.errors import ServingError, invalid
from bert_tf.serving.server.batching import Batcher
from bert_tf.serving.server.batching_limits import BatchingLimits, read_parameters
from bert_tf.serving.server.dtypes import as_dtype
from bert_tf.serving.server.request_context import INTERNAL, RequestContext
from bert_tf.serving.server.request_rows import batching_group, estimate_lengths
from bert_tf.serving.server.signatures import Endpoint, Signature
from tests.serving.models import serve_quickly

STRING, INT32, FLOAT32 = map(as_dtype, (object, np.int32, np.float32))

TEXT = Endpoint("text:0", STRING, (None,))


def signature(inputs=None, outputs=None):
    inputs = inputs or {"text": TEXT}
    outputs = outputs or {"upper": Endpoint("upper:0", STRING, (None,)), "n": Endpoint("n:0", INT32, (None, 2))}
    return Signature(inputs, outputs, {}, meta_graph_pb2.SignatureDef())


def texts(*strings):
    return {"text": np.array([string.encode() for string in strings], object)}


class Model:
    """Computes b"a" -> b"A" and its length; `gate` holds it up, `batches` says what it was asked."""

    def __init__(self):
        self.batches = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)

    def __call__(self, signature, inputs, aliases, call):
        strings = [string.decode() for string in inputs["text"]]
        self.batches.append(strings)
        self.entered.release()
        assert self.gate.wait(60)
        if "bad" in strings:
            raise invalid("a bad text")
        return {
            "upper": np.array([string.upper().encode() for string in strings], object),
            "n": np.array([[len(string), 7] for string in strings], np.int32).reshape(-1, 2),
        }


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def batcher():
    found = Batcher(BatchingLimits(max_batch_size=4, max_batch_tokens=64, max_enqueued_batches=2, num_batch_threads=1))
    yield found
    found.close()


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(16) as found:
        yield found


class Held:
    """The batcher's one thread is busy with the text "first", so that all others wait together."""

    def __init__(self, batcher, model, pool):
        self.batcher, self.model, self.pool = batcher, model, pool
        self.compute = batcher.batch("film", model)
        model.gate.clear()
        self.first = pool.submit(self.compute, signature(), texts("first"), ("upper",), INTERNAL)
        assert model.entered.acquire(timeout=60)

    def ask(self, *strings, call=INTERNAL, aliases=("upper",)):
        """Puts a request in the queue and returns its future once it is there."""
        rows = len(self.batcher._queue)
        future = self.pool.submit(self.compute, signature(), texts(*strings), aliases, call)
        wait_for(lambda: future.done() or len(self.batcher._queue) > rows)
        return future

    def release(self):
        self.model.gate.set()


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def held(batcher, model, pool):
    found = Held(batcher, model, pool)
    yield found
    found.release()


def upper(future):
    return [each.decode() for each in future.result(20)["upper"]]


def test_a_request_that_comes_alone_is_computed_in_its_own_thread(batcher, model, pool):
    threads = []

    def compute(signature, inputs, aliases, call):
        threads.append(threading.get_ident())
        return model(signature, inputs, aliases, call)

    ask = batcher.batch("film", compute)
    ask(signature(), texts("a", "b"), ("upper",), INTERNAL)
    assert threads == [threading.get_ident()]
    model.gate.clear()
    first = pool.submit(ask, signature(), texts("c"), ("upper",), INTERNAL)
    wait_for(lambda: len(threads) == 2)
    second = pool.submit(ask, signature(), texts("d"), ("upper",), INTERNAL)  # which waits for the one turn
    wait_for(lambda: len(batcher._queue))
    model.gate.set()
    assert (upper(first), upper(second)) == (["C"], ["D"])
    ask(signature(), texts("e"), ("upper",), INTERNAL)
    ask(signature(), texts(*"more than one batch"), ("upper",), INTERNAL)
    mine, batches = threads[3], {threads[2], *threads[4:]}
    assert mine == threads[0] and batches.isdisjoint({threads[0], threads[1]})
    with pytest.raises(ServingError, match="a bad text"):
        ask(signature(), texts("bad"), ("upper",), INTERNAL)
    assert upper(pool.submit(ask, signature(), texts("f"), ("upper",), INTERNAL)) == ["F"]  # its turn was given back


def test_callers_of_about_one_length_share_a_batch_and_each_gets_his_own(held, model):
    jobs = [held.ask(string) for string in ("a", "a much longer text than the others", "bb", "c", "dd")]
    held.release()
    assert [upper(job) for job in jobs] == [["A"], ["A MUCH LONGER TEXT THAN THE OTHERS"], ["BB"], ["C"], ["DD"]]
    assert [sorted(batch) for batch in model.batches] == [
        ["first"], ["a", "bb", "c", "dd"], ["a much longer text than the others"]
    ]  # fmt: skip


def test_a_large_request_is_cut_by_length_and_put_together_in_its_order(held, model):
    strings = ["x" * 100, "b", "y" * 101, "d", "e", "f", "g"]
    job = held.ask(*strings, aliases=("n", "upper"))
    held.release()
    answer = job.result(20)
    assert list(answer) == ["n", "upper"]
    np.testing.assert_array_equal(answer["n"], [[len(string), 7] for string in strings])
    assert upper(job) == [string.upper() for string in strings]
    assert all(len(batch) <= 4 for batch in model.batches) and len(model.batches) == 4


def test_a_full_queue_refuses_at_once_and_says_when_to_come_again(held):
    jobs = [held.ask("a", "b", "c", "d") for _ in range(2)]
    full = r"is full: 8 rows wait, of at most 8 .*max_enqueued_batches.*; retry after \d+\.\d s"
    with pytest.raises(ServingError, match=full) as caught:
        held.ask("e").result(20)
    assert caught.value.code == grpc.StatusCode.UNAVAILABLE
    held.release()
    assert [upper(job) for job in jobs] == [["A", "B", "C", "D"]] * 2


def test_a_request_larger_than_the_queue_is_taken_where_nobody_waits(batcher, model, pool):
    held = Held(batcher, model, pool)
    job = held.ask(*"abcdefghijkl")
    with pytest.raises(ServingError, match="is full: 12 rows wait, of at most 8"):
        held.ask(*"mnopq").result(20)
    short = held.ask("m")  # half of the queue is left to others
    held.release()
    assert upper(job) == list("ABCDEFGHIJKL") and upper(short) == ["M"]


def test_a_request_that_fails_does_not_spoil_its_neighbours(held, model):
    jobs = [held.ask(string) for string in ("a", "bad", "c")]
    held.release()
    assert [upper(jobs[0]), upper(jobs[2])] == [["A"], ["C"]]
    with pytest.raises(ServingError, match="a bad text"):
        jobs[1].result(20)
    assert model.batches[1:] == [["a", "bad", "c"], ["a"], ["bad"], ["c"]]


def test_an_error_of_our_own_reaches_its_caller_and_the_threads_live_on(batcher, pool):
    def broken(signature, inputs, aliases, call):
        raise KeyError("ours")

    with pytest.raises(KeyError):
        batcher.batch("film", broken)(signature(), texts("a"), ("upper",), INTERNAL)
    assert batcher.batch("film", Model())(signature(), texts("a"), ("upper",), INTERNAL)["upper"][0] == b"A"


def test_callers_who_have_left_are_not_computed(held, model):
    gone = threading.Event()
    left, stays = held.ask("left", call=RequestContext(is_gone=gone.is_set)), held.ask("stays")
    gone.set()
    held.release()
    with pytest.raises(ServingError) as caught:
        left.result(20)
    assert caught.value.code == grpc.StatusCode.CANCELLED
    assert upper(stays) == ["STAYS"]
    assert model.batches == [["first"], ["stays"]]


def test_a_deadline_ends_the_wait_in_the_queue(held, model):
    with pytest.raises(ServingError) as caught:
        held.ask("late", call=RequestContext(deadline=time.monotonic() + 0.05)).result(20)
    assert caught.value.code == grpc.StatusCode.DEADLINE_EXCEEDED
    assert len(held.batcher._queue) == 0
    held.release()
    assert upper(held.first) == ["FIRST"] and model.batches == [["first"]]


def test_a_large_request_ends_between_its_batches_when_its_caller_leaves(batcher, model, pool):
    gone, compute = threading.Event(), batcher.batch("film", model)
    model.gate.clear()
    large = pool.submit(compute, signature(), texts(*"abcdefghijkl"), ("upper",), RequestContext(is_gone=gone.is_set))
    assert model.entered.acquire(timeout=60)
    gone.set()
    wait_for(lambda: len(batcher._queue) == 0)  # within the second in which its caller is looked at
    with pytest.raises(concurrent.futures.TimeoutError):  # its batch uses the model still
        large.result(0.3)
    model.gate.set()
    with pytest.raises(ServingError) as caught:
        large.result(20)
    assert caught.value.code == grpc.StatusCode.CANCELLED
    assert model.batches == [["a", "b", "c", "d"]]
    assert upper(pool.submit(compute, signature(), texts("next"), ("upper",), INTERNAL)) == ["NEXT"]


def test_a_request_of_which_a_part_failed_ends_when_no_part_of_it_runs(pool):
    slow, entered = threading.Event(), threading.Semaphore(0)

    def compute(signature, inputs, aliases, call):
        entered.release()
        if b"bad" in inputs["text"].tolist():
            raise invalid("a bad text")
        assert slow.wait(60)
        return {alias: inputs["text"] for alias in aliases}

    batcher = Batcher(BatchingLimits(max_batch_size=1, max_enqueued_batches=9, num_batch_threads=2))
    only = signature(outputs={"upper": Endpoint("upper:0", STRING, (None,))})
    future = pool.submit(batcher.batch("film", compute), only, texts("slow", "bad", "x", "y"), ("upper",), INTERNAL)
    assert entered.acquire(timeout=60) and entered.acquire(timeout=60)
    wait_for(lambda: len(batcher._queue) == 0)  # of the others none is computed
    with pytest.raises(concurrent.futures.TimeoutError):  # the batch of the first still uses the model
        future.result(0.3)
    slow.set()
    with pytest.raises(ServingError, match="a bad text"):
        future.result(20)
    assert not entered.acquire(blocking=False)
    batcher.close()


def test_a_batch_waits_for_others_as_long_as_it_was_told(model, pool):
    batcher = Batcher(BatchingLimits(max_batch_size=3, batch_timeout_micros=3_600_000_000, num_batch_threads=1))
    compute = batcher.batch("film", model)
    jobs = [pool.submit(compute, signature(), texts(string), ("upper",), INTERNAL) for string in "abc"]
    assert sorted(sum((upper(job) for job in jobs), [])) == ["A", "B", "C"]
    assert [sorted(batch) for batch in model.batches] == [["a", "b", "c"]]
    batcher.close()


def test_the_end_refuses_what_waits(held, model, pool):
    waiting = held.ask("waits")
    closing = pool.submit(held.batcher.close)
    wait_for(lambda: held.batcher._closed)
    held.release()
    with pytest.raises(ServingError, match="The server stops"):
        waiting.result(20)
    closing.result(20)
    with pytest.raises(ServingError, match="The server stops"):
        held.ask("later").result(20)
    assert upper(held.first) == ["FIRST"]


def test_answers_as_wide_as_their_texts_are_computed_alone(held, model):
    upper_case = Endpoint("upper:0", STRING, (None,))
    wide = signature(outputs={"upper": upper_case, "n": Endpoint("n:0", INT32, (None, None))})
    jobs = [held.pool.submit(held.compute, wide, texts(string), ("upper",), INTERNAL) for string in "ab"]
    held.release()
    assert [upper(job) for job in jobs] == [["A"], ["B"]]
    assert sorted(model.batches[1:]) == [["a"], ["b"]]


IDS, MASK = (Endpoint(f"{name}:0", INT32, (None, None)) for name in ("ids", "mask"))
WIDE = {"logits": Endpoint("logits:0", FLOAT32, (None, None))}


def test_which_requests_may_share_a_batch():
    def ids(rows, width):
        return {name: np.zeros((rows, width), np.int32) for name in ("ids", "mask")}

    spans = signature({"ids": IDS, "mask": MASK}, WIDE)
    assert batching_group(spans, ids(1, 8)) == batching_group(spans, ids(3, 8)) != batching_group(spans, ids(1, 9))
    assert batching_group(spans, {"ids": np.zeros((1, 8), np.int32), "mask": np.zeros((2, 8), np.int32)}) is None
    assert batching_group(signature(), texts("a")) == batching_group(signature(), texts("b", "c"))
    assert batching_group(signature(outputs=WIDE), texts("a")) is None
    assert batching_group(signature(), texts()) is None
    scalar = signature({"text": TEXT, "k": Endpoint("k:0", INT32, ())})
    assert batching_group(scalar, texts("a") | {"k": np.array(3, np.int32)}) is None
    scores = signature({"ids": Endpoint("ids:0", INT32, (None, 8))}, {"sums": Endpoint("sums:0", INT32, (None,))})
    assert batching_group(scores, {"ids": np.zeros((2, 8), np.int32)}) is not None
    for misfit in ((8,), (2, 7), (2, 8, 1)):  # such as one row without its batch axis, whose entries are no rows
        assert batching_group(scores, {"ids": np.zeros(misfit, np.int32)}) is None
    whole = signature(outputs={"all": Endpoint("all:0", FLOAT32, ())})
    assert batching_group(whole, texts("a")) is None


def test_the_length_of_a_row():
    assert estimate_lengths(texts("", "x" * 40)) == [2, 12]
    assert estimate_lengths(texts("x" * 40) | {"context": np.array([b"y" * 80], object)}) == [32]
    assert estimate_lengths({"ids": np.zeros((2, 3, 5)), "mask": np.zeros((2, 3, 5))}) == [15, 15]
    choices = {"choices": np.array([[b"x" * 40, b"x"], [b"", b""]], object)}
    assert estimate_lengths(choices) == [24, 4]
    assert estimate_lengths(choices | {"context": np.array([b"y" * 80, b""], object)}) == [64, 4]
    assert estimate_lengths({"choices": np.full([1, 4096], b"", object)}) == [8192]  # no other of them fits beside it
    assert estimate_lengths({"choices": np.empty([1, 0], object)}) == [2]
    assert estimate_lengths(choices, most=7) == [14, 4]


def test_the_parameters_file(tmp_path, log):
    path = tmp_path / "batching_parameters.txt"
    path.write_text(
        "# 8 rows\nmax_batch_size { value: 8 }\nbatch_timeout_micros { value: 500 }\nnum_batch_threads { value: 3 }\n"
        'thread_pool_name { value: "threads" }\nallowed_batch_sizes: 4\nallowed_batch_sizes: 8\n'
    )
    wanted = BatchingLimits(8, 99, 500, num_batch_threads=3, thread_pool_name="threads")
    assert read_parameters(str(path), max_batch_tokens=99) == wanted
    assert any("allowed_batch_sizes have no effect" in line for line in log)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_batch_size: 8", "`batching_parameters_file` must be .* BatchingParameters.*batching_parameters.txt"),
        ("max_batch_size { value: 0 }", "batching_parameters.txt: `max_batch_size` must be at least 1; got 0"),
        ("pad_variable_length_inputs: true", "must not pad inputs"),
    ],
)
def test_a_parameters_file_that_cannot_be_used(tmp_path, text, message):
    path = tmp_path / "batching_parameters.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_parameters(str(path))


def test_a_batching_server_answers_as_one_without(film_path, film):
    strings = ["a fine film", "dull", "good " * 50, "no", "fine"]
    batching = BatchingLimits(max_batch_size=3, batch_timeout_micros=50_000)
    with (
        serve_quickly(film_path, batching=batching) as server,
        Client(f"localhost:{server.port}", "film") as ours,
        Client(f"localhost:{film.port}", "film") as plain,
    ):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            jobs = [pool.submit(ours.predict, {"text": [string]}) for string in strings * 3]
        for string, job in zip(strings * 3, jobs, strict=True):
            wanted = plain.predict({"text": [string]})
            assert job.result().keys() == wanted.keys()
            np.testing.assert_allclose(job.result()["probabilities"], wanted["probabilities"], atol=1e-6)
        together = ours.predict({"text": strings})
        np.testing.assert_array_equal(together["label"], plain.predict({"text": strings})["label"])
