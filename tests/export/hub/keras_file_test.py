"""`.keras` files of strangers, as another process loads them: what they attack is as it was."""

import json
import re

import keras
import numpy as np
import pytest

from bert_tf.export.hub.layer import HubLayer
from tests import processes
from tests.export.hub import hostile, models

# Prints what came of each file, and what another process would find afterwards.
_LOAD = """
import json, sys, bert_tf, keras, numpy as np
came = {}
for path in sys.argv[1:]:
    try:
        model = keras.models.load_model(path)
        came[path] = np.asarray(model(np.ones([2, 3], np.int32))).tolist()
    except Exception as error:
        came[path] = f"{type(error).__name__}: {error}"
print(json.dumps(came))
"""
ATTACKS = {
    "dumps_when_loaded": (hostile.dumps_when_loaded, r"DumpTensor in \S+, which runs when the model is loaded"),
    "dumps_when_called": (hostile.dumps_when_called, "DumpTensor in __inference"),
    "reads": (hostile.reads_passwd, "InitializeTableFromTextFileV2 of a file that is not an asset of the model"),
    "samples": (hostile.samples_passwd, "FixedUnigramCandidateSampler in __inference"),
    "writes in a branch": (hostile.Branch, r"WriteFile in cond_true_\d+; if you"),
    "writes": (hostile.writes, r"WriteFile in \S+, which runs when the model is loaded"),
}  # fmt: skip


@pytest.fixture(scope="module")
def came(tmp_path_factory):
    """Returns name -> what came of loading it, and the file that it was to write or read."""
    folder = tmp_path_factory.mktemp("files")
    files, targets = {"good": hostile.save_keras_file(hostile.Table(), folder / "good")}, {}
    for name, (make, _) in ATTACKS.items():
        targets[name] = folder / f"{name}.target"
        files[name] = hostile.save_keras_file(make(targets[name]), folder / name)
        assert targets[name].exists() == name.endswith(("_when_loaded", "writes")), "it works where nobody looks"
        targets[name].unlink(missing_ok=True)  # this process may hold it open, and write later
        targets[name].write_text("root:x:0:0\n")
    (folder / "load.py").write_text(_LOAD)
    done = processes.run(folder / "load.py", *files.values())
    assert done.returncode == 0, done.stderr[-2000:]
    ended = json.loads(done.stdout.splitlines()[-1])
    return {name: (ended[str(path)], targets.get(name)) for name, path in files.items()}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_file_that_attacks_is_refused_and_nothing_was_touched(came, name):
    answer, target = came[name]
    assert target.read_text() == "root:x:0:0\n" and "root" not in str(answer)
    words = rf"^ValueError: .*SavedModel .* because it does more than compute: .*{ATTACKS[name][1]}"
    assert re.search(words, answer, re.S)


def test_a_good_file_answers_in_the_same_process(came):
    assert came["good"][0] == np.full([2, 3], 6).tolist()


def test_an_asset_without_an_end_is_not_read(tmp_path, monkeypatch):
    """The fingerprint is of all files: it is taken once it is known that they are the model's."""
    path = models.LookAlike()
    folder = hostile.save(path, tmp_path / "hub")
    ids = keras.Input((3,), dtype="int32")
    layer = HubLayer(folder)
    layer({"input_word_ids": ids})
    opened = []
    hostile.edit(folder, lambda graph: graph.asset_file_def.add(filename="/dev/zero"))
    fresh = HubLayer.from_config(layer.get_config() | {"fingerprint": "another"})
    monkeypatch.setattr("bert_tf.export.hub.layer_files.Files._digest", lambda files: opened.append(files) or "x")
    with pytest.raises(ValueError, match="compute: the asset /dev/zero"):
        fresh.load_assets(str(folder))
    assert not opened
