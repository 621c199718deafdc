"""Every flag of tensorflow_model_server: a unit file that starts it starts `serve`, and nothing is passed over."""

import importlib.metadata
import shlex
import signal
import subprocess
import sys

import pytest
from absl import logging

import bert_tf
from bert_tf.cli import command_runner, serve
from bert_tf.serving.client.client import Client
from bert_tf.serving.server.protocols.vertex import VertexSettings
from bert_tf.serving.server.settings import IgnoredSettings
from bert_tf.utils.settings import flags_of, options_of
from tests.conftest import ROOT
from tests.serving import halves
from tests.serving.server_process import wait_for

# Of its main.cc and server.h of July 2026, with the defaults there; of those that count processors, one.
DEFAULTS = {
    "port": "8500", "grpc_socket_path": "", "rest_api_port": "0", "rest_api_num_threads": "8",
    "rest_api_timeout_in_ms": "30000", "rest_api_enable_cors_support": "false", "enable_batching": "false",
    "allow_version_labels_for_unavailable_models": "false", "batching_parameters_file": "",
    "enable_per_model_batching_parameters": "false", "model_config_file": "",
    "model_config_file_poll_wait_seconds": "0", "model_name": "default", "model_base_path": "",
    "num_load_threads": "0", "num_unload_threads": "0", "max_num_load_retries": "5",
    "load_retry_interval_micros": "60000000", "file_system_poll_wait_seconds": "1", "flush_filesystem_caches": "true",
    "tensorflow_session_parallelism": "0", "tensorflow_session_config_file": "",
    "tensorflow_intra_op_parallelism": "0", "tensorflow_inter_op_parallelism": "0", "use_alts_credentials": "false",
    "ssl_config_file": "", "platform_config_file": "", "per_process_gpu_memory_fraction": "0",
    "saved_model_tags": "serve", "grpc_channel_arguments": "", "grpc_max_threads": "8", "enable_model_warmup": "true",
    "num_request_iterations_for_warmup": "0", "version": "false", "monitoring_config_file": "",
    "remove_unused_fields_from_bundle_metagraph": "true", "prefer_tflite_model": "false", "num_tflite_pools": "2",
    "num_tflite_interpreters_per_pool": "1", "enable_signature_method_name_check": "false",
    "xla_cpu_compilation_enabled": "false", "xla_gpu_compilation_enabled": "false", "enable_profiler": "true",
    "thread_pool_factory_config_file": "", "mixed_precision": "", "skip_initialize_tpu": "false",
    "enable_grpc_healthcheck_service": "false", "enable_serialization_as_tensor_content": "false",
}  # fmt: skip


def _unit(base_path, **others):
    """Returns a systemd unit that starts the server with all flags."""
    given = DEFAULTS | {"model_base_path": str(base_path)} | others
    flags = " \\\n    ".join(f"--{name}={value}" for name, value in given.items())
    return (
        "[Unit]\nDescription=Models\nAfter=network.target\n\n[Service]\nUser=models\n"
        f"ExecStart=/usr/bin/tensorflow_model_server \\\n    {flags}\nRestart=on-failure\n"
    )


def _words(unit):
    """Returns the words after the program that a unit starts."""
    line = unit.replace("\\\n", " ").split("ExecStart=")[1].split("\n")[0]
    return shlex.split(line)[1:]


def _settings(*words):
    return options_of(serve.SETTINGS, command_runner.parse_flags("serve", serve.FLAGS, words))


@pytest.fixture(scope="module")
def base_path(tmp_path_factory):
    base = tmp_path_factory.mktemp("half")
    halves.save(base / "1", 2.0)
    return base


@pytest.fixture
def log(monkeypatch):
    """What is warned of while the test runs."""
    lines = []
    monkeypatch.setattr(logging, "warning", lambda text, *values: lines.append(text % values))
    return lines


def test_it_has_48_flags():
    assert len(DEFAULTS) == 48
    assert DEFAULTS.keys() <= {flag.name for flag in serve.FLAGS}


def test_a_unit_with_every_flag_at_its_default_starts_the_server(base_path, log):
    words = _words(_unit(base_path, port=0))  # 8500 may be taken
    assert len(words) == 48
    with serve.start_server(_settings(*words)) as server, Client(f"localhost:{server.port}") as client:
        assert client.predict({"x": [2.0]})["y"].tolist() == [3.0]
    assert log == []


@pytest.mark.slow
def test_a_process_of_such_a_unit(base_path, tmp_path):
    command = [sys.executable, "-m", "bert_tf", "serve", *_words(_unit(base_path, port=0))]
    file = tmp_path / "log"
    with open(file, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=ROOT)
    try:
        wait_for(lambda: "gRPC on 127.0.0.1:" in file.read_text(), 120)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()


