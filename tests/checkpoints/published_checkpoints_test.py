"""The table of published checkpoints: each combination of architecture, tokenizer and settings loads, or is refused."""

import json
import pathlib
import subprocess

import numpy as np
import pytest
from safetensors.numpy import save_file

import bert_tf
from bert_tf.checkpoints.loading import load_description
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.checkpoints.releases import RELEASES
from bert_tf.models.config import EncoderConfig
from tests import other_envs
from tests.checkpoints.transformers_folders_test import _of_ids, _of_outputs
from tools.docs import checkpoints

SCRIPT = pathlib.Path(__file__).parents[1] / "goldens" / "published_checkpoints.py"
CASES = list(checkpoints.cases().values())
REFUSED = [row for row in CASES if checkpoints.refusal(row)]
LOADED = [row for row in CASES if not checkpoints.refusal(row)]
WRITTEN = [row for row in LOADED if row.is_written]


def test_the_page_is_the_tools():
    assert checkpoints.PAGE.read_text(encoding="utf-8") == checkpoints.page(), "run python -m tools.docs.checkpoints"


def test_the_table_has_names_once_and_the_families_in_it():
    rows = checkpoints.read_published()
    names = [row.name for row in rows]
    assert len(names) == len(set(names)) >= 60 and all(name.count("/") == 1 for name in names)
    assert len(REFUSED) > 15 and len(WRITTEN) > 25
    organizations = {name.partition("/")[0] for name in names}
    assert {release.repository.partition("/")[0] for release in RELEASES.values()} <= organizations


def _write_files(row, folder):
    """Writes the configuration files of a row, and a file with one weight."""
    config = {"model_type": row.model_type, "architectures": [row.kind], **checkpoints.SHAPE, **row.keys}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tokenizer = {"tokenizer_class": row.tokenizer, **row.tokenizer_keys}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n", encoding="utf-8")
    if row.tokenizer_json:
        (folder / "tokenizer.json").write_text(row.tokenizer_file(), encoding="utf-8")
    save_file({"embeddings.word_embeddings.weight": np.zeros((64, 12), np.float32)}, folder / "model.safetensors")


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.name)
def test_what_does_not_load_is_refused_by_the_key_of_the_page(row, tmp_path):
    _write_files(row, tmp_path)
    key, value = checkpoints.refusal(row)
    with pytest.raises(ValueError, match=rf"\b{key}\b") as error:
        bert_tf.load(tmp_path)
    assert str(value) in str(error.value) or key == "byte_fallback"


def test_architectures_of_repositories_are_read_from_their_configurations(tmp_path):
    for row in LOADED:
        _write_files(row, tmp_path)
        assert EncoderConfig.load(tmp_path).model_type == row.model_type


@pytest.mark.slow
def test_what_loads_computes_what_transformers_does(tmp_path):
    listed = [{"model_type": row.model_type, "class": row.kind, "tokenizer": row.tokenizer, "keys": row.keys}
              for row in WRITTEN]  # fmt: skip
    (tmp_path / "cases.json").write_text(json.dumps(listed), encoding="utf-8")
    command = [other_envs.torch_python(), "-B", str(SCRIPT), str(tmp_path / "cases.json"), str(tmp_path / "there")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    faults = []
    for n, row in enumerate(WRITTEN):
        folder = tmp_path / "there" / str(n)
        try:
            faults += [f"{row.case}: {fault}" for fault in _faults(folder, np.load(f"{folder}.npz"))]
        except ValueError as error:
            faults.append(f"{row.case}: {error}")
    assert not faults, f"{len(faults)}:\n" + "\n".join(faults)


def _faults(folder, expected):
    description, checkpoint = load_description([str(folder)]), open_checkpoint(folder)
    checkpoint.check_twins(list(checkpoint.names))
    yield from [f"unknown weight {name}" for name in checkpoint.unknown]
    yield from _of_ids(description.tokenizer, expected)
    arrays = {path: checkpoint.get(path) for path in checkpoint.names}
    yield from _of_outputs(folder, description, arrays, expected)
