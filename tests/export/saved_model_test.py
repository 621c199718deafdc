"""A SavedModel that servers take: text in, the script's answers out, nothing written twice, nothing half-written."""

import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import bert_tf
from bert_tf.checkpoints.loading import save_description
from bert_tf.export import saved_model
from bert_tf.export.export_options import DEFAULT, ExportOptions
from bert_tf.export.saved_model import export, list_versions
from bert_tf.export.serving_module import ServingModule
from bert_tf.export.text_cut import cut
from bert_tf.export.trained_model import export_trained, load_trained_model
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.registry import read_task
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.utils.names import SEQUENCES
from bert_tf.utils.signals import Terminated, orderly_end
from tests import tiny
from tests.conftest import ROOT
from tests.export import models

TEXTS = ["", "good " * 10_000, "我喜欢这部电影", "😀🎬 good", "bad film", "café ½ naïve"]
NOT_UTF8 = b"good \xff\xfe film"


@pytest.fixture(scope="module")
def classifier(trained, exported):
    """Returns (path of the export, task, Keras model, tokenizer)."""
    return exported("classification"), *models.load_trained(trained("classification"))


@pytest.fixture(scope="module")
def signatures(exported):
    return tf.saved_model.load(exported("classification")).signatures


def _expected(task, model, tokenizer, *texts):
    return task.answers(model(tokenizer(*texts, max_seq_length=16), training=False).numpy())


def test_it_gives_the_models_answers(classifier, signatures):
    _, task, model, tokenizer = classifier
    answer = signatures["serving_default"](text=tf.constant(TEXTS))
    expected = _expected(task, model, tokenizer, TEXTS)
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
    assert [label.decode() for label in answer["label"].numpy()] == [task.labels[i] for i in expected.argmax(-1)]
    assert answer["labels"].numpy().tolist() == [[b"bad", b"good"]] * len(TEXTS)


def test_a_text_alone_is_the_same_as_among_others(signatures):
    serve = signatures["serving_default"]
    together = serve(text=tf.constant([*TEXTS, NOT_UTF8]))["probabilities"].numpy()
    alone = [serve(text=tf.constant([text]))["probabilities"].numpy()[0] for text in [*TEXTS, NOT_UTF8]]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(together[-1], serve(text=tf.constant(["good  film"]))["probabilities"][0], atol=1e-5)
    assert serve(text=tf.constant([], tf.string))["probabilities"].shape == (0, 2)


def test_its_own_graphs_are_no_signatures(signatures):
    assert sorted(signatures) == ["classify", "ids", "serving_default"]


def test_ids_and_examples_are_other_ways_to_ask(classifier, signatures):
    _, task, model, tokenizer = classifier
    expected = _expected(task, model, tokenizer, TEXTS)
    ids = signatures["ids"](**tokenizer(TEXTS, max_seq_length=16))
    np.testing.assert_allclose(ids["probabilities"], expected, atol=1e-5)
    answer = signatures["classify"](inputs=tf.constant([models.example(text=text) for text in TEXTS]))
    np.testing.assert_allclose(answer["scores"], expected, atol=1e-5)
    assert answer["classes"].numpy().tolist() == [[b"bad", b"good"]] * len(TEXTS)


def test_pairs_and_scores(trained):
    found = load_trained_model(str(trained("regression")))
    served, a, b = found.served(), ["good film", ""], ["bad", "a very good film"]
    expected = _expected(found.task, found.model, found.tokenizer, a, b)
    answer = served.signatures("serving_default")["serving_default"](text_a=tf.constant(a), text_b=tf.constant(b))
    np.testing.assert_allclose(answer["score"], expected, atol=1e-5)
    examples = tf.constant([models.example(text_a=x, text_b=y) for x, y in zip(a, b, strict=True)])
    answer = served.signatures("regress")["regress"](inputs=examples)
    np.testing.assert_allclose(answer["outputs"][:, 0], expected, atol=1e-5)


def _signature_defs(path):
    saved = saved_model_pb2.SavedModel()
    with open(os.path.join(path, "saved_model.pb"), "rb") as file:
        saved.ParseFromString(file.read())
    return saved, saved.meta_graphs[0].signature_def


