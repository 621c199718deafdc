"""What every fine-tuned task must have, and what it has where it says nothing of its own."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints.loading import ModelDescription
from bert_tf.data.windowed import Windowing
from bert_tf.runs.fine_tuning_start import with_trained_options
from bert_tf.runs.settings import fine_tuning_settings
from bert_tf.runs.task_flags import task_settings
from bert_tf.tasks.base import FineTuningTask, SplitPredictions, TrainedTask
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.embedding.task import EmbeddingTask
from bert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from bert_tf.tasks.options import ACTIONS, RunOptions
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from bert_tf.tasks.registry import TASKS, read_task, save_task
from bert_tf.tasks.reranking.task import RerankingTask
from bert_tf.tasks.sequences import at_least_one
from bert_tf.tasks.tagging.task import TaggingTask
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.utils.settings import options_of
from tests import tiny
from tests.sentence_folders import write

MUST = (
    *("read_data", "create", "to_dict", "encode_examples", "decode", "write_answers"),
    *("build_model", "example_losses", "metrics", "preprocess", "postprocess"),  # of `TrainableTask` and `ServableTask`
)


def _kind(*leave_out):
    """Returns a class with all methods that a task must have, but for some."""
    methods = {name: lambda self, *args: {} for name in MUST if name not in leave_out}
    return type("Task", (FineTuningTask,), {"name": "a task", "metric_names": ("right",), **methods})


class _Scored(_kind()):
    """Loses what the outputs are; is right where they are even."""

    def example_losses(self, outputs, batch):
        return tf.cast(outputs, tf.float32), self.example_weights(batch)

    def metrics(self, outputs, rows):
        return {"right": float((outputs % 2 == rows.targets["label_ids"]).mean())}


def _outcome(split, outputs, losses):
    rows = tiny.rows(label_ids=np.zeros(len(outputs), np.int32))
    return SplitPredictions(split, None, rows, np.array(outputs), (np.array(losses), np.ones(len(losses))))


@pytest.mark.parametrize("name", MUST)
def test_a_task_that_lacks_something_cannot_be_made(name):
    with pytest.raises(TypeError, match=rf"abstract.*{name}"):
        _kind(name)()


def test_what_a_task_has_without_saying_so():
    task = _kind()()
    assert task.identity() == {} and task.labels is None and task.example_method is None and not task.uses_pooler
    assert task.files == () and task.options == RunOptions() and task.score_answers(None, None) == {}
    assert task.reduce_outputs("outputs", {}) == "outputs"
    with pytest.raises(AssertionError, match="a task has no signature"):
        task.example_answer(None)


def test_each_example_counts_one_and_what_fills_up_none():
    task, batch = _Scored(), {"is_real_example": tf.constant([1.0, 0.0, 1.0])}
    assert float(task.loss_normalizers(batch)["examples"]) == 2
    assert float(task.loss(tf.constant([1, 2, 4]), batch, task.loss_normalizers(batch))) == 2.5


def test_scores_of_several_files_end_in_their_names():
    outcomes = [_outcome("dev", [2, 3], [1.0, 3.0]), _outcome("dev_mismatched", [2, 4], [0.5, 0.5])]
    assert _Scored().evaluate(outcomes) == {
        **{"right": 0.5, "loss": 2.0},
        **{"right_mismatched": 1.0, "loss_mismatched": 0.5},
    }
    suffixes = [
        SplitPredictions(split, *[None] * 4).suffix for split in ("dev", "test", "dev_mismatched", "test_mismatched")
    ]
    assert suffixes == ["", "", "_mismatched", "_mismatched"]


def test_what_was_scored_is_written_by_tasks_that_say_how(tmp_path):
    _Scored().write_scored(str(tmp_path), [_outcome("dev", [2], [1.0])])
    assert list(tmp_path.iterdir()) == []


def test_the_length_is_the_trained_model_s_unless_another_is_given():
    trained = TrainedTask(_kind()(), ("text",), 96)
    settings = fine_tuning_settings(RunOptions)()
    adopted = with_trained_options(_kind(), settings, trained, None)
    assert adopted == dataclasses.replace(settings, max_seq_length=96)
    given = settings.give({"max_seq_length": 128})
    assert with_trained_options(_kind(), given, trained, None).max_seq_length == 128


@pytest.mark.parametrize("kind", [EmbeddingTask, RerankingTask])
@pytest.mark.parametrize("stated, length", [(20, 20), (10**30, 32), (500, 32)], ids=["stated", "none", "too long"])
def test_a_published_model_is_evaluated_at_its_own_length(kind, stated, length, tmp_path, caplog):
    """As it is searched and served; a training that reads less by default says so."""
    start = write(tmp_path, tokenizer_config={"model_max_length": stated})
    config = tiny.config(extra={"num_labels": 1, "architectures": ["BertForSequenceClassification"],
                                "sentence_transformers": {"activation_fn": "torch.nn.Sigmoid"}})  # fmt: skip
    model = ModelDescription(config, WordPieceTokenizer(tiny.VOCAB), None)
    assert kind.from_pretrained(start, model).max_seq_length == length

    def lengths(*given, **values):
        settings = task_settings(kind)(init_checkpoint=start, given=frozenset(given), **values)
        settings = with_trained_options(kind, settings, None, model)
        kind.create(model, None, options_of(type(kind.options), settings), None)
        return settings.max_seq_length

    with caplog.at_level("INFO", "absl"):
        assert (lengths(), lengths("max_seq_length"), lengths("max_seq_length", do_train=True)) == (length, 128, 128)
        assert "Training uses at most" not in caplog.text
        assert lengths(do_train=True, max_seq_length=16) == 16
    assert ("Training uses at most 16 tokens per example" in caplog.text) == (stated < 10**6)
    assert (f"is {length}. To use it in full, set `max_seq_length={length}`" in caplog.text) == (stated < 10**6)


@pytest.mark.parametrize("kind", TASKS)
def test_the_tasks_of_the_list_are_whole(kind):
    assert not kind.__abstractmethods__
    assert all(hasattr(kind, name) for name in ("features", "head", "targets"))


CONFIG, TAGS = tiny.config(), ["B-A", "I-A", "O"]
WITH_OPTIONS = {
    "one label": ClassificationTask(CONFIG, 3),
    "several labels": ClassificationTask(
        CONFIG, 3, "multi_label", class_weights=(0.5, 2.0, 3.0), label_smoothing=0.1, temperature=2.5
    ),
    "windows": ClassificationTask(CONFIG, 2, windows=Windowing(4, 8)),
    "a BiLSTM": ClassificationTask(CONFIG, 3, lstm_units=4),
    "questions": QuestionAnsweringTask(CONFIG, 7, 8, 9, 10, -1.5, lstm_units=4),
    "tags": TaggingTask(CONFIG, TAGS, scheme="bioes", doc_stride=9, class_weights=(1, 2, 3), label_smoothing=0.1),
    "tags by a BiLSTM": TaggingTask(CONFIG, TAGS, lstm_units=4),
    "a frozen tagger": TaggingTask(CONFIG, TAGS, layers="last", lstm_units=8),
    "choices": MultipleChoiceTask(CONFIG, lstm_units=4, abstention={"share": 0.75, "threshold": 0.5}),
    "ranks": RerankingTask(CONFIG, "pairwise", "sigmoid"),
    "vectors": EmbeddingTask(CONFIG, "last", ("cls", "mean"), True, "triplet", loss_margin=0.3),
}


@pytest.mark.parametrize("case", WITH_OPTIONS)
def test_task_json_keeps_a_task_and_its_options(case, tmp_path):
    task = WITH_OPTIONS[case]
    save_task(str(tmp_path), TrainedTask(task, ("question", "context"), 32))
    read = read_task(str(tmp_path), CONFIG)
    assert type(read.task) is type(task) and (read.text_inputs, read.max_seq_length) == (("question", "context"), 32)
    assert read.task.to_dict() == task.to_dict() and read.task.identity() == task.identity()
    assert (read.task.head, read.task.labels, read.task.has_windows) == (task.head, task.labels, task.has_windows)


def test_the_names_of_tasks_differ():
    assert len({kind.name for kind in TASKS}) == len(TASKS)


def test_splits_and_what_is_done_with_them():
    assert ACTIONS == {"train": "train", "dev": "eval", "test": "predict", "final": "test"}


def test_where_there_is_no_text_at_all_a_row_has_one_piece():
    assert at_least_one(tf.zeros([2, 0], tf.int32)).numpy().tolist() == [[0], [0]]
    assert at_least_one(tf.ones([2, 3, 0])).shape == (2, 3, 1)
    assert at_least_one(tf.constant([[1, 2]])).numpy().tolist() == [[1, 2]]
