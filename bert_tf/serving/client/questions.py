"""What a client does for its user, without the waiting: questions, which say what they wait for.

A question is a generator: it yields the calls that it needs, and the seconds that it wants to wait, is sent the
answers, and returns what was asked for.
"""

import itertools
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import grpc

from bert_tf.serving.client import requests as client_requests
from bert_tf.serving.client.answers import CLASSES, rows
from bert_tf.serving.client.channel import Retry
from bert_tf.serving.client.errors import WRONG, explain, find_fault
from bert_tf.serving.client.items import even
from bert_tf.serving.client.requests import DEFAULT, METHODS, PAIR, Rpc, Target, is_order_known, listed
from bert_tf.serving.client.results import typed as typed_result
from bert_tf.utils.text_lists import present_list, text_list

Question = Generator[Rpc | float, Any, Any]
_ENDLESS = 2**31  # numbers of a vector
_EMBEDDING = "embedding"  # the output of a model that makes vectors


class Questions:
    """The questions to one model of one server; each method is one of `client_base.BaseClient`'s, or of `Client`'s.

    Args:
        server, timeout, retry, max_answer_bytes: as `BaseClient` has them.
        target: the model.
    """

    def __init__(self, server: str, target: Target, timeout: float, retry: Retry, max_answer_bytes: int):
        self._server, self._target, self._timeout, self._retry = server, target, timeout, retry
        self._max_bytes = max_answer_bytes

    def predict(self, inputs, signature="", outputs=()) -> Question:
        request = client_requests.predict_request(self._target, inputs, signature, outputs)
        try:
            response = yield from self._answer("Predict", request)
        except grpc.RpcError as error:
            fault = (yield from self._find_fault(request)) if error.code() in WRONG else None
            raise fault or self._explain(error) from error
        return client_requests.read_outputs(response, outputs)

    def _find_fault(self, request) -> Question:
        """Holds a refused request against what the model takes; a server's own words, of TensorFlow, say little."""
        try:
            signatures = yield from self.signatures()
        except (ValueError, OSError):  # then the error that there was first is the one to tell
            return None
        return find_fault(request, signatures)

    def ask(self, inputs, typed=False) -> Question:
        if not isinstance(inputs, Mapping):
            raise ValueError(
                f"Inputs must be a dictionary {{name: texts}}. Received {type(inputs).__name__}; `classify`, `encode` "
                "and `stream` take texts alone."
            )
        inputs = {name: present_list(values, name) for name, values in inputs.items()}
        lengths = {name: len(values) for name, values in inputs.items()}
        if len(set(lengths.values())) != 1:
            given = ", ".join(f"{name}: {length}" for name, length in lengths.items()) or "none"
            raise ValueError(f"Inputs must be lists of equally many texts. Received {given}.")
        n = next(iter(lengths.values()))
        if not n:
            return []
        inputs, counts = even(inputs)
        found = rows((yield from self.predict(inputs)), n, counts)
        return [typed_result(row) for row in found] if typed else found

    def classify(self, texts, second_texts, typed) -> Question:
        texts = text_list(texts)
        second_texts = second_texts if second_texts is None else text_list(second_texts, "second_texts")
        if second_texts is not None and len(texts) != len(second_texts):
            raise ValueError(f"Texts must come in pairs. Received {len(texts)} first, {len(second_texts)} second ones.")
        if not texts:
            return []
        parts = {"text": texts} if second_texts is None else dict(zip(PAIR, (texts, second_texts), strict=True))
        outputs = yield from self.predict(parts)
        if missing := set(CLASSES) - set(outputs):
            raise ValueError(
                f"Model {self._target.name!r} must classify: give {', '.join(CLASSES)}. Received an answer without "
                f"{listed(sorted(missing))} but with {listed(sorted(outputs))}; Client.ask asks such a model."
            )
        found = rows({name: outputs[name] for name in CLASSES}, len(texts))
        return [typed_result(row) for row in found] if typed else found

    def vectors(self, texts) -> Question:
        outputs = yield from self.predict({"text": texts})
        if _EMBEDDING not in outputs:
            raise ValueError(
                f"Model {self._target.name!r} must make vectors, as `embedding`. Received an answer with "
                f"{listed(sorted(outputs))}; `bert-tf export` makes such a model of a sentence encoder."
            )
        found = outputs[_EMBEDDING]
        if found.ndim != 2 or len(found) != len(texts) or found.dtype.kind != "f":
            raise ValueError(
                f"Output `embedding` must be a vector of numbers for each of the {len(texts)} texts. Received "
                f"{found.dtype} of shape {list(found.shape)}; Client.predict returns it as it is."
            )
        return found

    def ask_items(self, items, names, typed) -> Question:
        if not is_order_known(names) and not all(isinstance(item, Mapping) for item in items):
            raise ValueError(
                f"An item must be a dictionary with the texts {listed(names)}, for the inputs of model "
                f"{self._target.name!r} have no order that is known. Received texts without names; name them."
            )
        return (yield from self.ask(to_inputs(items, names), typed))

    def width(self) -> Question:
        """Returns how many numbers a vector has, as the signature says."""
        kind = (yield from self.signature()).outputs.get(_EMBEDDING)
        size = (kind and kind.shape and kind.shape[-1]) or 0
        if size >= _ENDLESS:
            raise ValueError(f"Output `embedding` must have sizes that memory has. Received: {size}; is that a model?")
        return size

    def text_inputs(self, signature) -> Question:
        return (yield from self.signature(signature)).text_inputs

    def signature(self, name="") -> Question:
        found, name = (yield from self.signatures()), name or DEFAULT
        if name not in found:
            raise ValueError(
                f"Model {self._target.name!r} must have the signature {name}. Received one with "
                f"{listed(found)}; Client.predict asks any signature."
            )
        return found[name]

    def signatures(self) -> Question:
        response = yield from self._call("GetModelMetadata", client_requests.metadata_request(self._target))
        return client_requests.read_signatures(response)

    def status(self) -> Question:
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
                data = yield Rpc(method, request, max(0.0, deadline - time.monotonic()))
                return client_requests.parse_answer(data, METHODS[method][2], self._max_bytes)
            except grpc.RpcError as error:
                wait = self._retry.find_wait(error, attempt)
                if wait is None or time.monotonic() + wait >= deadline:
                    raise
            yield wait

    def _explain(self, error):
        return explain(error, self._server, self._target.name, self._timeout)


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
    if isinstance(item, str | bytes):
        return (item,)
    if isinstance(item, Sequence):
        return tuple(item)
    raise ValueError(f"An item must be a text, a tuple of texts or a dictionary. Received: {item!r:.99}; leave it out.")
