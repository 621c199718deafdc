"""What the client that waits and the one that does not have in common, which is all but the waiting."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.serving.client.channel import MAX_ANSWER_BYTES, Retry, Tls, open_channel
from bert_tf.serving.client.questions import Question, Questions
from bert_tf.serving.client.requests import METHODS, Rpc, Signature, Target, VersionStatus
from bert_tf.serving.client.results import Result


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
        server: "host:port" of its gRPC face, or "unix:PATH" where it listens on a socket.
        model_name: the model.
        timeout: seconds after which a question gives up, repetitions included.
        version: of the model; by default the newest.
        label: of a version, instead of its number.
        tls: how the connection is encrypted; None: it is not.
        metadata: (key, value) pairs sent with every call, such as ("authorization", "Bearer ...").
        retry: which calls are made again; None: as `Retry` does by itself.
        max_answer_bytes: of an answer; a longer one is an error.
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
            raise ValueError(f"`version` must come without `label`. Received {version} and {label!r}; give one.")
        self.server = server
        self.model_name = model_name
        self._questions = Questions(
            server, Target(model_name, version, label), timeout, retry or Retry(), max_answer_bytes
        )
        self._metadata = tuple(metadata)
        self._channel = open_channel(server, tls, self._channels, max_answer_bytes)
        self._stubs = {
            name: self._channel.unary_unary(path, request.SerializeToString)
            for name, (path, request, _) in METHODS.items()
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
            ValueError: the server refuses the request, there is no such model, or the answer is malformed.
            ConnectionError: no server answers, or it has no room.
            TimeoutError: it takes too long.
        """
        return self._run(self._questions.predict(inputs, signature, outputs))

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
        return self._run(self._questions.ask(inputs, typed))

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
        return self._run(self._questions.classify(texts, second_texts, typed))

    def signatures(self) -> dict[str, Signature]:
        """Returns {name: Signature}: what the model takes and gives.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`.
        """
        return self._run(self._questions.signatures())

    def text_inputs(self, signature: str = "") -> tuple[str, ...]:
        """Returns the names of the texts that an example has, as `ask` and `stream` want them: ("question", "context").

        Args:
            signature: its name; by default "serving_default".

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`.
        """
        return self._run(self._questions.text_inputs(signature))

    def status(self) -> list[VersionStatus]:
        """Returns the state of the versions of the model that the server has met, the newest first.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`.
        """
        return self._run(self._questions.status())

    # Progress of a question. A subclass adds `_channels`, the module that makes them, `_send`, which makes a call and
    # does not wait for it, and `_finish`, which waits.

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
