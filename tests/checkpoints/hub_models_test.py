"""Models by their names on the Hugging Face Hub: which files are asked for, and what is said where there are none."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

import bert_tf
from bert_tf.checkpoints import hub_models
from bert_tf.checkpoints.hub_models import resolve_model, with_local_models
from bert_tf.utils.settings import Flag, Settings
from tests.checkpoints.hub_server import HubServer
from tests.conftest import ROOT

constants = pytest.importorskip(
    "huggingface_hub.constants", reason="needs huggingface_hub: pip install 'bert-tf[hub]'"
)
SHAPE = {"hidden_size": 4, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 4}
CONFIG = json.dumps({"model_type": "bert", "vocab_size": 9, "max_position_embeddings": 8, **SHAPE}).encode()
GOLDENS, EMBEDDINGS = ROOT / "tests" / "goldens" / "erf", "embeddings.word_embeddings.weight"
PLAIN = {"config.json": CONFIG, "vocab.txt": b"[PAD]\n", "tokenizer_config.json": b"{}", "model.safetensors": b"w" * 99}
OF_KERAS_HUB = {"vocabulary_size": 9, "num_layers": 1, "num_heads": 2, "hidden_dim": 4, "intermediate_dim": 4,
                "dropout": 0.1, "max_sequence_length": 8, "num_segments": 2}  # fmt: skip
KERAS_HUB = {
    "config.json": json.dumps(
        {"registered_name": "keras_hub>BertBackbone", "class_name": "BertBackbone", "config": OF_KERAS_HUB}
    ).encode(),
    "metadata.json": b"{}",
    "tokenizer.json": b"{}",
    "assets/tokenizer/vocabulary.txt": b"[PAD]",
    "model.weights.h5": b"h",
    "task.weights.h5": b"t",
}
UNREAD = {"README.md": b"#", "modeling.py": b"raise", "tf_model.h5": b"h", "onnx/model.onnx": b"o",
          "onnx/config.json": CONFIG, ".gitattributes": b"", "training_args.bin": b"t"}  # fmt: skip


@pytest.fixture(scope="module")
def one_server():
    """One address for all tests: old versions of huggingface_hub keep the first that they have seen."""
    with HubServer() as server:
        yield server


@pytest.fixture
def server(one_server, tmp_path, monkeypatch):
    """The server without models, as the only one of huggingface_hub, with an empty cache; in an empty folder."""
    one_server.reset()
    for name, value in {
        "ENDPOINT": one_server.url,
        "HUGGINGFACE_CO_URL_TEMPLATE": f"{one_server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
        "HF_HUB_CACHE": str(tmp_path / "cache"),
        "HF_HUB_OFFLINE": False,
    }.items():
        monkeypatch.setattr(constants, name, value)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return one_server


def _asked(server):
    return {file for method, file in server.asked if method == "GET"}


def _offline(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def _files(folder):
    return {os.path.relpath(os.path.join(here, name), folder) for here, _, names in os.walk(folder) for name in names}


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        (PLAIN, PLAIN),
        ({**PLAIN, "pytorch_model.bin": b"b", "flax_model.msgpack": b"f"}, PLAIN),
        ({**PLAIN, "1_Pooling/config.json": b"{}"}, PLAIN),  # no module
        (KERAS_HUB, {name: KERAS_HUB[name] for name in KERAS_HUB if name != "metadata.json"}),
    ],
    ids=["plain", "several formats", "a folder", "KerasHub"],
)
def test_only_the_files_that_are_read_are_asked_for(server, files, wanted):
    server.models["org/name"] = {"main": {**UNREAD, **files}}
    folder = resolve_model("org/name")
    assert _files(folder) == _asked(server) == {*wanted}
    server.asked.clear()
    assert resolve_model("org/name") == folder and not _asked(server)  # from the cache


def test_pickles_are_only_asked_for_without_safetensors(server):
    files = {**UNREAD, **PLAIN, "pytorch_model.bin": b"b"}
    del files["model.safetensors"]
    server.models["org/name"] = {"main": files}
    assert _files(resolve_model("org/name")) == {*PLAIN, "pytorch_model.bin"} - {"model.safetensors"}


def test_shards_are_those_of_the_index(server):
    files = {name: content for name, content in PLAIN.items() if name != "model.safetensors"}
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    files["model.safetensors.index.json"] = json.dumps(index).encode()
    shards = {name: b"s" for name in index["weight_map"].values()}
    server.models["org/name"] = {"main": {**UNREAD, **files, **shards, "model-00001-of-00009.safetensors": b"old"}}
    assert _files(resolve_model("org/name")) == {*files, *shards}
    files["model.safetensors.index.json"] = json.dumps({"weight_map": {"a": "../../../model.py", "b": "none"}}).encode()
    server.models["org/other"] = {"main": {**files, "model.py": b"raise"}}
    with pytest.raises(ValueError, match="A file listed in .* is missing next to it: '../../../model.py'"):
        bert_tf.load("org/other")
    assert "model.py" not in _asked(server)


def test_modules_of_sentence_transformers(server):
    modules = [{"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
               for n, (path, kind) in enumerate([("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense")])]
    files = {
        **PLAIN,
        "modules.json": json.dumps(modules).encode(),
        "sentence_bert_config.json": b"{}",
        "config_sentence_transformers.json": b"{}",
        "1_Pooling/config.json": b"{}",
        "2_Dense/config.json": b"{}",
        "2_Dense/model.safetensors": b"d",
    }
    server.models["org/name"] = {"main": {**UNREAD, **files, "2_Dense/pytorch_model.bin": b"d"}}
    assert _files(resolve_model("org/name")) == {*files}


def test_modules_of_a_router(server):
    types = {"query_0_SparseStaticEmbedding": "sentence_transformers.sparse_encoder.models.SparseStaticEmbedding",
             "document_0_MLMTransformer": "sentence_transformers.sparse_encoder.models.MLMTransformer"}  # fmt: skip
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Router"}]
    query, document = types
    wanted = {
        "modules.json": json.dumps(modules).encode(),
        "router_config.json": json.dumps({"types": types}).encode(),
        **{f"{document}/{name}": data for name, data in PLAIN.items()},
        **{f"{query}/{name}": name.encode() for name in ("config.json", "tokenizer.json", "model.safetensors")},
    }
    server.models["org/name"] = {"main": {**UNREAD, **wanted}}
    folder = resolve_model("org/name")
    assert _asked(server) == _files(folder) == {*wanted}


def test_a_revision_is_a_branch_or_a_commit(server):
    other = {**PLAIN, "vocab.txt": b"[PAD]\nother\n"}
    server.models["org/name"] = {"main": PLAIN, "refs/pr/1": other}
    folders = [resolve_model(f"org/name{end}") for end in ("", "@refs/pr/1", f"@{server.commit_of('org/name', None)}")]
    assert folders[0] == folders[2] != folders[1]
    assert [len((ROOT / folder / "vocab.txt").read_text().split()) for folder in folders] == [1, 2, 1]
    with pytest.raises(ValueError, match="org/name on http.* has no branch, tag or commit v9. Pass org/name without"):
        resolve_model("org/name@v9")


def test_local_paths_win(server, monkeypatch):
    server.models["org/name"] = {"main": PLAIN}
    for path in ("a/b/c", "/org/name", "./org/name", "bert-base-uncased", "org/name.bin", "uncased/bert_model.ckpt",
                 "org/name@../../etc", "org/..", "../org@main"):  # fmt: skip
        assert resolve_model(path) == path
    os.makedirs("org/name")
    assert resolve_model("org/name") == "org/name"
    os.rename("org/name", "org/nam")
    assert resolve_model("org/name") == "org/name"  # misspelled, so that the message of the loader helps
    assert not server.asked
    assert os.path.isdir(resolve_model("org/name@main"))


def test_models_that_are_not_there_or_may_not_be_read(server):
    server.models["org/name"] = {"main": PLAIN}
    server.restricted.add("org/name")
    with pytest.raises(ValueError, match="org/name on http.* is restricted. Accept its conditions on .*hf auth login"):
        resolve_model("org/name")
    server.models["org/dataset"] = {"main": {"README.md": b"#"}}
    with pytest.raises(ValueError, match="org/dataset has no configuration and weights .* It contains .'README.md'.;"):
        resolve_model("org/dataset")
    with pytest.raises(ValueError, match="Model not found: org/nam is neither a local path nor the name of a model on"):
        resolve_model("org/nam")
    assert "model.safetensors" not in _asked(server)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config.json": b'{"model_type": "qwen3", "vocab_size": 9}'}, "model_type must be one of"),
        ({"model.safetensors": None}, "org/name has no configuration and weights that can be read: .*tf_model.h5"),
        ({"model.safetensors": None, "adapter_config.json": b'{"base_model_name_or_path": "org/base"}'},
         "LoRA adapters without the model that they were trained on, 'org/base'"),
    ],
    ids=["another family", "no weights", "adapters"],
)  # fmt: skip
def test_models_that_cannot_be_loaded_are_refused_before_their_weights_are_asked_for(server, change, message):
    files = {name: content for name, content in {**UNREAD, **PLAIN, **change}.items() if content is not None}
    server.models["org/name"] = {"main": files}
    with pytest.raises(ValueError, match=message):
        resolve_model("org/name")
    assert "config.json" in _asked(server) and "model.safetensors" not in _asked(server)


def test_an_interrupted_download_is_continued(server, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between attempts of huggingface_hub
    server.models["org/name"] = {"main": PLAIN}
    server.broken["model.safetensors"] = 10**6
    with pytest.raises(ValueError, match="files are not all in the cache .*Run the same command again to continue"):
        resolve_model("org/name")
    _offline(monkeypatch)
    with pytest.raises(ValueError, match="not all in the cache .* and HF_HUB_OFFLINE is set. Unset HF_HUB_OFFLINE"):
        resolve_model("org/name")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    server.broken.clear()
    server.asked.clear()
    folder = resolve_model("org/name")
    assert _asked(server) == {"model.safetensors"} and _files(folder) == {*PLAIN}


def test_offline_with_and_without_a_filled_cache(server, monkeypatch, caplog):
    server.models["org/name"] = {"main": PLAIN}
    folder = resolve_model("org/name")
    server.down = True
    with caplog.at_level("WARNING", logger="absl"):
        assert resolve_model("org/name") == folder
    assert "Using the cached files of org/name, because http" in caplog.text
    caplog.clear()
    _offline(monkeypatch)
    server.asked.clear()
    assert resolve_model("org/name") == folder and not server.asked and not caplog.text
    with pytest.raises(ValueError, match="Model not found: org/other is not a local path, .* HF_HUB_OFFLINE is set"):
        resolve_model("org/other")


def test_without_huggingface_hub_the_message_names_the_extra_and_the_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match=r"no local model org/name. Pass a directory .*pip install 'bert-tf\[hub\]'"):
        resolve_model("org/name")


def test_settings_have_the_local_paths(monkeypatch):
    folders = {True: "/cache", False: "/without-weights"}
    monkeypatch.setattr(hub_models, "resolve_model", lambda path, weights: f"{folders[weights]}/{path}")
    flags = [Flag("model", None, "", reads_model=True), Flag("average", [], "", "list", reads_model=True),
             Flag("teacher", None, "", reads_model=True), Flag("tokenizer", None, "", reads_model="tokenizer"),
             Flag("output_dir", None, "")]  # fmt: skip
    values = {"model": "a/b", "average": ["c/d", "e/f"], "teacher": None, "tokenizer": "i/j", "output_dir": "g/h"}
    found = with_local_models(flags, Settings(values, ["model"]))
    local = {"model": "/cache/a/b", "average": ["/cache/c/d", "/cache/e/f"], "tokenizer": "/without-weights/i/j"}
    assert found.to_dict() == values | local
    assert found.given == {"model"}


def test_a_model_is_loaded_by_its_name(server, tmp_path):
    files = {name: (GOLDENS / name).read_bytes() for name in ("config.json", "model.safetensors")}
    files["vocab.txt"] = "".join(f"{token}\n" for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a")).encode()
    server.models["org/name"] = {"main": {**UNREAD, **files}}
    bert = bert_tf.load("org/name")
    assert bert.path == resolve_model("org/name")
    np.testing.assert_array_equal(bert.encoder.weights[0], load_file(GOLDENS / "model.safetensors")[EMBEDDINGS])
    assert bert_tf.TokenizerLayer("org/name").tokenizer.vocab == bert.tokenizer.vocab


CHILD = """
import json, sys
from bert_tf.checkpoints.hub_models import resolve_model
print(json.dumps([resolve_model("org/name"), sorted({"tensorflow", "keras", "torch"} & sys.modules.keys())]))
"""


def test_the_environment_is_that_of_huggingface_hub_and_tensorflow_is_not_imported(server, tmp_path):
    server.models["org/name"] = {"main": PLAIN}
    given = {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    environment = {**os.environ, "HF_HUB_OFFLINE": "0", **given}
    done = subprocess.run([sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, check=True)
    folder, imported = json.loads(done.stdout)
    assert folder.startswith(given["HF_HOME"]) and _files(folder) == {*PLAIN} and not imported
