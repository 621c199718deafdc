"""Training a trained model again with other labels: which rows of the head are kept, and where they land."""

import json

import keras
import numpy as np
import pytest

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.checkpoints.loading import load_description, save_description
from bert_tf.models.config_files import TASK_FILE
from bert_tf.models.lora import Lora
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.registry import save_task
from bert_tf.tasks.retraining import rows_by_label
from bert_tf.tasks.tagging.task import TaggingTask
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.training.run_config import RunConfig
from bert_tf.training.start import first_state
from tests import tiny

CONFIG = tiny.config()
OLD, NEW = ["billing", "cancel", "spam"], ["account", "billing", "churn"]  # one is new, one gone, one renamed


def _classifier(labels, config=CONFIG, **options):
    return ClassificationTask(config, len(labels), labels=labels, **options)


def _save(folder, task, with_task=True):
    """Writes a trained model whose head is random, biases too; returns {path: array} of its head."""
    keras.utils.set_random_seed(7)
    model = task.build_model()
    head = [v for v in model.variables if not v.path.startswith("bert/")]
    for variable in head:
        variable.assign(np.random.default_rng(7).normal(size=variable.shape))
    save_description(folder, task.config, WordPieceTokenizer(tiny.VOCAB), task.labels)
    if with_task:
        save_task(folder, TrainedTask(task, ("text",), 16))
    CheckpointManager(folder).save(3, tf1.named(model.variables))
    return {v.path: np.asarray(v) for v in head}


def _start(folder, task, renames=()):
    """Returns (the head that a new run on this model starts from, its `LabelRows`, a new head of the same seed)."""
    kept = rows_by_label(task, load_description([str(folder)]), str(folder), renames)
    run = RunConfig(str(folder / "out"), 8, 4, init_checkpoint=str(folder), label_rows=kept)
    keras.utils.set_random_seed(1)
    state, _ = first_state(task, run)
    keras.utils.set_random_seed(1)
    fresh = {v.path: np.asarray(v) for v in task.build_model().variables}
    head = {v.path: np.asarray(v) for v in state.model.variables if not v.path.startswith("bert/")}
    return head, state.label_rows, fresh


def _check_rows(old, head, fresh, rows):
    """Asserts that rows of the outputs are the old ones or new, and the head's other weights are the old ones."""
    outputs = [path for path in head if path.endswith(("output_weights", "output_bias"))]
    assert len(outputs) == 2
    for path in head.keys() - outputs:
        np.testing.assert_array_equal(head[path], old[path])
    for path in outputs:
        assert len(head[path]) == len(rows)
        for value, row, new in zip(head[path], rows, fresh[path], strict=True):
            if row is None:  # shuffled, so that it does not resemble an old label's
                np.testing.assert_array_equal(np.sort(value, None), np.sort(new, None))
            else:
                np.testing.assert_array_equal(value, old[path][row])


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"problem": "multi_label"}, pytest.param({}, marks=pytest.mark.slow),
     pytest.param({"lstm_units": 4}, marks=pytest.mark.slow),
     pytest.param({"config": tiny.config(classifier_act="tanh")}, marks=pytest.mark.slow),
     pytest.param({"config": tiny.config(lora=Lora(2, 4.0))}, marks=pytest.mark.slow)],
    ids=["several", "single", "BiLSTM", "transform", "LoRA"],
)  # fmt: skip
def test_rows_follow_their_labels(tmp_path, caplog, options):
    caplog.set_level("INFO")
    old = _save(tmp_path, _classifier(OLD, **options))
    head, kept, fresh = _start(tmp_path, _classifier(NEW, **options), ["cancel:churn"])
    assert kept.rows == (None, 0, 1)
    _check_rows(old, head, fresh, kept.rows)
    assert f"from {tmp_path}: kept: 2; new: account; dropped: spam; renamed: cancel -> churn." in caplog.text
    assert kept.to_dict() == {
        "init_checkpoint": str(tmp_path), "labels": OLD, "kept": ["billing", "churn"], "new": ["account"],
        "dropped": ["spam"], "renamed": {"cancel": "churn"},
    }  # fmt: skip


