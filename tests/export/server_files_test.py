"""The files beside the versions, read as tensorflow_model_server reads them; and that a user's own stay."""

import os
import re

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format, wrappers_pb2
from tensorflow_serving.config import model_server_config_pb2

from bert_tf.export import server_files
from bert_tf.models.config import EncoderConfig
from bert_tf.serving.server.version_folders import find_versions
from tests import tiny

_Field = descriptor_pb2.FieldDescriptorProto


def _published():
    """Returns {message: class} of the fields that tensorflow/serving publishes and its Python package leaves out.

    They are those of servables/tensorflow/session_bundle_config.proto and config/monitoring_config.proto.
    """
    int64, text = ".google.protobuf.Int64Value", ".google.protobuf.StringValue"
    fields = {
        "BatchingParameters": (
            *((name, int64) for name in ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches",
                                         "num_batch_threads")),
            ("thread_pool_name", text), ("allowed_batch_sizes", [_Field.TYPE_INT64]),
            ("pad_variable_length_inputs", _Field.TYPE_BOOL),
        ),
        "PrometheusConfig": (("enable", _Field.TYPE_BOOL), ("path", _Field.TYPE_STRING)),
        "MonitoringConfig": (("prometheus_config", ".published.PrometheusConfig"),),
    }  # fmt: skip
    file = descriptor_pb2.FileDescriptorProto(name="published.proto", package="published", syntax="proto3")
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    for name, rows in fields.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(rows, 1):
            label = _Field.LABEL_REPEATED if isinstance(kind, list) else _Field.LABEL_OPTIONAL
            kind = kind[0] if isinstance(kind, list) else kind
            of = {"type_name": kind, "type": _Field.TYPE_MESSAGE} if isinstance(kind, str) else {"type": kind}
            message.field.add(name=field, number=number, label=label, **of)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"published.{name}")) for name in fields}


def _batching(config, length):
    text = server_files.server_files("/models/x", config, length)[server_files.BATCHING]
    parameters = text_format.Parse(text, _published()["BatchingParameters"]())
    assert not parameters.pad_variable_length_inputs and "Do not set" in text
    return {field.name: value.value for field, value in parameters.ListFields()}


def _size(layers, hidden, heads):
    return EncoderConfig(
        100, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden
    )


def test_batches_fit_the_model():
    small, base = _batching(tiny.config(), 16), _batching(_size(12, 768, 12), 512)
    assert small == {
        "max_batch_size": 256, "batch_timeout_micros": 1000, "max_enqueued_batches": 16, "num_batch_threads": 2,
    }  # fmt: skip
    assert base["max_batch_size"] == 32 and base["batch_timeout_micros"] == 10_000  # a client of ours sends 32 texts
    between = _batching(_size(6, 384, 12), 64)
    assert between["max_batch_size"] == 64 and 1000 < between["batch_timeout_micros"] < 10_000


def test_models_config_says_where_and_what(tmp_path):
    folder = tmp_path / 'good "models" é' / "my films!"
    texts = server_files.server_files(str(folder), tiny.config(), 16)
    config = text_format.Parse(texts[server_files.MODELS], model_server_config_pb2.ModelServerConfig())
    (model,) = config.model_config_list.config
    assert (model.name, model.base_path, model.model_platform) == ("my_films", str(folder), "tensorflow")


@pytest.mark.parametrize(("folder", "name"), [("a/b", "b"), ("/models/films-1.2/", "films-1.2"), ("/é", "model")])
def test_names_are_fit_for_an_address(folder, name):
    assert server_files.model_name(folder) == name and re.fullmatch(r"[^/:]+", name)


def test_metrics_have_tensorflow_servings_own_path():
    text = server_files.server_files("/x", tiny.config(), 16)[server_files.MONITORING]
    config = text_format.Parse(text, _published()["MonitoringConfig"]()).prometheus_config
    assert config.enable and config.path == "/monitoring/prometheus/metrics"


def test_a_users_file_stays(tmp_path, caplog):
    texts = server_files.server_files(str(tmp_path), tiny.config(), 16)
    (tmp_path / server_files.BATCHING).write_text("max_batch_size { value: 7 }\n")
    with caplog.at_level("INFO", "absl"):
        written = server_files.write_server_files(str(tmp_path), texts)
        assert sorted(map(os.path.basename, written)) == ["models.config", "monitoring.config"]
        assert server_files.write_server_files(str(tmp_path), texts) == []
    assert (tmp_path / server_files.BATCHING).read_text() == "max_batch_size { value: 7 }\n"
    kept = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Kept ")]
    assert len(kept) == 2 and all(server_files.BATCHING in line for line in kept)
    assert find_versions(str(tmp_path)) == {}


def test_none_is_left_where_one_cannot_be_written(tmp_path, monkeypatch):
    texts = server_files.server_files(str(tmp_path), tiny.config(), 16)
    replace = os.replace

    def full(source, target):
        if os.path.basename(target) == server_files.MONITORING:
            raise OSError(28, "No space left on device", target)
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match=server_files.MONITORING):
        server_files.write_server_files(str(tmp_path), texts)
    assert os.listdir(tmp_path) == []
