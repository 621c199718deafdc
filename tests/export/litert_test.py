"""Exports for LiteRT: its own interpreter answers as the SavedModel does, and the file says what it is.

The slow test reads a real model with the packages that phones' developers have: BERT_TF_LITERT_PYTHON is a Python with
ai-edge-litert and tflite-support.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import types
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from bert_tf.evaluation.results import read_results
from bert_tf.export import litert, quiet_logs
from bert_tf.export.export_options import ExportOptions
from bert_tf.export.trained_model import export_trained, load_trained_model
from bert_tf.lite.litert_file import MODEL_FILE
from bert_tf.runs.run_task import run_task
from bert_tf.runs.task_flags import task_settings
from bert_tf.serving.client.results import to_dataclass
from bert_tf.serving.exports import open_export
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.utils.answers import split_answer
from bert_tf.utils.litert_runner import interpreter_class
from tests import tiny
from tests.conftest import ROOT
from tests.export.models import LENGTH, TASKS, write_trained

ONE_ROW = [name for name in TASKS if name not in ("windows", "choices", "reranking", "lstm")]
TOLERANCES = {"float32": 1e-5, "float16": 1e-3, "int8": 5e-2}

LITERT = ExportOptions(export_for="litert")


@pytest.mark.parametrize("level", ["NOTSET", "INFO"])
def test_an_export_leaves_the_log_level(caplog, level):
    caplog.set_level(level, logger="absl")
    with quiet_logs.quiet():
        logging.info("hidden")
    caplog.set_level("INFO")
    logging.info("seen")
    assert [record.getMessage() for record in caplog.records] == ["seen"]


def interpreter_of(path):
    """Returns LiteRT's interpreter of the version at `path`."""
    return interpreter_class()(model_path=os.path.join(path, MODEL_FILE))


def row(length, pieces=9, seed=0):
    """Returns {input: int32 [1, length]} with so many pieces of two texts."""
    ids = np.random.default_rng(seed).integers(5, len(tiny.VOCAB), (1, length)).astype(np.int32)
    mask = (np.arange(length) < pieces).astype(np.int32)[np.newaxis]
    return {"input_ids": ids * mask, "input_mask": mask, "segment_ids": (np.arange(length) > 5).astype(np.int32) * mask}


def answers_of_saved_model(path, feeds):
    model = open_export(path)
    signature = model.signatures["ids"]
    outputs = {alias: info.tensor for alias, info in signature.outputs.items()}
    arrays = model.run({info.tensor: feeds[alias] for alias, info in signature.inputs.items()}, list(outputs.values()))
    model.close()
    return dict(zip(outputs, arrays, strict=True))


def difference(answers, wanted):
    """Returns how far numbers are apart; all else is equal, though near a threshold rounding decides it."""
    assert answers.keys() == wanted.keys()
    numbers = [name for name in wanted if wanted[name].dtype == np.float32]
    for name in wanted.keys() - set(numbers):
        assert answers[name].tolist() == wanted[name].tolist(), name
    assert all(answers[name].shape == wanted[name].shape for name in numbers)
    return max(np.abs(answers[name] - wanted[name]).max() for name in numbers)


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_ROW)
def test_it_answers_as_the_saved_model(trained, exported, tmp_path, monkeypatch, name):
    monkeypatch.setattr(litert, "_SHORTEST", 8)
    small = export_trained(str(trained(name)), str(tmp_path), LITERT)
    interpreter = interpreter_of(small)
    assert set(interpreter.get_signature_list()) == {"ids", "ids_8"}
    for signature, length in (("ids", LENGTH), ("ids_8", 8)):
        feeds = row(length, pieces=7)
        answers = interpreter.get_signature_runner(signature)(**feeds)
        assert difference(answers, answers_of_saved_model(exported(name), feeds)) < TOLERANCES["float32"]
    assert sorted(os.listdir(small)) == ["MODEL_CARD.md", "model.tflite"]
    assert os.listdir(tmp_path) == ["1"]  # nothing for servers next to it


