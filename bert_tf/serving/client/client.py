"""Clients for model servers: this package's, or TensorFlow Serving itself. They do not need TensorFlow."""

import asyncio
import collections
import contextlib
import functools
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import grpc
import numpy as np

from bert_tf.serving.client.channel import MAX_ANSWER_BYTES, Retry, Tls, open_channel
from bert_tf.serving.client.client_core import ClientCore, Question, chunks
from bert_tf.serving.client.requests import METHODS, ModelSignature, ModelTarget, Rpc, VersionStatus
from bert_tf.serving.client.results import Result
from bert_tf.utils.text_lists import refuse_no_list, text_list

# === Base ===
# The blocking and the asynchronous client share everything except waiting.


class CallState(NamedTuple):
    """The state of a query in progress.

    Attributes:
        question: the generator.
        call: the call in progress, or None.
        wait: seconds to wait, or None; without both, it has ended.
        value: its result, or the exception that ended it before its first call.
    """

    question: Question
    call: Any = None
    wait: float | None = None
    value: Any = None

    @property
    def has_ended(self) -> bool:
        return self.call is None and self.wait is None

    @property
    def is_done(self) -> bool:
        """Whether the query or its call has ended."""
        return self.has_ended or self.call is not None and self.call.done()


class BaseClient:
    """A connection to one model of one server.

    Args:
        server: "host:port" of its gRPC interface, or "unix:PATH" of a socket.
        model_name: name of the model.
        timeout: seconds before a query gives up, including retries.
        version: version of the model; by default, the newest.
        label: label of a version, instead of its number.
        tls: encryption of the connection; None: no encryption.
        metadata: (key, value) pairs sent with every call, such as ("authorization", "Bearer ...").
        retry: retry policy; None: the defaults of `Retry`.
        max_answer_bytes: maximum size of a response; a larger one is an error.
    """

    def __init__(
        self,
        server: str,
        model_name: str = "default",
        timeout: float = 10.0,
        version: int | None = None,
        *,
        label: str | None = None,
        tls: Tls | None = None,
        metadata: Iterable[tuple[str, str]] = (),
        retry: Retry | None = None,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ):
        if version is not None and label is not None:
            raise ValueError(f"`version={version}` and `label={label!r}` cannot be combined. Pass one of them.")
        self.server = server
        self.model_name = model_name
        self._questions = ClientCore(
            server, ModelTarget(model_name, version, label), timeout, retry or Retry(), max_answer_bytes
        )
        self._metadata = tuple(metadata)
        self._open = functools.partial(open_channel, server, tls, self._channels, max_answer_bytes)
        self._connect()

    def predict(
        self, inputs: Mapping[str, np.ndarray | list], signature: str = "", outputs: Sequence[str] = ()
    ) -> dict[str, np.ndarray]:
        """Calls any signature.

        Args:
            inputs: {name: array or nested lists}; integers in lists become int32, floats float32, str UTF-8.
            signature: name of the signature; by default "serving_default".
            outputs: names of the outputs; by default, all.

        Returns:
            {name: array}; strings are objects of type bytes.

        Raises:
            ValueError: the server rejects the request, there is no such model, or the response is malformed.
            ConnectionError: no server responds, or it is overloaded.
            TimeoutError: the response takes too long.
        """
        return self._run(self._questions.predict(inputs, signature, outputs))

    def ask(
        self, inputs: Mapping[str, Sequence[str] | Sequence[Sequence[str]]], typed: bool = False
    ) -> list[dict] | list[Result]:
        """Predicts texts with a model for any task, using the signature that takes text.

        Args:
            inputs: {name: n texts}, such as {"question": [...], "context": [...]}; for a list input,
                n lists of texts, of any lengths: {"context": [...], "choices": [[...], ...]}.
            typed: return objects of `client.results` instead: `.label` for ["label"].

        Returns:
            n dictionaries {output: value} of numbers, str, and lists of them, as in `results.split_answer`: a
            classifier returns {"label": str, "probabilities": {label: float}}, question answering {"answer": str,
            "start": int, "end": int, "score": float, "null_score": float}, multiple choice {"choice": int,
            "probabilities": [float]}, one probability per choice, reranking {"scores": [float], "order": [int]}.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`; also if an output does not have one row per text.
        """
        return self._run(self._questions.ask(inputs, typed))

    def classify(
        self, texts: Sequence[str], second_texts: Sequence[str] | None = None, typed: bool = False
    ) -> list[dict] | list[Result]:
        """Classifies texts or text pairs, using the signature that takes text.

        Args:
            texts: n texts.
            second_texts: n second texts, for a model of text pairs.
            typed: as `ask`.

        Returns:
            n dictionaries {"label": str, "probabilities": {label: float}}.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`; also if the model is not a classifier.
        """
        return self._run(self._questions.classify(texts, second_texts, typed))

    def signatures(self) -> dict[str, ModelSignature]:
        """Returns {name: Signature}, the inputs and outputs of the model.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`.
        """
        return self._run(self._questions.signatures())

    def text_inputs(self, signature: str = "") -> tuple[str, ...]:
        """Returns the names of an example's texts, for `ask` and `stream`: ("question", "context").

        Args:
            signature: name of the signature; by default "serving_default".

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`.
        """
        return self._run(self._questions.text_inputs(signature))

    def status(self) -> list[VersionStatus]:
        """Returns the states of the model's versions known to the server, the newest first.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`.
        """
        return self._run(self._questions.status())

    def _connect(self):
        self._channel = self._open()
        stubs = {
            name: self._channel.unary_unary(path, request.SerializeToString)
            for name, (path, request, _) in METHODS.items()
        }
        # A call without waiting for it; asyncio calls never wait here.
        self._calls = {name: getattr(stub, "future", stub) for name, stub in stubs.items()}

    # Progress of a query. A subclass adds `_channels`, the module that creates them, and `_finish`, which waits.

    def _run(self, question):
        return self._finish(self._begin(question))

    def _begin(self, question) -> CallState:
        """Starts the first call of a query without waiting for it."""
        try:
            return self._advance(question, question.send, None)
        except ValueError as error:  # raised when its turn comes
            return CallState(question, value=error)

    def _advance(self, question, feed, value) -> CallState:
        """Feeds a query its result with `feed`, and starts its next call."""
        try:
            step = feed(value)
        except StopIteration as end:
            return CallState(question, value=end.value)
        if not isinstance(step, Rpc):
            return CallState(question, wait=step)
        call = self._calls[step.method](step.request, timeout=step.timeout, metadata=self._metadata)
        return CallState(question, call)


