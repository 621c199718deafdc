"""What the blocking and the asynchronous client share: everything except waiting."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.serving.client.channel import MAX_RESPONSE_BYTES, Retry, Tls, open_channel
from bert_tf.serving.client.client_core import ClientCore, Question
from bert_tf.serving.client.requests import METHODS, ModelSignature, ModelTarget, Rpc, VersionStatus
from bert_tf.serving.client.results import Result
from bert_tf.utils.old_names import old_keywords


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
        tls: encryption of the connection; None for no encryption.
        metadata: (key, value) pairs sent with every call, such as ("authorization", "Bearer ...").
        retry: retry policy; None for the defaults of `Retry`.
        max_response_bytes: maximum size of a response; a larger one is an error.
    """

    @old_keywords(max_answer_bytes="max_response_bytes")
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
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ):
        if version is not None and label is not None:
            raise ValueError(f"`version={version}` and `label={label!r}` cannot be combined. Pass one of them.")
        self.server = server
        self.model_name = model_name
        self._questions = ClientCore(
            server, ModelTarget(model_name, version, label), timeout, retry or Retry(), max_response_bytes
        )
        self._metadata = tuple(metadata)
        self._open = functools.partial(open_channel, server, tls, self._channels, max_response_bytes)
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
        self, inputs: Mapping[str, Sequence[str] | Sequence[Sequence[str]]], typed: bool | type = False
    ) -> list[Any]:
        """Predicts texts with a model for any task, using the signature that takes text.

        Args:
            inputs: {name: n texts}, such as {"question": [...], "context": [...]}; for a list input,
                n lists of texts, of any lengths: {"context": [...], "choices": [[...], ...]}.
            typed: return objects instead: `.label` for ["label"]. If True, classes of `client.results`; for tasks that
                it does not cover, pass a dataclass whose fields are the outputs of the model.

        Returns:
            n dictionaries {output: value} of numbers, str, and lists of them, as in `answers.split_answer`: a
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
