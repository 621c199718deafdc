"""What a server answers is data: clients take no harm from it, and say what is wrong with it."""

import asyncio
import contextlib
import gzip
import json
import random
import re
import time

import grpc
import numpy as np
import pytest

from bert_tf.serving import AsyncClient, Client, Retry, messages, tensor_messages
from bert_tf.serving.client import load_calls
from bert_tf.serving.client import requests as client_requests
from bert_tf.serving.client.requests import clean, join_names
from bert_tf.utils.answers import split_answer, to_nested_lists
from tests.serving import hostile_answers as hostile
from tests.serving.hostile_answers import FLOAT, METADATA, PREDICT, STATUS, STRING, claim, outputs_of
from tests.serving.programs import run_program

ONE = np.ones([1, 1], np.float32)


def texts(*shape):
    return np.full(shape, b"a", object)


ENTITIES = {"entity": texts(1, 1), "type": texts(1, 1), "start": ONE, "end": ONE, "score": ONE}
MALFORMED = {
    "no message": (b"\xff\xff\xff", "is not a PredictResponse of TensorFlow Serving: 3 bytes are not valid ("),
    "a name that is not UTF-8": (b"\x0a\x05\x0a\x01\xff\x12\x00", "is not a PredictResponse of TensorFlow Serving"),
    "nothing": (b"", "lacks outputs. It has none. Check that this is the right model."),
    "more than it holds": (outputs_of(x=claim(FLOAT, [1, 2**33], float_val=[1])), "lacks 8589934591 of the values"),
    "many that say more than they hold": (
        b"".join(outputs_of(**{f"x{i}": claim(FLOAT, [1, 1000], float_val=[1])}) for i in range(100)),
        "lacks 99900 of the values of its outputs.",
    ),
    "a long text that stands for others": (
        outputs_of(x=claim(STRING, [1, 1000], string_val=[b"x" * 1000])),
        "must have the 1000 strings of its shape; got 1.",
    ),
    "65 axes": (outputs_of(x=claim(FLOAT, [1] * 65, float_val=[1])), "has an invalid shape: at most 64"),
    "an unknown type": (outputs_of(x=claim(99, [1], float_val=[1])), "has a type that NumPy does not support"),
    "rows of another number": (outputs_of(x=np.ones([2, 1])), "must have one row for each of the 1 texts; got an"),
    "no rows": (outputs_of(x=np.float32(1)), "must have one row for each of the 1 texts; got an array of shape []"),
    "labels that are one name": (
        outputs_of(label=texts(1), labels=texts(1), probabilities=ONE),
        "must have labels and probabilities [n, k]; got label object [1], probabilities float32 [1, 1], labels",
    ),
    "labels of three axes": (
        outputs_of(label=texts(1), labels=texts(1, 1, 1), probabilities=ONE[None]),
        "must have labels and probabilities [n, k]",
    ),
    "more labels than probabilities": (
        outputs_of(label=texts(1), labels=texts(1, 2), probabilities=ONE),
        "must have labels and probabilities [n, k]",
    ),
    "probabilities that are texts": (
        outputs_of(label=texts(1), labels=texts(1, 1), probabilities=texts(1, 1)),
        "must have labels and probabilities [n, k]",
    ),
    "half an entity": (outputs_of(entity_count=ONE[0], **ENTITIES), "and of these entity_count [n]; got"),
    "more entities than there are": (outputs_of(entity_count=np.array([2]), **ENTITIES), "entity_count int64 [1]"),
    "fewer than none": (outputs_of(entity_count=np.array([-1]), **ENTITIES), "and of these entity_count [n]; got"),
    "entities without rows": (
        outputs_of(entity_count=np.array([1]), **{name: array[0] for name, array in ENTITIES.items()}),
        "must have entity, type, start, end, score [n, E]",
    ),
}  # fmt: skip


@pytest.fixture
def server():
    with hostile.HostileServer({}) as server:
        yield server


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_answers(server, what):
    server.answers[PREDICT], message = MALFORMED[what]
    with Client(f"localhost:{server.port}") as client, pytest.raises(ValueError, match=re.escape(message)):
        client.ask({"text": ["a"]})

    async def ask():
        async with AsyncClient(f"localhost:{server.port}") as client:
            await client.ask({"text": ["a"]})

    with pytest.raises(ValueError, match=re.escape(message)):
        asyncio.run(ask())


