"""Asks a model server: this package's, or TensorFlow Serving itself. Needs no TensorFlow.

    python -m bert_tf.serving.client --server=localhost:8500 --model_name=NAME "A fine film." "A dull one."

prints one JSON line per text: {"text": ..., "label": ..., "probabilities": {label: p}}. Without texts it reads them
from standard input, one a line. With --pair, arguments come in twos, and a line holds two texts with a tab between.
"""

import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence

import grpc
import numpy as np
from absl import app, flags

from bert_tf.serving import wire

FLAGS = flags.FLAGS
_PREDICT = "/tensorflow.serving.PredictionService/Predict"
_BATCH = 32  # texts a request
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),  # gRPC's default of 4 MiB is less than one batch of token vectors
    ("grpc.max_send_message_length", -1),
)
_OUTPUTS = ("label", "probabilities", "labels")


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
            raise self._explained(error) from error
        return {item.key: wire.to_array(item.value) for item in response.outputs}

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
        found = self.predict({"text": texts} if second_texts is None else {"text_a": texts, "text_b": second_texts})
        if missing := set(_OUTPUTS) - set(found):
            raise ValueError(
                f"Model {self.model_name!r} must classify: give {', '.join(_OUTPUTS)}. Received an answer without "
                f"{', '.join(sorted(missing))} but with {', '.join(sorted(found))}; Client.predict asks such a model."
            )
        return [_answer(*row) for row in zip(*(found[name] for name in _OUTPUTS), strict=True)]

    def close(self):
        self._channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def _explained(self, error):
        """Returns the exception that says what the user can do."""
        code, details = error.code(), error.details()
        if code == grpc.StatusCode.UNAVAILABLE:
            return ConnectionError(
                f"A model server must answer at {self.server}. Received: {details}; is it running, and is that its "
                "gRPC port rather than the one for REST?"
            )
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return TimeoutError(
                f"{self.server} must answer within {self._timeout:g} s. Received nothing; allow more with --timeout, "
                "or ask for less at a time."
            )
        if code == grpc.StatusCode.NOT_FOUND:
            return ValueError(
                f"Model {self.model_name!r} must be one that {self.server} serves. Received: {details}; check "
                "--model_name."
            )
        return ValueError(f"{self.server} must accept the request. Received {code.name}: {details}")


def _answer(label, probabilities, labels):
    return {
        "label": label.decode("utf-8", "replace"),
        # str gives a float32 as many digits as it needs; float() alone would show those of its double.
        "probabilities": {
            name.decode("utf-8", "replace"): float(str(p)) for name, p in zip(labels, probabilities, strict=True)
        },
    }


def ask(client: Client, items: Iterable[tuple[str, ...]]) -> Iterator[dict]:
    """Yields what is printed for each item, a text or a pair, asking for many at a time."""
    items = iter(items)
    while batch := list(itertools.islice(items, _BATCH)):
        keys = ("text",) if len(batch[0]) == 1 else ("text_a", "text_b")
        for item, answer in zip(batch, client.classify(*zip(*batch, strict=True)), strict=True):
            yield dict(zip(keys, item, strict=True)) | answer


def read_items(texts: Sequence[str], pair: bool) -> Iterator[tuple[str, ...]]:
    """Yields (text,) or (text_a, text_b) from the arguments or, where there are none, from standard input.

    Raises:
        ValueError: something that should be a pair is none.
    """
    if texts:
        if pair and len(texts) % 2:
            raise ValueError(f"With --pair, texts must come in twos. Received {len(texts)}.")
        yield from zip(*[map(_clean, texts)] * (2 if pair else 1), strict=True)
        return
    for number, line in enumerate(sys.stdin.buffer, start=1):
        text = line.decode("utf-8", "ignore").rstrip("\r\n")
        item = tuple(text.split("\t")) if pair else (text,)
        if pair and len(item) != 2:
            raise ValueError(
                f"With --pair, a line must hold two texts with a tab between. Received {len(item)} in line {number}."
            )
        yield item


def _clean(argument):
    """Drops bytes that are not UTF-8, as bert_tf does wherever it reads text."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "ignore")


def define_flags():
    flags.DEFINE_string("server", "localhost:8500", "host:port of the server's gRPC face.")
    flags.DEFINE_string("model_name", "default", "Which of its models.")
    flags.DEFINE_float("timeout", 10.0, "Seconds after which a request gives up.", 0)
    flags.DEFINE_bool("pair", False, "The model compares two texts: arguments come in twos, lines with a tab between.")


def main(argv):
    try:
        with Client(FLAGS.server, FLAGS.model_name, FLAGS.timeout) as client:
            for line in ask(client, read_items(argv[1:], FLAGS.pair)):
                print(json.dumps(line, ensure_ascii=False), flush=True)
    except BrokenPipeError:  # the reader of our lines has seen enough
        sys.stderr.close()
        sys.exit(1)
    except (ValueError, OSError) as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    define_flags()
    FLAGS.set_gnu_getopt(True)  # flags may come after texts; what follows "--" is all text
    app.run(main)
