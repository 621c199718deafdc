"""Tensors that an input does not take: each is refused before anything of its size is made, whatever way it comes."""

import copy
import dataclasses
import json
import shutil
import tracemalloc

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    predict_pb2,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
)

from bert_tf.serving import golden_requests, verification
from bert_tf.serving.errors import ServingError
from bert_tf.serving.limits import LIMITS, Limits
from bert_tf.serving.server import warmup
from bert_tf.serving.server.classify import classify
from bert_tf.serving.server.dtypes import as_dtype
from bert_tf.serving.server.json_requests import parse_body, predict_inputs
from bert_tf.serving.server.json_values import json_to_array as json_array
from bert_tf.serving.server.multi_inference import multi_inference
from bert_tf.serving.server.predict import _inputs, predict, read_input
from bert_tf.serving.server.request_context import RequestContext
from bert_tf.serving.server.saved_model import SavedModel
from bert_tf.serving.server.scheduling import Scheduler
from bert_tf.serving.server.signature_tensors import check_tensor, count_rows, fill_proto, proto_to_array
from bert_tf.serving.server.signatures import Endpoint, Signature, read_signature
from bert_tf.serving.server.versions import Version, direct
from bert_tf.utils.names import SEQUENCES
from tests.serving.models import example
from tests.serving.server_process import running

CODE = grpc.StatusCode
STRING, FLOAT, INT32, INT64 = types_pb2.DT_STRING, types_pb2.DT_FLOAT, types_pb2.DT_INT32, types_pb2.DT_INT64
MIB = 2**20


def tensor(dtype, shape, **values):
    proto = tensor_pb2.TensorProto(dtype=dtype, **values)
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


def text(*shape, values=(b"x",)):
    return tensor(STRING, shape, string_val=values)


def asked(signature="", **inputs):
    request = predict_pb2.PredictRequest()
    request.model_spec.signature_name = signature
    for name, proto in inputs.items():
        request.inputs[name].CopyFrom(proto)
    return request


def refused(call, *arguments):
    """Returns (code, message) of a request that is refused, and sees that little memory was taken for it."""
    tracemalloc.start()
    try:
        with pytest.raises(ServingError) as caught:
            call(*arguments)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < MIB, most
    return caught.value.code, caught.value.message


def version_of(path):
    model = SavedModel(str(path))
    scheduler = Scheduler()
    return Version("film", 3, model, direct(model, scheduler), scheduler)


@pytest.fixture(scope="module")
def film_version(film_path):
    """A version whose signatures are held to their shapes, as those of an export of ours are."""
    version = version_of(film_path / "3")
    version.model.signatures = _checking_shapes(version.model, True)
    yield version
    version.model.close()


@pytest.fixture(scope="module")
def graph_decides(film_version):
    """The same as it is for other SavedModels, whose graph decides on shapes."""
    model = copy.copy(film_version.model)
    model.signatures = _checking_shapes(model, False)
    return dataclasses.replace(film_version, model=model, compute=direct(model, film_version.scheduler))


def _checking_shapes(model, checks):
    return {name: dataclasses.replace(each, checks_shapes=checks) for name, each in model.signatures.items()}


class Anything(tf.Module):
    """Takes strings of any rank, choices and ids."""

    @tf.function(input_signature=[tf.TensorSpec(None, tf.string, "text"), tf.TensorSpec([None], tf.int32, "shape")])
    def reshape(self, text, shape):
        return {"reshaped": tf.reshape(text, shape), "joined": tf.strings.reduce_join(text)}

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, "x"), tf.TensorSpec([None], tf.int32, "shape")])
    def numbers(self, x, shape):
        return {"y": tf.reshape(x, shape)}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.string, "choices")])
    def choices(self, choices):
        return {"choice": tf.strings.length(choices)}

    @tf.function(input_signature=[tf.TensorSpec([None, None, None], tf.int32, "input_ids")])
    def ids(self, input_ids):
        return {"sums": tf.reduce_sum(input_ids, -1)}


@pytest.fixture(scope="module")
def anything(tmp_path_factory):
    """A version of `Anything`."""
    path, module = tmp_path_factory.mktemp("anything"), Anything()
    names = {name: getattr(module, name) for name in ("numbers", "choices", "ids")}
    tf.saved_model.save(module, str(path), {"serving_default": module.reshape, **names})
    version = version_of(path)
    yield version
    version.model.close()


