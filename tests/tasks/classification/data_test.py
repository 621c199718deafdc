"""What the options of a classifier say together: which contradict each other, the labels, or a trained model."""

import pytest

from bert_tf.data.windowed import Windowing
from bert_tf.tasks import classification
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.classification import ClassificationTask
from bert_tf.tasks.options import ClassificationOptions
from tests import tiny
from tests.tasks.support import options


def _options(**given):
    """Returns the options of run_classifier with what is given, in files of one's own."""
    return options(ClassificationOptions, **{"output_dir": "out", **given})


@pytest.fixture
def path(tmp_path):
    return tiny.write_tsv(tmp_path / "t.tsv", [("good", "1.5"), ("bad", "0")])


@pytest.mark.parametrize(
    "problem, given, message",
    [
        ("regression", {"class_weights": ["balanced"]}, "must be labels for `class_weights`. Received numbers"),
        ("regression", {"label_smoothing": 0.1}, "must be labels for `label_smoothing`"),
        ("regression", {"fit_temperature": True, "do_eval": True}, "must be labels for `fit_temperature`"),
        ("single_label", {"fit_temperature": True}, "`fit_temperature` must come with `do_eval`"),
        ("single_label", {"label_separator": ";"}, "`label_separator` must come with `problem_type=multi_label`"),
    ],
)
def test_options_that_do_not_fit_are_refused(path, problem, given, message):
    asked = _options(train_file=path, problem_type=problem, **given)
    with pytest.raises(ValueError, match=message):
        ClassificationTask.read_data(asked, ["train"], None)


def test_options_that_fit_are_taken(path):
    read = ClassificationTask.read_data(_options(train_file=path, problem_type="regression"), ["train"], None)
    assert read.examples["train"].labels == [1.5, 0.0] and read.text_inputs == ("text",)
    fitting = {"label_smoothing": 0.1, "fit_temperature": True, "do_eval": True}
    read = ClassificationTask.read_data(_options(train_file=path, **fitting), ["train"], None)
    assert read.examples["train"].labels == ["1.5", "0"] and list(read.examples) == ["train"]


def test_a_trained_model_says_what_the_labels_are(path):
    trained = TrainedTask(ClassificationTask(tiny.config(), 1, "regression"), ("text",), 16)
    read = ClassificationTask.read_data(_options(eval_file=path), ["dev"], trained)
    assert read.source.problem == "regression" and read.examples["dev"].labels == [1.5, 0.0]
    with pytest.raises(ValueError, match="`problem_type` must be the trained model's, regression. Received: multi_la"):
        ClassificationTask.read_data(_options(eval_file=path, problem_type="multi_label"), ["dev"], trained)


def test_a_trained_model_for_other_texts_is_refused(path):
    trained = TrainedTask(ClassificationTask(tiny.config(), 2), ("text_a", "text_b"), 16)
    with pytest.raises(ValueError, match="one for single_label with text. Received one for single_label with text_a a"):
        ClassificationTask.read_data(_options(eval_file=path), ["dev"], trained)


def test_windows():
    assert classification.windows_of(_options()) is None
    assert classification.windows_of(_options(long_text="window")) == Windowing(64, 32)
    narrow = {"long_text": "window", "max_seq_length": 32}
    assert classification.windows_of(_options(**narrow, doc_stride=30, max_windows=2)) == Windowing(30, 2)
    with pytest.raises(ValueError, match=r"with `long_text=window`\. Received `doc_stride` and `max_windows` alone"):
        classification.windows_of(_options(doc_stride=4, max_windows=32))


def test_windows_with_gaps_are_refused():
    with pytest.raises(ValueError, match=r"`doc_stride` is at most 30, .*\. Received: 31; lower `doc_stride`"):
        classification.windows_of(_options(long_text="window", max_seq_length=32, doc_stride=31))


def test_a_trained_model_keeps_its_windows():
    classification.check_trained(_options(), Windowing(4, 8))
    classification.check_trained(_options(long_text="window", doc_stride=4, max_windows=8), Windowing(4, 8))
    with pytest.raises(ValueError, match="with, a stride of 4 and 8 windows. Received: no windows; leave them out"):
        classification.check_trained(_options(long_text="truncate"), Windowing(4, 8))


def test_a_temperature_is_fitted_to_the_model_in_the_folder(tmp_path):
    asked = _options(fit_temperature=True, output_dir=str(tmp_path))
    with pytest.raises(ValueError, match="`fit_temperature` must find the trained model in `output_dir`"):
        classification.check_trained(asked, None)
    (tmp_path / "task.json").write_text("{}")
    classification.check_trained(asked, None)
