"""docs/deploy/: files that parse, name each other rightly, and use flags and files that there are."""

import json
import os
import re
import subprocess

import pytest
from google.protobuf import text_format
from packaging.specifiers import SpecifierSet
from tensorflow_serving.config import model_server_config_pb2

from bert_tf.cli import serve
from bert_tf.cli.command_runner import parse_flags
from bert_tf.export.server_files import BATCHING, MODELS, MONITORING
from tests.conftest import ROOT

FOLDER = ROOT / "docs" / "deploy"
BESIDE_THE_VERSIONS = {MODELS, BATCHING, MONITORING}
MODEL_SERVER_FLAGS = {  # of tensorflow_model_server, of those in use here
    "allow_version_labels_for_unavailable_models", "batching_parameters_file", "enable_batching", "model_base_path",
    "model_config_file", "model_config_file_poll_wait_seconds", "model_name", "monitoring_config_file", "port",
    "rest_api_port",
}  # fmt: skip
SERVERS = ("Dockerfile", "compose.yaml", "kubernetes.yaml")


def instructions(name):
    """Returns the (instruction, argument) pairs of a Dockerfile."""
    text = re.sub(r"^#.*\n", "", (FOLDER / name).read_text(encoding="utf-8"), flags=re.M).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def documents(name):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".yaml", ".yml")))
def test_yaml_parses(name):
    assert all(isinstance(document, dict) for document in documents(name))


def containers():
    """Returns {file: (image, arguments, folders that it sees)} of what starts a server."""
    compose = documents("compose.yaml")[0]["services"]["serving"]
    pod = documents("kubernetes.yaml")[0]["spec"]["template"]["spec"]["containers"][0]
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    return {
        "compose.yaml": (compose["image"], compose["command"], [each.split(":")[-2] for each in compose["volumes"]]),
        "kubernetes.yaml": (pod["image"], pod["args"], [mount["mountPath"] for mount in pod["volumeMounts"]]),
        "Dockerfile": (re.search("^FROM (.*)", text, re.M)[1], re.findall('"(--[^"]+)"', text), ["/models", "/config"]),
    }


def test_one_image_of_a_stated_version_everywhere():
    images = {image for image, _, _ in containers().values()}
    assert len(images) == 1 and re.fullmatch(r"tensorflow/serving:2\.\d+\.\d+", *images)
    major, minor, _ = re.search(r":(.*)", *images)[1].split(".")
    assert (int(major), int(minor)) >= (2, 12)  # the first with tensorflow-text's newer operations
    for name in ("compose.yaml", "kubernetes.yaml"):
        assert "latest" not in re.findall(r"image: \S+?:(\S+)", (FOLDER / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SERVERS)
def test_flags_and_files_are_there(name):
    _, arguments, folders = containers()[name]
    flags = dict(argument.removeprefix("--").partition("=")[::2] for argument in arguments)
    assert set(flags) <= MODEL_SERVER_FLAGS
    assert ("batching_parameters_file" in flags) == ("enable_batching" in flags)
    for path in (value for value in flags.values() if value.startswith("/")):
        folder, _, file = path.rpartition("/")
        assert any(folder == each or folder.startswith(f"{each}/") for each in folders), path
        if folder == "/models/reviews":
            assert file in BESIDE_THE_VERSIONS - {"models.config"}  # that has the path of another machine
        else:
            assert folder == "/config" and (FOLDER / file).is_file()


def test_the_ready_script_is_what_every_server_is_asked_by():
    pod = documents("kubernetes.yaml")[0]["spec"]["template"]["spec"]["containers"][0]
    probe = ["bash", "/config/ready.sh"]
    assert pod["readinessProbe"]["exec"]["command"] == pod["startupProbe"]["exec"]["command"] == probe
    assert documents("compose.yaml")[0]["services"]["serving"]["healthcheck"]["test"] == ["CMD", *probe]
    assert '["bash", "/config/ready.sh"]' in (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    generated = documents("kustomization.yaml")[0]
    assert set(generated["configMapGenerator"][0]["files"]) == {"models.config", "ready.sh"}
    assert all((FOLDER / name).is_file() for name in generated["resources"])


@pytest.mark.parametrize(
    ("name", "labels"), [("models.config", {"stable": 1}), ("canary.config", {"stable": 1, "canary": 2})]
)
def test_models_and_labels(name, labels):
    text = (FOLDER / name).read_text(encoding="utf-8")
    config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig()).model_config_list.config[0]
    assert (config.name, config.base_path, config.model_platform) == ("reviews", "/models/reviews", "tensorflow")
    assert dict(config.version_labels) == labels
    assert set(labels.values()) == set(config.model_version_policy.specific.versions)


def ready(port, model):
    environment = {**os.environ, "PORT": str(port), "MODEL_NAME": model}
    done = subprocess.run(["bash", FOLDER / "ready.sh"], env=environment, capture_output=True, timeout=60)
    return done.returncode == 0


def test_ready_is_a_model_with_a_version_that_can_be_asked(film):
    assert ready(film.rest_port, "film")
    assert not ready(film.rest_port, "nobody")
    assert not ready(1, "film")


def test_the_image_of_bert_tf_starts_commands_that_there_are():
    found = instructions("Dockerfile.bert_tf")
    stages = [argument for instruction, argument in found if instruction == "FROM"]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    supported = SpecifierSet(re.search(r'^requires-python = "(.*)"$', project, re.M)[1])
    python = re.fullmatch(r"python:(3\.\d+)-slim-\w+ AS train", stages[0])[1]
    assert supported.contains(python) and stages[1:] == ["train AS serve"]
    started = [json.loads(argument) for instruction, argument in found if instruction in ("ENTRYPOINT", "CMD")]
    assert started[:2] == [["bert-tf"], ["--help"]]
    program, *flags = started[2]
    settings = parse_flags(program, serve.FLAGS, flags)
    assert settings.host == "0.0.0.0" and settings.model_base_path == f"/models/{settings.model_name}"
    assert dict(found)["ENV"] == f"MODEL_NAME={settings.model_name}"
    assert dict(found)["EXPOSE"] == f"{settings.port} {settings.rest_api_port}"
    assert dict(found)["COPY"] == "--from=deploy ready.sh /config/ready.sh"
    assert dict(found)["HEALTHCHECK"].endswith('CMD ["bash", "/config/ready.sh"]')
    order = [instruction for instruction, _ in found]
    assert order.index("RUN") < order.index("USER") < order.index("ENTRYPOINT") and dict(found)["USER"] == "1000"


def test_the_page_names_every_file():
    text = (ROOT / "docs" / "guides" / "deployment.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\(\.\./deploy/([\w.]+)\)", text))
    assert linked <= {path.name for path in FOLDER.iterdir()}
    assert {*SERVERS, "Dockerfile.bert_tf", "ready.sh", "models.config", "canary.config", "prometheus.yml"} <= linked
