"""One served model: loads, warms up and exchanges the versions that its policy asks for without losing a request."""

import contextlib
import dataclasses
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures

import grpc
import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow_serving.apis import prediction_log_pb2

from bert_tf.serving.limits import ServingError, failed_precondition, invalid, not_found
from bert_tf.serving.server import metrics
from bert_tf.serving.server.batching import Batcher
from bert_tf.serving.server.classify import classify, multi_inference, regress
from bert_tf.serving.server.model_config import LATEST, Policy
from bert_tf.serving.server.options import DEFAULT, Bundle
from bert_tf.serving.server.predict import INTERNAL, Call, predict
from bert_tf.serving.server.saved_model import SavedModel
from bert_tf.serving.server.scheduling import Scheduler
from bert_tf.serving.server.tflite_model import TFLITE_MODEL, TfliteModel
from bert_tf.serving.server.version_folders import (
    GRAPHS,
    check_regular,
    explain_no_versions,
    find_versions,
    folder_fingerprint,
)
from bert_tf.utils.resources import return_free_memory

# === Warmup ===
# The first run of a signature is slow, because TensorFlow then optimizes its graph. That is done before a version
# serves for every signature, also for those of which the export's warm-up file has no request.


FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")
_MOST = 1000
_HANDLERS = {
    "predict_log": predict,
    "classify_log": classify,
    "regress_log": regress,
    "multi_inference_log": multi_inference,
}


def prepare_signatures(version):
    """Lets TensorFlow optimize the graph of each signature."""
    for name, signature in version.model.signatures.items():
        if not signature.outputs:
            continue  # that of initialization
        try:
            version.model.prepare(*signature.key)
        except (tf.errors.OpError, ValueError) as error:  # the others may serve all the same
            reason = str(error).splitlines()[0]
            logging.warning("Signature %s of version %d cannot be run: %s", name, version.number, reason)


def replay(version, folder: str, iterations: int = 1) -> int:
    """Runs the requests in `folder`'s warm-up file, TFRecords of PredictionLog; returns how many there were.

    Args:
        version: whose model runs them.
        folder: of the version.
        iterations: how often each is run.

    Raises:
        ServingError: one of them fails, or there are more than TensorFlow Serving takes.
        ValueError: the file is none that is stored.
        tf.errors.OpError: the file is damaged.
    """
    path = os.path.join(folder, FILE)
    if not os.path.exists(path):
        return 0
    check_regular(path)
    started, count = time.monotonic(), 0
    for count, record in enumerate(tf.data.TFRecordDataset(path), start=1):
        if count > _MOST:
            raise invalid(f"Number of warmup records exceeds the maximum ({_MOST}) at {path}")
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        kind = log.WhichOneof("log_type")
        if kind in _HANDLERS:
            for _ in range(iterations):
                _HANDLERS[kind](version, getattr(log, kind).request)
        else:
            logging.warning("%s: record %d, a %s, is none that this server warms up with.", path, count, kind)
    metrics.WARMUP_LATENCY.labels(folder, "OK").observe((time.monotonic() - started) * 1e6)
    return count


# === Versions ===


_UNKNOWN, _NOT_FOUND = 2, 5  # canonical code numbers
_FORGOTTEN = "Did you forget to name your leaf directory as a number (eg. '/1/')?"

# (signature, {input alias: array}, output aliases, call, its RequestPlan or None) -> {output alias: array}; raises
# ServingError
Compute = Callable[..., dict[str, np.ndarray]]


