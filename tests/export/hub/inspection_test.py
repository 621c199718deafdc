"""What `verify --inspect` finds in a SavedModel and in a `.keras` file, of which nothing is loaded."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest
import tensorflow as tf

from bert_tf.cli import command_runner, verify
from bert_tf.export.hub.inspection import inspect_model
from tests.conftest import ROOT
from tests.export.hub import hostile, models


def _one(path):
    (found,) = inspect_model(str(path)).values()
    return found


def test_a_model_that_only_computes(tmp_path):
    folders = [str(hostile.save(models.LookAlike(), tmp_path / name)) for name in ("one", "other")]
    found = _one(folders[0])
    assert not found.faults and found.files == found.paths == []
    assert {"ResourceGather", "VarHandleOp"} <= set(found.operations)
    assert found.sizes[0].startswith(f"{_bytes(folders[0]):,} bytes, ")
    both = inspect_model(str(tmp_path))
    assert sorted(both) == folders and not any(each.faults for each in both.values())


@pytest.mark.slow
def test_the_pair_for_tf_hub_only_computes(hub_pair):
    preprocessor, encoder = hub_pair
    found = _one(preprocessor)
    assert not found.faults and found.files == ["assets/vocab.txt"] and found.paths == []
    assert {"RaggedTensorToTensor", "UnicodeDecodeWithOffsets", "VarHandleOp"} <= set(found.operations)
    assert found.sizes[0].startswith(f"{_bytes(preprocessor):,} bytes, ")
    both = inspect_model(os.path.dirname(encoder))
    assert sorted(both) == [encoder, preprocessor] and not any(each.faults for each in both.values())


def _bytes(folder):
    from tensorflow.core.protobuf import saved_model_pb2

    content = (pathlib.Path(folder) / "saved_model.pb").read_bytes()
    return saved_model_pb2.SavedModel.FromString(content).meta_graphs[0].ByteSize()


def test_what_a_graph_writes_and_reads_is_told(tmp_path):
    target = tmp_path / "written"
    found = _one(hostile.save(hostile.dumps_when_loaded(target), tmp_path / "hub"))
    target.unlink(missing_ok=True)
    found = _one(tmp_path / "hub")
    (fault,) = found.faults
    assert fault.startswith("DumpTensor in __inference") and fault.endswith(", which runs when the model is loaded")
    assert f"{str(tmp_path)!r} in DumpTensor DumpTensor" in found.paths and "DumpTensor" in found.operations
    assert not target.exists()
    found = _one(hostile.save(hostile.reads_passwd(), tmp_path / "reads"))
    assert any(path.startswith("'/etc/passwd' in Const ") for path in found.paths)
    assert any(fault.startswith("InitializeTableFromTextFileV2 of a file that is not an") for fault in found.faults)


class _Counts(tf.Module):
    def __init__(self):
        super().__init__()
        self.weight = tf.Variable(2.0)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def serve(self, x):
        return {"y": x * self.weight}


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    folder, module = tmp_path_factory.mktemp("counts"), _Counts()
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.serve})
    return folder


@pytest.fixture
def served(counts, tmp_path):
    return pathlib.Path(shutil.copytree(counts, tmp_path / "served"))


def test_signatures_are_listed_with_their_tensors(served):
    found = _one(served)
    assert found.signatures == ["serving_default: x float [?, 3] -> y float [?, 3]"] and not found.faults
    assert found.layers == [] and "RestoreV2" not in found.operations, "what loads the weights is TensorFlow's"


def _main_op(graph):
    graph.graph_def.node.add(name="evil", op="WriteFile")
    graph.collection_def["saved_model_main_op"].node_list.value.append("evil")


def _init_signature(graph):
    graph.graph_def.node.add(name="evil", op="WriteFile")
    graph.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name = "evil"


def _restore(graph):
    graph.graph_def.node.add(name="evil", op="WriteFile")
    graph.graph_def.node.add(name="all", op="NoOp", input=["^evil", f"^{graph.saver_def.restore_op_name}"])
    graph.saver_def.restore_op_name = "all"


def _sparse(graph):
    graph.graph_def.node.add(name="evil", op="WriteFile")
    graph.signature_def["serving_default"].outputs["more"].coo_sparse.values_tensor_name = "evil:0"


def _restores_another(graph):
    """Reads a checkpoint from elsewhere: its numbers would be in the answers."""
    graph.graph_def.node.add(name="elsewhere", op="Const").attr["value"].tensor.string_val.append(b"/home/me/ckpt")
    for node in graph.graph_def.node:
        if node.name == graph.saver_def.restore_op_name:
            node.input[0] = "elsewhere"


SERVED = {
    "main op": (_main_op, "WriteFile in the graph of the signatures"),
    "init op": (_init_signature, "WriteFile in the graph of the signatures"),
    "restore op": (_restore, "WriteFile in the graph that restores"),
    "sparse output": (_sparse, "WriteFile in the graph of the signatures"),
    "another checkpoint": (_restores_another, "RestoreV2 of a file that is not an asset of the model, "),
}


@pytest.mark.parametrize("attack", SERVED)
def test_what_a_server_runs_is_looked_at(served, attack):
    change, fault = SERVED[attack]
    hostile.edit(served, change)
    assert any(each.startswith(fault) for each in _one(served).faults)


def test_all_graphs_of_a_folder_are_looked_at(served):
    from tensorflow.core.protobuf import saved_model_pb2

    path = served / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    saved.meta_graphs.add().CopyFrom(saved.meta_graphs[0])
    saved.meta_graphs[1].meta_info_def.tags[:] = ["gpu\x1b"]
    _main_op(saved.meta_graphs[1])
    path.write_bytes(saved.SerializeToString())
    first, second = inspect_model(str(served)).values()
    assert not first.faults and second.faults == ["WriteFile in the graph of the signatures"]
    (served / "saved_model.pbtxt").touch()
    assert {"saved_model.pbtxt, another graph, which was not inspected"} == set(
        each for each in next(iter(inspect_model(str(served)).values())).faults
    )


def test_a_graph_of_tensorflow_1(tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.disable_resource_variables()
        x = v1.placeholder(tf.float32, [None], "x")
        y = x * v1.get_variable("w", initializer=2.0)
        v1.enable_resource_variables()
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(tmp_path / "v1"), {"x": x}, {"y": y})
    found = _one(tmp_path / "v1")
    assert not found.faults and found.operations == ["Identity", "Mul", "Placeholder", "VariableV2"]


@pytest.fixture(scope="module")
def keras_file(tmp_path_factory):
    return hostile.save_keras_file(hostile.Table(), tmp_path_factory.mktemp("keras"))


def test_a_keras_file(keras_file, tmp_path):
    layers, graph = inspect_model(str(keras_file)).values()
    assert "bert_tf.export.hub.layer.HubLayer" in layers.layers and "keras.layers.InputLayer" in layers.layers
    assert not layers.faults and not graph.faults and "LookupTableFindV2" in graph.operations
    with zipfile.ZipFile(keras_file) as archive:
        archive.extractall(tmp_path / "unpacked")
    unpacked = inspect_model(str(tmp_path / "unpacked"))
    assert [each.layers for each in unpacked.values()] == [layers.layers, []] and len(unpacked) == 2


def test_layers_that_are_programs(tmp_path):
    config = {"module": "keras.layers", "class_name": "Lambda", "config": {"function": {"class_name": "__lambda__"}}}
    other = {"module": "os", "class_name": "function", "config": "system", "registered_name": "function"}
    theirs = {"module": None, "class_name": "Evil", "registered_name": "theirs>Evil"}
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as archive:
        archive.writestr("config.json", json.dumps({"layers": [config, other, theirs]}))
    found = _one(tmp_path / "model.keras")
    assert found.faults == [
        "Lambda, which runs Python code from the file", "__lambda__, which runs Python code from the file",
        "os.function, which belongs to neither Keras nor bert_tf",
        "theirs.Evil, which belongs to neither Keras nor bert_tf",
    ]  # fmt: skip


def test_archives_that_are_none(tmp_path):
    path = tmp_path / "model.keras"
    cases = {
        "contains neither a TensorFlow graph": [("metadata.json", b"{}")],
        "contains two members with the same name": [("config.json", b"{}"), ("config.json", b"{}")],
        "is not the graph of a SavedModel": [("assets/saved_model.pb", b"\xff" * 9)],
    }
    for message, members in cases.items():
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members:
                if name in archive.namelist():
                    with pytest.warns(UserWarning, match="Duplicate name"):
                        archive.writestr(name, content)
                else:
                    archive.writestr(name, content)
        with pytest.raises(ValueError, match=message):
            inspect_model(str(path))
    path.write_bytes(b"PK no archive")
    with pytest.raises(ValueError, match=r"is neither a directory with saved_model\.pb nor a \.keras file"):
        inspect_model(str(path))


def test_a_part_that_says_it_is_too_large_is_not_unpacked(keras_file, monkeypatch):
    monkeypatch.setattr("bert_tf.export.hub.inspection._MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"contains \S+saved_model\.pb with \d{4,} byt"):
        inspect_model(str(keras_file))


@pytest.mark.slow
def test_verify_inspect_prints_the_findings(tmp_path, capsys):
    target = tmp_path / "written"
    hostile.save(hostile.writes(target), tmp_path / "bad" / "1")
    hostile.save(models.LookAlike(), tmp_path / "good" / "1")
    target.unlink(missing_ok=True)

    def inspect(name):
        verify.main(command_runner.parse_flags("verify", verify.FLAGS, ["--inspect"]), [str(tmp_path / name)])

    inspect("good")
    assert "may do more than compute: none" in capsys.readouterr().out
    with pytest.raises(ValueError, match="may do more than compute: "):
        inspect("bad")
    assert "WriteFile" in capsys.readouterr().out and not target.exists()
    with pytest.raises(ValueError, match=r"is neither a directory with saved_model\.pb nor a \.keras file"):
        inspect("nowhere")
    command = [sys.executable, "-m", "bert_tf", "verify", tmp_path / "bad", "--inspect"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "WriteFile" in done.stdout and not target.exists()


def test_verify_refuses_flags_without_effect():
    settings = command_runner.parse_flags("verify", verify.FLAGS, ["--model_name=films", "--tls"])
    message = "is loaded by this command, and --model_name, --tls would have no effect. Add --server"
    with pytest.raises(ValueError, match=message):
        verify.main(settings, ["models/reviews"])
