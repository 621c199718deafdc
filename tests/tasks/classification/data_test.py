"""Where a run's texts are, what their labels are, which options fit them, and how they are encoded."""

import numpy as np
import pytest

from bert_tf.data.windowed import Windowing
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.classification import data as classification_data
from bert_tf.tasks.classification.options import ClassificationOptions
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tokenization.wordpiece import Tokenizer
from tests import glue_files, tiny
from tests.tasks.support import labeled_texts, options

# === Sources ===


NAMES = "['ax', 'cola', 'mnli', 'mrpc', 'qnli', 'qqp', 'rte', 'sst-2', 'sts-b', 'wnli', 'xnli']"


def _labelled(*labels):
    return labeled_texts(*[("x", None)] * len(labels), labels=list(labels))


@pytest.mark.parametrize(
    "task, folder, files, more, message",
    [
        (None, "glue", {}, {}, "`data_dir` requires `task_name`. Received `data_dir=glue` alone."),
        ("mrpc", None, {}, {}, "`task_name` requires `data_dir`. Received `task_name=mrpc` alone."),
        ("nope", "glue", {}, {}, f"`task_name` must be one of {NAMES}. Received: 'nope'"),
        ("sts-b", "glue", {}, {"problem": "single_label"}, "`problem_type` must be regression for `task_name=sts-b`."),
        ("mnli", "glue", {}, {"language": "de"}, "`xnli_language` must be omitted for a task that is English only."),
        ("xnli", "glue", {}, {"language": "xx"}, "`xnli_language` must be one of ar, bg, de, el, en, es, fr, hi, ru, "),
        (None, None, {}, {"language": "de"}, "`xnli_language` requires `task_name`. Received `xnli_language=de`"),
    ],
)
def test_sources_that_contradict_themselves(task, folder, files, more, message):
    with pytest.raises(ValueError) as error:
        classification_data.make_source(task, folder, files, **more)
    assert str(error.value).startswith(message)


def test_a_source_without_the_file_that_is_asked_for():
    with pytest.raises(ValueError, match=r"`do_predict` requires examples\. Pass `predict_file`, or "):
        classification_data.make_source(None, None, {"train": "t.tsv"}).read(["test"])


def test_labels_are_the_task_s_or_those_of_training_or_those_of_the_trained_model():
    files, glue = classification_data.make_source(None, None, {}), classification_data.make_source("mrpc", "glue", {})
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
    several = classification_data.make_source(None, None, {}, "multi_label")
    assert several.labels({"train": _labelled(("b",), (), ("a", "b"))}) == ["a", "b"]
    with pytest.raises(ValueError, match=r"file\.tsv has no labels: all of its 2 examples are unlabeled\. Check"):
        several.labels({"train": _labelled((), ())})
    assert classification_data.make_source(None, None, {}, "regression").labels({"train": _labelled(1.0)}) is None
    assert classification_data.make_source("sts-b", "glue", {}).labels({}, ["a", "b"]) is None


def test_metrics_are_the_official_ones_of_a_task():
    assert classification_data.make_source("cola", "glue", {}).metrics == ("matthews",)
    assert classification_data.make_source(None, None, {}).metrics is None


def test_all_files_of_a_kind_are_read(tmp_path):
    source = classification_data.make_source("MNLI", glue_files.mnli(tmp_path), {})
    texts = source.read(["dev", "test"])
    sizes = {"dev": 10, "dev_mismatched": 11, "test": 5, "test_mismatched": 7}
    assert {split: len(examples) for split, examples in texts.items()} == sizes
    assert [split for split, examples in texts.items() if examples.labels] == ["dev", "dev_mismatched"]
    assert source.text_inputs == ("text_a", "text_b")


def test_what_has_only_questions_cannot_be_trained_on(tmp_path):
    source = classification_data.make_source("ax", glue_files.diagnostic(tmp_path), {})
    with pytest.raises(
        ValueError, match=r"^`task_name=ax` only has the splits test\. Received: train; train"
    ):
        source.read(["train"])
    assert len(source.read(["test"])["test"]) == 6


@pytest.mark.parametrize("problem, field, label", [("multi_label", "a; b", ("a", "b")), ("regression", "1.5", 1.5)])
def test_labels_of_files_are_read_as_the_problem_says(tmp_path, problem, field, label):
    path = tiny.write_tsv(tmp_path / "t.tsv", [("good", field)])
    source = classification_data.make_source(None, None, {"train": path}, problem, separator=";")
    assert source.read(["train"])["train"].labels == [label]


# === Runs ===


def _options(**given):
    """Returns the options of run_classifier with what is given, in files of one's own."""
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
        ("multi_label", {"label_columns": ["a", "a"]}, "`label_columns` must name each column once. Received: a,a"),
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
    words = r"a.tsv:3: labels must be separated by ','. Received 'film\|music', and 3 different cells that consist of 2"
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
    with pytest.raises(ValueError, match="`problem_type` must match the trained model's, regression. Received: mult"):
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
    with pytest.raises(ValueError, match=r"`doc_stride` must be at most 30, .*\. Received: 31; lower `doc_stride`"):
        classification_data.windows_of(_options(long_text="window", max_seq_length=32, doc_stride=31))


