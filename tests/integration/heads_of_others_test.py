"""Heads that others trained: what a configuration of Transformers says of them is what is answered."""

import json
import pathlib
import types

import numpy as np
import pytest

import bert_tf
from bert_tf.checkpoints import writers
from bert_tf.checkpoints.loading import read_labels
from bert_tf.evaluation.entities import parse_entities
from bert_tf.models.config import EncoderConfig
from bert_tf.tasks.classification.foreign_models import problem_of
from bert_tf.tasks.classification.options import ClassificationOptions
from bert_tf.tasks.classification.sources import make_source
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.tagging.foreign_models import tags_of_others
from tests.export.conversion import models
from tests.scripts import run_programs

TEXT = "a good film"


def _config(ending="ForSequenceClassification", **said):
    return EncoderConfig(9, extra={"architectures": [f"Bert{ending}"], **said})


@pytest.mark.parametrize(
    "said, labels, problem",
    [
        ("multi_label_classification", ["a", "b"], "multi_label"),
        ("single_label_classification", ["a", "b"], "single_label"),
        ("regression", ["LABEL_0"], "regression"),
        (None, ["LABEL_0"], "regression"),
        (None, ["a", "b"], "single_label"),
        ("multi_label_classification", ["a"], "multi_label"),
        ("regression", None, "regression"),
    ],
)
def test_the_problem_that_a_configuration_names(said, labels, problem):
    assert problem_of(_config(problem_type=said), labels) == problem
    assert problem_of(_config("ForTokenClassification", problem_type=said), labels) is None


def test_problems_that_are_not_followed():
    with pytest.raises(ValueError, match="problem_type must be one of single_label_class.* got 'ranking'"):
        problem_of(_config(problem_type="ranking"), ["a", "b"])
    with pytest.raises(ValueError, match="with problem_type regression must have one output, but it has 2: "):
        problem_of(_config(problem_type="regression"), ["a", "b"])


@pytest.mark.parametrize(
    "labels, scheme",
    [
        (["O", "B-X", "I-X"], "iob2"),
        (["O", "I-X", "I-Y", "B-Y"], "iob1"),
        (["O", "B-X", "I-X", "E-X", "S-X"], "bioes"),
    ],
)
def test_the_scheme_of_tags(labels, scheme):
    config = _config("ForTokenClassification")
    assert tags_of_others(config, labels) == (labels, scheme)
    assert tags_of_others(config, None) is None and tags_of_others(_config(), labels) is None
    with pytest.raises(ValueError, match="id2label of the model .* got the unknown tag 'NOUN'"):
        tags_of_others(config, ["NOUN"])
    with pytest.raises(ValueError, match="change it to 'I-NOUN' in id2label of the model's config.json, do the same"):
        tags_of_others(config, ["O", "NOUN"])
    assert tags_of_others(config, ["O", "I-NOUN"])[1] == "iob1"


def test_names_of_labels(tmp_path):
    """Transformers leaves id2label out where there are two labels of the usual names; our writer says num_labels."""
    assert read_labels(tmp_path, _config()) == ["LABEL_0", "LABEL_1"]
    assert read_labels(tmp_path, _config("ForTokenClassification", num_labels=3)) == ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert read_labels(tmp_path, _config(num_labels=3, id2label={"0": "a", "1": "b"})) == ["a", "b"]
    assert read_labels(tmp_path, _config(id2label={"0": 0, "1": 10, "2": True})) == ["0", "10", "True"]
    assert read_labels(tmp_path, _config("Model")) is None and read_labels(tmp_path, EncoderConfig(9)) is None
    assert read_labels(tmp_path, _config(num_labels=1)) is None
    assert problem_of(_config(num_labels=1), None) == "regression"
    for wrong in (0, "3", True):
        with pytest.raises(ValueError, match="num_labels .* must be an integer from 1 to "):
            read_labels(tmp_path, _config(num_labels=wrong))
    (tmp_path / "bert_config.json").touch()  # one of ours, whose model has no names for its outputs
    assert read_labels(tmp_path, _config()) is None