@pytest.mark.parametrize("flag", flags_of(IgnoredSettings), ids=lambda flag: flag.name)
def test_a_flag_without_effect_says_so_where_it_asks_for_something(flag, log):
    value = str(not flag.default).lower() if flag.kind == "bool" else flag.default + 2
    serve.warn_without_effect(_settings(f"--{flag.name}={value}"))
    assert len(log) == 1 and log[0].startswith(f"--{flag.name} has no effect: ") and log[0].endswith(".")
    log.clear()
    serve.warn_without_effect(_settings(f"--{flag.name}={str(flag.default).lower()}"))
    assert not log


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--use_alts_credentials", r"`use_alts_credentials` is not supported.*`ssl_config_file`"),
        ("--thread_pool_factory_config_file=x.txt", r"`thread_pool_factory_config_file` is not supported.*x\.txt"),
        ("--mixed_precision=float16", r"`mixed_precision` must be bfloat16 or empty; got 'float16'"),
        ("--saved_model_tags=serve,", r"`saved_model_tags` must be comma-separated tags; got 'serve,'"),
        ("--grpc_channel_arguments=grpc.a", r"`grpc_channel_arguments` must be comma-separated key=value.*'grpc\.a'"),
        ("--tensorflow_session_config_file=none.txt", r"`tensorflow_session_config_file` must be a file.*none\.txt"),
        ("--platform_config_file=none.txt", r"`platform_config_file` must be a file.*PlatformConfigMap.*none\.txt"),
        ("--batching_parameters_file=b.txt", r"`batching_parameters_file=b\.txt` requires `enable_batching`"),
        ("--tensorflow_session_parallelism=4 --tensorflow_intra_op_parallelism=2 --tensorflow_inter_op_parallelism=1",
         r"`tensorflow_session_parallelism` cannot be combined with.*got 4, 2 and 1"),
    ],
)  # fmt: skip
def test_refused(base_path, words, message):
    with pytest.raises(ValueError, match=message):
        serve.start_server(_settings(f"--model_base_path={base_path}", "--port=0", "--rest_api_port=0", *words.split()))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", {"intra": 0, "inter": 0}),
        ("--tensorflow_session_parallelism=3", {"intra": 3, "inter": 3}),
        ("--tensorflow_intra_op_parallelism=2 --tensorflow_session_parallelism=3", {"intra": 2, "inter": 0}),
        ("--tensorflow_session_parallelism=3 --platform_config_file=p.txt", {"intra": 0, "inter": 0}),
    ],
)
def test_threads(words, expected):
    assert serve.threads(_settings(*words.split())) == expected


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--model_config_file=m.config --model_base_path=/models/x --model_name=x",
         "--model_base_path, --model_name has no effect: --model_config_file lists the models."),
        ("--platform_config_file=p.txt --enable_batching --saved_model_tags=tpu",
         "--enable_batching, --saved_model_tags has no effect: --platform_config_file replaces it."),
        ("--enable_per_model_batching_parameters",
         "--enable_per_model_batching_parameters has no effect without --enable_batching."),
        ("--max_batch_tokens=64", "--max_batch_tokens has no effect without --enable_batching."),
        ("--model_config_file_poll_wait_seconds=9",
         "--model_config_file_poll_wait_seconds has no effect without --model_config_file."),
        ("--tensorflow_session_parallelism=4 --tensorflow_intra_op_parallelism=2",
         "--tensorflow_session_parallelism has no effect: --tensorflow_intra_op_parallelism replaces it."),
    ],
)  # fmt: skip
def test_a_flag_whose_place_another_takes_is_named(words, line, log):
    serve.warn_without_effect(_settings(*words.split()))
    assert log == [line]


def test_the_official_image_gives_a_base_path_beside_a_config(base_path, tmp_path, log):
    """Its entry point always adds --model_name and --model_base_path."""
    config = tmp_path / "models.config"
    entry = f'name: "half" base_path: "{base_path}" model_platform: "tensorflow"'
    config.write_text(f"model_config_list {{ config {{ {entry} }} }}")
    words = ["--port=0", "--rest_api_port=0", "--model_name=model", "--model_base_path=/models/model"]
    with (
        serve.start_server(_settings(*words, f"--model_config_file={config}")) as server,
        Client(f"localhost:{server.port}", "half") as client,
    ):
        assert client.predict({"x": [2.0]})["y"].tolist() == [3.0]
    assert len(log) == 1 and "--model_base_path" in log[0]


def test_version(capsys):
    serve.main(_settings("--version"))
    library = importlib.metadata.version("tensorflow")
    assert capsys.readouterr().out == (
        f"TensorFlow ModelServer: bert_tf {bert_tf.__version__}\nTensorFlow Library: {library}\n"
    )


def test_a_socket_in_place_of_a_port(base_path, tmp_path):
    path = tmp_path / "grpc.sock"
    words = [f"--model_base_path={base_path}", f"--grpc_socket_path={path}", "--port=0", "--rest_api_port=0"]
    with serve.start_server(_settings(*words)) as server, Client(f"unix:{path}") as client:
        assert server.port is None
        assert client.predict({"x": [2.0]})["y"].tolist() == [3.0]
    assert not path.exists()


def test_whether_the_config_can_be_reloaded_is_said_by_its_flag_or_left_to_the_config_file(log):
    def options(*words):
        found = serve._options(_settings(*words), {}, VertexSettings())
        return found.enable_model_config_reload, found.model_config_reload_base_paths

    assert options() == (None, ())
    assert options("--enable_model_config_reload") == (True, ())
    assert options("--noenable_model_config_reload", "--model_config_reload_base_paths=/a,/b") == (False, ("/a", "/b"))


@pytest.mark.parametrize(
    ("words", "has_effect"),
    [((), False), (("--enable_model_config_reload",), True), (("--model_config_file=m.config",), True),
     (("--model_config_file=m.config", "--noenable_model_config_reload"), False)],
)  # fmt: skip
def test_folders_of_a_reload_without_one_have_no_effect_and_the_log_says_so(words, has_effect, log):
    serve.warn_without_effect(_settings("--model_config_reload_base_paths=/a", *words))
    said = ["--model_config_reload_base_paths has no effect: the config cannot be reloaded."]
    assert log == ([] if has_effect else said)
