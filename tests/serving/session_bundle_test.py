"""How versions are loaded and run: tags, sessions, warm-up, methods, own batches, and the file that says all of it."""

import dataclasses
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
from tensorflow_serving.apis import classification_pb2, predict_pb2, regression_pb2

from bert_tf.serving.errors import ServingError
from bert_tf.serving.server import saved_model, versions, warmup
from bert_tf.serving.server.batching import Batcher
from bert_tf.serving.server.batching_limits import BatchingLimits
from bert_tf.serving.server.classify import classify, regress
from bert_tf.serving.server.model_batching import ModelBatching
from bert_tf.serving.server.model_registry import ModelRegistry
from bert_tf.serving.server.predict import predict
from bert_tf.serving.server.rest_api import answer
from bert_tf.serving.server.server import serve
from bert_tf.serving.server.session_bundle import DEFAULT, Bundle, read_platform, session_config
from bert_tf.serving.server.versions import Loading, ServedModel
from tests.serving import halves, models
from tests.serving.server_process import wait_for

_ON = rewriter_config_pb2.RewriterConfig.ON


def _served(base, bundle=DEFAULT, **loading):
    model = ServedModel("half", str(base), loading=Loading(bundle, max_num_load_retries=0, **loading))
    model.poll()
    return model


def _y(model, x=2.0):
    request = predict_pb2.PredictRequest()
    request.inputs["x"].CopyFrom(tf.make_tensor_proto([x]))
    with model.lease() as version:
        return list(predict(version, request).outputs["y"].float_val)


def _refusal(model):
    """Returns why its only version is not served."""
    (state,) = model.states().values()
    assert state.name == "END" and not model.available()
    return state.message


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """A base path with version 1, half plus two, as `tf.saved_model.save` writes it."""
    base = tmp_path_factory.mktemp("half")
    halves.save(base / "1", 2.0)
    return base


def test_tags(tmp_path, half):
    halves.save_with_session(tmp_path / "1", 2.0, ("serve", "special"))
    both = Bundle(tags=frozenset({"serve", "special"}))
    model = _served(tmp_path, both)
    assert _y(model) == [3.0]
    model.close()
    assert "serve" in _refusal(_served(tmp_path))
    assert "special" in _refusal(_served(half, both))


def test_a_tflite_model_is_served_only_where_it_is_preferred(tmp_path, half):
    halves.save(tmp_path / "1", 2.0)
    (tmp_path / "1" / "model.tflite").write_bytes(b"TFL3")
    assert _refusal(_served(tmp_path, Bundle(prefer_tflite_model=True))).startswith("LiteRT cannot read ")
    for base, bundle in ((tmp_path, DEFAULT), (half, Bundle(prefer_tflite_model=True))):
        model = _served(base, bundle)
        assert _y(model) == [3.0]
        model.close()
    (tmp_path / "1" / "saved_model.pb").unlink()
    assert _refusal(_served(tmp_path)).startswith("It only has a model.tflite; ")


@pytest.mark.parametrize(("bundle", "runs"), [(DEFAULT, 2), (Bundle(num_request_iterations=3), 6),
                                              (Bundle(enable_model_warmup=False), 0)])  # fmt: skip
def test_warmup(tmp_path, monkeypatch, bundle, runs):
    folder = models.export(tmp_path, 1)
    models.write_warmup(folder)  # a Predict and a Classify request
    asked, prepared = [], []
    for kind in ("predict_log", "classify_log"):
        monkeypatch.setitem(warmup._HANDLERS, kind, lambda version, request: asked.append(request))
    monkeypatch.setattr(versions, "prepare_signatures", prepared.append)
    _served(tmp_path, bundle).close()
    assert len(asked) == runs and bool(prepared) == bool(runs)


