"""Transport-independent logic of the clients: texts to requests, responses to results, server errors to exceptions."""

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
    LISTS,
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
from bert_tf.utils.files import decode_argument, read_lines
from bert_tf.utils.proxies import describe_proxy
from bert_tf.utils.text_lists import present_list, text_list

# === Items ===
# The texts to predict, from arguments or lines.


def read_list_arguments(texts: Sequence[str], names: tuple[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yields a text and its list, such as (context, choices): from the arguments or, if there are none, from each line
    of standard input.

    Args:
        texts: the arguments.
        names: a key of `LISTS`.

    Raises:
        ValueError: the list has too few texts, or an empty one.
    """
    fewest, meaning = LISTS[names]
    for number, (first, *others) in [(0, [*map(decode_argument, texts)])] if texts else _lines():
        if len(others) < fewest or not all(map(str.strip, others)):
            where = "The arguments" if texts else f"The tab-separated texts of line {number}"
            raise ValueError(f"{where} must be {meaning}, none of them empty; got {[first, *others]}.")
        yield first, others


def even(inputs: Mapping[str, Sequence]) -> tuple[dict[str, Any], list[int] | None]:
    """Pads lists of texts with "" to one length, at least 1, so that they fit into a tensor of strings.

    Args:
        inputs: {name: n texts, or n lists of texts}.

    Returns:
        {name: the same, with lists padded to one length}; the original lengths of lists, or None if there
        are no lists.
    """
    counts, made = None, dict(inputs)
    for name, values in inputs.items():
        if len(values) and all(isinstance(value, list | tuple) for value in values):
            counts = [len(value) for value in values]
            made[name] = [[*value, *[""] * (max(1, *counts) - len(value))] for value in values]
    return made, counts


def read_items(texts: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields the texts of each example from the arguments or, if there are none, from standard input.

    Args:
        texts: the arguments, the texts of one example after another.
        names: names of an example's texts. A line has tabs between them; with a single text, tabs are part of it.

    Raises:
        ValueError: an example has more or fewer texts than names.
    """
    size = len(names)
    if texts:
        if len(texts) % size:
            raise ValueError(
                f"The arguments must be texts for {', '.join(names)} in turn, {size} per example; got {len(texts)}."
            )
        yield from zip(*[map(decode_argument, texts)] * size, strict=True)
        return
    for number, parts in _lines():
        yield _item(parts, names, number)


def read_text_columns(path: str, names: Sequence[str], last_is_list: bool) -> list[tuple[str | list[str], ...]]:
    """Returns the texts of each example of a file, with one example per line and tabs between texts.

    Args:
        path: a text file, which may be gzipped.
        names: names of an example's texts.
        last_is_list: whether the last name is a list, which takes all remaining texts.

    Raises:
        ValueError: an example has more or fewer texts than names, or the file is empty.
    """
    items = []
    for number, line in enumerate(read_lines(path), start=1):
        parts = line.rstrip("\r\n").split("\t")
        own = len(names) - 1
        items.append((*parts[:own], parts[own:]) if last_is_list else _item(parts, names, number))
    if not items:
        raise ValueError(f"{path} is empty. It must have one example per line.")
    return items


def _item(parts, names, number):
    """Returns the texts of a line."""
    item = tuple(parts) if len(names) > 1 else ("\t".join(parts),)
    if len(item) != len(names):
        raise ValueError(
            f"Each line must hold {len(names)} tab-separated texts ({', '.join(names)}); got {len(item)} in line "
            f"{number}."
        )
    return item


def _lines():
    """Yields the number of each line of standard input, from 1, and its texts."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        yield number, line.decode("utf-8", "ignore").rstrip("\r\n").split("\t")


# === Errors ===
# Exceptions with advice for requests that a server rejects or does not respond to.


# An overloaded server sends one of these phrases; gRPC's own messages without a server contain none of them.
_FULL = re.compile(r"\bqueue\b|\btry again later\b", re.IGNORECASE)
_AXES = 8  # shown in a message
_TOO_LONG = "CLIENT: Received message larger"  # gRPC's message if this side rejects it
WRONG = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)


def explain(error: grpc.RpcError, server: str, model_name: str, timeout: float) -> Exception:
    """Returns the exception to raise for `error`, a call that failed.

    Args:
        error: raised by gRPC.
        server, model_name, timeout: as in `Client`.

    Returns:
        ConnectionError if no server responds or it is overloaded, TimeoutError if the response took
        too long, otherwise ValueError.
    """
    code, details = error.code(), clean(error.details() or "")
    if code == grpc.StatusCode.UNAVAILABLE and _FULL.search(details):
        return ConnectionError(
            f"{server} is overloaded: {details.removesuffix('; try again later')}. Try again later, or send less at a "
            "time."
        )
    if code in GONE:
        return ConnectionError(
            f"No model server responded at {server}: {details}. Check that it is running, that this is its gRPC port "
            "and not its REST port, and that either both sides use TLS with trusted certificates or neither does."
            f"{describe_proxy(server)}"
        )
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return TimeoutError(
            f"{server} did not respond within {timeout:.3g} s. Increase `timeout`, or send "
            f"less at a time.{describe_proxy(server)}"
        )
    if code == grpc.StatusCode.NOT_FOUND:
        return ValueError(f"{server} does not serve a model {model_name!r}: {details}. Check `model_name`.")
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LONG in details:
        return ValueError(
            f"The response of {server} is too large ({details}). Send less at a time, or increase `max_answer_bytes`."
        )
    return ValueError(f"{server} rejected the request with {code.name}: {details}")


def explain_refusal(request, signatures: Mapping[str, ModelSignature]) -> ValueError | None:
    """Returns how a rejected Predict request differs from the model's signature, or None if it matches.

    Args:
        request: the PredictRequest.
        signatures: signatures of the model, by name.
    """
    name = request.model_spec.signature_name or DEFAULT
    if name not in signatures:
        return ValueError(
            f"`signature` must be one of those of model {request.model_spec.name!r}: {join_names(signatures)}; got "
            f"{name!r}."
        )
    signature, sent = signatures[name], read_kinds(request.inputs)
    if set(sent) != set(signature.inputs):
        return _other_names(request, signature.text_inputs)
    wrong = [each for each in sent if not _fits(sent[each], signature.inputs[each])]
    return _other_kind(wrong[0], sent[wrong[0]], signature.inputs[wrong[0]]) if wrong else None


def _other_names(request, wanted):
    several, received = len(wanted) > 1, ", ".join(item.key for item in request.inputs) or "none"
    return ValueError(
        f"Model {request.model_spec.name!r} requires the input{'s' * several} {join_names(wanted)}; got "
        f"{received}. Name {'them' if several else 'it'} with `inputs`, in the order of the texts."
    )


def _other_kind(name, sent: TensorKind, wanted: TensorKind):
    if wanted.dtype == sent.dtype == "string" and (len(wanted.shape), len(sent.shape)) == (2, 1):
        return ValueError(
            f"Input {name!r} must be a list of texts for each example; got one text for each. Put the texts of an "
            'example into a list: ["She walks in.", "She leaves."].'
        )
    return ValueError(
        f"Input {name!r} must be {wanted.dtype} of shape {_words(wanted.shape)}; got {sent.dtype} of shape "
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


# === Queries ===
# A query is a generator: it yields the calls that it needs and the seconds to wait, is sent the
# responses, and returns the result.


Question = Generator[Rpc | float, Any, Any]
_ENDLESS = 2**31  # elements of a vector
_EMBEDDING = "embedding"  # the output of an embedding model


@dataclasses.dataclass(frozen=True)
class ClientCore:
    """Queries for one model of one server; each method is one of `BaseClient`'s or of `Client`'s.

    Attributes:
        server, timeout, retry, max_answer_bytes: as in `BaseClient`.
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
        return [typed_result(row) for row in found] if typed else found

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
        return [typed_result(row) for row in found] if typed else found

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
            raise ValueError(f"Output `embedding` is too large for memory: {size}. Is this a model server?")
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
        items: dictionaries {name: text}; or tuples of texts in the order of `names`; or texts, if there is one name.

    Raises:
        ValueError: an example's texts do not match the names.
    """
    table = {name: [] for name in names}
    for item in items:
        parts = item if isinstance(item, Mapping) else dict(zip(names, _parts(item), strict=False))
        if set(parts) != set(names) or not isinstance(item, Mapping) and len(_parts(item)) != len(names):
            form = f"be a text, or a dictionary with the key {names[0]!r}"
            if len(names) > 1:
                form = f"have the texts {', '.join(names)}, in a tuple in this order or a dictionary with these keys"
            raise ValueError(f"Each example must {form}; got {str(item):.100}.")
        for name, text in parts.items():
            table[name].append(text)
    return table


def chunks(items: Iterable[Any], size: int) -> Iterator[list]:
    """Yields lists of `size` items, the last one with the rest."""
    items = iter(items)
    while chunk := list(itertools.islice(items, size)):
        yield chunk


def _parts(item):
    if isinstance(item, str | bytes):
        return (item,)
    if isinstance(item, Sequence):
        return tuple(item)
    raise ValueError(f"An item must be a text, a tuple of texts or a dictionary; got {item!r:.99}.")
