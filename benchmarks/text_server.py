"""A small server of aiohttp, `tokenizers` and a runtime, which text_speed.py asks beside ours.

    python benchmarks/text_server.py KIND MODEL THREADS PORT MOST

KIND and MODEL are those of text_workers.py. There are as many workers of THREADS threads as the machine has cores for;
each takes up to MOST of the texts that wait, as one batch. It reads and writes the JSON of TensorFlow Serving's REST.
"""

import asyncio
import os
import sys
from concurrent import futures

from aiohttp import web
from text_workers import KINDS

PATH = "/v1/models/model:predict"


class BatchingQueue:
    """Answers texts in batches of those that wait, without waiting for more.

    Args:
        answers: functions of a list of texts, which run at the same time.
        most: texts of a batch.
    """

    def __init__(self, answers, most):
        self._waiting, self._most = asyncio.Queue(), most
        self._executor = futures.ThreadPoolExecutor(len(answers))
        self._tasks = [asyncio.create_task(self._work(each)) for each in answers]

    async def answer(self, text):
        """Returns the probabilities of one text."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((text, future))
        return await future

    async def _work(self, answer):
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < self._most and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            texts, waiting = zip(*batch, strict=True)
            try:
                rows = await loop.run_in_executor(self._executor, answer, list(texts))
            except Exception as error:
                rows = [error] * len(batch)
            for future, row in zip(waiting, rows, strict=True):
                if future.cancelled():  # its caller has gone
                    continue
                if isinstance(row, Exception):
                    future.set_exception(row)
                else:
                    future.set_result(row)


def make_app(answers, most):
    """Returns the aiohttp application; its arguments are those of `BatchingQueue`."""

    async def start(app):
        app["queue"] = BatchingQueue(answers, most)

    async def predict(request):
        texts = (await request.json())["inputs"]["text"]
        rows = await asyncio.gather(*map(request.app["queue"].answer, texts))
        return web.json_response({"outputs": {"probabilities": rows}})

    app = web.Application()
    app.on_startup.append(start)
    app.router.add_post(PATH, predict)
    return app


def main():
    kind, model, threads, port, most = sys.argv[1:]
    os.environ["OMP_NUM_THREADS"] = threads  # before a library is imported
    callers = max(1, len(os.sched_getaffinity(0)) // int(threads))
    app = make_app(KINDS[kind](model, int(threads), callers), int(most))
    web.run_app(app, host="127.0.0.1", port=int(port), access_log=None, print=None)


if __name__ == "__main__":
    main()
