"""Asks a model server: this package's, or TensorFlow Serving itself. Needs no TensorFlow."""

import collections
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import grpc
import numpy as np

from bert_tf.serving.client import stream as client_stream
from bert_tf.serving.client.base import BaseClient, read_end
from bert_tf.serving.client.questions import chunks
from bert_tf.utils.text_lists import refuse_no_list, text_list


class Client(BaseClient):
    """A connection to one model of one server; a context manager, safe to share among threads.

    Its arguments are those of `BaseClient`.
    """

    _channels = grpc

    def stream(
        self,
        items: Iterable[Any],
        in_flight: int = client_stream.IN_FLIGHT,
        batch_size: int = 1,
        typed: bool = False,
        errors: str = "raise",
    ) -> Iterator[Any]:
        """Asks about any number of examples, many at a time, and yields the answers in the order of the examples.

        It reads no further ahead than the questions in flight.

        Args:
            items: texts; where an example has several, dictionaries by name, or tuples in the order of the signature's
                `text_inputs` where people give these names in an order.
            in_flight: questions at a time.
            batch_size: examples of a question. A server that makes batches is best asked one by one.
            typed: as `ask`.
            errors: "raise" ends the stream at the first example that fails; "yield" gives the exception in its place.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `ask`.
        """
        refuse_no_list(items, "items")
        client_stream.check(in_flight, batch_size, errors)
        names = self.text_inputs()
        parts = chunks(items, batch_size)
        questions = ((len(part), self._questions.ask_items(part, names, typed)) for part in parts)
        yield from self._window(questions, in_flight, errors)

    def encode(
        self, texts: Sequence[str], batch_size: int = client_stream.BATCH, in_flight: int = 4
    ) -> np.ndarray:
        """Returns the vectors of n texts, float32 [n, D], of a model whose output is `embedding`.

        Args:
            texts: n texts.
            batch_size: texts of a question; those of about one length go together.
            in_flight: questions at a time.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`; also where the model makes no vectors.
        """
        client_stream.check(in_flight, batch_size, "raise")
        texts = text_list(texts)
        order = client_stream.by_length(texts)
        parts = chunks(order, batch_size)
        questions = ((len(part), self._questions.vectors([texts[i] for i in part])) for part in parts)
        found = list(self._window(questions, in_flight, "raise"))
        if not found:
            return np.zeros([0, self._run(self._questions.width())], np.float32)
        return client_stream.in_order(found, order)

    def close(self):
        """Ends the connection, and the calls that are under way."""
        self._channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def _window(self, questions, in_flight, errors):
        """Yields what (size, question) pairs return, row by row, so many of them at a time."""
        waiting = collections.deque()
        try:
            for size, question in questions:
                waiting.append((size, self._begin(question)))
                while waiting and (len(waiting) >= in_flight or client_stream.is_done(waiting[0][1])):
                    yield from self._rows(*waiting.popleft(), errors)
            while waiting:
                yield from self._rows(*waiting.popleft(), errors)
        finally:
            for _, progress in waiting:
                if progress.call is not None:
                    progress.call.cancel()

    def _rows(self, size, progress, errors):
        try:
            return self._finish(progress)
        except client_stream.FAILURES as error:
            return client_stream.give_back(error, errors, size)

    def _send(self, stub, request, **options):
        return stub.future(request, **options)

    def _finish(self, progress):
        while not progress.has_ended:
            question = progress.question
            try:
                response = self._wait(progress)
            except grpc.RpcError as error:
                progress = self._advance(question, question.throw, error)
            else:
                progress = self._advance(question, question.send, response)
        return read_end(progress)

    def _wait(self, progress):
        if progress.call is None:
            return time.sleep(progress.wait)
        return progress.call.result()
