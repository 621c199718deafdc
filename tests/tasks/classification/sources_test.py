"""GLUE's directories and custom files become labeled texts, or are refused."""

import pytest

from bert_tf.tasks.classification.sources import make_source
from tests import glue_files, tiny
from tests.tasks.support import labeled_texts

NAMES = "['ax', 'cola', 'mnli', 'mrpc', 'qnli', 'qqp', 'rte', 'sst-2', 'sts-b', 'wnli', 'xnli']"


def _labelled(*labels):
    return labeled_texts(*[("x", None)] * len(labels), labels=list(labels))


@pytest.mark.parametrize(
    "task, folder, files, more, message",
    [
        (None, "glue", {}, {}, "`data_dir` requires `task_name`; got `data_dir=glue` alone."),
        ("mrpc", None, {}, {}, "`task_name` requires `data_dir`; got `task_name=mrpc` alone."),
        ("nope", "glue", {}, {}, f"`task_name` must be one of {NAMES}; got 'nope'"),
        ("sts-b", "glue", {}, {"problem": "single_label"}, "`problem_type` must be regression for `task_name=sts-b`;"),
        ("mnli", "glue", {}, {"language": "de"}, "`xnli_language` must be omitted for a task that is English only;"),
        ("xnli", "glue", {}, {"language": "xx"}, "`xnli_language` must be one of ar, bg, de, el, en, es, fr, hi, ru, "),
        (None, None, {}, {"language": "de"}, "`xnli_language` requires `task_name`; got `xnli_language=de`"),
    ],
)
def test_sources_that_contradict_themselves(task, folder, files, more, message):
    with pytest.raises(ValueError) as error:
        make_source(task, folder, files, **more)
    assert str(error.value).startswith(message)


def test_a_source_without_the_file_that_is_asked_for():
    with pytest.raises(ValueError, match=r"`do_predict` requires examples\. Pass `predict_file`, or "):
        make_source(None, None, {"train": "t.tsv"}).read(["test"])


def test_labels_are_the_task_s_or_those_of_training_or_those_of_the_trained_model():
    files, glue = make_source(None, None, {}), make_source("mrpc", "glue", {})
    train = _labelled("10", "9", "10")
    assert files.labels({"train": train}, ["a"]) == ["10", "9"]  # sorted as strings
    assert files.labels({}, ["a", "b"]) == ["a", "b"]
    assert glue.labels({}) == ["0", "1"]
    with pytest.raises(ValueError, match=r"require a trained model, but this one has no labels\.txt\. Train it"):
        files.labels({})
    with pytest.raises(
        ValueError, match=r"^`task_name=mrpc` requires a model with the labels \['0', '1'\]\. The model"
    ):
        glue.labels({}, ["bad", "good"])


def test_labels_of_several_and_of_none():
    several = make_source(None, None, {}, "multi_label")
    assert several.labels({"train": _labelled(("b",), (), ("a", "b"))}) == ["a", "b"]
    with pytest.raises(ValueError, match=r"file\.tsv has no labels: all of its 2 examples are unlabeled\. Check"):
        several.labels({"train": _labelled((), ())})
    assert make_source(None, None, {}, "regression").labels({"train": _labelled(1.0)}) is None
    assert make_source("sts-b", "glue", {}).labels({}, ["a", "b"]) is None


def test_metrics_are_the_official_ones_of_a_task():
    assert make_source("cola", "glue", {}).metrics == ("matthews",)
    assert make_source(None, None, {}).metrics is None


def test_all_files_of_a_kind_are_read(tmp_path):
    source = make_source("MNLI", glue_files.mnli(tmp_path), {})
    texts = source.read(["dev", "test"])
    sizes = {"dev": 10, "dev_mismatched": 11, "test": 5, "test_mismatched": 7}
    assert {split: len(examples) for split, examples in texts.items()} == sizes
    assert [split for split, examples in texts.items() if examples.labels] == ["dev", "dev_mismatched"]
    assert source.text_inputs == ("text_a", "text_b")


def test_what_has_only_questions_cannot_be_trained_on(tmp_path):
    source = make_source("ax", glue_files.diagnostic(tmp_path), {})
    with pytest.raises(
        ValueError, match=r"^`task_name=ax` only has the splits test; got train; train"
    ):
        source.read(["train"])
    assert len(source.read(["test"])["test"]) == 6


@pytest.mark.parametrize("problem, field, label", [("multi_label", "a; b", ("a", "b")), ("regression", "1.5", 1.5)])
def test_labels_of_files_are_read_as_the_problem_says(tmp_path, problem, field, label):
    path = tiny.write_tsv(tmp_path / "t.tsv", [("good", field)])
    source = make_source(None, None, {"train": path}, problem, separator=";")
    assert source.read(["train"])["train"].labels == [label]