def direct(model: SavedModel | TfliteModel, scheduler: Scheduler) -> Compute:
    """Returns what computes each request by itself, in the thread that asks, when it is its turn.

    Many rows are computed in parts: others have their turn in between, and what nobody waits for any more ends there.
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
    """A loaded version, as a request sees it.

    Attributes:
        name: of the model.
        number: of the version.
        model: what runs.
        compute: runs it for one request or one batch.
        batched: runs it in a batch with other requests; None: each request is computed for itself.
        scheduler: of the server: what runs and waits, of all models.
        batcher: of this version alone, closed with it; None: it has none.
        running: requests in it now.
        retired: whether it serves no new requests.
    """

    name: str
    number: int
    model: SavedModel
    compute: Compute
    scheduler: Scheduler
    batched: Callable | None = None
    batcher: Batcher | None = None
    running: int = 0
    retired: bool = False


@dataclasses.dataclass(frozen=True)
class State:
    """Where a version is in its life.

    Attributes:
        name: "LOADING", "AVAILABLE", "UNLOADING" or "END", TensorFlow Serving's words.
        code: canonical code number of what ended it; 0 for none.
        message: the error in words.
    """

    name: str
    code: int = 0
    message: str = ""


@dataclasses.dataclass(frozen=True)
class Refusal:
    """Why a version is not loaded.

    Attributes:
        files: its fingerprint then.
        tries: how often it has failed like that.
        again: when it is tried once more, on the clock of `time.monotonic`.
    """

    files: frozenset
    tries: int
    again: float


@dataclasses.dataclass(frozen=True)
class Loading:
    """Settings of the loading of versions.

    Attributes:
        bundle: what is loaded of a version, and how it is warmed and run.
        scheduler: what runs and waits, of all models.
        batcher_of: folder of a version -> (its batcher, or None where each request is computed by itself; whether it is
            this version's alone); None: no version has one.
        load_pool: in which the models are loaded side by side; None: they are loaded one after the other.
        unload_turns: of the threads that free versions; None: the last to use a version does it.
        max_num_load_retries: how often a version that cannot be loaded is tried again.
        load_retry_interval_micros: how long after it has failed.
    """

    bundle: Bundle = DEFAULT
    scheduler: Scheduler = dataclasses.field(default_factory=Scheduler)
    batcher_of: Callable[[str], tuple[Batcher | None, bool]] | None = None
    load_pool: futures.Executor | None = None
    unload_turns: threading.Semaphore | None = None
    max_num_load_retries: int = 5
    load_retry_interval_micros: int = 60_000_000


EACH_ALONE = Loading()


class ServedModel:
    """The model `name`, whose versions are the numbered folders under `base_path`.

    Any number of threads may call its methods; versions are loaded by one of them at a time.
    """

    def __init__(self, name: str, base_path: str, policy: Policy = LATEST, loading: Loading = EACH_ALONE):
        self.name = name
        self.base_path = base_path
        self.policy = policy
        self._loading = loading
        self._turn = threading.Lock()  # of the thread that loads
        self._lock = threading.Lock()
        self._closed, self._held = False, 0
        self._serving: dict[int, Version] = {}
        self._states: dict[int, State] = {}
        self._refused: dict[int, Refusal] = {}
        self._complaint = self._fault = ""

    def poll(self):
        """Looks for versions once: loads what the policy asks for, then unloads what it does not ask for any more.

        Where another thread loads versions already, it looks next time. What is wrong is logged, once.
        """
        if self._closed or not self._turn.acquire(blocking=False):
            return
        try:
            policy = self.policy
            wanted = self._load_wanted(policy, INTERNAL)
            self._retire(lambda number: self.policy is policy and not self._held and wanted and number not in wanted)
            self._fault = ""
        except Exception as error:  # of one model, which must not end the polling of the others
            if repr(error) != self._fault:  # once, not at each look
                logging.exception("Looking for versions of %s failed. %s", self.name, self._stays())
            self._fault = repr(error)
        finally:
            self._turn.release()

    def load(self, policy: Policy, call: Call = INTERNAL) -> set[int]:
        """Loads what `policy` asks for, as far as it is there and can be loaded, and returns those versions.

        Of the newest that a policy asks for, one that cannot be loaded gives way to the one before. It is tried again
        a few times, and when a file in it changes.

        Args:
            policy: which versions are wanted.
            call: of whoever waits for it; nothing more is loaded when its caller has left.

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
        """Serves under `policy` from now on, and only the versions `wanted`; without any, what is served stays."""
        self.policy = policy
        self._retire(lambda number: wanted and number not in wanted)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """In the block, polling unloads nothing: what was loaded for another policy is there to be settled."""
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
            ServingError: it is not loaded.
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
        """Returns {version: state} of all versions met so far."""
        with self._lock:
            return dict(self._states)

    def available(self) -> set[int]:
        """Returns the versions that are served."""
        with self._lock:
            return set(self._serving)

    def close(self):
        """Serves no more, nor what is still being loaded; frees the weights when the requests that run have ended."""
        with self._lock:
            self._closed = True
        self._retire(lambda number: True)

    def _load_wanted(self, policy, call):
        folders = self._folders(policy)
        wanted = set()
        for number in policy.candidates(folders):
            if policy.newest is not None and len(wanted) == policy.newest:
                break
            call.check()
            if number in self._serving or self._load(number, folders[number]):
                wanted.add(number)
        return wanted

    def _folders(self, policy):
        """Returns {version: folder}, and says once what is wrong where there is none, or not all that are wanted."""
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
        """Returns sentences about the versions that are not there, in TensorFlow Serving's words where it has some."""
        if not folders:
            complaint = f"No versions of servable {self.name} found under base path {self.base_path}"
            what = explain_no_versions(self.base_path)
            return f"{complaint}, {what}." if what else f"{complaint}. {_FORGOTTEN}"
        missing = ", ".join(map(str, policy.missing(folders)))
        if missing:
            return f"Some versions of {self.name} were not found: {self.base_path} has no folder for {missing}."
        return ""

    def _load(self, number, folder):
        """Loads, warms and serves a version; returns whether that went well."""
        files = folder_fingerprint(folder)
        if not self._may_try(number, files):
            return False
        started = time.monotonic()
        self._set_state(number, State("LOADING"))
        try:
            version, requests = self._load_version(number, folder)
        except Exception as error:  # whatever is wrong with one version, the server and the others live on
            self._refuse(number, files, error)
            version = None
        return_free_memory()  # a load takes several times what stays
        if version is None:
            return False
        self._refused.pop(number, None)
        with self._lock:
            closed = self._closed
            if not closed:
                self._serving[number] = version
                self._states[number] = State("AVAILABLE")
        if closed:
            self._free(version)
            return False
        seconds = time.monotonic() - started
        warmed = f"{requests} warm-up requests" if requests else "no warm-up requests"
        logging.info("Serving version %d of %s from %s: %.1f s, %s.", number, self.name, folder, seconds, warmed)
        return True

    def _load_version(self, number, folder):
        """Returns (version, how many warm-up requests it has answered)."""
        bundle = self._loading.bundle
        files = os.listdir(folder)
        if TFLITE_MODEL in files and not bundle.prefer_tflite_model and not GRAPHS.intersection(files):
            raise failed_precondition(f"It has only a {TFLITE_MODEL}; set `prefer_tflite_model` to serve it")
        is_tflite = TFLITE_MODEL in files and bundle.prefer_tflite_model
        model = (TfliteModel if is_tflite else SavedModel)(folder, bundle)
        scheduler = self._loading.scheduler
        version = Version(self.name, number, model, direct(model, scheduler), scheduler)
        try:
            requests = 0
            if bundle.enable_model_warmup:
                requests = replay(version, folder, bundle.num_request_iterations)
                prepare_signatures(version)
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
        message = message.encode("utf-8", "backslashreplace").decode()  # a file's name need not be UTF-8; an answer is
        logging.error("Refused version %d of %s: %s. %s", number, self.name, message.rstrip("."), self._stays())
        self._set_state(number, State("END", _code_number(error), message))

    def _retire(self, is_over):
        """Takes versions of which `is_over(number)` out of service in one instant; each ends with its last request."""
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

    def _free(self, version, turn=contextlib.nullcontext()):  # noqa: B008  it keeps nothing
        with turn:
            if version.batcher:
                version.batcher.close()
            version.model.close()
            return_free_memory()
            self._set_state(version.number, State("END"))

    def _set_state(self, number, state):
        with self._lock:
            self._states[number] = state

    def _stays(self):
        served = sorted(self.available())
        if not served:
            return f"Nothing of {self.name} is served."
        numbers = ", ".join(map(str, served))
        return f"Version {numbers} stays." if len(served) == 1 else f"Versions {numbers} stay."


def _code_number(error):
    """Returns the canonical code number of anything that loading may raise."""
    if isinstance(error, ServingError):
        return error.code.value[0]
    return getattr(error, "error_code", _NOT_FOUND if isinstance(error, OSError) else _UNKNOWN)
