"""Transport-independent logic of the clients: texts to requests, answers to results, servers' errors to exceptions."""

import dataclasses
import itertools
import re
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import grpc

from bert_tf.serving import messages
from bert_tf.serving.client.channel import GONE, Retry
from bert_tf.serving.client.requests import (
    DEFAULT,
    METHODS,
    PAIR,
    ModelSignature,
    ModelTarget,
    Rpc,
    TensorKind,
    clean,
    is_order_known,
    join_names,
    parse_answer,
    predict_request,
    read_kinds,
    read_outputs,
    read_signatures,
    read_status,
)
from bert_tf.serving.client.results import CLASSES, split_answer
from bert_tf.serving.client.results import to_dataclass as typed_result
from bert_tf.utils.files import read_lines
from bert_tf.utils.text_lists import present_list, text_list

# === Items ===
# The texts that the client's user asks about: arguments, or lines.


def read_choice_arguments(texts: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yields (context, choices): of the arguments or, where there are none, of each line of standard input.

    Args:
        texts: the arguments, a context and its choices.

    Raises:
        ValueError: there are fewer than two choices.
    """
    for number, (context, *choices) in [(0, [*map(_clean, texts)])] if texts else _lines():
        if len(choices) < 2 or not all(map(str.strip, choices)):
            where = "Arguments" if texts else f"The texts of line {number}, with tabs between,"
            raise ValueError(
                f"{where} must be a context and two choices at least, none of which is empty. Received "
                f"{[context, *choices]}."
            )
        yield context, choices


def even(inputs: Mapping[str, Sequence]) -> tuple[dict[str, Any], list[int] | None]:
    """Returns what a tensor can hold: where examples have several texts, the same number for each, padded with "".

    Args:
        inputs: {name: n texts, or n lists of texts}.

    Returns:
        {name: the same, as n lists of one length where it was lists}; the lengths that lists had, None where there
        are no lists.
    """
    counts, made = None, dict(inputs)
    for name, values in inputs.items():
        if len(values) and all(isinstance(value, list | tuple) for value in values):
            counts = [len(value) for value in values]
            made[name] = [[*value, *[""] * (max(counts) - len(value))] for value in values]
    return made, counts


def read_items(texts: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields the texts of each example from the arguments or, where there are none, from standard input.

    Args:
        texts: the arguments, those of an example in turn.
        names: of an example's texts. A line has tabs between them; where there is one text, tabs are part of it.

    Raises:
        ValueError: an example has more or fewer texts than names.
    """
    size = len(names)
    if texts:
        if len(texts) % size:
            raise ValueError(
                f"Arguments must be texts for {', '.join(names)} in turn, {size} to an example. Received {len(texts)}."
            )
        yield from zip(*[map(_clean, texts)] * size, strict=True)
        return
    for number, parts in _lines():
        yield _item(parts, names, number)


def read_text_columns(path: str, names: Sequence[str], last_is_list: bool) -> list[tuple[str | list[str], ...]]:
    """Returns the texts of each example of a file, one a line, with tabs between them.

    Args:
        path: a file of text, which may be packed (.gz).
        names: of an example's texts.
        last_is_list: the last name is of a list, which takes all texts that are left.

    Raises:
        ValueError: an example has more or fewer texts than names, or there is none.
    """
    items = []
    for number, line in enumerate(read_lines(path), start=1):
        parts = line.rstrip("\r\n").split("\t")
        own = len(names) - 1
        items.append((*parts[:own], parts[own:]) if last_is_list else _item(parts, names, number))
    if not items:
        raise ValueError(f"{path} must hold an example a line. Received an empty file; name another.")
    return items


def _item(parts, names, number):
    """Returns the texts of a line."""
    item = tuple(parts) if len(names) > 1 else ("\t".join(parts),)
    if len(item) != len(names):
        raise ValueError(
            f"A line must hold {len(names)} texts, {', '.join(names)}, with tabs between. Received {len(item)} in line "
            f"{number}."
        )
    return item


def _lines():
    """Yields the number of each line of standard input, from 1, and its texts."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        yield number, line.decode("utf-8", "ignore").rstrip("\r\n").split("\t")


def _clean(argument):
    """Drops bytes that are not UTF-8, as bert_tf does wherever it reads text."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "ignore")


# === Errors ===
# Exceptions that say what the user can do where a server does not answer a request, or refuses it.


# A server that is there and has no room says so in its own words; what gRPC says without a server has none of them.
_FULL = re.compile(r"\bqueue\b", re.IGNORECASE)
_AXES = 8  # that a message shows
_TOO_LONG = "CLIENT: Received message larger"  # gRPC's words where it is this side that refuses
WRONG = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)


