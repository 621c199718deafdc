"""A served model: loads, warms up and replaces the versions of its policy without losing requests."""

import contextlib
import dataclasses
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import TYPE_CHECKING

import grpc
import numpy as np
from absl import logging

from bert_tf.lite.fast_path import open_fast_path
from bert_tf.lite.litert_file import MODEL_FILE
from bert_tf.serving.errors import ServingError, failed_precondition, not_found
from bert_tf.serving.server.batching import Batcher
from bert_tf.serving.server.fast_answers import FastAnswers
from bert_tf.serving.server.regular_files import GRAPHS, folder_fingerprint
from bert_tf.serving.server.request_context import INTERNAL, RequestContext
from bert_tf.serving.server.scheduling import Scheduler
from bert_tf.serving.server.session_bundle import DEFAULT, Bundle
from bert_tf.serving.server.version_folders import explain_no_versions, find_versions
from bert_tf.serving.server.version_policy import LATEST, Policy
from bert_tf.serving.server.warmup import prepare_signatures, replay
from bert_tf.utils.memory import return_free_memory

if TYPE_CHECKING:
    from bert_tf.serving.server.saved_model import SavedModel
    from bert_tf.serving.server.tflite_model import TfliteModel
    from bert_tf.serving.server.tflite_texts import TfliteTexts

_UNKNOWN, _NOT_FOUND = 2, 5  # canonical code numbers
_FORGOTTEN = "Did you forget to name your leaf directory as a number (eg. '/1/')?"

# (signature, {input alias: array}, output aliases, call, its RequestPlan or None) -> {output alias: array}; raises
# ServingError
Compute = Callable[..., dict[str, np.ndarray]]


def direct(model: "SavedModel | TfliteModel | TfliteTexts", scheduler: Scheduler) -> Compute:
    """Returns a function that computes each request by itself, in the caller's thread, when it is its turn.

    Many rows are computed in parts: others have their turn in between, and abandoned requests end between parts.
    """

    def compute(signature, inputs, aliases, call, plan=None):
        plan = plan or model.sequences.plan(signature, inputs)
        feeds = {signature.inputs[alias].tensor: array for alias, array in inputs.items()}
        weight, answers = math.inf if signature.explains else plan.weight, []
        with scheduler.begun(call) if plan.parts else contextlib.nullcontext():
            for part in plan.parts or (...,):
                with model.turn(call), scheduler.turn(call, weight):
                    call.check()
                    answers.append(model.run({name: array[part] for name, array in feeds.items()}, signature.key[1]))
        if plan.parts:
            order = np.argsort(np.concatenate(plan.parts))
            outputs = [np.concatenate(each)[order] for each in zip(*answers, strict=True)]
        else:
            (outputs,) = answers
        arrays = dict(zip(signature.key[1], outputs, strict=True))
        return {alias: arrays[signature.outputs[alias].tensor] for alias in aliases}

    return compute


@dataclasses.dataclass(eq=False)
class Version:
    """A loaded version for requests.

    Attributes:
        name: name of the model.
        number: number of the version.
        model: the loaded model.
        compute: runs it for one request or one batch.
        batched: runs it in a batch with other requests; if None, each request is computed for itself.
        scheduler: scheduler of the server, shared by all models.
        batcher: batcher of this version only, closed with it; or None.
        running: number of running requests.
        retired: whether it no longer accepts requests.
    """

    name: str
    number: int
    model: "SavedModel | TfliteModel | TfliteTexts"
    compute: Compute
    scheduler: Scheduler
    batched: Callable | None = None
    batcher: Batcher | None = None
    running: int = 0
    retired: bool = False


@dataclasses.dataclass(frozen=True)
class State:
    """The state of a version.

    Attributes:
        name: "LOADING", "AVAILABLE", "UNLOADING" or "END", TensorFlow Serving's words.
        code: canonical code number of the error that ended it; 0 for none.
        message: the error in words.
    """

    name: str
    code: int = 0
    message: str = ""


@dataclasses.dataclass(frozen=True)
class Refusal:
    """Why a version is not loaded.

    Attributes:
        files: its fingerprint at that time.
        tries: number of failures with it.
        again: time of the next try, on the clock of `time.monotonic`.
    """

    files: frozenset
    tries: int
    again: float


