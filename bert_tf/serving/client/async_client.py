"""The client for asyncio. It does not need TensorFlow."""

import asyncio
import collections
import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import Any

import grpc
import numpy as np

from bert_tf.serving.client.base_client import BaseClient, read_end
from bert_tf.serving.client.streams import BATCH, FAILURES, IN_FLIGHT, check_stream_arguments, give_back, restore_order
from bert_tf.utils.text_inputs import refuse_no_list, text_list


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
        typed: bool | type = False,
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