def test_what_a_server_looks_at(classifier):
    saved, signatures = _signature_defs(classifier[0])
    methods = {name: signature.method_name for name, signature in signatures.items() if not name.startswith("__")}
    assert methods == {
        "serving_default": "tensorflow/serving/predict",
        "ids": "tensorflow/serving/predict",
        "classify": "tensorflow/serving/classify",
    }
    assert {k: [d.size for d in v.tensor_shape.dim] for k, v in signatures["serving_default"].inputs.items()} == {
        "text": [-1]
    }
    assert sorted(os.listdir(os.path.join(classifier[0], "assets"))) == ["vocab.txt"]
    assert os.path.getsize(os.path.join(classifier[0], "assets.extra", "tf_serving_warmup_requests"))
    functions = saved.meta_graphs[0].graph_def.library.function
    compiled = [f.signature.name for f in functions if f.attr["_XlaMustCompile"].b]
    assert not compiled and functions


def test_each_weight_is_there_once(classifier):
    path, _, model, _ = classifier
    reader = tf.train.load_checkpoint(os.path.join(path, "variables", "variables"))
    stored = sum(int(np.prod(shape)) for shape in reader.get_variable_to_shape_map().values())
    assert stored - sum(int(np.prod(v.shape)) for v in model.variables) <= 2  # the save counter, the object graph


@pytest.mark.parametrize(
    "name, value, most",
    [("segment_ids", -1, 1), ("segment_ids", 2, 1), ("segment_ids", 7, 1), ("input_mask", -1, 1), ("input_mask", 2, 1),
     ("input_ids", -1, len(tiny.VOCAB) - 1), ("input_ids", len(tiny.VOCAB), len(tiny.VOCAB) - 1)],
)  # fmt: skip
def test_values_that_the_model_has_not_are_refused(signatures, name, value, most):
    answer = signatures["ids"]
    good = {"input_ids": [[2, 5, 3]], "input_mask": [[1, 1, 1]], "segment_ids": [[0, 1, 0]]}
    assert answer(**{each: tf.constant(values) for each, values in good.items()})["probabilities"].shape == (1, 2)
    good[name][0][1] = value
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"`{name}` must be from 0 to {most}; the request has"):
        answer(**{each: tf.constant(values) for each, values in good.items()})


def test_sequences_longer_than_the_model_s_are_refused(signatures):
    row = tf.ones([1, 33], tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"at most max_position_embeddings = 32 tokens\. .*33"):
        signatures["ids"](input_ids=row, input_mask=row, segment_ids=row)


def test_it_says_how_long_its_sequences_are(classifier):
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString(pathlib.Path(classifier[0], "saved_model.pb").read_bytes())
    (graph,) = saved.meta_graphs
    assert list(graph.collection_def[SEQUENCES].int64_list.value) == [classifier[1].config.max_position_embeddings, 16]


def test_texts_are_cut_behind_what_is_read():
    texts = tf.constant(["", "good", "é" * 40_000, "x " * 300_000])
    assert [len(text) for text in cut(texts, 16).numpy()] == [0, 4, 2**16, 2**16]
    assert [len(text) for text in cut(texts[None], 512).numpy()[0]] == [0, 4, 80_000, 2**17]  # choices are [n, k]


def test_a_long_text_has_the_answer_of_its_beginning(classifier, signatures):
    _, task, model, tokenizer = classifier
    texts = ["good film " * 400_000, "😀" * 1_000_000, "good" * 100_000 + " film " * 9, "bad film " * 10]
    answer = signatures["serving_default"](text=tf.constant(texts))
    expected = _expected(task, model, tokenizer, [text[:65_000] for text in texts])
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-6)


@pytest.mark.slow
def test_cut_texts_have_the_answer_of_all_of_them(trained, exported):
    """After any white space, and in characters of several bytes, one of them halved by the cut."""
    blank = ["\n\t" * 50_000, " " * 100_000, "\u3000" * 40_000, " \u00a0\r" * 31, "x" * (2**16 - 201) + " "]
    long = ["bad film", "good " * 40_000, "中é😀" * 30_000, "bad\t" * 40_000, "very bad film " * 30_000]
    texts = [f"good{space}{text}" for space, text in zip(blank, long, strict=True)]
    texts += [f"{space}{text}" for space, text in zip(blank, long, strict=True)]
    texts += ["bad" + " " * size + "good film" for size in (31, 32, 33)]
    texts += ["bad" + "\u0301" * 40 + " film", "", " " * 2**17]
    pairs = tf.saved_model.load(exported("regression")).signatures
    answer = pairs["serving_default"](text_a=tf.constant(texts), text_b=tf.constant(texts[::-1]))
    expected = _expected(*models.load_trained(trained("regression")), texts, texts[::-1])
    np.testing.assert_allclose(answer["score"], expected, atol=1e-6)