def test_a_trained_model_keeps_its_windows():
    classification_data.check_trained(_options(), Windowing(4, 8))
    classification_data.check_trained(_options(long_text="window", doc_stride=4, max_windows=8), Windowing(4, 8))
    with pytest.raises(ValueError, match="a stride of 4 and 8 windows. Received: no windows; omit them"):
        classification_data.check_trained(_options(long_text="truncate"), Windowing(4, 8))


def test_a_temperature_is_fitted_to_the_model_in_the_folder(tmp_path):
    asked = _options(fit_temperature=True, output_dir=str(tmp_path))
    with pytest.raises(ValueError, match="`fit_temperature` is stored with .* there is none in `output_dir`"):
        classification_data.check_trained(asked, None)
    (tmp_path / "task.json").write_text("{}")
    classification_data.check_trained(asked, None)


# === Encoding ===


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(list(tiny.VOCAB))


def _rows(tokenized, name="input_ids"):
    return [r.tolist() for r in np.split(tokenized.features[name], tokenized.splits[1:-1])]


def _ids(*pieces):
    return [tiny.VOCAB.index(piece) for piece in pieces]


def test_one_text_picture(tokenizer):
    examples = labeled_texts(("The film.", None), ("good", None), labels=["b", "a"])
    tokenized = classification_data.tokenize_examples(tokenizer, examples, 16, ["a", "b"])
    assert _rows(tokenized) == [_ids("[CLS]", "the", "film", ".", "[SEP]"), _ids("[CLS]", "good", "[SEP]")]
    assert tokenized.targets["label_ids"].tolist() == [1, 0] and tokenized.targets["label_ids"].dtype == np.int32
    assert len(tokenized) == 2 and tokenized.lengths.tolist() == [5, 3]


def test_two_texts_picture_cut_to_the_longest(tokenizer):
    tokenized = classification_data.tokenize_examples(tokenizer, labeled_texts(("the film is good", "bad films")), 8)
    assert _rows(tokenized) == [_ids("[CLS]", "the", "film", "is", "[SEP]", "bad", "film", "[SEP]")]
    assert _rows(tokenized, "segment_ids") == [[0, 0, 0, 0, 0, 1, 1, 1]]
    assert tokenized.targets == {}


@pytest.mark.parametrize("windows", [None, Windowing(3)])
def test_rows_are_padded_with_the_vocabulary_s_own_padding(windows):
    tokenizer = Tokenizer([*tiny.VOCAB[1:], "[PAD]"])
    examples = labeled_texts(("the film", None), ("good", None))
    tokenized = classification_data.tokenize_examples(tokenizer, examples, 6, windows=windows)
    inputs = tokenized.inputs(np.array([0, 1]), lambda lengths: 4)
    assert inputs["input_ids"].reshape(2, 4)[1, 3] == tokenizer.pad_id == len(tiny.VOCAB) - 1


def test_many_examples_are_tokenized_in_parts_of_which_nothing_shows(tokenizer, monkeypatch):
    examples = labeled_texts(*[(text, None) for text, _ in tiny.texts(25)])
    whole = classification_data.tokenize_examples(tokenizer, examples, 16)
    monkeypatch.setattr(classification_data, "_CHUNK", 10)
    assert classification_data.tokenize_examples(tokenizer, examples, 16).fingerprint() == whole.fingerprint()


def test_a_label_that_training_did_not_see_names_file_line_and_remedy(tokenizer):
    examples = labeled_texts(("good", None), ("bad", None), labels=["a", "c"])
    with pytest.raises(ValueError, match=r"file\.tsv:3: the label must be one of .* the training data: \['a', 'b'\]\. "
                       r"Received: 'c'; correct this line, check `label_column`"):  # fmt: skip
        classification_data.tokenize_examples(tokenizer, examples, 16, ["a", "b"])


def test_several_labels_are_rows_of_zeros_and_ones(tokenizer):
    examples = labeled_texts(("good", None), ("bad", None), ("dull", None), labels=[("b", "a"), (), ("b",)])
    tokenized = classification_data.tokenize_examples(tokenizer, examples, 16, ["a", "b", "c"], "multi_label")
    ids = tokenized.targets["label_ids"]
    assert ids.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 0]] and ids.dtype == np.int32
    with pytest.raises(ValueError, match=r"^file\.tsv:2: the label must be one of .* training data: \['a'\]\. .*'b'"):
        classification_data.targets(examples, ["a"], "multi_label")


def test_numbers_are_values(tokenizer):
    examples = labeled_texts(("good", None), ("bad", None), labels=[4.75, -1.0])
    values = classification_data.tokenize_examples(tokenizer, examples, 16, None, "regression").targets["label_values"]
    assert values.tolist() == [4.75, -1.0] and values.dtype == np.float32


@pytest.mark.parametrize("problem", ["single_label", "multi_label", "regression"])
def test_without_labels_there_is_nothing_to_aim_at(problem):
    assert classification_data.targets(labeled_texts(("good", None)), ["a"], problem) == {}


def test_through_windows_a_long_text_has_several_rows(tokenizer):
    examples = labeled_texts(("the film is a story of people", None), ("good", None), labels=["a", "b"])
    tokenized = classification_data.tokenize_examples(tokenizer, examples, 6, ["a", "b"], windows=Windowing(3))
    assert len(tokenized) == 2 and tokenized.splits.tolist() == [0, 2, 3]
    assert _rows(tokenized.rows)[0] == _ids("[CLS]", "the", "film", "is", "a", "[SEP]")
    assert tokenized.targets["label_ids"].tolist() == [0, 1]