def mutated(data, rng):
    """Returns bytes of which a few are others, gone, new, or there twice."""
    made = bytearray(data)
    for _ in range(rng.choice([1, 2, 4])):
        start, end = sorted(rng.randrange(len(made) + 1) for _ in range(2))
        new = bytes(rng.choice([0, 1, 8, 0x12, 0x7F, 0x80, 0xFF]) for _ in range(rng.randrange(3)))
        made[start : start + rng.randrange(3)] = rng.choice([new, made[start:end]])
    return bytes(made)


def test_any_bytes_are_an_answer_or_a_value_error():
    rng, read = random.Random(5), 0
    answers_given = [
        outputs_of(label=texts(1), labels=texts(1, 2), probabilities=np.ones([1, 2], np.float32)),
        outputs_of(entity_count=np.array([1]), **ENTITIES),
        outputs_of(x=claim(FLOAT, [1, 2], float_val=[1, 2]), y=claim(STRING, [1], tensor_content=b"\1x")),
        hostile.signatures_of({"text": STRING}, {"embedding": FLOAT}),
    ]
    for data in (mutated(answer, rng) for answer in answers_given for _ in range(500)):
        for kind, take in (
            (messages.PredictResponse, lambda found: split_answer(client_requests.read_outputs(found), 1)),
            (messages.MetadataResponse, client_requests.read_signatures),
            (messages.StatusResponse, client_requests.read_status),
        ):
            with contextlib.suppress(ValueError):
                take(client_requests.parse_answer(data, kind, 2**27))
                read += 1
    assert read > 100


def test_numbers_that_are_none_and_bytes_that_are_no_text(server):
    values = np.array([[np.nan, np.inf, 0.1]], np.float32)
    server.answers[PREDICT] = outputs_of(x=values, name=np.array([b"\xffa"], object))
    with Client(f"localhost:{server.port}") as client:
        (row,) = client.ask({"text": ["a"]})
    assert row["name"] == "\ufffda" and np.isnan(row["x"][0]) and row["x"][1:] == [np.inf, 0.1]


def test_outputs_that_were_asked_for(server):
    server.answers[PREDICT] = outputs_of(x=ONE)
    with Client(f"localhost:{server.port}") as client:
        assert client.predict({"text": ["a"]}, outputs=["x"])["x"].tolist() == [[1.0]]
        with pytest.raises(ValueError, match=r"lacks some of the outputs x, y\. It has x\. Check"):
            client.predict({"text": ["a"]}, outputs=["x", "y"])


def test_sparse_embeddings_end_with_their_last_weight(server):
    indices = np.array([[7, 3, 0], [2, 0, 1], [0, 1, 2]])
    weights = np.array([[1.5, 0.5, 0.25], [2.0, 0, 0], [0, 0, 0]], np.float32)
    with Client(f"localhost:{server.port}") as client:
        server.answers[PREDICT] = outputs_of(weights=weights, indices=indices)
        assert client.ask({"text": ["a", "b", "c"]}) == [
            {"indices": [7, 3, 0], "weights": [1.5, 0.5, 0.25]},
            {"indices": [2], "weights": [2.0]},
            {"indices": [], "weights": []},
        ]
        server.answers[PREDICT] = outputs_of(weights=weights[:, :2], indices=indices)
        with pytest.raises(ValueError, match=r"must have indices and weights \[n, K\]; got indices int64 \[3, 3\], "):
            client.ask({"text": ["a", "b", "c"]})


def test_choices_have_a_probability_each(server):
    server.answers[PREDICT] = outputs_of(choice=np.array([0]), probabilities=ONE)
    with Client(f"localhost:{server.port}") as client:
        assert client.ask({"context": ["a"], "choices": [["b"]]}) == [{"choice": 0, "probabilities": [1.0]}]
        with pytest.raises(ValueError, match=r"must have probabilities \[n, 2\]; got choice int64 \[1\]"):
            client.ask({"context": ["a"], "choices": [["b", "c"]]})