def test_method_names(half, tmp_path):
    """`tf.saved_model.save` names every signature for Predict; TensorFlow 1 let its caller choose."""
    halves.save_with_session(tmp_path / "1", 2.0)
    kinds = (
        (classification_pb2.ClassificationRequest, "classify", "classification", classify),
        (regression_pb2.RegressionRequest, "regress", "regression", regress),
    )
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.append(2.0)
    checks = Bundle(check_method_names=True)
    for base, bundle, refused in ((half, DEFAULT, False), (half, checks, True), (tmp_path, checks, False)):
        model = _served(base, bundle)
        for kind, name, noun, ask in kinds:
            request = kind()
            request.model_spec.signature_name = f"{name}_x_to_y"
            request.input.example_list.examples.append(example)
            with model.lease() as version:
                if not refused:
                    assert ask(version, request).model_spec.signature_name == f"{name}_x_to_y"
                    continue
                with pytest.raises(ServingError) as raised:
                    ask(version, request)
            assert raised.value.code == grpc.StatusCode.INVALID_ARGUMENT
            assert raised.value.message == (
                f"Expected {noun} signature method_name to be tensorflow/serving/{name}. "
                "Was: tensorflow/serving/predict"
            )
        assert _y(model) == [3.0]  # for which all three names are good
        model.close()


def test_predict_refuses_a_signature_of_another_method(half):
    model = _served(half, Bundle(check_method_names=True))
    with model.lease() as version:
        version.model.signatures["serving_default"].definition.method_name = "mine"
    with pytest.raises(ServingError, match=r"method_name to be one of \{.*/predict, .*\}\. Was: mine") as raised:
        _y(model)
    assert raised.value.code == grpc.StatusCode.INTERNAL
    status, text = answer(ModelRegistry([model]), "POST", "/v1/models/half:predict", b'{"instances": [2.0]}')
    assert status == 500 and "Was: mine" in text
    model.close()


def test_the_config_of_sessions_joins_file_and_flags(tmp_path, half):
    file = tmp_path / "session.txt"
    file.write_text("intra_op_parallelism_threads: 3 inter_op_parallelism_threads: 5 gpu_options { allow_growth: 1 }")
    given = session_config(str(file), {"intra": 0, "inter": 2}, 0.25, "bfloat16")
    config = config_pb2.ConfigProto.FromString(given)
    assert (config.intra_op_parallelism_threads, config.inter_op_parallelism_threads) == (3, 2)
    assert config.gpu_options.allow_growth and config.gpu_options.per_process_gpu_memory_fraction == 0.25
    assert config.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 == _ON
    assert session_config() == b""
    model = _served(half, Bundle(session_config=given))
    config.experimental.disable_output_partition_graphs = True  # no caller could ask for them
    config.graph_options.rewrite_options.disable_tfg_optimizer = True
    with model.lease() as version:
        assert version.model._session._config == config
    assert _y(model) == [3.0]
    model.close()


_PLATFORM = """
platform_configs {
  key: "tensorflow"
  value { source_adapter_config {
    [type.googleapis.com/tensorflow.serving.SavedModelBundleSourceAdapterConfig] { legacy_config {
      session_config { intra_op_parallelism_threads: 2 }
      batching_parameters { max_batch_size { value: 7 } batch_timeout_micros { value: 9 } }
      saved_model_tags: "serve" saved_model_tags: "special"
      enable_model_warmup: true
      model_warmup_options { num_request_iterations { value: 4 } }
      enable_per_model_batching_params: true
      mixed_precision: "bfloat16"
    } } } } }
"""


def test_a_platform_config_gives_bundle_and_batching(tmp_path):
    file = tmp_path / "platform.config"
    file.write_text(_PLATFORM)
    bundle, batching = read_platform(str(file), max_batch_tokens=99)
    config = config_pb2.ConfigProto.FromString(bundle.session_config)
    assert config.intra_op_parallelism_threads == 2
    assert config.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 == _ON
    assert dataclasses.replace(bundle, session_config=b"") == Bundle(
        num_request_iterations=4, enable_per_model_batching_parameters=True, tags=frozenset({"serve", "special"})
    )
    assert batching == BatchingLimits(max_batch_size=7, batch_timeout_micros=9, max_batch_tokens=99)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("enable_model_warmup: true", 'session_target: "grpc://a"', r'9:7 .*no field named "session_target"'),
        ('key: "tensorflow"', 'key: "mine"', r"""must have one entry, with the key "tensorflow".*'mine'"""),
        ("SavedModelBundleSourceAdapterConfig", "Mine", r"tensorflow\.serving\.Mine not found"),
        ("max_batch_size { value: 7 }", "pad_variable_length_inputs: true", r"`platform_config_file` must not pad"),
        ('"bfloat16"', '"float16"', r"`mixed_precision` must be bfloat16"),
        (_PLATFORM, "", r"`platform_config_file` must have one entry.*none"),
    ],
)
def test_a_platform_config_that_is_not_followed_is_refused(tmp_path, old, new, message):
    assert old in _PLATFORM
    file = tmp_path / "platform.config"
    file.write_text(_PLATFORM.replace(old, new))
    with pytest.raises(ValueError, match=message):
        read_platform(str(file))