@pytest.mark.slow
def test_float16_keeps_the_logits_of_padding(trained, exported, tmp_path):
    half = export_trained(str(trained("questions")), str(tmp_path), ExportOptions("float16", "litert"))
    feeds = row(LENGTH, pieces=7)
    answers = interpreter_of(half).get_signature_runner("ids")(**feeds)
    wanted = answers_of_saved_model(exported("questions"), feeds)
    assert 0 < difference(answers, wanted) < TOLERANCES["float16"]
    padding = feeds["input_mask"] == 0
    assert padding.any() and all((answers[name][padding] == wanted[name][padding]).all() for name in wanted)


@pytest.mark.slow
def test_fitted_thresholds_say_which_labels_are_predicted(tmp_path):
    write_trained(tmp_path / "trained", "thresholds")
    paths = [export_trained(str(tmp_path / "trained"), str(tmp_path / form), options)
             for form, options in (("litert", LITERT), ("saved_model", ExportOptions()))]  # fmt: skip
    answers = interpreter_of(paths[0]).get_signature_runner("ids")(**row(LENGTH))
    wanted = answers_of_saved_model(paths[1], row(LENGTH))
    assert difference(answers, wanted) < TOLERANCES["float32"]
    assert answers["predicted"].tolist() == (answers["probabilities"] > [0.1, 0.9]).tolist() == [[True, False]]
    (answer,) = split_answer(wanted, 1)
    assert answer["predicted"] == ["film"] and to_dataclass(answer).predicted == ("film",)