@pytest.mark.slow
def test_a_real_model_is_hardly_larger_than_its_weights(minilm, tmp_path):
    bert = bert_tf.load(minilm)
    task = ClassificationTask(bert.config, 2)
    model = task.build_model()
    path = export(ServingModule(task, model, bert.tokenizer, ("text",), 128), tmp_path)
    size = sum(file.stat().st_size for file in pathlib.Path(path).rglob("*") if file.is_file())
    assert size <= 1.05 * sum(4 * int(np.prod(v.shape)) for v in model.variables)


@pytest.mark.slow
def test_versions_rise_and_bfloat16_halves(trained, tmp_path):
    folder, out = trained("classification"), tmp_path / "models"
    (out / "7").mkdir(parents=True)
    (out / "notes").mkdir()
    whole, half = (export_trained(str(folder), str(out), ExportOptions(dtype)) for dtype in ("float32", "bfloat16"))
    assert list_versions(str(out)) == [7, 8, 9] and [whole, half] == [str(out / "8"), str(out / "9")]
    data = "variables/variables.data-00000-of-00001"
    assert os.path.getsize(f"{half}/{data}") < 0.6 * os.path.getsize(f"{whole}/{data}")
    got = tf.saved_model.load(half).signatures["serving_default"](text=tf.constant(TEXTS))["probabilities"]
    assert got.dtype == tf.float32
    np.testing.assert_allclose(got, _expected(*models.load_trained(folder), TEXTS), atol=0.02)


def test_a_killed_export_leaves_nothing_once_another_starts(tmp_path, monkeypatch):
    """By lock: what a running export writes stays, however old it is."""
    served = types.SimpleNamespace(options=ExportOptions(export_for="litert"))
    dead, running = (tmp_path / f".export.{digit * 16}.tmp" for digit in "01")
    for lock in (dead, running):
        lock.touch()
        pathlib.Path(f"{lock}.new", "variables").mkdir(parents=True)
        os.utime(f"{lock}.new", (0, 0))
    seen = []

    def write(folder, *arguments):
        seen.extend(os.listdir(tmp_path))
        if len(seen) > 4:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(saved_model, "_write_model", write)
    with open(running, "rb") as held, orderly_end():
        fcntl.flock(held, fcntl.LOCK_EX)
        assert export(served, tmp_path) == str(tmp_path / "1") and len(seen) == 4 and f"{dead.name}.new" not in seen
        with pytest.raises(Terminated):
            export(served, tmp_path)
    assert sorted(os.listdir(tmp_path)) == [running.name, f"{running.name}.new", "1"]


@pytest.mark.slow
def test_sigterm_ends_an_export_and_leaves_nothing(trained, tmp_path):
    code = (
        "import sys, time, tensorflow as tf\n"
        "from bert_tf.cli.main import start_program\n"
        "tf.saved_model.save = lambda *_, **__: (print('saves', flush=True), time.sleep(600))\n"
        "start_program('export', sys.argv[1:])"
    )
    flags = [f"--model={trained('classification')}", f"--export_dir={tmp_path / 'out'}"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout.readline() == "saves\n" and len(os.listdir(tmp_path / "out")) == 2
    process.terminate()
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 143 and os.listdir(tmp_path / "out") == [], said
    assert "SIGTERM: stopped. Run the same command again to start over; unfinished output was removed." in said


@pytest.mark.slow
def test_a_full_disk_leaves_nothing(trained, tmp_path):
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from bert_tf.export.trained_model import export_trained\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "export_trained(*sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, str(trained("classification")), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert re.search(r"ValueError: Could not write the export to .*Nothing was kept", done.stderr)
    assert os.listdir(tmp_path / "out") == []


def test_a_directory_without_a_task_is_refused(tmp_path):
    save_description(str(tmp_path), tiny.config(), WordPieceTokenizer(tiny.VOCAB))
    with pytest.raises(ValueError, match=r"must have task\.json, which the fine-tuning commands write with `do_train`"):
        export_trained(str(tmp_path))
    (tmp_path / "task.json").write_text(json.dumps({"task": "poetry"}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"task\.json: No installed package provides the task 'poetry'"):
        read_task(str(tmp_path), tiny.config())


def test_a_target_that_cannot_be_is_named_before_the_long_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"Cannot write to `export_dir` .*file/a/b: .*file is no"):
        DEFAULT.check_folder(tmp_path / "file" / "a" / "b")
    DEFAULT.check_folder(tmp_path / "new" / "a")
    assert not (tmp_path / "new").exists()