def test_a_version_has_the_batches_that_its_folder_asks_for(tmp_path):
    for name, addend in (("own", 2.0), ("none", 3.0)):
        halves.save(tmp_path / name / "1", addend)
    (tmp_path / "own" / "1" / "batching_params.pbtxt").write_text(
        "max_batch_size { value: 7 } batch_timeout_micros { value: 0 } num_batch_threads { value: 99 }"
    )
    common = BatchingLimits(max_batch_size=3, num_batch_threads=1, thread_pool_name="common")
    batching = ModelBatching(common, per_model=True)
    own, none = (_served(tmp_path / name, batcher_of=batching.batcher_of) for name in ("own", "none"))
    assert _y(own) == [3.0] and _y(none) == [4.0]
    with own.lease() as version:
        assert version.batcher.parameters == dataclasses.replace(common, max_batch_size=7)
        threads = version.batcher._threads
    with none.lease() as version:
        assert version.batcher is None
    assert [thread.name for thread in threads] == ["common-0"] and threads[0].is_alive()
    own.close()
    assert not threads[0].is_alive()
    none.close()
    batching.close()


def test_a_version_whose_batches_cannot_be_made_is_refused(tmp_path):
    halves.save(tmp_path / "1", 2.0)
    (tmp_path / "1" / "batching_params.pbtxt").write_text("max_batch_size { value: 0 }")
    model = _served(tmp_path, batcher_of=ModelBatching(BatchingLimits(), per_model=True).batcher_of)
    assert "`max_batch_size` must be at least 1" in _refusal(model)


def test_batches_of_several_models_take_turns(half):
    """The threads of batches are bounded for all models together."""
    turns, running, most = threading.Semaphore(1), [], []
    served = _served(half)

    def compute(signature, inputs, aliases, call):
        running.append(1)
        most.append(len(running))
        time.sleep(0.01)  # in which another would come in
        running.pop()
        return {"y": inputs["x"]}

    batchers = [Batcher(BatchingLimits(num_batch_threads=2), turns) for _ in range(2)]
    with served.lease() as version:
        signature = version.model.signatures["serving_default"]
        callers = [
            threading.Thread(
                target=batcher.batch("half", compute),
                args=(signature, {"x": np.zeros(1, np.float32)}, ["y"], versions.RequestContext()),
            )
            for batcher in batchers * 4
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    for batcher in batchers:
        batcher.close()
    served.close()
    assert most and max(most) == 1


def test_models_are_loaded_side_by_side(half, tmp_path, monkeypatch):
    together, load = threading.Barrier(2), saved_model.SavedModel

    def later(folder, bundle):
        together.wait(30)  # broken, and an error, where only one is loaded at a time
        return load(folder, bundle)

    monkeypatch.setattr(saved_model, "SavedModel", later)
    file = tmp_path / "models.config"
    entries = (f'config {{ name: "{name}" base_path: "{half}" model_platform: "tensorflow" }}' for name in "ab")
    file.write_text(f"model_config_list {{ {' '.join(entries)} }}")
    with serve(model_config_file=str(file), poll_seconds=0, num_load_threads=2) as server:
        assert [list(server._registry.states(name).values())[0].name for name in "ab"] == ["AVAILABLE"] * 2


def test_versions_are_freed_in_threads_of_their_own(half, monkeypatch):
    names, close = [], saved_model.SavedModel.close

    def closed(self):
        names.append(threading.current_thread().name)
        close(self)

    monkeypatch.setattr(saved_model.SavedModel, "close", closed)
    _served(half).close()
    model = _served(half, unload_turns=threading.Semaphore(1))
    model.close()
    wait_for(lambda: [state.name for state in model.states().values()] == ["END"], 20)
    assert names == [threading.current_thread().name, "unload"]
