"""What the client that waits and the one that does not have in common, which is all but the waiting.

A question is a generator: it yields the calls that it needs, and the seconds that it wants to wait, is sent the
answers, and returns what was asked for. So
`Client` and `AsyncClient` differ only in how they wait for a call.
"""

import itertools
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import grpc
import numpy as np

from bert_tf.serving import client_requests
from bert_tf.serving.answers import CLASSES, rows
from bert_tf.serving.client_channel import Retry, Tls
from bert_tf.serving.client_errors import WRONG, explain, find_fault
from bert_tf.serving.client_items import even
from bert_tf.serving.client_requests import DEFAULT, METHODS, PAIR, Rpc, Signature, Target, VersionStatus
from bert_tf.serving.client_results import Result
from bert_tf.serving.client_results import typed as typed_result

Question = Generator[Rpc | float, Any, Any]
_EMBEDDING = "embedding"  # the output of a model that makes vectors


class Progress(NamedTuple):
    """How far a question has come.

    Attributes:
        question: the generator.
        call: the one that it waits for, or None.
        wait: seconds that it wants to wait, or None; without both it has ended.
        value: what it returned, or the exception with which it ended before its first call.
    """

    question: Question
    call: Any = None
    wait: float | None = None
    value: Any = None

    @property
    def has_ended(self) -> bool:
        return self.call is None and self.wait is None