@pytest.mark.slow
def test_as_many_labels_of_other_names_are_no_reason_to_take_the_rows_in_order(tmp_path):
    old = _save(tmp_path, _classifier(["a", "b", "c"]))
    head, kept, fresh = _start(tmp_path, _classifier(["c", "d", "e"]))
    assert kept.rows == (2, None, None)
    _check_rows(old, head, fresh, kept.rows)


def test_the_same_labels_are_all_kept(tmp_path, caplog):
    caplog.set_level("INFO")
    old = _save(tmp_path, _classifier(OLD))
    head, _, _ = _start(tmp_path, _classifier(OLD))
    for path, value in head.items():
        np.testing.assert_array_equal(value, old[path])
    assert "kept: 3; new: none; dropped: none; renamed: none." in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, *(pytest.param(options, marks=pytest.mark.slow) for options in (
    {"lstm_units": 4}, {"layers": "last", "lstm_units": 4}))], ids=["plain", "BiLSTM", "frozen"])  # fmt: skip
def test_tags_follow_their_names_and_types_are_renamed_with_both_tags(tmp_path, options):
    old = _save(tmp_path, TaggingTask(CONFIG, ["B-ORG", "B-PER", "I-ORG", "I-PER", "O"], **options))
    new = TaggingTask(CONFIG, ["B-HUMAN", "B-LOC", "I-HUMAN", "I-LOC", "O"], **options)
    head, kept, fresh = _start(tmp_path, new, ["PER:HUMAN"])
    assert kept.rows == (1, None, 3, None, 4)
    _check_rows(old, head, fresh, kept.rows)
    assert kept.to_dict()["dropped"] == ["B-ORG", "I-ORG"] and kept.renamed == {"PER": "HUMAN"}


def _as_transformers(folder, ending, labels, **said):
    """Turns the description of a saved model into that of Transformers."""
    for name in ("labels.txt", TASK_FILE):
        (folder / name).unlink(missing_ok=True)
    values = json.loads((folder / "bert_config.json").read_text())
    (folder / "bert_config.json").unlink()
    id2label = {str(i): label for i, label in enumerate(labels)}
    values |= {"architectures": [f"Bert{ending}"], "id2label": id2label, **said}
    (folder / "config.json").write_text(json.dumps(values))


def test_labels_of_transformers_are_taken_by_name_too(tmp_path):
    old = _save(tmp_path, _classifier(OLD))
    _as_transformers(tmp_path, "ForSequenceClassification", OLD)
    head, kept, fresh = _start(tmp_path, _classifier(["LABEL", "spam"]), ["billing:LABEL"])
    assert kept.rows == (0, 2)
    _check_rows(old, head, fresh, kept.rows)


BIOES = ["B-X", "E-X", "I-X", "O", "S-X"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "old, ending, new, reason",
    [
        (_classifier(OLD), None, _classifier(OLD, problem="multi_label"), "its problem type is single_label"),
        (_classifier(["B-X", "O"]), None, TaggingTask(CONFIG, ["B-X", "O"]), "it was trained for classification"),
        (TaggingTask(CONFIG, ["B-X", "O"]), None, _classifier(["B-X", "O"]), "it was trained for tagging"),
        (TaggingTask(CONFIG, BIOES), "ForTokenClassification", TaggingTask(CONFIG, ["B-X", "I-X", "O"]),
         "its tags are in the scheme bioes, and new tags are in iob2"),
        pytest.param(_classifier(OLD, lstm_units=4), None, _classifier(OLD), "its head has other layers",
                     marks=pytest.mark.slow),
        pytest.param(_classifier(OLD, lstm_units=4), None, _classifier(OLD, lstm_units=5), "its head has other layers",
                     marks=pytest.mark.slow),
        pytest.param(_classifier(OLD), None, _classifier(OLD, lstm_units=4), "its head has other layers",
                     marks=pytest.mark.slow),
    ],
    ids=["problem", "tagger", "classifier", "scheme", "no BiLSTM", "wider", "BiLSTM"],
)  # fmt: skip
def test_a_head_of_another_kind_is_not_kept_and_the_log_says_why(tmp_path, caplog, old, ending, new, reason):
    caplog.set_level("INFO")
    _save(tmp_path, old)
    if ending:
        _as_transformers(tmp_path, ending, old.labels)
    head, kept, fresh = _start(tmp_path, new)
    for path in (path for path in head if path.endswith(("output_weights", "output_bias"))):
        np.testing.assert_array_equal(head[path], fresh[path])
    assert f"no row is kept from {tmp_path}, because {reason}; all rows are new." in caplog.text
    assert kept.to_dict()["kept"] == [] and kept.to_dict()["reason"] == reason
    with pytest.raises(ValueError, match=f"`rename_labels` requires a trained head .* cannot: {reason}"):
        _start(tmp_path, new, [f"{old.labels[0]}:{new.labels[0]}"])


