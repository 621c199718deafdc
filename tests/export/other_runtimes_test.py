"""Exports for ONNX Runtime and OpenVINO: they answer as the SavedModel does, or nothing is kept.

What converts is skipped where the extras onnx and openvino are not installed.
"""

import importlib.util
import os
import re
import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export import other_runtimes
from bert_tf.export.export_options import FILES, ExportOptions
from bert_tf.export.saved_model import export
from bert_tf.export.serving_module import ServingModule
from bert_tf.export.trained_model import export_trained
from bert_tf.serving.exports import open_export
from bert_tf.serving.golden_requests import difference, read_goldens
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.embedding.task import EmbeddingTask
from bert_tf.tasks.fill_mask import FillMaskTask
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from bert_tf.tasks.tagging.task import TaggingTask
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.utils.extras import PACKAGES
from tests import tiny
from tests.export.models import LENGTH, OTHERS, TASKS

ROBERTA = {"model_type": "roberta", "first_position": 2, "type_vocab_size": 1, "has_pooler": False,
           "classifier_act": "tanh", "hidden_act": "gelu"}  # fmt: skip
FAMILIES = {"bert": {"hidden_act": "gelu"}, "roberta": ROBERTA, "modernbert": tiny.MODERNBERT,
            "deberta": tiny.DEBERTA, "mpnet": tiny.BIASED, "nomic": tiny.NOMIC, "gte": tiny.GTE}  # fmt: skip
SHAPES = ((1, 1), (1, 9), (3, 13), (2, 30))  # rows and tokens, also more than `max_seq_length`
LOADERS = {"onnx": other_runtimes._load_onnx, "openvino": other_runtimes._load_openvino}


def _needs(runtime):
    missing = [package for module, (package, extra) in PACKAGES.items()
               if extra == runtime and importlib.util.find_spec(module) is None]  # fmt: skip
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}: pip install 'bert-tf[{runtime}]'")


RUNTIMES = [pytest.param(name, marks=_needs(name)) for name in LOADERS]


