"""Transport-independent logic of the clients: texts to requests, and responses to results.

A query is a generator: it yields the calls that it needs and the seconds to wait, is sent the responses, and returns
the result.
"""

import dataclasses
import itertools
import time
from collections.abc import Generator, Mapping
from typing import Any

import grpc

from bert_tf.serving import messages
from bert_tf.serving.client.call_errors import WRONG, explain, explain_refusal
from bert_tf.serving.client.channel import Retry
from bert_tf.serving.client.items import even, to_inputs
from bert_tf.serving.client.requests import (
    DEFAULT,
    METHODS,
    PAIR,
    ModelTarget,
    Rpc,
    is_order_known,
    join_names,
    parse_answer,
    predict_request,
    read_outputs,
    read_signatures,
    read_status,
)
from bert_tf.serving.client.results import to_dataclass
from bert_tf.utils.answers import CLASSES, split_answer
from bert_tf.utils.text_inputs import present_list, text_list

Question = Generator[Rpc | float, Any, Any]
_ENDLESS = 2**31  # elements of a vector
_EMBEDDING = "embedding"  # the output of an embedding model


@dataclasses.dataclass(frozen=True)
class ClientCore:
    """Queries for one model of one server; each method is one of `BaseClient`'s or of `Client`'s.

    Attributes:
        server, timeout, retry, max_response_bytes: as in `BaseClient`.
        target: the model.
    """

    server: str
    target: ModelTarget
    timeout: float
    retry: Retry
    max_response_bytes: int

    def predict(self, inputs, signature="", outputs=()) -> Question:
        request = predict_request(self.target, inputs, signature, outputs)
        try:
            response = yield from self._answer("Predict", request)
        except grpc.RpcError as error:
            fault = (yield from self._find_fault(request)) if error.code() in WRONG else None
            raise fault or self._explain(error) from error
        return read_outputs(response, outputs)

    def _find_fault(self, request) -> Question:
        """Compares a rejected request with the model's signature, because TensorFlow's own messages explain little."""
        try:
            signatures = yield from self.signatures()
        except (ValueError, OSError):  # then raise the original error
            return None
        return explain_refusal(request, signatures)

    def ask(self, inputs, typed=False) -> Question:
        if not isinstance(inputs, Mapping):
            raise ValueError(
                f"Inputs must be a dictionary {{name: texts}}; got {type(inputs).__name__}. `classify`, `encode` "
                "and `stream` take plain texts."
            )
        inputs = {name: present_list(values, name) for name, values in inputs.items()}
        lengths = {name: len(values) for name, values in inputs.items()}
        if len(set(lengths.values())) != 1:
            given = ", ".join(f"{name}: {length}" for name, length in lengths.items()) or "none"
            raise ValueError(f"Inputs must be lists with the same number of texts; got {given}.")
        n = next(iter(lengths.values()))
        if not n:
            return []
        inputs, counts = even(inputs)
        found = split_answer((yield from self.predict(inputs)), n, counts)
        return _typed_rows(found, typed)

    def classify(self, texts, second_texts, typed) -> Question:
        texts = text_list(texts)
        second_texts = second_texts if second_texts is None else text_list(second_texts, "second_texts")
        if second_texts is not None and len(texts) != len(second_texts):
            raise ValueError(
                f"Text pairs need as many second texts as first ones; got {len(texts)} and {len(second_texts)}."
            )
        if not texts:
            return []
        parts = {"text": texts} if second_texts is None else dict(zip(PAIR, (texts, second_texts), strict=True))
        outputs = yield from self.predict(parts)
        if missing := set(CLASSES) - set(outputs):
            raise ValueError(
                f"Model {self.target.name!r} is not a classifier with {', '.join(CLASSES)}. Its response lacks "
                f"{join_names(sorted(missing))} and has {join_names(sorted(outputs))}. Use Client.ask for such a model."
            )
        found = split_answer({name: outputs[name] for name in CLASSES}, len(texts))
        return _typed_rows(found, typed)

    def vectors(self, texts) -> Question:
        outputs = yield from self.predict({"text": texts})
        if _EMBEDDING not in outputs:
            raise ValueError(
                f"Model {self.target.name!r} does not return embeddings as `embedding`. Its response has "
                f"{join_names(sorted(outputs))}. `bert-tf export` creates such a model from a sentence encoder."
            )
        found = outputs[_EMBEDDING]
        if found.ndim != 2 or len(found) != len(texts) or found.dtype.kind != "f":
            raise ValueError(
                f"Output `embedding` must be a vector of numbers for each of the {len(texts)} texts; got "
                f"{found.dtype} of shape {list(found.shape)}. Client.predict returns it unchanged."
            )
        return found

    def ask_items(self, items, names, typed) -> Question:
        if not is_order_known(names) and not all(isinstance(item, Mapping) for item in items):
            raise ValueError(
                f"An item must be a dictionary with the texts {join_names(names)}, because the inputs of model "
                f"{self.target.name!r} have no known order; got texts without names."
            )
        return (yield from self.ask(to_inputs(items, names), typed))

    def width(self) -> Question:
        """Returns the dimension of the embeddings according to the signature."""
        kind = (yield from self.signature()).outputs.get(_EMBEDDING)
        size = (kind and kind.shape and kind.shape[-1]) or 0
        if size >= _ENDLESS:
            raise ValueError(
                f"Output `embedding` is too large for memory: {size}. Check that the address is that of a model server."
            )
        return size

    def text_inputs(self, signature) -> Question:
        return (yield from self.signature(signature)).text_inputs

    def signature(self, name="") -> Question:
        found, name = (yield from self.signatures()), name or DEFAULT
        if name not in found:
            raise ValueError(
                f"Model {self.target.name!r} has no signature {name}. It has "
                f"{join_names(found)}. Client.predict can call any signature."
            )
        return found[name]

    def signatures(self) -> Question:
        request = messages.MetadataRequest(metadata_field=["signature_def"])
        return read_signatures((yield from self._call("GetModelMetadata", request)))

    def status(self) -> Question:
        return read_status((yield from self._call("GetModelStatus", messages.StatusRequest())))

    def _call(self, method, request) -> Question:
        self.target.fill(request.model_spec)
        try:
            return (yield from self._answer(method, request))
        except grpc.RpcError as error:
            raise self._explain(error) from error

    def _answer(self, method, request) -> Question:
        """Makes a call with retries, and returns its response or raises the last RpcError."""
        deadline = time.monotonic() + self.timeout
        for attempt in itertools.count(1):
            try:
                data = yield Rpc(method, request, max(0.0, deadline - time.monotonic()))
                return parse_answer(data, METHODS[method][2], self.max_response_bytes)
            except grpc.RpcError as error:
                wait = self.retry.find_wait(error, attempt)
                if wait is None or time.monotonic() + wait >= deadline:
                    raise
            yield wait

    def _explain(self, error):
        return explain(error, self.server, self.target.name, self.timeout)


def _typed_rows(rows, typed):
    """Returns rows according to `typed`: as they are, as objects of their kind, or of a given dataclass."""
    return [to_dataclass(row, None if typed is True else typed) for row in rows] if typed else rows