def read_end(progress: CallState) -> Any:
    """Returns the result of a finished query, or raises its error."""
    if isinstance(progress.value, Exception):
        raise progress.value
    return progress.value


# === Stream ===
# Many queries in flight: bounds, failures, and the order of embeddings.


ERRORS = ("raise", "yield")
IN_FLIGHT, BATCH = 64, 32  # concurrent queries; texts per query for embeddings
FAILURES = (ValueError, OSError)  # ConnectionError and TimeoutError are subclasses of OSError


def check_stream_arguments(in_flight: int, batch_size: int, errors: str):
    """Raises ValueError for invalid arguments of a stream."""
    for name, value in (("in_flight", in_flight), ("batch_size", batch_size)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1. Got {value}. 64 queries of one text each work well.")
    if errors not in ERRORS:
        raise ValueError(f"`errors` must be one of {', '.join(ERRORS)}. Got {errors!r}.")


def give_back(error: Exception, errors: str, size: int) -> list[Any]:
    """Returns placeholders for the results of a failed query with `size` items, or raises its error."""
    if errors == "raise":
        raise error
    return [error] * size


def restore_order(vectors: Sequence[np.ndarray], order: Sequence[int]) -> np.ndarray:
    """Returns embeddings, the i-th of the text with index order[i], as float32 [n, D] in the texts' order.

    Raises:
        ValueError: their lengths differ.
    """
    if len(sizes := {len(vector) for vector in vectors}) > 1:
        raise ValueError(
            f"Output `embedding` must be vectors of one length; got {min(sizes)} to {max(sizes)} numbers. The "
            "model may have been replaced in the meantime."
        )
    found = np.empty([len(order), *np.shape(vectors[0])], np.float32)
    found[order] = vectors
    return found


# === Client ===


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
        typed: bool = False,
        errors: str = "raise",
    ) -> Iterator[Any]:
        """Predicts any number of examples, many at a time, and yields the predictions in the order of the examples.

        It reads no further ahead than the queries in flight.

        Args:
            items: texts; if an example has several, dictionaries by name, or tuples in the order of the signature's
                `text_inputs`, if that has a customary order.
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


# === Async client ===
# The same for asyncio.


class AsyncClient(BaseClient, contextlib.AbstractAsyncContextManager):
    """Asynchronous gRPC client for one model of a server; an async context manager.

    Its arguments and methods are those of `BaseClient`, except that methods must be awaited:
    `await client.ask(...)`. Create it anywhere, and use it in one running event loop at a time.
    """

    _channels = grpc.aio
    _loop: asyncio.AbstractEventLoop | None = None  # of the channel

    async def stream(
        self,
        items: Iterable[Any] | AsyncIterable[Any],
        in_flight: int = IN_FLIGHT,
        batch_size: int = 1,
        typed: bool = False,
        errors: str = "raise",
    ) -> AsyncIterator[Any]:
        """Yields as `Client.stream` does, from the same arguments; `items` may also be asynchronous."""
        if not isinstance(items, AsyncIterable):
            refuse_no_list(items, "items")
        check_stream_arguments(in_flight, batch_size, errors)
        names = await self.text_inputs()
        parts = _chunks(items, batch_size)
        questions = ((len(part), self._questions.ask_items(part, names, typed)) async for part in parts)
        async for answer in self._window(questions, in_flight, errors):
            yield answer

    async def encode(self, texts: Sequence[str], batch_size: int = BATCH, in_flight: int = 4) -> np.ndarray:
        """Returns embeddings as `Client.encode` does, from the same arguments."""
        check_stream_arguments(in_flight, batch_size, "raise")
        texts = text_list(texts)
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))  # a batch of one length has little padding
        parts = _chunks(order, batch_size)
        questions = ((len(part), self._questions.vectors([texts[i] for i in part])) async for part in parts)
        found = [vector async for vector in self._window(questions, in_flight, "raise")]
        if not found:
            return np.zeros([0, await self._run(self._questions.width())], np.float32)
        return restore_order(found, order)

    async def close(self):
        """Closes the connection and cancels calls in progress."""
        if self._loop is asyncio.get_running_loop():  # otherwise, its loop has ended, and its calls with it
            await self._channel.close()

    async def __aexit__(self, *error):
        await self.close()

    def _connect(self):
        """Opens the connection, which belongs to the running event loop; without one, the first call does."""
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        super()._connect()

    def _run(self, question):
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # in `asyncio.run(client.ask(...))`, the loop starts after this
            return self._run_later(question)
        return super()._run(question)

    async def _run_later(self, question):
        return await super()._run(question)

    def _begin(self, question):
        if self._loop is not asyncio.get_running_loop():
            if self._loop is not None and self._loop.is_running():
                raise ValueError(
                    "This AsyncClient is in use in another event loop. Create one AsyncClient for each event loop that "
                    "runs at the same time, or use Client, which threads can share."
                )
            self._connect()
        return super()._begin(question)

    async def _window(self, questions, in_flight, errors):
        """Yields the results of (size, query) pairs, row by row, with many queries at a time."""
        waiting = collections.deque()
        try:
            async for size, question in questions:
                waiting.append((size, self._begin(question)))
                while waiting and (len(waiting) >= in_flight or waiting[0][1].is_done):
                    for row in await self._rows(*waiting.popleft(), errors):
                        yield row
            while waiting:
                for row in await self._rows(*waiting.popleft(), errors):
                    yield row
        finally:
            for _, progress in waiting:
                if progress.call is not None:
                    progress.call.cancel()

    async def _rows(self, size, progress, errors):
        try:
            return await self._finish(progress)
        except FAILURES as error:
            return give_back(error, errors, size)

    async def _finish(self, progress):
        while not progress.has_ended:
            question = progress.question
            try:
                response = await self._wait(progress)
            except grpc.RpcError as error:
                progress = self._advance(question, question.throw, error)
            else:
                progress = self._advance(question, question.send, response)
        return read_end(progress)

    async def _wait(self, progress):
        if progress.call is None:
            return await asyncio.sleep(progress.wait)
        return await progress.call


async def _chunks(items, size):
    """Yields lists of `size` items, the last one of the rest, of an iterable of either kind."""
    chunk = []
    async for item in _each(items):
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


async def _each(items):
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