def features_of(task, rows, tokens, seed=0):
    """Returns {input: int32 array} for a model, rows of random tokens, of which each row has one less than the last."""
    rng = np.random.default_rng(seed)
    lengths = np.maximum(1, tokens - np.arange(rows))
    mask = (np.arange(tokens) < lengths[:, np.newaxis]).astype(np.int32)
    pair = (np.arange(tokens) > tokens // 2) & (task.config.type_vocab_size > 1)
    found = {
        "input_ids": rng.integers(5, len(tiny.VOCAB), mask.shape).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": pair.astype(np.int32) * mask,
        "masked_lm_positions": np.minimum(1, lengths[:, np.newaxis] - 1).astype(np.int32),
    }
    return {name: found[name] for name in task.features}


def served_by(task, folder, text_inputs=("text",), runtime="onnx", blank=""):
    """Returns a `ServingModule` of a task with random weights that are large enough for answers to differ."""
    keras.utils.set_random_seed(1)
    model = task.build_model()
    rng = np.random.default_rng(2)
    for variable in model.variables:
        noise = rng.normal(0, 0.2, variable.shape)
        variable.assign(noise + 1 if variable.path.endswith("gamma") else noise)
    WordPieceTokenizer(tiny.VOCAB).save(os.fspath(folder))
    tokenizer = WordPieceTokenizer.from_directory(os.fspath(folder))
    last = text_inputs, LENGTH, blank
    return ServingModule(task, model, tokenizer, *last, options=ExportOptions(export_for=runtime))


@pytest.mark.slow
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("make", [
    lambda config: ClassificationTask(config, 2, labels=["bad", "good"]),
    lambda config: TaggingTask(config, ["B-PER", "I-PER", "O"], doc_stride=5),
    lambda config: QuestionAnsweringTask(config, 5, 6, 5, 4),
    EmbeddingTask,
], ids=["classification", "tagging", "questions", "embedding"])  # fmt: skip
def test_every_family_answers_as_tensorflow_for_rows_of_every_length(tmp_path, runtime, family, make):
    task = make(tiny.config(**FAMILIES[family]))
    texts = ("question", "context") if isinstance(task, QuestionAnsweringTask) else ("text",)
    served = served_by(task, tmp_path / "vocabulary", texts, runtime)
    path = export(served, tmp_path / "out")
    run = LOADERS[runtime](os.path.join(path, FILES[runtime]))
    answers = []
    for rows, tokens in SHAPES:
        features = features_of(task, rows, tokens)
        outputs = served.forward({name: tf.constant(each) for name, each in features.items()})
        expected = task.postprocess_numbers(outputs)
        got = run(features)
        assert set(got) == set(expected)
        for name, values in expected.items():
            np.testing.assert_allclose(got[name], values.numpy(), rtol=0, atol=1e-4, err_msg=name)
        answers.append(got)
    some = next(name for name, values in answers[0].items() if values.dtype == np.float32)
    assert np.ptp(answers[2][some], axis=0).max() > 1e-2  # the rows differ, so that their order is tested too


@pytest.mark.slow
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", [*TASKS, *OTHERS])
def test_every_task_answers_as_its_saved_model(trained, exported, tmp_path, runtime, name):
    if (runtime, name) == ("onnx", "lstm"):
        pytest.skip("tf2onnx does not convert the loop of a BiLSTM: another test says that it is refused")
    path = export_trained(str(trained(name)), str(tmp_path), ExportOptions(export_for=runtime))
    assert os.listdir(tmp_path) == ["1"]  # nothing for servers next to it
    goldens = [each for each in read_goldens(exported(name)) if each.signature == "ids"]
    model, run = open_export(exported(name)), LOADERS[runtime](os.path.join(path, FILES[runtime]))
    for golden in goldens:
        got = run(golden.inputs(model.signatures["ids"]))
        numbers = {each: values for each, values in golden.outputs.items() if values.dtype != object}
        assert difference(numbers, {each: got[each] for each in numbers}, 1e-4)[1] == ""
    model.close()
    assert len(goldens) == 3


@pytest.mark.slow
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_masks_are_filled_with_the_ids_of_tokens(tmp_path, runtime):
    task = FillMaskTask(tiny.config(has_pooler=False), tiny.VOCAB, top_k=3)
    served = served_by(task, tmp_path / "vocabulary", runtime=runtime, blank=tiny.VOCAB[4])
    run = LOADERS[runtime](os.path.join(export(served, tmp_path / "out"), FILES[runtime]))
    features = features_of(task, 3, 13)
    outputs = served.forward({name: tf.constant(each) for name, each in features.items()})
    expected, got = task.postprocess(outputs), run(features)
    tokens = [[tiny.VOCAB[number].encode() for number in row] for row in got["token"]]
    assert tokens == expected["token"].numpy().tolist()
    np.testing.assert_allclose(got["probability"], expected["probability"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_tokenizer_and_a_card_lie_beside_the_model(trained, tmp_path, runtime):
    path = export_trained(str(trained("classification")), str(tmp_path), ExportOptions(export_for=runtime))
    files = {FILES[runtime], "MODEL_CARD.md", "bert_config.json", "labels.txt", "tokenizer.json",
             "tokenizer_config.json", "vocab.txt"} | ({"model.bin"} if runtime == "openvino" else set())  # fmt: skip
    assert set(os.listdir(path)) == files
    assert WordPieceTokenizer.from_directory(path).vocab == list(tiny.VOCAB)
    with open(os.path.join(path, "MODEL_CARD.md"), encoding="utf-8") as file:
        card = file.read()
    assert f"| exported for | {runtime} |" in card and "`probabilities`" in card and "`label`" not in card
    words = f"must contain versions of one kind: .* Version 1 .* has {FILES[runtime]}, and"
    with pytest.raises(ValueError, match=words):
        ExportOptions().check_folder(tmp_path)
    with pytest.raises(ValueError, match="is itself a version"):
        ExportOptions(export_for=runtime).check_folder(path)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_model_that_answers_differently_is_not_kept(trained, tmp_path, monkeypatch, runtime):
    load = LOADERS[runtime]

    def load_wrong(path):
        run = load(path)
        return lambda inputs: {name: values + 2e-4 for name, values in run(inputs).items()}

    monkeypatch.setattr(other_runtimes, f"_load_{runtime}", load_wrong)
    with pytest.raises(ValueError, match=f"`export_for={runtime}`: an output differs from TensorFlow's: probabilities"):
        export_trained(str(trained("classification")), str(tmp_path), ExportOptions(export_for=runtime))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_runtime_that_cannot_load_the_model_is_quoted(trained, tmp_path, monkeypatch, runtime):
    def fail(path):
        raise NotImplementedError("in file x\n  no kernel for Foo\n")

    monkeypatch.setattr(other_runtimes, f"_load_{runtime}", fail)
    with pytest.raises(ValueError, match=r"cannot be exported .*: in file x no kernel for Foo\. Nothing was kept\. C"):
        export_trained(str(trained("classification")), str(tmp_path), ExportOptions(export_for=runtime))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("runtime", LOADERS)
def test_what_they_do_not_take_is_refused(runtime):
    for given, message in (
        ({"dtype": "int8"}, f"With `export_for={runtime}`, `export_dtype` must be float32; got int8. Use float32 and"),
        ({"explanations": ("attention",)}, f"`export_explanations` and `export_for={runtime}` cannot be combined"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            ExportOptions(export_for=runtime, **given)


def test_a_loop_is_refused_for_onnx():
    task = ClassificationTask(tiny.config(), 2, lstm_units=4)
    with pytest.raises(ValueError, match="`export_for=onnx` is not supported for a model with a BiLSTM"):
        ExportOptions(export_for="onnx").check(task)


@pytest.mark.parametrize(
    ("runtime", "module"), [("onnx", "tf2onnx"), ("onnx", "onnxruntime"), ("openvino", "openvino")]
)
def test_a_missing_converter_is_named_before_the_model_is_built(trained, tmp_path, monkeypatch, runtime, module):
    for each in ("tf2onnx", "onnxruntime", "openvino"):
        monkeypatch.setitem(sys.modules, each, types.ModuleType(each))
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=rf"`export_for={runtime}` requires {module}\. .*'bert-tf\[{runtime}\]'"):
        export_trained(str(trained("classification")), str(tmp_path / "out"), ExportOptions(export_for=runtime))
    assert not (tmp_path / "out").exists()


def test_erfc_becomes_operations_that_onnx_has():
    @tf.function(input_signature=[tf.TensorSpec([None])])
    def gelu(x):
        return tf.math.erfc(x) * x

    graph = gelu.get_concrete_function().graph.as_graph_def()
    other_runtimes._replace_erfc(graph)
    operations = [node.op for node in graph.node]
    assert "Erfc" not in operations and {"Erf", "Sub"} <= set(operations)
    given = np.linspace(-4, 4, 9, dtype=np.float32)
    expected = gelu(given).numpy()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.import_graph_def(graph, name="")
        np.testing.assert_allclose(session.run("Identity:0", {"x:0": given}), expected, atol=1e-6)


def test_a_model_too_large_for_a_file_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(other_runtimes, "MOST_BYTES", 1000)
    weights = [tf.TensorSpec([300], tf.float32)]
    with pytest.raises(ValueError, match=r"`export_for=onnx` is limited to .*Use `export_for=openvino`\."):
        other_runtimes.write_onnx(str(tmp_path), types.SimpleNamespace(weight_specs=weights))
