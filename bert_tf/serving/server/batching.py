"""Server-side batching: requests enter a queue, and the threads of its batcher compute batches of their rows."""

import functools
import threading
import time
from collections.abc import Sequence

import numpy as np
from absl import logging

from bert_tf.serving.errors import ServingError, failed_precondition, unavailable
from bert_tf.serving.server import metrics
from bert_tf.serving.server.batching_limits import BatchingLimits
from bert_tf.serving.server.batching_queue import BatchItem, LengthQueue
from bert_tf.serving.server.request_context import INTERNAL, RequestContext
from bert_tf.serving.server.request_rows import batching_group, combine_answers, estimate_lengths, stack_inputs

_LOOK_SECONDS = 0.5  # between checks whether a waiting caller is still connected
_GUESS_ROWS_PER_SECOND = 100.0  # before the first batch has been timed
_STOPS = "The server stops"


class PendingRequest:
    """A request in the queue, and then in one or more batches."""

    def __init__(self, compute, signature, inputs, call):
        self.compute, self.signature, self.inputs, self.call = compute, signature, inputs, call
        self.count = 1
        self.lengths = [1]
        self.came = time.monotonic()
        # Set by the batcher, under its lock.
        self.computing = False  # a batch with one of its rows has started
        self.running = 0  # batches with its rows that are being computed
        self.ending: BaseException | None = None  # why it will get no result
        self.error: BaseException | None = None
        self.answer = None
        self.done = threading.Event()
        self._parts = []

    def add(self, indices: list[int], arrays: dict[str, np.ndarray]):
        """Stores the results of the rows `indices`; the last one ends the wait."""
        self._parts.append((indices, arrays))
        if sum(len(indices) for indices, _ in self._parts) == self.count:
            self.answer = combine_answers(self._parts, self.count)
            self.done.set()