def shape_of(*sizes):
    return tensor(INT32, [len(sizes)], int_val=sizes)


PARSING = "tensor parsing error: text"
WANTS = "The input text must have the shape [?] and has "
ONES = "[1, 1, 1, 1, 1, 1, 1, 1, ...]"
MOST = "of which 4194304 are allowed; send it in parts"
WRONG = {
    "32 axes of strings": (text(*[1] * 32), WANTS + ONES),
    "33 axes of strings": (text(*[1] * 33), PARSING),
    "65 axes of strings": (text(*[1] * 65), PARSING),
    "255 axes of strings": (text(*[1] * 255), PARSING),
    "two axes": (text(1, 2, values=[b""]), f"{WANTS}[1, 2]"),
    "rows on the second axis": (text(1, 16384, values=[b""]),
                                "A request may have 4096 rows and has 16384; send it in parts"),
    "rows on two axes": (text(64, 65), "A request may have 4096 rows and has 4160; send it in parts"),
    "many of one": (text(4096, 17, values=[b""]), "A request may have 4096 rows and has 69632; send it in parts"),
    "nothing and much": (
        text(0, 2**40, values=()), f"{PARSING} has the shape [0, {2**40}], for {2**40} elements, {MOST}",
    ),
    "sixty million of one": (text(60_000_000), f"{PARSING} has 60000000 elements, {MOST}"),
    "overflow": (text(2**62, 4), f"{PARSING} has {2**64} elements, {MOST}"),
    "overflow to nothing": (text(2**32, 2**32), f"{PARSING} has {2**64} elements, {MOST}"),
    "none of too many": (text(4096, 17, values=()), "A request may have 4096 rows and has 69632; send it in parts"),
    "more than its shape": (text(1, values=[b"x", b"y"]), PARSING),
    "strings as content that is too short": (tensor(STRING, [1], tensor_content=b"\2x"), PARSING),
    "strings as content that is too long": (tensor(STRING, [1], tensor_content=b"\1xy"), PARSING),
    "strings as content without an end": (tensor(STRING, [2], tensor_content=b"\x80" * 40), PARSING),
    "half a number": (tensor(FLOAT, [1], tensor_content=b"123"), PARSING),
    "content beyond the shape": (tensor(FLOAT, [1], tensor_content=b"12345678"), PARSING),
    "an unknown type": (tensor(9999, [1], tensor_content=b"1"), PARSING),
    "no type": (tensor(0, [1], tensor_content=b"1"), PARSING),
    "two sizes below 0": (text(-1, -1), PARSING),
    "a size below 0": (text(-1), PARSING),
    "unknown rank": (
        tensor_pb2.TensorProto(dtype=STRING, tensor_shape={"unknown_rank": True}, string_val=[b"x"]),
        PARSING,
    ),
    "32 axes of numbers": (
        tensor(FLOAT, [1] * 32, float_val=[1]), "Expects arg[0] to be string but float is provided",
    ),
    "numbers as bytes": (
        tensor(INT64, [1], tensor_content=b"12345678"), "Expects arg[0] to be string but int64 is provided",
    ),
    "half a bfloat16": (tensor(types_pb2.DT_BFLOAT16, [1], tensor_content=b"1"), PARSING),
    "a reference": (tensor(types_pb2.DT_STRING_REF, [1], string_val=[b"x"]), PARSING),
    "a variant": (tensor(types_pb2.DT_VARIANT, [1], variant_val=[{}]), PARSING),
    "a resource": (tensor(types_pb2.DT_RESOURCE, [1], resource_handle_val=[{}]), PARSING),
    "quantized": (tensor(types_pb2.DT_QINT8, [1], int_val=[1]), PARSING),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_tensors_for_a_string_input_are_refused(film_version, what):
    proto, message = WRONG[what]
    assert refused(predict, film_version, asked(text=proto)) == (CODE.INVALID_ARGUMENT, message)


X = "The input x must have the shape [?, 3] and has "
NUMBERS = {
    "32 axes": (tensor(FLOAT, [1] * 32, float_val=[1]), X + ONES),
    "64 axes": (tensor(FLOAT, [1] * 64, float_val=[1]), "tensor parsing error: x"),
    "another width": (tensor(FLOAT, [2, 4], float_val=range(8)), f"{X}[2, 4]"),
    "an axis more": (tensor(FLOAT, [1, 3, 1], float_val=range(3)), f"{X}[1, 3, 1]"),
    "text": (text(1, 3), "Expects arg[1] to be float but string is provided"),
    "none of another width": (tensor(FLOAT, [0, 4]), f"{X}[0, 4]"),
    "65,536 of one": (tensor(FLOAT, [65536], float_val=[1]),
                      "A request may have 4096 rows and has 65536; send it in parts"),
    "integers as wide": (
        tensor(INT32, [1, 3], tensor_content=bytes(12)), "Expects arg[1] to be float but int32 is provided",
    ),
    "bytes for another type": (tensor(FLOAT, [1, 3], tensor_content=bytes(24)), "tensor parsing error: x"),
    "rows": (tensor(FLOAT, [4097, 3], tensor_content=bytes(12 * 4097)),
             "A request may have 4096 rows and has 4097; send it in parts"),
}  # fmt: skip


@pytest.mark.parametrize("what", NUMBERS)
def test_wrong_tensors_for_a_number_input_are_refused(film_version, what):
    proto, message = NUMBERS[what]
    request = asked("numbers", x=proto, scale=tensor(INT32, [1], int_val=[1]))
    assert refused(predict, film_version, request) == (CODE.INVALID_ARGUMENT, message)


def test_only_exports_that_declare_their_sequences_are_held_to_their_shapes(film_path, tmp_path):
    shutil.copytree(film_path / "3", tmp_path / "1")
    file = tmp_path / "1" / "saved_model.pb"
    for is_ours in (False, True):
        model = SavedModel(str(tmp_path / "1"))
        assert {each.checks_shapes for each in model.signatures.values()} == {is_ours}
        model.close()
        saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
        saved.meta_graphs[0].collection_def[SEQUENCES].int64_list.value.extend([512, 64])
        file.write_bytes(saved.SerializeToString())


def test_a_graph_that_another_rank_would_end_the_process_with_is_held_to_its_shapes(tmp_path):
    module = tf.Module()
    spec = tf.TensorSpec([None, 1], tf.int32, "x")
    module.scatter = tf.function(lambda x: {"y": tf.scatter_nd(x, tf.ones([tf.shape(x)[0]]), [9])}, [spec])
    tf.saved_model.save(module, str(tmp_path), {"serving_default": module.scatter})
    version = version_of(tmp_path)
    assert predict(version, asked(x=tensor(INT32, [2, 1], int_val=[1, 3]))).outputs["y"].float_val[3] == 1
    for shape in ([9, 1, 1, 1, 1], []):
        wrong = asked(x=tensor(INT32, shape, int_val=[1]))
        wanted = f"The input x must have the shape [?, 1] and has {shape}"
        assert refused(predict, version, wrong) == (CODE.INVALID_ARGUMENT, wanted)
    version.model.close()


@pytest.mark.parametrize("shape", [[2, 4], [2, 3, 1], [1] * 30, [3], []])
def test_the_graph_decides_on_shapes(graph_decides, shape):
    """As in TensorFlow Serving: [?, 3] times [n, 1] also makes sense for these."""
    request = asked("numbers", x=tensor(FLOAT, shape, float_val=[1]), scale=tensor(INT32, [1], int_val=[2]))
    assert set(predict(graph_decides, request).outputs["y"].float_val) == {2.0}
    document = {"inputs": {"x": np.ones(shape).tolist(), "scale": [2]}}
    inputs, _ = predict_inputs(document, graph_decides.model.signatures["numbers"])
    assert list(inputs["x"].shape) == shape


def test_values_may_be_absent_or_raw_as_in_tensorflow():
    def read(proto):
        check_tensor(proto, "x")
        return proto_to_array(proto, "x").tolist()

    assert read(tensor(FLOAT, [2])) == [0, 0] and read(text(2, values=())) == [b"", b""]
    assert read(tensor(STRING, [2], tensor_content=b"\1\2xyz")) == [b"x", b"yz"]
    assert read(tensor(types_pb2.DT_BOOL, [2], tensor_content=b"\0\1")) == [False, True]
    for wrong in (
        tensor(types_pb2.DT_BOOL, [2], tensor_content=b"\0\7"),
        tensor(FLOAT, [1], float_val=[1, 2]),  # TensorFlow drops the 2
    ):
        with pytest.raises(ServingError, match="^tensor parsing error: x$"):
            read(wrong)
    few = Limits(max_message_bytes=48, max_body_bytes=48)
    message = "A text may have 3 bytes and one has 4; shorten it"
    assert refused(check_tensor, tensor(STRING, [1], tensor_content=b"\4four"), "x", few)[1] == message


def test_an_error_of_the_graph_names_the_input_that_does_not_fit(graph_decides):
    request = asked(text=text(1, 2, values=[b""]))
    wanted = f"{WANTS}[1, 2]: input must be a vector, got shape: [1,2]"
    assert refused(predict, graph_decides, request) == (CODE.INVALID_ARGUMENT, wanted)
    request = asked("numbers", x=tensor(FLOAT, [2, 3], float_val=[1]), scale=tensor(INT32, [], int_val=[2]))
    code, message = refused(predict, graph_decides, request)
    assert code == CODE.INVALID_ARGUMENT and "{{" not in message
    assert message.startswith("The input scale must have the shape [?] and has []: ")
    request = asked("numbers", x=tensor(FLOAT, [2, 3], float_val=[1]), scale=tensor(INT32, [3], int_val=[2]))
    code, message = refused(predict, graph_decides, request)  # both fit, but not each other
    assert code == CODE.INVALID_ARGUMENT and message.startswith("Incompatible shapes: [3,1] vs. [2,3]")


def nested(value, depth):
    for _ in range(depth):
        value = [value]
    return value


JSON = {
    "inputs of 31 axes": ({"inputs": nested("x", 31)}, WANTS + ONES),
    "inputs of 32 axes": (
        {"inputs": nested("x", 32)},
        "JSON Parse error: Lists and objects may nest at most 32 deep",
    ),
    "another width": (
        {"signature_name": "numbers", "inputs": {"x": [[1, 2]], "scale": [1]}},
        "The input x must have the shape [?, 3] and has [1, 2]",
    ),
    "two axes": ({"inputs": [["x", 7]]}, f"{WANTS}[1, 2]"),  # before it is seen that 7 is no string
    "rows on the second axis": (
        {"inputs": [[""] * 5000]},
        "A request may have 4096 rows and has 5000; send it in parts",
    ),
    "instances": (
        {"instances": [[""] * 5000]},
        "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: A request may have 4096 rows and "
        "has 5000; send it in parts",
    ),
    "instances of two axes": (
        {"instances": [[""]] * 4000},
        f"Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: {WANTS}[4000, 1]",
    ),
    "columns": ({"inputs": ["x"] * 4097}, "A request may have 4096 rows and has 4097; send it in parts"),
}


@pytest.mark.parametrize("what", JSON)
def test_wrong_json_for_an_input_is_refused(film_version, what):
    document, message = JSON[what]
    signature = film_version.model.signatures[document.get("signature_name", "serving_default")]
    body = json.dumps(document).encode()
    assert refused(lambda: predict_inputs(parse_body(body), signature)) == (CODE.INVALID_ARGUMENT, message)


def test_elements_are_counted_before_they_are_read():
    limits = Limits(max_message_bytes=1600, max_body_bytes=1600)
    message = "A tensor may have 100 elements and one has 105; send it in parts"
    assert refused(json_array, [["x"] * 15] * 7, tf.string, limits)[1] == message


def test_strings_of_any_rank_have_32_axes_at_most_and_come_back_with_more(anything):
    for rank in (0, 1, 32):
        outputs = predict(anything, asked(text=text(*[1] * rank), shape=shape_of(1))).outputs
        assert (outputs["reshaped"].string_val, outputs["joined"].string_val) == ([b"x"], [b"x"])
    for rank in (33, 64):
        wrong = asked(text=text(*[1] * rank), shape=shape_of(1))
        assert refused(predict, anything, wrong) == (CODE.INVALID_ARGUMENT, PARSING)
        answer = predict(anything, asked(text=text(2, values=[b"a\0", b"b"]), shape=shape_of(2, *[1] * (rank - 1))))
        assert [dim.size for dim in answer.outputs["reshaped"].tensor_shape.dim] == [2, *[1] * (rank - 1)]
        assert answer.outputs["reshaped"].string_val == [b"a\0", b"b"]
    with pytest.raises(ServingError, match="maximum supported dimension for an ndarray is currently 64"):
        predict(anything, asked(text=text(1), shape=shape_of(*[1] * 65)))


def test_a_string_without_axes_keeps_its_zeros(anything):
    request = asked(text=text(values=[b"a\0\0"]), shape=shape_of())
    assert predict(anything, request).outputs["joined"].string_val == [b"a\0\0"]
    answer = predict(anything, request, RequestContext(tensor_content=True))
    assert answer.outputs["joined"].tensor_content == b"\3a\0\0"


def test_numbers_of_any_rank_come_back_with_64_axes_at_most(anything):
    for given, wanted in ((32, 1), (1, 64)):
        request = asked("numbers", x=tensor(FLOAT, [1] * given, float_val=[7]), shape=shape_of(*[1] * wanted))
        answer = predict(anything, request).outputs["y"]
        assert (len(answer.tensor_shape.dim), answer.float_val) == (wanted, [7])
    request = asked("numbers", x=tensor(FLOAT, [1], float_val=[7]), shape=shape_of(*[1] * 65))
    with pytest.raises(ServingError, match="^Could not allocate ndarray$"):
        predict(anything, request)


def test_every_text_and_every_sequence_is_a_row(anything):
    limits = Limits(max_batch_size=12)
    for signature, proto, rows in (
        ("choices", text(4, 3), 12),
        ("choices", text(1, 13), 13),
        ("choices", text(7, 2), 14),
        ("ids", tensor(INT32, [3, 4, 50], int_val=[1]), 12),
        ("ids", tensor(INT32, [1, 13, 1], int_val=[1]), 13),
    ):
        request = asked(signature)
        request.inputs[next(iter(anything.model.signatures[signature].inputs))].CopyFrom(proto)
        if rows <= 12:
            predict(anything, request, RequestContext(limits=limits))
            continue
        message = f"A request may have 12 rows and has {rows}; send it in parts"
        assert refused(predict, anything, request, RequestContext(limits=limits)) == (CODE.INVALID_ARGUMENT, message)
    choices = anything.model.signatures["choices"]
    assert predict_inputs({"instances": [["a", "b"]] * 6}, choices, limits)[0]["choices"].shape == (6, 2)
    message = "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: A request may have 12 rows"
    assert refused(predict_inputs, {"instances": [["a", "b"]] * 7}, choices, limits)[1] == (
        f"{message} and has 14; send it in parts"
    )
    found = refused(predict_inputs, {"inputs": [["a"] * 13]}, choices, limits)[1]
    assert found.endswith("12 rows and has 13; send it in parts")


@pytest.mark.parametrize(
    ("datatype", "shape", "rows"),
    [
        (STRING, (5, 7), 35),
        (STRING, (), 1),
        (STRING, (0,), 0),
        (INT32, (5, 7), 5),
        (INT32, (5, 7, 9), 35),
        (INT64, (5, 7, 2, 9), 70),
        (INT32, (5,), 5),
        (FLOAT, (5, 64, 64, 3), 5),
        (types_pb2.DT_UINT8, (5, 64, 64, 3), 5),
        (FLOAT, (), 1),
    ],
)
def test_count_rows(datatype, shape, rows):
    assert count_rows(datatype, shape) == rows


def test_the_default_of_an_input_is_held_to_the_same():
    definition = meta_graph_pb2.SignatureDef()
    definition.inputs["text"].CopyFrom(
        meta_graph_pb2.TensorInfo(name="text:0", dtype=STRING, tensor_shape={"dim": [{"size": -1}]})
    )
    definition.defaults["text"].CopyFrom(text(1, 2))
    signature = read_signature(definition, checks_shapes=True)
    with pytest.raises(ServingError, match=r"^The input text must have the shape \[\?\] and has \[1, 2\]$"):
        _inputs(signature, {}, LIMITS)


def test_a_sparse_input_is_not_fed():
    definition = meta_graph_pb2.SignatureDef()
    sparse = meta_graph_pb2.TensorInfo.CooSparse(values_tensor_name="x/values:0", indices_tensor_name="x/indices:0")
    definition.inputs["x"].CopyFrom(meta_graph_pb2.TensorInfo(dtype=FLOAT, coo_sparse=sparse))
    signature = read_signature(definition)
    message = "Input x must be one tensor of the graph, but in this signature it is several"
    assert refused(read_input, signature, "x", tensor(FLOAT, [1], float_val=[1])) == (CODE.UNIMPLEMENTED, message)
    assert refused(predict_inputs, {"inputs": [1]}, signature) == (CODE.UNIMPLEMENTED, message)


def test_examples_are_held_to_the_input_that_takes_them(film_version):
    wrong = Signature(
        {"inputs": Endpoint("inputs:0", as_dtype(object), (2,))},
        film_version.model.signatures["classify"].outputs, {}, film_version.model.signatures["classify"].definition,
        checks_shapes=True,
    )  # fmt: skip
    floats = Endpoint("inputs:0", as_dtype(np.float32), (None,))
    number = Signature({"inputs": floats}, wrong.outputs, {}, wrong.definition)

    class Model:
        signatures = {"wrong": wrong, "number": number}

    version = Version("film", 3, Model(), None, Scheduler())
    for name, message in (
        ("wrong", "The input inputs must have the shape [2] and has [1]"),
        ("number", "Expects arg[0] to be float but string is provided"),
    ):
        request = classification_pb2.ClassificationRequest()
        request.model_spec.signature_name = name
        request.input.example_list.examples.append(example("fine"))
        assert refused(classify, version, request) == (CODE.INVALID_ARGUMENT, message)
        several = inference_pb2.MultiInferenceRequest(input=request.input)
        task = several.tasks.add(method_name="tensorflow/serving/classify")
        task.model_spec.name, task.model_spec.signature_name = "film", name
        assert refused(multi_inference, version, several) == (CODE.INVALID_ARGUMENT, message)


@pytest.mark.parametrize(("axes", "message"), [(32, WANTS + ONES), (33, PARSING)])
def test_requests_that_come_with_a_model(film_version, tmp_path, axes, message):
    log = prediction_log_pb2.PredictionLog()
    log.predict_log.request.CopyFrom(asked("serving_default", text=text(*[1] * axes)))
    log.predict_log.response.outputs["label"].CopyFrom(text(1, values=[b"good"]))
    (tmp_path / "assets.extra").mkdir()
    for file in (warmup.FILE, golden_requests.FILE):
        with tf.io.TFRecordWriter(str(tmp_path / file)) as writer:
            writer.write(log.SerializeToString())
    with pytest.raises(ServingError) as caught:
        warmup.replay(film_version, str(tmp_path))
    assert caught.value.message == message
    goldens = golden_requests.read_goldens(str(tmp_path))
    (verdict,) = verification.judge(goldens, verification.local_answer(film_version.model), 1e-4)
    assert verdict.problems == [f"serving_default, request 1: refused: {message}"]


def test_an_output_that_is_too_large_is_not_written(film_version):
    request = asked("numbers", x=tensor(FLOAT, [4, 3], float_val=range(12)), scale=tensor(INT32, [4], int_val=[1] * 4))
    context = RequestContext(limits=Limits(max_output_elements=12))
    assert len(predict(film_version, request, context).outputs["y"].float_val) == 12
    with pytest.raises(ServingError, match="^An output may have 11 elements and y has 12; ask for less at a time$"):
        predict(film_version, request, RequestContext(limits=Limits(max_output_elements=11)))


def test_values_are_written_in_parts():
    array = np.arange(200_000, dtype=np.int32).reshape(2, -1)
    proto = tensor_pb2.TensorProto()
    tracemalloc.start()
    fill_proto(proto, array, tf.int32)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(tf.make_ndarray(proto), array)
    assert most < 4 * MIB  # all at once it was 7.6 MiB


@pytest.mark.slow
def test_a_server_outlives_a_message_of_163_bytes(film_path, tmp_path):
    request = asked(text=text(*[1] * 33))
    request.model_spec.name = "film"
    assert request.ByteSize() < 200
    good = asked(text=text(1, values=[b"a fine film"]))
    good.model_spec.name = "film"
    with (
        running(film_path, tmp_path / "log") as server,
        grpc.insecure_channel(f"localhost:{server.port}") as channel,
    ):
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Predict(request, timeout=60)
        assert (caught.value.code(), caught.value.details()) == (
            CODE.INVALID_ARGUMENT, PARSING
        )  # fmt: skip
        assert stub.Predict(good, timeout=60).outputs["label"].string_val == [b"good"]
        assert server.process.poll() is None
