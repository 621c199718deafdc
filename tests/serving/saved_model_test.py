"""A SavedModel in memory: by which threads a request is computed, and what preparing it costs."""

import threading
import time
from concurrent import futures

import numpy as np
import pytest

from bert_tf.serving.errors import ServingError
from bert_tf.serving.server import saved_model
from bert_tf.serving.server.saved_model import SavedModel
from bert_tf.utils import tensorflow_internals as internals

TEXT = np.array([b"fine"], object)


@pytest.fixture
def model(film_path):
    model = SavedModel(str(film_path / "3"))
    yield model
    model.close()


def _request(model):
    signature = model.signatures["serving_default"]
    return {signature.inputs["text"].tensor: TEXT}, list(signature.key[1])


def test_a_request_alone_has_all_threads_and_one_beside_others_its_callers(model, monkeypatch):
    compute, threads = internals.run_session, []

    def computed(session, pool, *request):
        threads.append(pool)
        if len(threads) < 3:
            model.run(*_request(model))  # while the first runs
        return compute(session, pool, *request)

    model.prepare(tuple(_request(model)[0]), tuple(_request(model)[1]))
    monkeypatch.setattr(model, "_has_parts", True)
    monkeypatch.setattr(internals, "run_session", computed)
    first = model.run(*_request(model))
    again = model.run(*_request(model))
    all_, callers = saved_model._ALL_THREADS, saved_model._CALLERS_THREAD
    assert threads == [all_, callers, callers, all_]
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_graph_that_is_not_made_for_it_is_left_to_its_callers_thread(model, monkeypatch):
    threads = []
    monkeypatch.setattr(internals, "run_session", lambda session, pool, *request: threads.append(pool))
    model.run(*_request(model))
    assert set(threads) == {saved_model._CALLERS_THREAD}


def test_the_tokenizer_is_read_once_for_threads_that_need_it_together(model, monkeypatch):
    reads, start = [], threading.Barrier(4)

    def read(path):
        reads.append(path)
        time.sleep(0.05)  # so that the others ask meanwhile
        return "tokenizer"

    def ask():
        start.wait()
        return model.read_tokenizer()

    monkeypatch.setattr(saved_model, "read_export_tokenizer", read)
    with futures.ThreadPoolExecutor(4) as pool:
        found = [each.result() for each in [pool.submit(ask) for _ in range(4)]]
    assert (found, len(reads)) == (["tokenizer"] * 4, 1)


def test_a_request_that_fails_counts_no_more(model):
    feeds, fetches = _request(model)
    with pytest.raises(ServingError):
        model.run(dict.fromkeys(feeds, np.zeros([1], np.float32)), fetches)
    with saved_model._running as number:
        assert number == 1


def test_to_prepare_computes_nothing_and_a_graph_that_cannot_be_made_is_an_error(model):
    feeds, fetches = _request(model)
    inputs, outputs, *_ = model.prepare(tuple(feeds), tuple(fetches))
    assert (len(inputs), len(outputs)) == (1, len(fetches))
    with pytest.raises(KeyError):
        model.prepare(tuple(feeds), ("nothing:0",))