@pytest.mark.parametrize(
    "row, name",
    [
        ({"score": [1.0]}, "score"),
        ({"score": "1"}, "score"),
        ({"choice": 0.5, "probabilities": [1.0]}, "choice"),
        ({"label": 1, "probabilities": {"a": 1.0}}, "label"),
        ({"label": "a", "probabilities": {"a": "b"}}, "probabilities"),
        ({"label": "a", "probabilities": {"a": 1.0}, "confident": 1}, "confident"),
        ({"token": "a", "probability": [1.0]}, "token"),
        ({"embedding": ["1"]}, "embedding"),
        ({"embedding": [[1.0]]}, "embedding"),
        ({"entities": [{"text": "a", "type": "b", "start": 0.5, "end": 1, "score": 1.0}]}, "entities"),
    ],
)
def test_answers_with_other_types(server, row, name):
    from bert_tf.serving.client.results import to_dataclass

    with pytest.raises(ValueError, match=f"requires a model whose `{name}` is as in (?:[A-Z][a-z]+)+; got "):
        to_dataclass(row)


@pytest.mark.parametrize(
    "vectors, message",
    [
        (np.ones([1, 2], np.float32), r"for each of the 2 texts; got float32 of shape \[1, 2\]"),
        (np.ones([3, 2], np.float32), r"for each of the 2 texts; got float32 of shape \[3, 2\]"),
        (np.ones([2], np.float32), r"got float32 of shape \[2\]"),
        (texts(2, 1), r"got object of shape \[2, 1\]"),
    ],
)
def test_vectors_are_one_for_each_text(server, vectors, message):
    server.answers[PREDICT] = outputs_of(embedding=vectors)
    with Client(f"localhost:{server.port}") as client, pytest.raises(ValueError, match=message):
        client.encode(["a", "b"])


def test_vectors_of_several_lengths(server):
    sizes = iter([2, 3])
    server.answers[PREDICT] = lambda *_: outputs_of(embedding=np.ones([1, next(sizes)], np.float32))
    with Client(f"localhost:{server.port}") as client, pytest.raises(ValueError, match="one length; got 2 to 3"):
        client.encode(["a", "b"], batch_size=1, in_flight=1)


@pytest.mark.parametrize("size", [2**62, 2**63 - 1])
def test_vectors_that_are_said_to_be_endless(server, size):
    response = messages.MetadataResponse.FromString(hostile.signatures_of({"text": STRING}, {"embedding": FLOAT}))
    found = messages.Signatures.FromString(response.metadata[0].value.value)
    found.signature_def[0].value.outputs[0].value.tensor_shape.dim[0].size = size
    response.metadata[0].value.value = found.SerializeToString()
    server.answers[METADATA] = response.SerializeToString()
    with Client(f"localhost:{server.port}") as client, pytest.raises(ValueError, match="`embedding` is too large"):
        client.encode([])


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip])
def test_an_answer_that_is_too_long(compression):
    answer = outputs_of(x=np.zeros([1, 2**18], np.float32))
    with (
        hostile.HostileServer({PREDICT: answer}, compression) as server,
        Client(f"localhost:{server.port}", max_response_bytes=2**21) as client,
    ):
        assert client.predict({"text": ["a"]})["x"].shape == (1, 2**18)
        with (
            Client(f"localhost:{server.port}", max_response_bytes=2**20) as client,
            pytest.raises(ValueError, match="is too large .*increase `max_response_bytes`"),
        ):
            client.predict({"text": ["a"]})
    with pytest.raises(ValueError, match="`max_response_bytes` must be from 1 to 2147483647; got -1"):
        Client("localhost:1", max_response_bytes=-1)


def test_an_answer_of_a_great_many_parts(server):
    server.answers[PREDICT] = b"\x0a\x00" * 2**17  # outputs without name or value, each an object in memory
    with (
        Client(f"localhost:{server.port}", max_response_bytes=2**20) as client,
        pytest.raises(ValueError, match="A message may have 16384 fields and has more"),
    ):
        client.predict({"text": ["a"]})


@pytest.mark.parametrize("answer", [b"\xff", b"", hostile.signatures_of({"text": STRING}) * 2])
def test_descriptions_that_are_none(server, answer):
    server.answers[METADATA] = server.answers[STATUS] = answer
    with (
        Client(f"localhost:{server.port}", retry=Retry(1)) as client,
        pytest.raises(ValueError, match="^The response "),
    ):
        client.signatures()


