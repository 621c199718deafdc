"""What a graph in somebody else's file may do: compute. Each attack is refused before anything of it has run."""

import subprocess
import sys
import types

import keras
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.trackable import resource

from bert_tf.hub import safety, sources
from bert_tf.hub.inspection import inspect_model
from bert_tf.hub.layer import HubLayer
from bert_tf.hub.operations import COMPUTES, LOADS
from bert_tf.programs import verify
from tests.conftest import ROOT
from tests.hub import models

_IDS = tf.TensorSpec([None, None], tf.int32)


class Model(tf.Module):
    """Calls `function` with ids, and has what `make` returns."""

    def __init__(self, function, make=None):
        super().__init__()
        self.made = make() if make else None
        self.function = function

    @tf.function(input_signature=[_IDS])
    def __call__(self, ids):
        return self.function(ids)


class Writes(resource.TrackableResource):
    """Writes a file when it is made anew, which is when the model is loaded."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.resource_handle  # noqa: B018  makes it

    def _create_resource(self):
        return tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64)

    def _initialize(self):
        tf.io.write_file(self.path, "text")


def _fills():
    class Fills(Writes):
        def _initialize(self):
            tf.debugging.assert_greater(tf.reduce_sum(tf.fill([2**10, 2**10], 1.0)), 0.0)

    return Fills("")


def _reads_passwd(ids):
    table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
    tf.raw_ops.InitializeTableFromTextFileV2(
        table_handle=table, filename=tf.constant("/etc/passwd"), key_index=-2, value_index=-1
    )
    return ids


def _samples(ids):
    found = tf.raw_ops.FixedUnigramCandidateSampler(
        true_classes=tf.cast(ids[:, :1], tf.int64), num_true=1, num_sampled=1, unique=False, range_max=5,
        vocab_file="/etc/passwd",
    )  # fmt: skip
    return ids + tf.cast(found.sampled_candidates[0], tf.int32)


def _for_ever(ids):
    return tf.while_loop(lambda x: tf.reduce_sum(x) >= 0, lambda x: [x + 1], [ids], shape_invariants=[_IDS.shape])[0]


def _counts(ids):
    return tf.while_loop(lambda i, x: i < 3, lambda i, x: [i + 1, x + 1], [0, ids], [tf.TensorShape([]), _IDS.shape])[1]


def _changes_its_bound(ids):
    def body(i, n, x):
        return [i + 1, n + 1, x + 1]

    shapes = [tf.TensorShape([]), tf.TensorShape([]), _IDS.shape]
    return tf.while_loop(lambda i, n, x: i < n, body, [0, 3, ids], shapes)[2]


ATTACKS = {
    "writes when it is loaded": (lambda path: Model(lambda ids: ids, lambda: Writes(path)),
                                 r"WriteFile in __inference\S+_initializer_\d+, which runs when the model is loaded"),
    "writes when it is called": (lambda path: models.Writer(), r"WriteFile in cond_true_\d+"),
    "a table of a file": (lambda path: Model(_reads_passwd), r"a table of a file that is no asset of the model"),
    "a sampler": (lambda path: Model(_samples), r"FixedUnigramCandidateSampler in __inference\S+"),
    "large when it is loaded": (lambda path: Model(lambda ids: ids, _fills), r"Fill in \S+, which runs when the model"),
    "a dump": (lambda path: Model(lambda ids: tf.raw_ops.PrintV2(input=tf.constant("x")) and ids), r"PrintV2 in "),
    "a loop without end": (lambda path: Model(_for_ever), r"a loop without a bound, while in __inference\S+"),
    "a loop that moves its end": (lambda path: Model(_changes_its_bound), r"a loop without a bound, while in "),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_refused_before_it_runs(attack, tmp_path):
    make, words = ATTACKS[attack]
    target = tmp_path / "written"
    tf.saved_model.save(make(str(target)), str(tmp_path / "hub"))
    target.unlink(missing_ok=True)
    with pytest.raises(ValueError, match=rf"that only computes\. Received one with .*{words}.*; if you trust it, make"):
        safety.check(str(tmp_path / "hub"))
    (found,) = inspect_model(str(tmp_path / "hub")).values()
    assert found.faults or found.loops
    assert not target.exists()


def test_a_keras_file_that_writes_when_it_is_loaded(tmp_path, monkeypatch):
    target = tmp_path / "written"
    tf.saved_model.save(Model(lambda ids: ids, lambda: Writes(str(target))), str(tmp_path / "hub"))
    ids = keras.Input((3,), dtype="int32")
    keras.Model(ids, HubLayer(tmp_path / "hub")(ids)).save(tmp_path / "model.keras")  # one's own folder is trusted
    assert target.read_text() == "text", "the attack works where nobody looks"
    target.unlink()
    monkeypatch.setattr(sources, "_KNOWN", {})
    with pytest.raises(ValueError, match="WriteFile in .*, which runs when the model is loaded"):
        keras.models.load_model(tmp_path / "model.keras")
    (found,) = inspect_model(str(tmp_path / "model.keras")).values()
    assert {fault.split()[0] for fault in found.faults} == {"WriteFile"} and not target.exists()


def test_what_only_computes_passes(tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("a\nb\n")

    def table():
        whole, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
        initializer = tf.lookup.TextFileInitializer(str(vocabulary), tf.string, whole, tf.int64, number)
        return tf.lookup.StaticHashTable(initializer, -1)

    looks_up = Model(_counts, table)
    looks_up.function = lambda ids: _counts(ids) + tf.cast(looks_up.made.lookup(tf.constant("b")), tf.int32)
    for n, module in enumerate((looks_up, Model(lambda ids: tf.map_fn(lambda x: x + 1, ids)))):
        tf.saved_model.save(module, str(tmp_path / f"hub{n}"))
        safety.check(str(tmp_path / f"hub{n}"))
        (found,) = inspect_model(str(tmp_path / f"hub{n}")).values()
        assert not found.faults and not found.loops
        assert found.files == (["assets/vocab.txt"] if n == 0 else [])


def test_assets_stay_in_the_models_folder(tmp_path):
    tf.saved_model.save(models.LookAlike(), str(tmp_path / "hub"))
    path = tmp_path / "hub" / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    saved.meta_graphs[0].asset_file_def.add(filename="../../passwd")
    path.write_bytes(saved.SerializeToString())
    with pytest.raises(ValueError, match=r"Received one with the asset \.\./\.\./passwd"):
        safety.check(str(tmp_path / "hub"))


def test_what_runs_when_a_model_is_loaded_computes_only():
    assert LOADS < COMPUTES and "WriteFile" not in COMPUTES and "ReadFile" not in COMPUTES
    assert not [name for name in COMPUTES if "File" in name and name != "InitializeTableFromTextFileV2"]


def test_verify_inspects_without_running(tmp_path, capsys):
    target = tmp_path / "written"
    tf.saved_model.save(Model(lambda ids: ids, lambda: Writes(str(target))), str(tmp_path / "bad" / "1"))
    tf.saved_model.save(models.LookAlike(), str(tmp_path / "good" / "1"))
    target.unlink(missing_ok=True)

    def inspect(name, server=None):
        verify.main(types.SimpleNamespace(inspect=True, server=server), [str(tmp_path / name)])

    inspect("good")
    assert "not known to compute only: none" in capsys.readouterr().out
    with pytest.raises(ValueError, match="must only compute, or come from somebody whom you trust"):
        inspect("bad")
    assert "WriteFile" in capsys.readouterr().out and not target.exists()
    with pytest.raises(ValueError, match="`inspect` must come without `server`"):
        inspect("good", "localhost:1")
    with pytest.raises(ValueError, match="must be a folder with saved_model.pb or a .keras file"):
        inspect("nowhere")
    command = [sys.executable, "-m", "bert_tf", "verify", tmp_path / "bad", "--inspect"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "WriteFile" in done.stdout and not target.exists()