def test_a_glue_task_asks_a_model_for_its_own_problem_alone():
    data = types.SimpleNamespace(source=make_source("sts-b", "glue", {}), examples={})
    model = types.SimpleNamespace(config=_config(problem_type="multi_label_classification"), labels=["a", "b"])
    message = "does not match `task_name=sts-b`, which is for regression: .* the model is for multi_label"
    with pytest.raises(ValueError, match=message):
        ClassificationTask.create(model, data, ClassificationOptions(), None)


def _folder(path, kind, **said):
    """Writes a model of Transformers, and returns its folder and its logits for TEXT, float64 [1 or S, L]."""
    path.mkdir()
    writers.write_model(str(path), "huggingface", models.model("bert", kind))
    file = path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | said), encoding="utf-8")
    bert = bert_tf.load(path)
    outputs = bert.encoder(bert.tokenizer([TEXT], max_seq_length=16))
    given = outputs["sequence_output"] if kind == "tokens" else outputs["pooled_output"]
    return path, bert.head(given).numpy().astype(np.float64)[0]


def _ask(program, file, folders):
    """Returns, for each folder, the answers for a file, or the log of a program that refused."""
    asked = [["--do_predict", f"--init_checkpoint={folder}", f"--predict_file={file}", "--max_seq_length=16",
              f"--output_dir={folder}_out{n}", *extra] for n, (folder, *extra) in enumerate(folders)]  # fmt: skip
    done = run_programs(program, asked)
    outs = [arguments[4].removeprefix("--output_dir=") for arguments in asked]
    return [each["log"] if each["status"] else json.loads(pathlib.Path(out, "predictions.jsonl").read_text())
            for each, out in zip(done, outs, strict=True)]  # fmt: skip


@pytest.mark.slow
def test_classifiers_of_others_answer_as_their_configuration_says(tmp_path):
    several, of_several = _folder(tmp_path / "several", "text", problem_type="multi_label_classification")
    one, of_one = _folder(tmp_path / "one", "text")
    value, of_value = _folder(tmp_path / "value", "regression", id2label={"0": "LABEL_0"})  # as most say it
    file = tmp_path / "ask.tsv"
    file.write_text(f"text\n{TEXT}\n", encoding="utf-8")
    answers = _ask("run_classifier", file, [(several,), (one,), (value,), (several, "--problem_type=single_label")])
    assert list(answers[0]["probabilities"]) == ["label 0", "label 1", "label 2"]
    for_several, for_one = (list(answer["probabilities"].values()) for answer in answers[:2])
    np.testing.assert_allclose(for_several, 1 / (1 + np.exp(-of_several)), rtol=1e-5)
    np.testing.assert_allclose(for_one, np.exp(of_one) / np.exp(of_one).sum(), rtol=1e-5)
    assert answers[2] == {"id": "0", "text": TEXT, "score": pytest.approx(of_value[0], rel=1e-5)}
    assert "--problem_type must match the trained model's, multi_label; got single_label; omit it" in answers[3]


@pytest.mark.slow
def test_a_tagger_of_others_tags(tmp_path):
    tags = ["O", "B-X", "I-X", "B-Y", "I-Y"]
    folder, logits = _folder(tmp_path / "tags", "tokens", id2label=dict(enumerate(tags)))
    texts, _ = _folder(tmp_path / "texts", "text")
    file = tmp_path / "ask.txt"
    file.write_text("\n".join(TEXT.split()) + "\n", encoding="utf-8")
    answer, refused = _ask("run_tagger", file, [(folder,), (texts,)])
    best = [tags[n] for n in logits[1:4].argmax(-1)]
    shares = np.exp(logits[1:4].max(-1)) / np.exp(logits[1:4]).sum(-1)
    found = [(entity.type, entity.first, entity.last) for entity in parse_entities(best)]
    words = [(0, 1), (2, 6), (7, 11)]
    assert found and answer["entities"] == [
        {"text": TEXT[words[first][0] : words[last][1]], "type": kind, "start": words[first][0], "end": words[last][1],
         "score": pytest.approx(shares[first : last + 1].mean(), rel=1e-5)}
        for kind, first, last in found
    ]  # fmt: skip
    assert "this one was not trained for tagging: it has no task.json" in refused