def explain(error: grpc.RpcError, server: str, model_name: str, timeout: float) -> Exception:
    """Returns the exception to raise for `error`, a call that failed.

    Args:
        error: as gRPC raised it.
        server, model_name, timeout: as `Client` has them.

    Returns:
        ConnectionError where nothing answers or the server has no room, TimeoutError where the answer was too long in
        coming, else ValueError.
    """
    code, details = error.code(), clean(error.details() or "")
    if code == grpc.StatusCode.UNAVAILABLE and _FULL.search(details):
        return ConnectionError(
            f"{server} must have room for the request. Received: {details}; ask later, or for less at a time."
        )
    if code in GONE:
        return ConnectionError(
            f"A model server must answer at {server}. Received: {details}; is it running, is that its gRPC port rather "
            "than the one for REST, and are both sides encrypted, with certificates that they trust, or neither?"
        )
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return TimeoutError(
            f"{server} must answer within {timeout:.3g} s. Received nothing; allow more with `timeout`, or ask for "
            "less at a time."
        )
    if code == grpc.StatusCode.NOT_FOUND:
        return ValueError(
            f"Model {model_name!r} must be one that {server} serves. Received: {details}; check `model_name`."
        )
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LONG in details:
        return ValueError(
            f"An answer of {server} must be no longer than is allowed. Received a longer one ({details}); ask for less "
            "at a time, or allow more with `max_answer_bytes`."
        )
    return ValueError(f"{server} must accept the request. Received {code.name}: {details}")


def explain_refusal(request, signatures: Mapping[str, ModelSignature]) -> ValueError | None:
    """Returns how a rejected Predict request differs from the model's signature, or None if it does not.

    Args:
        request: the PredictRequest.
        signatures: of the model, by name.
    """
    name = request.model_spec.signature_name or DEFAULT
    if name not in signatures:
        return ValueError(
            f"`signature` must be one that model {request.model_spec.name!r} has: {join_names(signatures)}. Received: "
            f"{name!r}; choose one of them."
        )
    signature, sent = signatures[name], read_kinds(request.inputs)
    if set(sent) != set(signature.inputs):
        return _other_names(request, signature.text_inputs)
    wrong = [each for each in sent if not _fits(sent[each], signature.inputs[each])]
    return _other_kind(wrong[0], sent[wrong[0]], signature.inputs[wrong[0]]) if wrong else None


def _other_names(request, wanted):
    several, received = len(wanted) > 1, ", ".join(item.key for item in request.inputs) or "none"
    return ValueError(
        f"Model {request.model_spec.name!r} must be asked with the input{'s' * several} {join_names(wanted)}. Received "
        f"{received}; name {'them' if several else 'it'} with `inputs`, in the order of the texts."
    )


def _other_kind(name, sent: TensorKind, wanted: TensorKind):
    if wanted.dtype == sent.dtype == "string" and (len(wanted.shape), len(sent.shape)) == (2, 1):
        return ValueError(
            f"Input {name!r} must be a list of texts for each example. Received one text for each; put those of an "
            'example into a list: ["She walks in.", "She leaves."].'
        )
    return ValueError(
        f"Input {name!r} must be {wanted.dtype} of shape {_words(wanted.shape)}. Received {sent.dtype} of shape "
        f"{_words(sent.shape)}."
    )