@pytest.mark.slow
def test_the_file_says_what_it_is(trained, exported, tmp_path):
    first = exported("classification", LITERT)
    second = export_trained(str(trained("classification")), str(tmp_path / "again"), LITERT)
    file = pathlib.Path(first, MODEL_FILE)
    assert file.read_bytes() == pathlib.Path(second, MODEL_FILE).read_bytes()
    with zipfile.ZipFile(file) as archive:
        assert archive.read("labels.txt").decode().split() == ["bad", "good"]
        archive.extractall(tmp_path / "files")
    assert WordPieceTokenizer.from_directory(str(tmp_path / "files")).vocab == list(tiny.VOCAB)
    assert json.loads((tmp_path / "files" / "bert_config.json").read_text())["hidden_size"] == tiny.config().hidden_size
    data = file.read_bytes()
    for message in (b"TFLITE_METADATA", b"M001", b"bert_tf classification", b"vocab.txt", b"0 for padding"):
        assert message in data, message
    card = pathlib.Path(first, "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "| exported for | litert |" in card and "| numbers | float32 |" in card and "`ids`" in card
    assert interpreter_of(first).get_input_details()[0]["shape"].tolist() == [1, LENGTH]  # whoever takes no signature


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """{split: path} of examples."""
    folder = tmp_path_factory.mktemp("litert")
    return {name: str(tiny.write_tsv(folder / f"{name}.tsv", tiny.texts(n, seed=seed)))
            for name, n, seed in (("train", 96, 0), ("dev", 40, 1))}  # fmt: skip


def wide(folder):
    """Returns the path of a start whose weights are more than what a file holds besides."""
    return tiny.checkpoint(folder, dropout=0.0, hidden_size=128, intermediate_size=512)


def run(**given):
    run_task(ClassificationTask, task_settings(ClassificationTask)().give(given))


@pytest.mark.slow
def test_a_program_exports_what_it_trained_in_every_number(data, tmp_path):
    folder = tmp_path / "out"
    given = {"eval_file": data["dev"], "output_dir": str(folder), "do_eval": True}
    run(**given, train_file=data["train"], init_checkpoint=str(wide(tmp_path / "start")), do_train=True,
        max_seq_length=20, train_batch_size=16, num_train_epochs=8.0, learning_rate=1e-3, seed=1,
        export_for="litert", do_export=True)  # fmt: skip
    for dtype in ("float16", "int8"):
        run(**given, do_export=True, export_for="litert", export_dtype=dtype)
    versions = {dtype: folder / "litert" / str(i) for i, dtype in enumerate(TOLERANCES, start=1)}
    assert not (folder / "export").exists()
    feeds = row(20)
    exact, *others = (interpreter_of(path).get_signature_runner("ids")(**feeds) for path in versions.values())
    for answers, dtype in zip(others, ("float16", "int8"), strict=True):
        assert 0 < np.abs(answers["probabilities"] - exact["probabilities"]).max() < TOLERANCES[dtype]
    whole, half, quarter = (size_of_model(path) for path in versions.values())
    assert half < 0.6 * whole and quarter < 0.4 * whole

    card = (versions["int8"] / "MODEL_CARD.md").read_text(encoding="utf-8")
    rows = dict(line.strip("| ").split(" | ") for line in card.splitlines() if line.startswith("| eval_"))
    found = read_results(given["output_dir"])
    assert float(rows["eval_accuracy, in int8 as exported"]) == pytest.approx(found["eval_accuracy"], abs=0.05)
    assert float(rows["eval_loss, in int8 as exported"]) == pytest.approx(found["eval_loss"], abs=0.05)
    assert rows["eval_loss, in int8 as exported"] != rows["eval_loss"]
    assert "| numbers | float32, int8 |" in card and "were not measured" not in card


def size_of_model(path):
    """Returns the bytes of a file without what comes with the model."""
    file = path / MODEL_FILE
    with zipfile.ZipFile(file) as archive:
        return file.stat().st_size - sum(each.file_size for each in archive.infolist())


@pytest.mark.slow
def test_embeddings_are_scored_in_groups(trained):
    found = load_trained_model(str(trained("embedding")), None, LITERT)
    rng = np.random.default_rng(0)
    features = {name: np.zeros([3, 2, LENGTH], np.int32) for name in found.task.features}
    features["input_ids"][:] = rng.integers(5, len(tiny.VOCAB), features["input_ids"].shape)
    features["input_mask"][:] = np.arange(LENGTH) < rng.integers(2, LENGTH, [3, 2, 1])
    features["input_mask"][1, 1] = 0  # a group with one text fewer
    wanted = found.model(features).numpy()
    forward = tf.function(litert.computed_by_litert(found.served(LITERT)), autograph=False)
    answers = forward({name: tf.constant(each) for name, each in features.items()}).numpy()
    there = features["input_mask"].any(-1)
    np.testing.assert_allclose(answers[there], wanted[there], atol=1e-5)
    assert answers.shape == wanted.shape and not answers[1, 1].any()


@pytest.mark.slow
def test_rows_are_scored_without_their_padding(trained, exported, tmp_path):
    feeds = {name: np.concatenate([row(11, seed=i)[name] for i in range(3)]) for name in row(11)}
    found = {}

    def score(forward):
        found.update({name: values.numpy() for name, values in forward(feeds).items()})
        return {}

    export_trained(str(trained("questions")), str(tmp_path), ExportOptions("int8", "litert"), score=score)
    wanted = answers_of_saved_model(exported("questions"), feeds)
    assert found["start_logits"].shape == (3, 11) and 0 < difference(found, wanted) < TOLERANCES["int8"]


def test_what_litert_cannot_have_is_refused(trained, data, tmp_path):
    for given, message in (
        ({"dtype": "bfloat16"}, "must be float16; got bfloat16."),
        ({"explanations": ("attention",)}, "`export_explanations` and `export_for=litert` cannot be combined"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            ExportOptions(export_for="litert", **given)
    with pytest.raises(ValueError, match=r"must be bfloat16; got float16"):
        ExportOptions("float16")
    with pytest.raises(ValueError, match="`export_for=litert` is not supported for a model with a BiLSTM"):
        export_trained(str(trained("lstm")), str(tmp_path / "out"), LITERT)
    recurrent = {"lstm_units": 4, "do_train": True, "do_export": True, "export_for": "litert", "max_seq_length": 20}
    with pytest.raises(ValueError, match="`export_for=litert` is not supported for a model with a BiLSTM"):
        run(**recurrent, output_dir=str(tmp_path / "new"), train_file=data["train"],
            init_checkpoint=str(tiny.checkpoint(tmp_path / "start")))  # fmt: skip
    assert not (tmp_path / "out").exists() and not (tmp_path / "new").exists()


def test_a_row_of_any_length_has_a_graph_that_is_not_twice_as_long():
    assert litert.lengths(16) == {"ids": 16, "ids_8": 8}
    assert litert.lengths(3) == {"ids": 3, "ids_2": 2}
    assert litert.lengths(100) == {"ids": 100, "ids_16": 16, "ids_24": 24} | {
        f"ids_{length}": length for length in (32, 48, 64, 96)
    }


def test_a_version_is_not_written_into_a_version_nor_beside_one_of_another_kind(tmp_path):
    for folder, file in (("served/7", "saved_model.pb"), ("phones/7", "model.tflite")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / file).write_bytes(b"")
    for form, mine, other in ((ExportOptions(), "served", "phones"), (LITERT, "phones", "served")):
        form.check_folder(tmp_path / mine)
        form.check_folder(tmp_path / "new")
        with pytest.raises(ValueError, match=f"{mine}/7 is itself a version .*Use its parent directory, "):
            form.check_folder(tmp_path / mine / "7")
        with pytest.raises(ValueError, match="must contain versions of one kind: .* Version 7 in"):
            form.check_folder(tmp_path / other)
    with pytest.raises(ValueError, match="saved_model.pb: .*saved_model.pb is not a directory"):
        ExportOptions().check_folder(tmp_path / "served" / "7" / "saved_model.pb")


def test_the_folder_is_checked_before_the_model_is_read(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ValueError, match="`export_dir` must be a model's directory, .* Use its parent directory"):
        export_trained(str(tmp_path / "no model here"), str(tmp_path / "7"))


_VISIT = """
import json, sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from tflite_support import metadata

path, feeds = sys.argv[1], {name: np.array(values, np.int32) for name, values in json.loads(sys.argv[2]).items()}
shown = metadata.MetadataDisplayer.with_model_file(path)
answers = Interpreter(path).get_signature_runner("ids")(**feeds)
print(json.dumps({
    "metadata": json.loads(shown.get_metadata_json()), "files": shown.get_packed_associated_file_list(),
    "probabilities": answers["probabilities"].tolist(), "label": answers["label"][0].decode(),
}))
"""


def test_the_pages_python(exported, tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "guides" / "litert.md").read_text(encoding="utf-8")
    _, block = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "reviews_litert").symlink_to(pathlib.Path(exported("classification", LITERT)).parent)
    library = types.SimpleNamespace(Interpreter=interpreter_class())
    monkeypatch.setitem(sys.modules, "ai_edge_litert", types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", library)
    monkeypatch.chdir(tmp_path)
    exec(compile(block.replace('"ids_16"', '"ids"'), "litert.md", "exec"), {})  # this model has no longer rows
    assert capsys.readouterr().out.startswith(("bad [0.", "good [0."))


@pytest.mark.slow
def test_packages_of_others_read_it(tmp_path):
    python = os.environ.get("BERT_TF_LITERT_PYTHON")
    if not python:
        pytest.skip("BERT_TF_LITERT_PYTHON is not set: a Python with ai-edge-litert and tflite-support")
    trained = write_trained(tmp_path, "classification")
    path = export_trained(str(tmp_path), options=LITERT, trained=trained)
    feeds = {name: values.tolist() for name, values in row(LENGTH).items()}
    command = [python, "-c", _VISIT, os.path.join(path, MODEL_FILE), json.dumps(feeds)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = json.loads(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)
    assert found["files"] == ["bert_config.json", "labels.txt", "task.json", "tokenizer_config.json", "vocab.txt"]
    (graph,) = found["metadata"]["subgraph_metadata"]
    assert {each["name"] for each in graph["input_tensor_metadata"]} == {"input_ids", "input_mask", "segment_ids"}
    files = {each["name"]: each.get("associated_files") for each in graph["output_tensor_metadata"]}
    assert files["probabilities"] == [{"name": "labels.txt", "type": "TENSOR_AXIS_LABELS"}]
    wanted = answers_of_saved_model(export_trained(str(tmp_path)), row(LENGTH))
    np.testing.assert_allclose(found["probabilities"], wanted["probabilities"], atol=1e-5)
    assert found["label"] == wanted["label"][0].decode()
