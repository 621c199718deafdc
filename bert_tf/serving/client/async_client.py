"""The client of `client.py` for programs on asyncio."""

import asyncio
import collections
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import Any

import grpc
import numpy as np

from bert_tf.serving.client import stream as client_stream
from bert_tf.serving.client.base import BaseClient, read_end
from bert_tf.utils.text_lists import refuse_no_list, text_list


class AsyncClient(BaseClient):
    """A connection to one model of one server, made and used inside a running event loop; an async context manager.

    Its arguments are those of `BaseClient`, and so are its methods, but that what they return is to be awaited:
    `await client.ask(...)`.
    """

    _channels = grpc.aio

    async def stream(
        self,
        items: Iterable[Any] | AsyncIterable[Any],
        in_flight: int = client_stream.IN_FLIGHT,
        batch_size: int = 1,
        typed: bool = False,
        errors: str = "raise",
    ) -> AsyncIterator[Any]:
        """Yields as `Client.stream` does, from the same arguments; `items` may also come asynchronously."""
        if not isinstance(items, AsyncIterable):
            refuse_no_list(items, "items")
        client_stream.check(in_flight, batch_size, errors)
        names = await self.text_inputs()

        async def questions():
            async for chunk in _chunks(items, batch_size):
                yield len(chunk), self._questions.ask_items(chunk, names, typed)

        async for answer in self._window(questions(), in_flight, errors):
            yield answer

    async def encode(
        self, texts: Sequence[str], batch_size: int = client_stream.BATCH, in_flight: int = 4
    ) -> np.ndarray:
        """Returns what `Client.encode` does, from the same arguments."""
        client_stream.check(in_flight, batch_size, "raise")
        texts = text_list(texts)
        order = client_stream.by_length(texts)

        async def questions():
            async for each in _chunks(order, batch_size):
                yield len(each), self._questions.vectors([texts[i] for i in each])

        found = [vector async for vector in self._window(questions(), in_flight, "raise")]
        if not found:
            return np.zeros([0, await self._run(self._questions.width())], np.float32)
        return client_stream.in_order(found, order)

    async def close(self):
        """Ends the connection, and the calls that are under way."""
        await self._channel.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        await self.close()

    async def _window(self, questions, in_flight, errors):
        """Yields what (size, question) pairs return, row by row, so many of them at a time."""
        waiting = collections.deque()
        try:
            async for size, question in questions:
                waiting.append((size, self._begin(question)))
                while waiting and (len(waiting) >= in_flight or client_stream.is_done(waiting[0][1])):
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
        except client_stream.FAILURES as error:
            return client_stream.give_back(error, errors, size)

    def _send(self, stub, request, **options):
        return stub(request, **options)

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
    """Yields lists of `size` items, the last of what is left, of an iterable of either kind."""
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
