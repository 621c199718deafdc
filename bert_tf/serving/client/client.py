"""Client for model servers: this package's, or TensorFlow Serving itself. It does not need TensorFlow."""

import collections
import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import grpc
import numpy as np

from bert_tf.serving.client.base_client import BaseClient, read_end
from bert_tf.serving.client.items import chunks
from bert_tf.serving.client.streams import BATCH, FAILURES, IN_FLIGHT, check_stream_arguments, give_back, restore_order
from bert_tf.utils.text_inputs import refuse_no_list, text_list


class Client(BaseClient, contextlib.AbstractContextManager):
    """gRPC client for one model of a server; a context manager, safe to share among threads.

    The arguments are those of `BaseClient`.
    """

    _channels = grpc

    def stream(
        self,
        items: Iterable[Any],
        in_flight: int = IN_FLIGHT,
        batch_size: int = 1,
        typed: bool | type = False,
        errors: str = "raise",
    ) -> Iterator[Any]:
        """Predicts any number of examples, many at a time, and yields the predictions in the order of the examples.

        It reads no further ahead than the queries in flight.

        Args:
            items: texts; if an example has several, dictionaries by name, or tuples in the order of the signature's
                `text_inputs`, if those have a standard order.
            in_flight: number of concurrent queries.
            batch_size: examples per query. For a server that batches requests, 1 is best.
            typed: as `ask`.
            errors: "raise" ends the stream at the first example that fails; "yield" yields the exception in its place.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `ask`.
        """
        refuse_no_list(items, "items")
        check_stream_arguments(in_flight, batch_size, errors)
        names = self.text_inputs()
        parts = chunks(items, batch_size)
        questions = ((len(part), self._questions.ask_items(part, names, typed)) for part in parts)
        yield from self._window(questions, in_flight, errors)

    def encode(self, texts: Sequence[str], batch_size: int = BATCH, in_flight: int = 4) -> np.ndarray:
        """Returns the embeddings of n texts, float32 [n, D], from a model with the output `embedding`.

        Args:
            texts: n texts.
            batch_size: texts per query, grouped by length.
            in_flight: number of concurrent queries.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`; also if the model does not return embeddings.
        """
        check_stream_arguments(in_flight, batch_size, "raise")
        texts = text_list(texts)
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))  # a batch of one length has little padding
        parts = chunks(order, batch_size)
        questions = ((len(part), self._questions.vectors([texts[i] for i in part])) for part in parts)
        found = list(self._window(questions, in_flight, "raise"))
        if not found:
            return np.zeros([0, self._run(self._questions.width())], np.float32)
        return restore_order(found, order)

    def close(self):
        """Closes the connection and cancels calls in progress."""
        self._channel.close()

    def __exit__(self, *error):
        self.close()

    def _window(self, questions, in_flight, errors):
        """Yields the results of (size, query) pairs, row by row, with many queries at a time."""
        waiting = collections.deque()
        try:
            for size, question in questions:
                waiting.append((size, self._begin(question)))
                while waiting and (len(waiting) >= in_flight or waiting[0][1].is_done):
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
        except FAILURES as error:
            return give_back(error, errors, size)

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