class Batcher:
    """Batches rows of one model, one signature and similar lengths; all models share the threads.

    A request that comes while nothing waits or is computed is computed in its own thread, which is quicker. A request
    of several rows may be split, and its rows computed with those of others. Before each batch, its callers are
    checked: no further rows are computed for an abandoned request, or if a part of it has failed. A batch that fails
    is computed again request by request, so that the others get their results. `close` ends the threads.

    Args:
        parameters: limits of batches and of the queue.
        turns: limits the number of concurrent batches, including those of other batchers. If None, `num_batch_threads`.
    """

    def __init__(self, parameters: BatchingLimits, turns: threading.Semaphore | None = None):
        self.parameters = parameters
        self._turns = turns or threading.Semaphore(parameters.num_batch_threads)
        self._queue = LengthQueue(parameters.max_batch_size, parameters.max_batch_tokens)
        self._changed = threading.Condition()
        self._waiting: dict[str, int] = {}  # requests in the queue, by model
        self._rows_per_second = _GUESS_ROWS_PER_SECOND
        self._running = 0  # batches, also those of one request in its own thread
        self._closed = False
        name = parameters.thread_pool_name
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{i}", daemon=True)
            for i in range(parameters.num_batch_threads)
        ]
        for thread in self._threads:
            thread.start()

    def batch(self, model_name: str, compute) -> functools.partial:
        """Returns compute(signature, inputs, aliases, call), which is a version's `compute` with batching."""
        return functools.partial(self._compute, model_name, compute)

    def close(self):
        """Rejects waiting requests and ends the threads after the running batches."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _compute(self, model_name, compute, signature, inputs, aliases: Sequence[str], call: RequestContext):
        call.check()
        task = PendingRequest(compute, signature, inputs, call)
        shared = batching_group(signature, inputs)
        group = (model_name, id(compute), shared or id(task))
        if shared:
            task.count, task.lengths = len(next(iter(inputs.values()))), estimate_lengths(inputs)
        if self._is_next(task):
            return self._compute_alone(model_name, task, aliases)
        self._enter(model_name, group, task)
        # Wait until it is done, or until its caller has given up and none of its rows is being computed.
        while not task.done.wait(_LOOK_SECONDS if (left := call.seconds_left) is None else min(_LOOK_SECONDS, left)):
            try:
                call.check()
            except ServingError as error:
                with self._changed:
                    self._leave(group, task, error)
                break
        task.done.wait()
        if task.error is not None:
            raise task.error
        return {alias: task.answer[alias] for alias in aliases}

    def _is_next(self, task):
        """Whether a request is one batch that can start now; then it has taken a turn."""
        limits, longest = self.parameters, max(task.lengths)
        if limits.batch_timeout_micros or task.count > limits.max_batch_size:
            return False
        if task.count > 1 and task.count * longest > limits.max_batch_tokens:
            return False
        with self._changed:
            if self._closed or self._running or len(self._queue) or not self._turns.acquire(blocking=False):
                return False
            self._running += 1
            return True

    def _compute_alone(self, model_name, task, aliases):
        """Computes a request in its own thread, and gives its turn back."""
        try:
            _observe_start(model_name, task)
            _observe_batch(model_name, task.lengths)
            return task.compute(task.signature, task.inputs, aliases, task.call)
        finally:
            self._turns.release()
            with self._changed:
                self._running -= 1

    def _enter(self, model_name, group, task):
        with self._changed:
            if self._closed:
                raise unavailable(_STOPS)
            most = self.parameters.max_rows
            rows = self._queue.load(most // 2)  # a large request leaves room for others
            if rows and rows + task.count > most:
                seconds = max(0.1, len(self._queue) / self._rows_per_second)
                raise unavailable(
                    f"The batch scheduling queue to which this task was submitted is full: {len(self._queue)} rows "
                    f"wait, of at most {most} (`max_enqueued_batches` of `batching_parameters_file`); retry after "
                    f"{seconds:.1f} s"
                )
            for index, length in enumerate(task.lengths):
                self._queue.add(group, BatchItem(task, index, length))
            self._count(model_name, 1)
            self._changed.notify()

    def _leave(self, group, task, error):
        """Removes a request's waiting rows from the queue, and ends it with an error; called under the lock."""
        if task.done.is_set() or task.ending:
            return
        self._queue.remove(group, task)
        if not task.computing:
            self._count(group[0], -1)
        self._end(task, error)

    @staticmethod
    def _end(task, error):
        """Ends a request without a result; a running batch cannot be stopped, and uses the model until it ends."""
        task.ending = task.ending or error
        if not task.running and not task.done.is_set():
            task.error = task.ending
            task.done.set()

    def _count(self, model_name, change):
        self._waiting[model_name] = self._waiting.get(model_name, 0) + change
        metrics.QUEUE_LENGTH.labels(model_name).set(self._waiting[model_name])

    def _work(self):
        while True:
            with self._changed:
                while not self._closed and not self._is_ready():
                    self._changed.wait(self._seconds_to_wait())
                if self._closed:
                    while taken := self._queue.take():
                        for task in _by_task(taken[1]):
                            self._end(task, unavailable(_STOPS))
                    return
            with self._turns:
                self._run_next()

    def _run_next(self):
        """Computes a batch, unless another thread was faster."""
        with self._changed:
            if self._closed or not self._is_ready():
                return
            group, rows = self._queue.take()
            rows = self._begin(group, rows)
            self._running += bool(rows)
            self._changed.notify()  # the other threads may take more of a large request
        if not rows:
            return
        started, tasks = time.monotonic(), _by_task(rows)
        try:
            self._answer(group, tasks, rows)
        except Exception as error:
            self._run_apart(group, tasks, error)
        rate = len(rows) / max(time.monotonic() - started, 1e-6)
        with self._changed:
            self._rows_per_second += 0.1 * (rate * len(self._threads) - self._rows_per_second)
            self._running -= 1
            for task in tasks:
                task.running -= 1
                if task.ending:
                    self._end(task, task.ending)

    def _is_ready(self):
        """Whether a batch may start: it is full, or its row has waited long enough."""
        return len(self._queue) > 0 and (self._seconds_to_wait() == 0 or self._queue.is_full())

    def _seconds_to_wait(self):
        """Returns how long the next batch may still wait for more rows; None if nothing waits."""
        row = self._queue.next()
        if row is None:
            return None
        return max(0.0, row.task.came + self.parameters.batch_timeout_micros / 1e6 - time.monotonic())

    def _begin(self, group, rows):
        """Returns the rows whose callers are still connected; the others are not computed."""
        kept = []
        for task, mine in _by_task(rows).items():
            try:
                task.call.check()
            except ServingError as error:
                self._leave(group, task, error)
            if task.ending or task.done.is_set():
                continue
            task.running += 1
            if not task.computing:
                task.computing = True
                self._count(group[0], -1)
                _observe_start(group[0], task)
            kept += mine
        return kept

    def _run_apart(self, group, tasks, error):
        """Computes each request of a failed batch separately, so that one cannot affect the others."""
        for task, mine in tasks.items():
            try:
                if len(tasks) == 1:
                    raise error
                self._answer(group, {task: mine}, mine)
            except Exception as its_own:
                if not isinstance(its_own, ServingError):
                    logging.exception("A batch of %s failed", group[0])
                with self._changed:
                    self._leave(group, task, its_own)

    def _answer(self, group, tasks, rows):
        """Computes rows of one group and distributes the results to their requests."""
        first = rows[0].task
        whole = len(tasks) == 1 and len(rows) == first.count
        inputs = first.inputs if whole else stack_inputs(rows)
        outputs = first.compute(first.signature, inputs, list(first.signature.outputs), INTERNAL)
        _observe_batch(group[0], [row.length for row in rows])
        if whole:
            first.answer = outputs
            first.done.set()
            return
        for alias, array in outputs.items():
            if not np.ndim(array) or len(array) != len(rows):
                raise failed_precondition(
                    f"The output {alias} must have one entry for each of the {len(rows)} rows of a batch, "
                    f"got shape {list(np.shape(array))}"
                )
        positions = {id(row): i for i, row in enumerate(rows)}
        for task, mine in tasks.items():
            chosen = [positions[id(row)] for row in mine]
            arrays = {alias: array[chosen] for alias, array in outputs.items()}
            task.add([row.index for row in mine], arrays)


def _observe_start(model_name, task):
    metrics.QUEUING_LATENCY.labels(model_name).observe((time.monotonic() - task.came) * 1e6)


def _observe_batch(model_name, lengths):
    metrics.BATCH_SIZE.labels(model_name).observe(len(lengths))
    metrics.PADDING.labels(model_name).observe(max(lengths) * len(lengths) - sum(lengths))


def _by_task(rows):
    tasks = {}
    for row in rows:
        tasks.setdefault(row.task, []).append(row)
    return tasks
