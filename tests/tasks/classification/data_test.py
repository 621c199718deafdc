"""The options of a run of a classifier, and what contradicts them."""

import pytest

from bert_tf.data.windowed import Windowing
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.classification import data as classification_data
from bert_tf.tasks.classification.options import ClassificationOptions
from bert_tf.tasks.classification.task import ClassificationTask
from tests import tiny
from tests.tasks.support import options


def _options(**given):
    """Returns the options of `train classifier` with what is given, in files of one's own."""
    return options(ClassificationOptions, **{"output_dir": "out", **given})


@pytest.fixture
def path(tmp_path):
    return tiny.write_tsv(tmp_path / "t.tsv", [("good", "1.5"), ("bad", "0")])


@pytest.mark.parametrize(
    "problem, given, message",
    [
        ("regression", {"class_weights": ["balanced"]}, "`class_weights` requires labels, but the targets are numbers"),
        ("regression", {"label_smoothing": 0.1}, "`label_smoothing` requires labels"),
        ("regression", {"fit_temperature": True, "do_eval": True}, "`fit_temperature` requires labels"),
        ("single_label", {"fit_temperature": True}, "`fit_temperature` requires `do_eval`"),
        ("single_label", {"label_separator": ";"}, "`label_separator` requires `problem_type=multi_label`"),
        ("single_label", {"label_columns": ["label"]}, "`label_columns` requires `problem_type=multi_label`"),
        ("multi_label", {"label_columns": ["a", "a"]}, "`label_columns` must name each column once; got a,a"),
        ("single_label", {"fit_thresholds": True, "do_eval": True}, "`fit_thresholds` requires `problem_type=multi"),
        ("multi_label", {"fit_thresholds": True}, "`fit_thresholds` requires `do_eval`"),
    ],
)
def test_options_that_contradict_the_problem_are_refused(path, problem, given, message):
    asked = _options(train_file=path, problem_type=problem, **given)
    with pytest.raises(ValueError, match=message):
        ClassificationTask.read_data(asked, ["train"], None)


def test_options_that_fit_are_taken(path):
    read = ClassificationTask.read_data(_options(train_file=path, problem_type="regression"), ["train"], None)
    assert read.examples["train"].labels == [1.5, 0.0] and read.text_inputs == ("text",)
    fitting = {"label_smoothing": 0.1, "fit_temperature": True, "do_eval": True}
    read = ClassificationTask.read_data(_options(train_file=path, **fitting), ["train"], None)
    assert read.examples["train"].labels == ["1.5", "0"] and list(read.examples) == ["train"]


def test_labels_with_another_separator_are_refused(tmp_path):
    path = tiny.write_tsv(tmp_path / "a.tsv", [("x", "film"), ("y", "film|music"), ("z", "music")])
    words = r"a.tsv:3: labels must be separated by ','; got 'film\|music', and 3 different cells that consist of 2"
    with pytest.raises(ValueError, match=words):
        ClassificationTask.read_data(_options(train_file=path, problem_type="multi_label"), ["train"], None)
    for separator, labels in ("|", ("film", "music")), (",", ("film|music",)):
        given = _options(train_file=path, problem_type="multi_label", label_separator=separator)
        assert ClassificationTask.read_data(given, ["train"], None).examples["train"].labels[1] == labels
    path = tmp_path / "a.csv"
    path.write_text("text,label\nx,\"['film', 'music']\"\ny,[]\nz,\"['film']\"\n")
    path = str(path)
    read = ClassificationTask.read_data(_options(train_file=path, problem_type="multi_label"), ["train"], None)
    assert read.examples["train"].labels == [("film", "music"), (), ("film",)]
    with pytest.raises(ValueError, match="a.csv:2: a label must be .* several labels require `problem_type=mul"):
        ClassificationTask.read_data(_options(train_file=path), ["train"], None)


def test_columns_of_zeros_and_ones_are_several_labels(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text;toxic;threat;insult\ngood;0;;false\nbad;1;true;0\n")
    asked = {"train_file": path, "label_columns": ["toxic", "threat", "insult"], "separator": ";"}
    read = ClassificationTask.read_data(_options(**asked), ["train"], None)
    assert read.source.problem == "multi_label" and read.examples["train"].labels == [(), ("toxic", "threat")]
    assert read.source.labels(read.examples) == ["insult", "threat", "toxic"]  # one that no example has, too
    read = ClassificationTask.read_data(_options(**{**asked, "predict_file": path}), ["test"], None)
    assert read.examples["test"].labels is None


def test_a_trained_model_says_what_the_labels_are(path):
    trained = TrainedTask(ClassificationTask(tiny.config(), 1, "regression"), ("text",), 16)
    read = ClassificationTask.read_data(_options(eval_file=path), ["dev"], trained)
    assert read.source.problem == "regression" and read.examples["dev"].labels == [1.5, 0.0]
    with pytest.raises(ValueError, match="`problem_type` must match the trained model's, regression; got mult"):
        ClassificationTask.read_data(_options(eval_file=path, problem_type="multi_label"), ["dev"], trained)


def test_a_trained_model_for_other_texts_is_refused(path):
    trained = TrainedTask(ClassificationTask(tiny.config(), 2), ("text_a", "text_b"), 16)
    with pytest.raises(ValueError, match="for single_label with text_a and text_b, but the data is for single_label"):
        ClassificationTask.read_data(_options(eval_file=path), ["dev"], trained)


def test_windows():
    assert classification_data.windows_of(_options()) is None
    assert classification_data.windows_of(_options(long_text="window")) == Windowing(64, 32)
    narrow = {"long_text": "window", "max_seq_length": 32}
    assert classification_data.windows_of(_options(**narrow, doc_stride=30, max_windows=2)) == Windowing(30, 2)
    with pytest.raises(ValueError, match=r"`doc_stride` and `max_windows` require `long_text=window`"):
        classification_data.windows_of(_options(doc_stride=4, max_windows=32))


def test_windows_with_gaps_are_refused():
    with pytest.raises(ValueError, match=r"`doc_stride` must be at most 30, .*; got 31; lower `doc_stride`"):
        classification_data.windows_of(_options(long_text="window", max_seq_length=32, doc_stride=31))


def test_a_trained_model_keeps_its_windows():
    classification_data.check_trained(_options(), Windowing(4, 8))
    classification_data.check_trained(_options(long_text="window", doc_stride=4, max_windows=8), Windowing(4, 8))
    with pytest.raises(ValueError, match="a stride of 4 and 8 windows; got no windows; omit them"):
        classification_data.check_trained(_options(long_text="truncate"), Windowing(4, 8))


def test_a_temperature_is_fitted_to_the_model_in_the_folder(tmp_path):
    asked = _options(fit_temperature=True, output_dir=str(tmp_path))
    with pytest.raises(ValueError, match="`fit_temperature` is stored with .* `output_dir`, .*, contains no trained"):
        classification_data.check_trained(asked, None)
    (tmp_path / "task.json").write_text("{}")
    classification_data.check_trained(asked, None)
