"""Bodies of requests that RapidJSON reads as it does, and none that ends in a fault of our own."""

import json
import random

import ml_dtypes
import numpy as np
import pytest
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import input_pb2

from bert_tf.serving.errors import ServingError
from bert_tf.serving.server.dtypes import as_dtype
from bert_tf.serving.server.json_requests import fill_examples, parse_body, predict_inputs
from bert_tf.serving.server.json_values import json_to_array, quoted
from bert_tf.serving.server.rest_api import answer
from bert_tf.serving.server.signatures import Endpoint, Signature
from tests.serving.requests import GOOD, b64

STRING, INT32, FLOAT32, FLOAT64, BOOL, INT64, UINT8, BFLOAT16 = map(
    as_dtype, (object, np.int32, np.float32, np.float64, np.bool_, np.int64, np.uint8, ml_dtypes.bfloat16)
)

TYPES = (STRING, INT32, INT64, FLOAT32, FLOAT64, BOOL, UINT8, BFLOAT16)


def signature(**inputs):
    endpoints = {alias: Endpoint(f"{alias}:0", dtype, (None,)) for alias, dtype in sorted(inputs.items())}
    return Signature(endpoints, {}, {}, meta_graph_pb2.SignatureDef())


PAIR = signature(text_a=STRING, text_b=STRING)


@pytest.mark.parametrize(
    "body",
    [
        b'\xef\xbb\xbf{"instances": ["fine"]}',
        b'{"instances": ["fine"]}} and more',
        b' \n{"instances": ["fine"]}\n{"instances": ["x"]}',
        b'{"instances": ["fine"]}\xff\x00',
        b'{"instances": ["fine"], "instances": ["x"]}',
        b'{"instances": ["fine"], "signature_name": "serving_default", "signature_name": "q"}',
    ],
)
def test_unusual_json_is_read_as_tensorflow_serving_reads_it(rest, body):
    assert rest("/v1/models/film:predict", body) == (200, {"predictions": [GOOD]})


def test_of_equal_keys_the_first_counts_but_of_features_the_last():
    arrays, row = predict_inputs(parse_body(b'{"inputs": {"x": [1], "x": [2]}}'), signature(x=INT32))
    assert arrays["x"].tolist() == [1] and not row
    with pytest.raises(ServingError, match="^tensor parsing error: x$"):
        predict_inputs(parse_body(b'{"instances": [{"x": 1, "x": 2}]}'), signature(x=INT32))
    with pytest.raises(ServingError, match="does not have named input: b64"):
        predict_inputs(parse_body(b'{"instances": [{"b64": "YQ==", "b64": "YQ=="}]}'), signature(text=STRING))
    with pytest.raises(ServingError, match="Type: Object is not of expected type: int32"):
        predict_inputs(parse_body(b'{"inputs": [{"a": 1, "a": 2}]}'), signature(x=INT32))
    found = input_pb2.Input()
    fill_examples(parse_body(b'{"examples": [{"a": 1, "a": 2}, {"a": 3}], "examples": []}'), found)
    features = [each.features.feature["a"].int64_list.value for each in found.example_list.examples]
    assert [list(each) for each in features] == [[2], [3]]


def test_numbers_are_rounded_to_the_type_of_the_input():
    assert json_to_array([2**24 + 1, 2**24 + 3, -(10**30), 0.1], FLOAT32).tolist() == [
        16777216.0, 16777220.0, float(np.float32(-1e30)), float(np.float32(0.1))
    ]  # fmt: skip
    assert json_to_array([2**53 + 1, 10**300], FLOAT64).tolist() == [2.0**53, 1e300]
    arrays, _ = predict_inputs(parse_body(b'{"inputs": [Infinity, -Infinity, NaN]}'), signature(x=FLOAT32))
    np.testing.assert_array_equal(arrays["x"], np.array([np.inf, -np.inf, np.nan], np.float32))
    for value in (1e39, -(10**39)):
        with pytest.raises(ServingError, match="^Cannot convert JSON value: -?1.* to float without loss of precision"):
            json_to_array([value], FLOAT32)


