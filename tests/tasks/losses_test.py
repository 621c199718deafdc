"""Class weights, scikit-learn's balanced ones and those given by name; and distances to a teacher, against sums."""

import numpy as np
import pytest
import tensorflow as tf
from absl import flags

from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.embedding.task import EmbeddingTask
from bert_tf.tasks.losses import class_weights, divergence, yes_no_divergence
from bert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from bert_tf.tasks.tagging.task import TaggingTask
from tests import tiny

SEVERAL = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]], np.int32)


def test_balanced_weights_are_scikit_learn_s():
    from sklearn.utils.class_weight import compute_class_weight

    target = np.array([0, 1, 1, 2, 1, 0, 1], np.int32)
    weights = class_weights(["balanced"], ["a", "b", "c"], target)
    assert weights == pytest.approx(compute_class_weight("balanced", classes=np.arange(3), y=target))
    # All labels weigh the same together.
    assert np.bincount(target) * weights == pytest.approx([7 / 3] * 3)


def test_of_several_labels_the_examples_count_where_the_label_holds():
    assert class_weights(["balanced"], ["a", "b", "c"], SEVERAL) == pytest.approx((3 / 3, 3 / 3, 3 / 6))


def test_named_weights():
    assert class_weights(["no:2.5", "x:y:3"], ["no", "x:y", "yes"], np.array([0])) == (2.5, 3.0, 1.0)