def test_a_server_s_words_are_one_line_that_no_terminal_obeys(server):
    def refuse(request, context):
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "\x1b[31mno\r\nError: all\tis well \x9b1m" + "x" * 5000)

    server.answers[PREDICT] = refuse
    with Client(f"localhost:{server.port}") as client, pytest.raises(ValueError) as caught:
        client.predict({"text": ["a"]}, signature="")
    said = str(caught.value)
    assert "\ufffd[31mno Error: all is well \ufffd1mxxx" in said and said.isprintable() and len(said) < 1200
    assert clean("a\u202eb\n\n c", 4) == "a\ufffdb "
    assert (
        join_names(["b", "a\x1b"] + ["c"] * 19) == "b, a\ufffd, " + "c, " * 18 + "and 1 more"
        and join_names([]) == "none"
    )


@pytest.mark.parametrize(
    "method, answer, message",
    [
        (PREDICT, MALFORMED["no message"][0], "Error: The response is not a PredictResponse of TensorFlow Serving"),
        (METADATA, b"\xff", "Error: The response is not a MetadataResponse of TensorFlow Serving"),
        (METADATA, hostile.signatures_of({}), "--inputs cannot be used: the signature has no inputs"),
    ],
)
def test_the_program_says_it_in_one_line(method, answer, message):
    with hostile.HostileServer({method: answer}) as server:
        done = run_program("ask", f"--server=localhost:{server.port}", "a")
    assert done.returncode == 1 and message in done.stderr and len(done.stderr.splitlines()) == 1


def test_lines_have_nothing_that_a_terminal_obeys():
    answer = outputs_of(x=np.array(["\x9b31m\x1b[31m\x7fé"], object))
    with hostile.HostileServer({PREDICT: answer}) as server:
        done = run_program("ask", f"--server=localhost:{server.port}", "a")
    assert done.stdout == '{"text": "a", "x": "\\u009b31m\\u001b[31m\\u007fé"}\n'
    assert json.loads(done.stdout)["x"] == "\x9b31m\x1b[31m\x7fé"


def test_numbers_are_as_short_as_they_can_be_wherever_they_stand():
    values = np.arange(2**16 + 3, dtype=np.float32).reshape(1, -1) / 10
    assert to_nested_lists(values)[0][-2:] == [6553.7, 6553.8] and to_nested_lists(values[:, :0]) == [
        []
    ]
    assert to_nested_lists(np.float32(0.1)[None, None]) == [[0.1]]


def test_a_sender_may_leave_out_a_few():
    tensor = messages.PredictResponse().outputs.add().value
    claim(FLOAT, [1025], float_val=[0.5])(tensor)
    tensor_messages.check_missing([tensor])
    assert tensor_messages.wire_to_array(tensor).tolist() == [0.5] * 1025
    with pytest.raises(ValueError, match="lacks 2048 of the values"):
        tensor_messages.check_missing([tensor, tensor])


# REST, which load tests ask


DESCRIPTION = {"metadata": {"signature_def": {"signature_def": {"serving_default": {"inputs": {"text": {}}}}}}}


def test_a_description_over_rest():
    with hostile.HostileRest(hostile.body(json.dumps(DESCRIPTION).encode())) as server:
        assert load_calls.inputs_over_rest(server.address, "m", "", 5) == ("text",)
        with pytest.raises(ValueError, match="`signature` must be one of serving_default; got 'x'"):
            load_calls.inputs_over_rest(server.address, "m", "x", 5)


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"\xff\xfe\xff", "UnicodeDecodeError"),
        (b"<html>", "JSONDecodeError"),
        (b"[" * 2**20, "RecursionError"),
        (b"[]", "TypeError"),
        (b"{}", "KeyError: 'metadata'"),
        (json.dumps({"metadata": {"signature_def": {"signature_def": {"a": 1}}}}).encode(), "TypeError"),
        (json.dumps({"metadata": {"signature_def": {"signature_def": {"a": {"inputs": "text"}}}}}).encode(), "Value"),
        (b" " * 2**22 + b"{}", "ValueError: more than 4194304 bytes"),
    ],
)
def test_descriptions_over_rest_that_are_none(data, reason):
    with (
        hostile.HostileRest(hostile.body(data)) as server,
        pytest.raises(ValueError, match=f"did not describe the model in JSON .*{reason}.* Check that it is a"),
    ):
        load_calls.inputs_over_rest(server.address, "m", "", 5)


