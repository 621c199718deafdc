"""Runs a method over many tasks in several processes, with results in task order and bounded memory."""

import collections
import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection


class WorkerDied(ValueError):
    """A worker process ended without a result."""


class Workers:
    """A pool of processes, each with its own `make(*arguments)`; with one worker, the current process.

    with Workers(4, Stages, (context,)) as workers:
        for counts in workers.map("tokenize", [(0, blocks), (1, more_blocks)]): ...

    Args:
        number: number of processes.
        make, arguments: see above.
        threads: number of TensorFlow threads in each process, if there are several.
    """

    def __init__(self, number: int, make, arguments: tuple, threads: int = 1):
        self._number, self._others = number, set(multiprocessing.active_children())
        self._pool = self._own = None
        if number == 1:
            # It imports TensorFlow, and Python drops what a handler raises in a callback, of which imports are full.
            with _put_off(signal.SIGTERM):
                self._own = make(*arguments)
        else:  # spawned: TensorFlow does not survive a fork
            context = multiprocessing.get_context("spawn")
            # As bytes: what they bring in when they are read again, such as TensorFlow, `_start` wants to be there for.
            what = pickle.dumps((make, arguments))
            self._pool = ProcessPoolExecutor(number, context, _start, (threads, what))

    def __enter__(self):
        return self

    def __exit__(self, error, *more):
        if self._pool:
            if error:  # nobody waits for what the processes have in hand, which may take minutes
                for process in set(multiprocessing.active_children()) - self._others:
                    process.terminate()
            self._pool.shutdown(cancel_futures=True)

    def map(self, method: str, tasks):
        """Yields what the method returns for each of `tasks` (an iterable of tuples of arguments), in their order.

        Tasks are taken from the iterable two ahead for each worker, no further.

        Raises:
            WorkerDied: a process died.
        """
        if self._own is not None:
            yield from (getattr(self._own, method)(*task) for task in tasks)
            return
        waiting = collections.deque()
        try:
            for task in tasks:
                with _deaf_to_interrupts():  # a process may be started here, and inherits it
                    waiting.append(self._pool.submit(_call, method, *task))
                if len(waiting) >= 2 * self._number:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise WorkerDied(
                "A worker process died, most likely because memory ran out. Try fewer than "
                f"`num_workers={self._number}`."
            ) from error


@contextlib.contextmanager
def _deaf_to_interrupts():
    """Ctrl-C reaches all processes of a terminal: the first one ends the others, which have nothing to say about it.

    Blocked, not ignored: what comes in this moment waits for its end.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _put_off(number):
    """Lets a signal wait for the end of the block, and does then what it would have done."""
    if threading.current_thread() is not threading.main_thread():  # in others Python knows no signals
        yield
        return
    came = []
    before = signal.signal(number, lambda *_: came.append(number))
    try:
        yield
    finally:
        signal.signal(number, before)
        if came:
            signal.raise_signal(number)


_own = None  # the object of this worker process
_failure = None  # why there is none


def _start(threads, what):
    """Begins a worker process; `what` is the pickle of what makes its object."""
    global _own, _failure
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(threads))
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
    try:
        make, arguments = pickle.loads(what)
        _own = make(*arguments)
    except Exception as error:  # of an error that is raised here the first process would only hear that one has died
        _failure = error


def _end_with_parent():
    """A process whose parent was killed would wait for tasks for ever, or write what a second run writes too."""
    connection.wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


def _call(method, *task):
    if _failure:
        raise _failure
    return getattr(_own, method)(*task)