def test_where_nothing_is_named_the_head_is_loaded_as_ever(tmp_path):
    old = _save(tmp_path, _classifier(OLD), with_task=False)
    (tmp_path / "labels.txt").unlink()
    head, kept, _ = _start(tmp_path, _classifier(NEW))
    assert kept is None
    np.testing.assert_array_equal(head["classifier/output_weights"], old["classifier/output_weights"])
    value = ClassificationTask(CONFIG, 1, "regression")
    assert rows_by_label(value, load_description([str(tmp_path)]), str(tmp_path)) is None


def test_labels_of_a_model_without_a_head_are_ignored(tmp_path):
    """Many configurations of Transformers list LABEL_0 and LABEL_1 for a masked language model."""
    init = tiny.checkpoint(tmp_path / "init")
    _as_transformers(init, "ForMaskedLM", ["LABEL_0", "LABEL_1"])
    _, kept, _ = _start(init, _classifier(["a", "b"]))
    assert kept is None
    with pytest.raises(ValueError, match="`rename_labels` requires a trained head .* it has no head"):
        _start(init, _classifier(["a", "b"]), ["LABEL_0:a"])


def test_labels_that_do_not_match_the_head_are_refused(tmp_path):
    _save(tmp_path, _classifier(OLD))
    (tmp_path / "labels.txt").write_text("billing\n")
    with pytest.raises(ValueError, match="must name every output of its head. It has 1 labels for 3 outputs"):
        _start(tmp_path, _classifier(NEW))


@pytest.mark.parametrize(
    "renames, problem",
    [
        (["cancel"], "'cancel' is not such a pair"),
        (["cancel:"], "'cancel:' is not such a pair"),
        ([":churn"], "':churn' is not such a pair"),
        (["abuse:churn"], "'abuse' is not in the trained model"),
        (["cancel:gone"], "'gone' is not in the training data"),
        (["cancel:churn", "spam:churn"], "two labels would be called 'churn'"),
        (["cancel:billing"], "two labels would be called 'billing'"),
        (["cancel:churn", "cancel:account"], "'cancel' is renamed twice"),
    ],
)
def test_renames_that_cannot_be_followed_are_refused(tmp_path, renames, problem):
    _save(tmp_path, _classifier(OLD))
    with pytest.raises(ValueError) as refused:
        _start(tmp_path, _classifier(NEW), renames)
    assert str(refused.value) == (
        "`rename_labels` must be comma-separated old:new pairs, each of a label of the trained model (billing, cancel, "
        "spam) and a label of the training data (account, billing, churn); got "
        f"{','.join(renames)!r}: {problem}."
    )


def test_names_may_hold_commas_and_colons_and_be_exchanged(tmp_path):
    _save(tmp_path, _classifier(["a:b", "c, d", "e", "f"]))
    _, kept, _ = _start(tmp_path, _classifier(["a:b", "c:d", "e", "f"]), ["c", " d:c:d", "e:f", "f:e"])
    assert kept.renamed == {"c, d": "c:d", "e": "f", "f": "e"} and kept.rows == (0, 1, 3, 2)


@pytest.mark.parametrize("init", [None, "init"])
def test_renames_require_labels_to_rename(tmp_path, init):
    folder = str(tiny.checkpoint(tmp_path / "init"))
    with pytest.raises(ValueError, match="`rename_labels` requires an `init_checkpoint` whose files name its labels"):
        rows_by_label(_classifier(OLD), load_description([folder]), init and folder, ["a:b"])