@dataclasses.dataclass(frozen=True)
class Loading:
    """Settings for loading versions.

    Attributes:
        bundle: how a version is loaded, warmed up and run.
        scheduler: shared by all models.
        batcher_of: directory of a version -> (its batcher, or None if each request is computed by itself; whether it is
            only for this version); None for no batching.
        load_pool: in which models are loaded in parallel; None for one at a time.
        unload_turns: of the threads that free versions; if None, a version's last user frees it.
        max_num_load_retries: number of retries for a version that cannot be loaded.
        load_retry_interval_micros: wait before each retry.
        keep_previous_version: whether the version before the newest ones stays loaded.
    """

    bundle: Bundle = DEFAULT
    scheduler: Scheduler = dataclasses.field(default_factory=Scheduler)
    batcher_of: Callable[[str], tuple[Batcher | None, bool]] | None = None
    load_pool: futures.Executor | None = None
    unload_turns: threading.Semaphore | None = None
    max_num_load_retries: int = 5
    load_retry_interval_micros: int = 60_000_000
    keep_previous_version: bool = False


EACH_ALONE = Loading()


class ServedModel:
    """The model `name`, whose versions are the numbered directories in `base_path`.

    Any number of threads may call its methods; only one of them loads versions at a time.
    """

    def __init__(self, name: str, base_path: str, policy: Policy = LATEST, loading: Loading = EACH_ALONE):
        self.name = name
        self.base_path = base_path
        self.policy = policy
        self._loading = loading
        self._turn = threading.Lock()  # held by the thread that loads
        self._lock = threading.Lock()
        self._closed, self._held = False, 0
        self._serving: dict[int, Version] = {}
        self._states: dict[int, State] = {}
        self._refused: dict[int, Refusal] = {}
        self._complaint = self._fault = ""
        self._present: set[int] = set()  # versions that had a folder at the last check

    def poll(self):
        """Checks for versions once: loads those that the policy selects, then unloads those that it no longer selects.

        If another thread is loading versions, it waits for the next check. Problems are logged once.
        """
        if self._closed or not self._turn.acquire(blocking=False):
            return
        try:
            policy = self.policy
            wanted = self._load_wanted(policy, INTERNAL)
            stay = self._and_previous(policy, wanted)
            self._retire(lambda number: self.policy is policy and not self._held and stay and number not in stay)
            self._fault = ""
        except Exception as error:  # of one model, which must not end the polling of the others
            if repr(error) != self._fault:  # once, not at each check
                logging.exception("Checking for versions of %s failed. %s", self.name, self._stays())
            self._fault = repr(error)
        finally:
            self._turn.release()

    def load(self, policy: Policy, call: RequestContext = INTERNAL) -> set[int]:
        """Loads the versions that `policy` selects, if they exist and can be loaded, and returns them.

        If one of the newest versions cannot be loaded, the previous one is used instead. The failed one is tried again
        a few times, and when a file in it changes.

        Args:
            policy: the requested versions.
            call: context of the waiting call; loading stops if the caller disconnects.

        Raises:
            ServingError: the call is over.
        """
        seconds = call.seconds_left
        if not self._turn.acquire(timeout=-1 if seconds is None else min(seconds, threading.TIMEOUT_MAX)):
            code = grpc.StatusCode.DEADLINE_EXCEEDED
            raise ServingError(code, f"The deadline passed while other versions of {self.name} were loaded")
        try:
            return self._load_wanted(policy, call)
        finally:
            self._turn.release()

    def settle(self, policy: Policy, wanted: set[int]):
        """Switches to `policy`, serving only the versions `wanted`; if there are none, the served ones stay."""
        self.policy, stay = policy, self._and_previous(policy, wanted)
        self._retire(lambda number: stay and number not in stay)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Context manager in which polling unloads nothing, so that versions loaded for another policy stay."""
        with self._lock:
            self._held += 1
        try:
            yield
        finally:
            with self._lock:
                self._held -= 1

    @contextlib.contextmanager
    def lease(self, number: int | None = None) -> Iterator[Version]:
        """Yields the version of this number, or the newest served one; it stays loaded until the block ends.

        Raises:
            ServingError: the version is not loaded.
        """
        with self._lock:
            if number is None and not self._serving:
                raise not_found(f"Servable not found for request: Latest({self.name})")
            version = self._serving.get(max(self._serving) if number is None else number)
            if version is None:
                raise not_found(f"Servable not found for request: Specific({self.name}, {number})")
            version.running += 1
        try:
            yield version
        finally:
            with self._lock:
                version.running -= 1
                last = version.retired and not version.running
            if last:
                self._unload(version)

    def states(self) -> dict[int, State]:
        """Returns {version: state} of all versions seen so far."""
        with self._lock:
            return dict(self._states)

    def available(self) -> set[int]:
        """Returns the versions that are served."""
        with self._lock:
            return set(self._serving)

    def close(self):
        """Stops serving, including versions still being loaded; frees the weights after the running requests."""
        with self._lock:
            self._closed = True
        self._retire(lambda number: True)

    def _load_wanted(self, policy, call):
        folders = self._folders(policy)
        self._present, wanted = set(folders), set()
        for number in policy.candidates(folders):
            if policy.newest is not None and len(wanted) == policy.newest:
                break
            call.check()
            if number in self._serving or self._load(number, folders[number]):
                wanted.add(number)
        return wanted

    def _and_previous(self, policy, wanted):
        """Returns the versions that stay loaded: the wanted ones and, if it is kept for a rollback, the one before."""
        if not self._loading.keep_previous_version or policy.newest is None or not wanted:
            return wanted
        before = [number for number in self.available() & self._present if number < min(wanted)]
        return wanted | {max(before)} if before else wanted

    def _folders(self, policy):
        """Returns {version: folder}, and logs problems once if none or not all requested ones exist."""
        try:
            folders = find_versions(self.base_path)
            complaint = self._explain_missing(policy, folders)
        except (OSError, ValueError) as error:
            folders, complaint = {}, f"No version of {self.name} was found: {error}."
        if complaint and complaint != self._complaint:
            logging.warning("%s %s", complaint, self._stays())
        self._complaint = complaint
        return folders

    def _explain_missing(self, policy, folders):
        """Returns a message about the missing versions, in TensorFlow Serving's words if it has them."""
        if not folders:
            complaint = f"No versions of servable {self.name} found under base path {self.base_path}"
            what = explain_no_versions(self.base_path)
            return f"{complaint}, {what}." if what else f"{complaint}. {_FORGOTTEN}"
        missing = ", ".join(map(str, policy.missing(folders)))
        if missing:
            return f"Some versions of {self.name} were not found: {self.base_path} has no folder for {missing}."
        return ""

    def _load(self, number, folder):
        """Loads, warms and serves a version; returns whether that succeeded."""
        files = folder_fingerprint(folder)
        if not self._may_try(number, files):
            return False
        started = time.monotonic()
        self._set_state(number, State("LOADING"))
        try:
            version, requests = self._load_version(number, folder)
        except Exception as error:  # a broken version must not affect the server and the others
            self._refuse(number, files, error)
            version = None
        return_free_memory()  # loading takes several times the final memory
        if version is None:
            return False
        self._refused.pop(number, None)
        with self._lock:
            closed = self._closed
            if not closed:
                self._serving[number] = version
            self._states[number] = State("UNLOADING" if closed else "AVAILABLE")
        if closed:
            self._free(version)
            return False
        seconds = time.monotonic() - started
        warmed = f"{requests} warm-up requests" if requests else "no warm-up requests"
        logging.info("Serving version %d of %s from %s: %.1f s, %s.", number, self.name, folder, seconds, warmed)
        return True

    def _load_version(self, number, folder):
        """Returns (version, number of its warm-up requests)."""
        bundle = self._loading.bundle
        files = os.listdir(folder)
        is_served = bundle.prefer_tflite_model or bundle.engine == "litert"
        if MODEL_FILE in files and not is_served and not GRAPHS.intersection(files):
            raise failed_precondition(
                f"It only has a {MODEL_FILE}; set `engine=litert` to serve it with texts as inputs, or "
                "`prefer_tflite_model` with token ids"
            )
        is_tflite = bundle.engine == "litert" or (MODEL_FILE in files and bundle.prefer_tflite_model)
        model = _model_class(is_tflite, bundle)(folder, bundle)
        scheduler = self._loading.scheduler
        version = Version(self.name, number, model, direct(model, scheduler), scheduler)
        try:
            requests = 0
            if bundle.enable_model_warmup:
                if bundle.engine != "litert":  # whose model lacks most of the signatures that are asked
                    requests = replay(version, folder, bundle.num_request_iterations)
                prepare_signatures(version)
            if not is_tflite:
                threads, is_warmed = (bundle.cores, bundle.threads), bundle.enable_model_warmup
                if fast_path := open_fast_path(folder, *threads, bundle.engine, is_warmed):
                    version.compute = FastAnswers(version.compute, model, fast_path)
            if self._loading.batcher_of and not is_tflite:  # LiteRT would compute a batch one by one
                batcher, own = self._loading.batcher_of(folder)
                version.batcher = batcher if own else None
                version.batched = batcher and batcher.batch(self.name, version.compute)
        except BaseException:
            model.close()
            raise
        return version, requests

    def _may_try(self, number, files):
        refusal = self._refused.get(number)
        if refusal is None or refusal.files != files:
            return True
        return refusal.tries <= self._loading.max_num_load_retries and refusal.again <= time.monotonic()

    def _refuse(self, number, files, error):
        before = self._refused.get(number)
        tries = before.tries + 1 if before and before.files == files else 1
        again = time.monotonic() + self._loading.load_retry_interval_micros / 1e6
        self._refused[number] = Refusal(files, tries, again)
        message = " ".join(str(getattr(error, "message", error)).split("\n")[0].split()) or type(error).__name__
        message = message.encode("utf-8", "backslashreplace").decode()  # file names need not be UTF-8
        logging.error("Rejected version %d of %s: %s. %s", number, self.name, message.rstrip("."), self._stays())
        self._set_state(number, State("END", _code_number(error), message))

    def _retire(self, is_over):
        """Takes the versions with `is_over(number)` out of service atomically; each ends with its last request."""
        with self._lock:
            over = [self._serving.pop(number) for number in list(self._serving) if is_over(number)]
            for version in over:
                version.retired = True
                self._states[version.number] = State("UNLOADING")
            idle = [version for version in over if not version.running]
        for version in idle:
            self._unload(version)

    def _unload(self, version):
        if self._loading.unload_turns is None:
            self._free(version)
        else:
            threading.Thread(target=self._free, args=[version, self._loading.unload_turns], name="unload").start()

    def _free(self, version, turn=contextlib.nullcontext()):  # noqa: B008  it has no state
        with turn:
            if version.batcher:
                version.batcher.close()
            version.model.close()
            return_free_memory()
        with self._lock:
            if self._states[version.number].name == "UNLOADING":  # it may have been loaded again by now
                self._states[version.number] = State("END")

    def _set_state(self, number, state):
        with self._lock:
            self._states[number] = state

    def _stays(self):
        served = sorted(self.available())
        if not served:
            return f"No version of {self.name} is served."
        numbers = ", ".join(map(str, served))
        return f"Version {numbers} is still served." if len(served) == 1 else f"Versions {numbers} are still served."


def _model_class(is_tflite, bundle):
    """Returns the class of a version's model; only that of SavedModels imports TensorFlow."""
    if not is_tflite:
        from bert_tf.serving.server.saved_model import SavedModel

        return SavedModel
    if bundle.engine == "litert":
        from bert_tf.serving.server.tflite_texts import TfliteTexts

        return TfliteTexts
    from bert_tf.serving.server.tflite_model import TfliteModel

    return TfliteModel


def _code_number(error):
    """Returns the canonical code number of any error while loading."""
    if isinstance(error, ServingError):
        return error.code.value[0]
    return getattr(error, "error_code", _NOT_FOUND if isinstance(error, OSError) else _UNKNOWN)
