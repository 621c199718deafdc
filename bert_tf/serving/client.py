"""Asks a model server: this package's, or TensorFlow Serving itself. Needs no TensorFlow."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import grpc
import numpy as np

from bert_tf.serving import wire
from bert_tf.serving.answers import CLASSES, rows
from bert_tf.serving.client_errors import explained
from bert_tf.serving.client_items import even

_PREDICT = "/tensorflow.serving.PredictionService/Predict"
_BATCH = 32  # examples a request
PAIR = ("text_a", "text_b")  # the inputs of a model that compares two texts
CHOICES = ("context", "choices")  # and of one that chooses among several
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),  # gRPC's default of 4 MiB is less than one batch of token vectors
    ("grpc.max_send_message_length", -1),
)


class Client:
    """A connection to one model of one server; a context manager, safe to share among threads.

    Args:
        server: "host:port" of its gRPC face.
        model_name: the model.
        timeout: seconds after which a call gives up.
        version: of the model; by default the newest.
    """

    def __init__(self, server: str, model_name: str = "default", timeout: float = 10.0, version: int | None = None):
        self.server = server
        self.model_name = model_name
        self._timeout = timeout
        self._version = version
        self._channel = grpc.insecure_channel(server, options=_OPTIONS)
        self._predict = self._channel.unary_unary(
            _PREDICT, wire.PredictRequest.SerializeToString, wire.PredictResponse.FromString
        )

    def predict(
        self, inputs: dict[str, np.ndarray | list], signature: str = "", outputs: Sequence[str] = ()
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
            ConnectionError: no server answers.
            TimeoutError: it takes too long.
        """
        request = wire.PredictRequest(output_filter=outputs)
        request.model_spec.name = self.model_name
        request.model_spec.signature_name = signature
        if self._version is not None:
            request.model_spec.version.value = self._version
        for name, values in inputs.items():
            wire.fill_tensor(request.inputs.add(key=name).value, values, name)
        try:
            response = self._predict(request, timeout=self._timeout)
        except grpc.RpcError as error:
            raise explained(error, self.server, self.model_name, self._timeout, inputs) from error
        return {item.key: wire.to_array(item.value) for item in response.outputs}

    def ask(self, inputs: dict[str, Sequence[str] | Sequence[Sequence[str]]]) -> list[dict]:
        """Asks the signature that takes text, whatever the model is for.

        Args:
            inputs: {name: n texts}, such as {"question": [...], "context": [...]}; of what an example has several,
                n lists of texts, of any lengths: {"context": [...], "choices": [[...], ...]}.

        Returns:
            n dictionaries {output: value} of numbers, str, and lists of them, as `answers.rows` says: a model that
            classifies gives {"label": str, "probabilities": {label: float}}, one for questions {"answer": str,
            "start": int, "end": int, "score": float, "null_score": float}, one that chooses {"choice": int,
            "probabilities": [float]}, as many as the example has choices.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`; also where an output has no row for each text.
        """
        lengths = {name: len(texts) for name, texts in inputs.items() if not isinstance(texts, (str, bytes))}
        if len(lengths) < len(inputs) or len(set(lengths.values())) != 1:
            given = ", ".join(f"{name}: {lengths.get(name, 'one text')}" for name in inputs) or "none"
            raise ValueError(f"Inputs must be lists of equally many texts. Received {given}.")
        n = next(iter(lengths.values()))
        inputs, counts = even(inputs)
        return rows(self.predict(inputs), n, counts) if n else []

    def classify(self, texts: Sequence[str], second_texts: Sequence[str] | None = None) -> list[dict]:
        """Classifies texts, or pairs of them, by the signature that takes text.

        Args:
            texts: n texts.
            second_texts: n more, where the model compares pairs.

        Returns:
            n dictionaries {"label": str, "probabilities": {label: float}}.

        Raises:
            ValueError, ConnectionError, TimeoutError: as `predict`; also where the model does not classify.
        """
        if second_texts is not None and len(texts) != len(second_texts):
            raise ValueError(f"Texts must come in pairs. Received {len(texts)} first, {len(second_texts)} second ones.")
        if not len(texts):
            return []
        parts = {"text": texts} if second_texts is None else dict(zip(PAIR, (texts, second_texts), strict=True))
        outputs = self.predict(parts)
        if missing := set(CLASSES) - set(outputs):
            raise ValueError(
                f"Model {self.model_name!r} must classify: give {', '.join(CLASSES)}. Received an answer without "
                f"{', '.join(sorted(missing))} but with {', '.join(sorted(outputs))}; Client.ask asks such a model."
            )
        return rows({name: outputs[name] for name in CLASSES}, len(texts))

    def close(self):
        self._channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def ask(client: Client, names: Sequence[str], items: Iterable[tuple[str | list[str], ...]]) -> Iterator[dict]:
    """Yields what is printed for each item, its texts by name and the answer, asking for many at a time."""
    items = iter(items)
    while batch := list(itertools.islice(items, _BATCH)):
        answers = client.ask(dict(zip(names, zip(*batch, strict=True), strict=True)))
        for item, answer in zip(batch, answers, strict=True):
            yield dict(zip(names, item, strict=True)) | answer