class BaseClient:
    """A connection to one model of one server.

    Args:
        server: "host:port" of its gRPC face.
        model_name: the model.
        timeout: seconds after which a question gives up, repetitions included.
        version: of the model; by default the newest.
        label: of a version, instead of its number.
        tls: how the connection is encrypted; None: it is not.
        metadata: (key, value) pairs sent with every call, such as ("authorization", "Bearer ...").
        retry: which calls are made again; None: as `Retry` does by itself.
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
    ):
        if version is not None and label is not None:
            raise ValueError(f"`version` must come without `label`. Received {version} and {label!r}; give one.")
        self.server = server
        self.model_name = model_name
        self._timeout = timeout
        self._target = Target(model_name, version, label)
        self._metadata = tuple(metadata)
        self._retry = retry or Retry()
        self._channel = self._open(server, tls and tls.credentials())
        self._stubs = {
            name: self._channel.unary_unary(path, request.SerializeToString, response.FromString)
            for name, (path, request, response) in METHODS.items()
        }

    def predict(
        self, inputs: Mapping[str, np.ndarray | list], signature: str = "", outputs: Sequence[str] = ()
    ) -> dict[str, np.ndarray]:
        """Runs any signature.

        Args:
            inputs: {name: array or nested lists}; integers in lists become int32, floats float32, str UTF-8.
            signature: its name; by default "serving_default".
            outputs: the ones wanted; by default all.

        Returns:
            {name: array}; strings as objects of type bytes.

        Raises:
            ValueError: the server refuses the request, or there is no such model.
            ConnectionError: no server answers, or it has no room.
            TimeoutError: it takes too long.
        """
        return self._run(self._predict(inputs, signature, outputs))

    def ask(
        self, inputs: Mapping[str, Sequence[str] | Sequence[Sequence[str]]], typed: bool = False
    ) -> list[dict] | list[Result]:
        """Asks the signature that takes text, whatever the model is for.

        Args:
            inputs: {name: n texts}, such as {"question": [...], "context": [...]}; of what an example has several,
                n lists of texts, of any lengths: {"context": [...], "choices": [[...], ...]}.
            typed: return objects of `client_results` instead: `.label` for ["label"].

        Returns:
            n dictionaries {output: value} of numbers, str, and lists of them, as `answers.rows` says: a model that
            classifies gives {"label": str, "probabilities": {label: float}}, one for questions {"answer": str,
            "start": int, "end": int, "score": float, "null_score": float}, one that chooses {"choice": int,
            "probabilities": [float]}, as many as the example has choices.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`; also where an output has no row for each text.
        """
        return self._run(self._ask(inputs, typed))

    def classify(
        self, texts: Sequence[str], second_texts: Sequence[str] | None = None, typed: bool = False
    ) -> list[dict] | list[Result]:
        """Classifies texts, or pairs of them, by the signature that takes text.

        Args:
            texts: n texts.
            second_texts: n more, where the model compares pairs.
            typed: as `ask`.

        Returns:
            n dictionaries {"label": str, "probabilities": {label: float}}.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`; also where the model does not classify.
        """
        return self._run(self._classify(texts, second_texts, typed))

    def signatures(self) -> dict[str, Signature]:
        """Returns {name: Signature}: what the model takes and gives.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`.
        """
        return self._run(self._signatures())

    def text_inputs(self, signature: str = "") -> tuple[str, ...]:
        """Returns the names of the texts that an example has, as `ask` and `stream` want them: ("question", "context").

        Args:
            signature: its name; by default "serving_default".

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`.
        """
        return self._run(self._text_inputs(signature))

    def status(self) -> list[VersionStatus]:
        """Returns the state of the versions of the model that the server has met, the newest first.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`.
        """
        return self._run(self._status())

    # Questions.

    def _predict(self, inputs, signature="", outputs=()) -> Question:
        request = client_requests.predict_request(self._target, inputs, signature, outputs)
        try:
            response = yield from self._answer("Predict", request)
        except grpc.RpcError as error:
            fault = (yield from self._find_fault(request)) if error.code() in WRONG else None
            raise fault or self._explain(error) from error
        return client_requests.read_outputs(response)

    def _find_fault(self, request) -> Question:
        """Holds a refused request against what the model takes; a server's own words, of TensorFlow, say little."""
        try:
            signatures = yield from self._signatures()
        except (ValueError, OSError):  # then the error that there was first is the one to tell
            return None
        return find_fault(request, signatures)

    def _ask(self, inputs, typed=False) -> Question:
        lengths = {name: len(texts) for name, texts in inputs.items() if not isinstance(texts, (str, bytes))}
        if len(lengths) < len(inputs) or len(set(lengths.values())) != 1:
            given = ", ".join(f"{name}: {lengths.get(name, 'one text')}" for name in inputs) or "none"
            raise ValueError(f"Inputs must be lists of equally many texts. Received {given}.")
        n = next(iter(lengths.values()))
        if not n:
            return []
        inputs, counts = even(inputs)
        found = rows((yield from self._predict(inputs)), n, counts)
        return [typed_result(row) for row in found] if typed else found

    def _classify(self, texts, second_texts, typed) -> Question:
        if second_texts is not None and len(texts) != len(second_texts):
            raise ValueError(f"Texts must come in pairs. Received {len(texts)} first, {len(second_texts)} second ones.")
        if not len(texts):
            return []
        parts = {"text": texts} if second_texts is None else dict(zip(PAIR, (texts, second_texts), strict=True))
        outputs = yield from self._predict(parts)
        if missing := set(CLASSES) - set(outputs):
            raise ValueError(
                f"Model {self.model_name!r} must classify: give {', '.join(CLASSES)}. Received an answer without "
                f"{', '.join(sorted(missing))} but with {', '.join(sorted(outputs))}; Client.ask asks such a model."
            )
        found = rows({name: outputs[name] for name in CLASSES}, len(texts))
        return [typed_result(row) for row in found] if typed else found

    def _vectors(self, texts) -> Question:
        outputs = yield from self._predict({"text": texts})
        if _EMBEDDING not in outputs:
            raise ValueError(
                f"Model {self.model_name!r} must make vectors, as `embedding`. Received an answer with "
                f"{', '.join(sorted(outputs))}; `bert-tf export` makes such a model of a sentence encoder."
            )
        return outputs[_EMBEDDING]

    def _ask_items(self, items, names, typed) -> Question:
        return (yield from self._ask(to_inputs(items, names), typed))

    def _width(self) -> Question:
        """Returns how many numbers a vector has, as the signature says."""
        kind = (yield from self._signature()).outputs.get(_EMBEDDING)
        return (kind and kind.shape and kind.shape[-1]) or 0

    def _text_inputs(self, signature) -> Question:
        return (yield from self._signature(signature)).text_inputs

    def _signature(self, name="") -> Question:
        found, name = (yield from self._signatures()), name or DEFAULT
        if name not in found:
            raise ValueError(
                f"Model {self.model_name!r} must have the signature {name}. Received one with "
                f"{', '.join(found) or 'none'}; Client.predict asks any signature."
            )
        return found[name]

    def _signatures(self) -> Question:
        response = yield from self._call("GetModelMetadata", client_requests.metadata_request(self._target))
        return client_requests.read_signatures(response)

    def _status(self) -> Question:
        response = yield from self._call("GetModelStatus", client_requests.status_request(self._target))
        return client_requests.read_status(response)

    def _call(self, method, request) -> Question:
        try:
            return (yield from self._answer(method, request))
        except grpc.RpcError as error:
            raise self._explain(error) from error

    def _answer(self, method, request) -> Question:
        """Makes a call, again where that may help, and returns its response or raises the last RpcError."""
        deadline = time.monotonic() + self._timeout
        for attempt in itertools.count(1):
            try:
                return (yield Rpc(method, request, max(0.0, deadline - time.monotonic())))
            except grpc.RpcError as error:
                wait = self._retry.find_wait(error, attempt)
                if wait is None or time.monotonic() + wait >= deadline:
                    raise
            yield wait

    def _explain(self, error):
        return explain(error, self.server, self.model_name, self._timeout)

    # Progress of a question. A subclass adds `_open`, which makes the channel, `_send`, which makes a call and does not
    # wait for it, and `_finish`, which waits.

    def _run(self, question):
        return self._finish(self._begin(question))

    def _begin(self, question) -> Progress:
        """Makes a question's first call, and does not wait for it."""
        try:
            return self._advance(question, question.send, None)
        except ValueError as error:  # told when its turn has come
            return Progress(question, value=error)

    def _advance(self, question, feed, value) -> Progress:
        """Gives a question what it waited for, by `feed`, and makes its next call."""
        try:
            step = feed(value)
        except StopIteration as end:
            return Progress(question, value=end.value)
        if not isinstance(step, Rpc):
            return Progress(question, wait=step)
        call = self._send(self._stubs[step.method], step.request, timeout=step.timeout, metadata=self._metadata)
        return Progress(question, call)


def read_end(progress: Progress) -> Any:
    """Returns what a question that has ended returned, or raises its error."""
    if isinstance(progress.value, Exception):
        raise progress.value
    return progress.value


def to_inputs(items: Sequence[Any], names: Sequence[str]) -> dict[str, list]:
    """Returns {name: n texts} of n examples.

    Args:
        items: dictionaries {name: text}; or tuples of texts in the order of `names`; or texts, where there is one name.

    Raises:
        ValueError: an example has other texts than there are names.
    """
    table = {name: [] for name in names}
    for item in items:
        parts = item if isinstance(item, Mapping) else dict(zip(names, _parts(item), strict=False))
        if set(parts) != set(names) or not isinstance(item, Mapping) and len(_parts(item)) != len(names):
            raise ValueError(
                f"An item must have the texts {', '.join(names)}. Received: {str(item):.100}; give a dictionary with "
                "these names, or a tuple in this order."
            )
        for name, text in parts.items():
            table[name].append(text)
    return table


def chunks(items: Iterable[Any], size: int) -> Iterator[list]:
    """Yields lists of `size` items, the last of what is left."""
    items = iter(items)
    while chunk := list(itertools.islice(items, size)):
        yield chunk


def _parts(item):
    return (item,) if isinstance(item, str | bytes) else tuple(item)