@pytest.mark.parametrize("number", [b"1e999", b"-1E+400", b"1" + b"0" * 400, b"1" + b"0" * 400 + b".5"])
def test_numbers_beyond_a_double_are_refused_and_never_infinite(number):
    with pytest.raises(ServingError, match="Number too big to be stored in double."):
        predict_inputs(parse_body(b'{"inputs": [%s]}' % number), signature(x=FLOAT64))
    with pytest.raises(ServingError, match="Number too big to be stored in double."):
        fill_examples(parse_body(b'{"examples": [{"x": %s}]}' % number), input_pb2.Input())


def test_one_string_for_two_inputs(pairs, log):
    message = (
        "input size does not match signature: 1!=2 len({text_a}) != len({text_a,text_b}). Sent extra: {}. "
        "Missing but required: {text_b}."
    )
    body = json.dumps({"instances": [b64(b"fine")]}).encode()
    status, text = answer(pairs._registry, "POST", "/v1/models/pairs:predict", body)
    assert (status, json.loads(text)) == (400, {"error": message})
    assert not log


def test_a_type_that_json_cannot_give_is_not_implemented():
    with pytest.raises(ServingError, match="^Conversion of JSON Value: 1 to type: bfloat16") as caught:
        predict_inputs({"inputs": [1]}, signature(x=BFLOAT16))
    assert caught.value.code.name == "UNIMPLEMENTED"
    with pytest.raises(ServingError, match="Error: UNIMPLEMENTED: Conversion of JSON Value: 1 to type") as caught:
        predict_inputs({"instances": [1]}, signature(x=BFLOAT16))
    assert caught.value.code.name == "INVALID_ARGUMENT"


def test_quoted_values_are_written_as_rapidjson_does():
    assert quoted({"a": [1, 2.5, {"b": None}], "c": {}, "é": True}) == (
        '{\n    "a": [1, 2.5, {\n            "b": null\n        }],\n    "c": {},\n    "é": true\n}'
    )
    assert quoted(list(range(1000))) == str(list(range(67)))[:-1]  # the token that reaches 256 characters is the last
    assert len(quoted("x" * 10**6)) == 1024


def some_value(random, depth=0):
    """Returns a JSON value, often nearly one that fits an input."""
    kind = random.randrange(14)
    if kind < 3 and depth < 4:
        return [some_value(random, depth + 1) for _ in range(random.choice((0, 1, 2, 2)))]
    if kind < 5 and depth < 4:
        names = random.sample(("text", "text_a", "text_b", "x", "scale", "b64", "inputs", ""), random.randrange(4))
        return {name: some_value(random, depth + 1) for name in names}
    return random.choice(
        (None, True, 0, 7, -1, 2**31, 2**63, 2**64, 10**400, 0.5, 1e308, float("nan"), "", "fine", "\0", "é", b64(b"x"),
         {"b64": "?"}, {"b64": 1}, [], [[]], {})
    )  # fmt: skip


def some_body(random):
    keys = random.choices(("instances", "inputs", "examples", "context"), (6, 6, 3, 1), k=random.choice((1, 1, 1, 2)))
    value = some_value(random)
    members = [(key, [value] if random.random() < 0.5 else value) for key in keys]
    members += [("signature_name", random.choice(("pair", "numbers", "echo", "classify", "regress", "q", "", 1)))]
    parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in members]
    return f"{{{', '.join(parts)}}}".encode()


def test_no_body_is_our_own_fault(pairs, film, log):
    chance = random.Random(7)
    statuses = set()
    for _ in range(1500):
        body, verb = some_body(chance), chance.choice(("predict", "predict", "classify", "regress"))
        for server, name in ((pairs, "pairs"), (film, "film")):
            status, text = answer(server._registry, "POST", f"/v1/models/{name}:{verb}", body)
            assert status in (200, 400, 501), (status, text, body)
            statuses.add(status)
    assert statuses >= {200, 400} and not log


def test_inputs_that_are_read_are_all_there():
    chance, found = random.Random(7), 0
    for _ in range(3000):
        names = chance.sample(("text", "text_a", "text_b", "x"), chance.choice((1, 1, 2)))
        asked = signature(**{name: chance.choice(TYPES) for name in names})
        try:
            arrays, _ = predict_inputs(parse_body(some_body(chance)), asked)
        except ServingError:
            continue
        found += 1
        assert {alias: as_dtype(array.dtype) for alias, array in arrays.items()} == {
            alias: endpoint.dtype for alias, endpoint in asked.inputs.items()
        }
    assert found > 30
