"""Class weights: scikit-learn's balanced ones, and those given by name or in a file."""

import numpy as np
import pytest
from absl import flags

from bert_tf.tasks.class_weights import class_weights

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
        ('{"x": 1}', r"a,b.json: `class_weights` must give labels weights above 0; got 'x': 1; the labels are"),
        ('{"c": 0}', r"got 'c': 0"),
        ('{"c": null}', r"got 'c': None"),
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
    with pytest.raises(ValueError, match="got 'typo:2'; the labels are 'a, b', 'c'"):
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
    with pytest.raises(ValueError, match=r"every label. \['yes'\] have no examples"):
        class_weights(["balanced"], ["no", "yes"], label_ids)