def test_other_pages_are_not_visited():
    with (
        hostile.HostileRest(hostile.body(b"", 302, Location="http://localhost:1/")) as server,
        pytest.raises(ValueError, match="does not serve model 'm': HTTP 302. Check `model_name`."),
    ):
        load_calls.inputs_over_rest(server.address, "m", "", 5)


def endless(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", str(10**12))
    handler.end_headers()
    while True:
        handler.wfile.write(b" " * 2**16)


def drop_by_drop(handler):
    handler.send_response(200)
    while True:
        handler.wfile.write(b"X-Header: 1\r\n")
        handler.wfile.flush()
        time.sleep(0.02)


def test_descriptions_over_rest_without_end():
    with hostile.HostileRest(endless) as server, pytest.raises(ValueError, match="more than 4194304 bytes"):
        load_calls.inputs_over_rest(server.address, "m", "", 20)
    with (
        hostile.HostileRest(drop_by_drop) as server,
        pytest.raises((TimeoutError, ConnectionError), match="respond"),
    ):
        load_calls.inputs_over_rest(server.address, "m", "", 0.3)


def test_answers_over_rest_are_dropped_as_they_come():
    bomb = gzip.compress(bytes(2**24), 9)

    async def ask(server):
        from bert_tf.serving.client.requests import ModelTarget

        async with load_calls.over_rest(server.address, ModelTarget("m"), [b"{}"], 5) as send:
            return await send(1)

    with hostile.HostileRest(hostile.body(bomb, Content_Encoding="gzip")) as server:
        assert asyncio.run(ask(server)) == "OK"
    with (
        hostile.HostileRest(hostile.body(b"", 302, Location="http://localhost:1/")) as server,
        pytest.raises(ValueError, match="did not respond for model 'm': HTTP 302. Check both."),
    ):
        asyncio.run(ask(server))


# `verify`


def golden(kind):
    from tensorflow_serving.apis import classification_pb2, predict_pb2, regression_pb2

    from bert_tf.serving.golden_requests import Golden

    requests = {"predict": predict_pb2.PredictRequest, "classify": classification_pb2.ClassificationRequest,
                "regress": regression_pb2.RegressionRequest}  # fmt: skip
    return Golden("serving_default", kind, requests[kind](), {"x": np.ones([1, 1], np.float32)})


def verdict(kind, answer):
    from bert_tf.serving.client.channel import open_channel
    from bert_tf.serving.verification import judge, remote_answer

    path = {"predict": PREDICT, "classify": hostile.CLASSIFY, "regress": hostile.REGRESS}[kind]
    with hostile.HostileServer({path: answer}) as server, open_channel(f"localhost:{server.port}") as channel:
        (found,) = judge([golden(kind)], remote_answer(channel, "here", "m", 10, "models/1"), 1e-4)
    return found


@pytest.mark.parametrize(
    "kind, answer, message",
    [
        ("predict", b"\xff", "is not a PredictResponse of TensorFlow Serving: 1 bytes are not valid ("),
        ("classify", b"\xff", "is not a ClassificationResponse of TensorFlow Serving"),
        ("regress", b"\xff", "is not a RegressionResponse of TensorFlow Serving"),
        ("predict", outputs_of(x=claim(FLOAT, [1, 2**33], float_val=[1])), "lacks 8589934591 of the values"),
        ("predict", outputs_of(x=claim(STRING, [1, 2000], string_val=[b"x" * 2**20])), "lacks 1999 of the values"),
        ("classify", hostile.classes_of(1, 2), "The response must have the same number of classes for each example."),
    ],
)
def test_malformed_answers_to_golden_requests(kind, answer, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        verdict(kind, answer)


def test_other_answers_to_golden_requests_are_shown_in_part():
    assert verdict("predict", outputs_of(x=ONE)).problems == []
    many = outputs_of(**{f"a\n{i:02}": ONE for i in range(30)})
    (problem,) = verdict("predict", many).problems
    assert "the outputs are a 00, a 01, " in problem and "a 19, and 10 more in place of x" in problem

    def refuse(request, context):
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "\x1b[2Jno\nno")

    (problem,) = verdict("predict", refuse).problems
    assert problem.endswith("refused: \ufffd[2Jno no")