def _fits(sent, wanted):
    if wanted.shape is None:
        return sent.dtype == wanted.dtype
    return (
        sent.dtype == wanted.dtype
        and len(sent.shape) == len(wanted.shape)
        and all(size in (None, each) for each, size in zip(sent.shape, wanted.shape, strict=True))
    )


def _words(shape):
    if shape is None:
        return "any"
    sizes = ["n" if size is None else str(size) for size in shape[:_AXES]]
    return f"[{', '.join(sizes + ['...'] * (len(shape) > _AXES))}]"


# === Questions ===
# A question is a generator: it yields the calls that it needs, and the seconds that it wants to wait, is sent the
# answers, and returns what was asked for.


Question = Generator[Rpc | float, Any, Any]
_ENDLESS = 2**31  # numbers of a vector
_EMBEDDING = "embedding"  # the output of a model that makes vectors


@dataclasses.dataclass(frozen=True)
class ClientCore:
    """Questions to one model of one server; each method is one of `BaseClient`'s or of `Client`'s.

    Attributes:
        server, timeout, retry, max_answer_bytes: as `BaseClient` has them.
        target: the model.
    """

    server: str
    target: ModelTarget
    timeout: float
    retry: Retry
    max_answer_bytes: int

    def predict(self, inputs, signature="", outputs=()) -> Question:
        request = predict_request(self.target, inputs, signature, outputs)
        try:
            response = yield from self._answer("Predict", request)
        except grpc.RpcError as error:
            fault = (yield from self._find_fault(request)) if error.code() in WRONG else None
            raise fault or self._explain(error) from error
        return read_outputs(response, outputs)

    def _find_fault(self, request) -> Question:
        """Holds a refused request against what the model takes; a server's own words, of TensorFlow, say little."""
        try:
            signatures = yield from self.signatures()
        except (ValueError, OSError):  # then the error that there was first is the one to tell
            return None
        return explain_refusal(request, signatures)

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
        found = split_answer((yield from self.predict(inputs)), n, counts)
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
                f"Model {self.target.name!r} must classify: give {', '.join(CLASSES)}. Received an answer without "
                f"{join_names(sorted(missing))} but with {join_names(sorted(outputs))}; Client.ask asks such a model."
            )
        found = split_answer({name: outputs[name] for name in CLASSES}, len(texts))
        return [typed_result(row) for row in found] if typed else found

    def vectors(self, texts) -> Question:
        outputs = yield from self.predict({"text": texts})
        if _EMBEDDING not in outputs:
            raise ValueError(
                f"Model {self.target.name!r} must make vectors, as `embedding`. Received an answer with "
                f"{join_names(sorted(outputs))}; `bert-tf export` makes such a model of a sentence encoder."
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
                f"An item must be a dictionary with the texts {join_names(names)}, for the inputs of model "
                f"{self.target.name!r} have no order that is known. Received texts without names; name them."
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
                f"Model {self.target.name!r} must have the signature {name}. Received one with "
                f"{join_names(found)}; Client.predict asks any signature."
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
        """Makes a call, again where that may help, and returns its response or raises the last RpcError."""
        deadline = time.monotonic() + self.timeout
        for attempt in itertools.count(1):
            try:
                data = yield Rpc(method, request, max(0.0, deadline - time.monotonic()))
                return parse_answer(data, METHODS[method][2], self.max_answer_bytes)
            except grpc.RpcError as error:
                wait = self.retry.find_wait(error, attempt)
                if wait is None or time.monotonic() + wait >= deadline:
                    raise
            yield wait

    def _explain(self, error):
        return explain(error, self.server, self.target.name, self.timeout)


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