def test_weights_from_a_file(tmp_path):
    path = tmp_path / "a,b.json"
    path.write_text('{"a, b": 2, "c": 0.5}')
    assert class_weights(str(path).split(","), ["a, b", "c", "d"], np.array([0])) == (2.0, 0.5, 1.0)
    for text, words in (
        ('{"x": 1}', r"a,b.json: `class_weights` must give labels weights above 0. Received 'x': 1; the labels are"),
        ('{"c": 0}', r"Received 'c': 0"),
        ('{"c": null}', r"Received 'c': None"),
        ("[1]", r"must be an object of labels and their weights \(`class_weights`\).*write it as"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            class_weights([str(path)], ["a, b", "c", "d"], np.array([0]))
    with pytest.raises(ValueError, match="no file"):
        class_weights(["none.json"], ["a"], np.array([0]))


@pytest.mark.parametrize("text", ["a, b:2,c:3", "c:3,a, b:2", "a,b:2,c:3", '"a, b:2",c:3'])
def test_a_name_with_commas_is_found_again_behind_the_command_line(text):
    values = flags.FlagValues()
    flags.DEFINE_list("class_weights", None, "Weights.", flag_values=values)  # as programs define it
    values(["program", f"--class_weights={text}"])
    assert class_weights(values.class_weights, ["a, b", "c", "d"], np.array([0])) == (2.0, 3.0, 1.0)


def test_a_wrong_name_is_told_and_not_what_follows_it():
    with pytest.raises(ValueError, match="Received 'typo:2'; the labels are 'a, b', 'c'"):
        class_weights(["typo:2", "c:1"], ["a, b", "c"], np.array([0]))


@pytest.mark.parametrize("given", [None, []])
def test_nothing_given_is_no_weights(given):
    assert class_weights(given, ["no", "x:y", "yes"], np.array([0])) is None


def test_without_training_there_are_none():
    assert class_weights(["balanced"], ["a", "b", "c"], None) is None


@pytest.mark.parametrize(
    "given",
    [["no"], ["balanced", "no:2"], ["maybe:2"], ["no:0"], ["no:-1"], ["no:inf"], ["no:nan"], ["no:two"], ["no:1"] * 2],
)
def test_weights_that_are_none_are_refused(given):
    with pytest.raises(ValueError, match="`class_weights` .* label:weight pairs, .* the labels are 'no', 'yes'"):
        class_weights(given, ["no", "yes"], np.array([0, 1]))


@pytest.mark.parametrize("label_ids", [np.array([0, 0]), np.array([[1, 0], [0, 0]])])
def test_a_label_without_examples_cannot_be_balanced(label_ids):
    with pytest.raises(ValueError, match=r"every label. There are none of \['yes'\]"):
        class_weights(["balanced"], ["no", "yes"], label_ids)


T = 2.5
OWN, TAUGHT = np.random.default_rng(0).normal(0, 2, (2, 4, 3, 5)).astype(np.float32)
B = {"label_ids": tf.constant([0, 4, 1, 1])}


def _softmax(logits):
    shares = np.exp(logits.astype(np.float64))
    return shares / shares.sum(-1, keepdims=True)


def _by_hand(own, taught):
    p, q = _softmax(taught / T), _softmax(own / T)
    return T**2 * (p * np.log(p / q)).sum(-1)


def test_divergence():
    np.testing.assert_allclose(divergence(OWN, TAUGHT, T), _by_hand(OWN, TAUGHT), rtol=1e-4)
    np.testing.assert_allclose(divergence(TAUGHT, TAUGHT, T), np.zeros((4, 3)), atol=1e-5)


def test_its_gradient_keeps_its_size_as_the_temperature_rises():
    """In the limit it is that of half the squared difference over the number of labels (Hinton et al., equation 4)."""
    own, taught = (tf.constant(each - each.mean(-1, keepdims=True)) for each in (OWN, TAUGHT))
    with tf.GradientTape() as tape:
        tape.watch(own)
        loss = divergence(own, taught, 300.0)
    np.testing.assert_allclose(tape.gradient(loss, own), (own - taught) / 5, atol=0.02)


def test_of_yes_and_no():
    """Yes and no are two labels, of which no has the logit 0."""
    both = [np.stack([each, np.zeros_like(each)], -1) for each in (OWN, TAUGHT)]
    np.testing.assert_allclose(yes_no_divergence(OWN, TAUGHT, T), _by_hand(*both), rtol=1e-4, atol=1e-6)


CONFIG = tiny.config()
ROW, ROW_TAUGHT = OWN[:, 0], TAUGHT[:, 0]  # [4, 5]
TAGS = np.array([[0, -1, 4], [-1, -1, -1], [2, 1, -1], [3, 3, 3]], np.int32)
WEIGHTS = np.array([1, 2, 3, 4, 5], np.float32)


def _tagged(weights):
    each = np.where(TAGS >= 0, np.asarray(weights)[np.maximum(TAGS, 0)], 0)
    return (_by_hand(OWN, TAUGHT) * each).sum(1)


def _spans(values):
    return {"start_logits": tf.constant(values[:, 0]), "end_logits": tf.constant(values[:, 1])}


LABELS = ["B-X", "B-Y", "I-X", "I-Y", "O"]
CASES = {
    "classification": (ClassificationTask(CONFIG, 5), ROW, ROW_TAUGHT, B, _by_hand(ROW, ROW_TAUGHT)),
    "classification with weights": (
        ClassificationTask(CONFIG, 5, class_weights=WEIGHTS),
        ROW, ROW_TAUGHT, B, _by_hand(ROW, ROW_TAUGHT) * [1, 5, 2, 2],
    ),
    "several labels": (
        ClassificationTask(CONFIG, 5, "multi_label"),
        ROW, ROW_TAUGHT, {"label_ids": np.zeros((4, 5), np.int32)},
        yes_no_divergence(ROW, ROW_TAUGHT, T).numpy().mean(-1),
    ),
    "regression": (
        ClassificationTask(CONFIG, 1, "regression"),
        ROW[:, :1], ROW_TAUGHT[:, :1], {"label_values": np.zeros(4, np.float32)},
        (ROW[:, 0] - ROW_TAUGHT[:, 0]) ** 2,
    ),
    "tagging": (TaggingTask(CONFIG, LABELS), OWN, TAUGHT, {"tag_ids": tf.constant(TAGS)}, _tagged(np.ones(5))),
    "tagging with weights": (
        TaggingTask(CONFIG, LABELS, class_weights=WEIGHTS),
        OWN, TAUGHT, {"tag_ids": tf.constant(TAGS)}, _tagged(WEIGHTS),
    ),
    "questions": (
        QuestionAnsweringTask(CONFIG),
        _spans(OWN), _spans(TAUGHT), {}, _by_hand(OWN, TAUGHT)[:, :2].mean(1),
    ),
    "multiple choice": (MultipleChoiceTask(CONFIG), ROW, ROW_TAUGHT, B, _by_hand(ROW, ROW_TAUGHT)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_task_has_its_own(name):
    task, own, taught, batch, expected = CASES[name]
    found = task.distillation_losses(own, taught, batch | {"is_real_example": np.ones(4, np.float32)}, T)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_what_a_temperature_softens():
    assert CASES["tagging"][0].has_temperature and CASES["several labels"][0].has_temperature
    assert not CASES["regression"][0].has_temperature
    assert EmbeddingTask.distillation_losses is TaggingTask.__mro__[1].distillation_losses  # it learns from no teacher
