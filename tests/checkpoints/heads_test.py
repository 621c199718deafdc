"""Which weights may be missing and which left over, for every task; a task names its own head only."""

import re

import pytest

from bert_tf.checkpoints import heads
from bert_tf.pretraining.objectives.language_modeling import PretrainingTask
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.fill_mask import FillMaskTask
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from tests import tiny

POOLER, CLASSIFIER, SQUAD = "bert/pooler/dense/bias", "classifier/output_bias", "cls/squad/output_bias"
CUSTOM = "head/dense/kernel"
MASKED, NEXT = "cls/predictions/transform/dense/kernel", "cls/seq_relationship/output_bias"
THEIRS = {CUSTOM, "cls.predictions.extra", "classifier.dense.weight", "task_heads.ner.bias", "lm_head.bias"}  # unknown
ENCODER = "bert/encoder/layer_0/output/dense/kernel"
CASES = [
    (ClassificationTask(tiny.config(), 2), {CLASSIFIER, POOLER}, {MASKED, NEXT, SQUAD, *THEIRS}),
    (QuestionAnsweringTask(tiny.config()), {SQUAD, POOLER}, {MASKED, NEXT, CLASSIFIER, POOLER, *THEIRS}),
    (PretrainingTask(tiny.config()), {MASKED, NEXT, POOLER}, {SQUAD, CLASSIFIER, *THEIRS}),
    (PretrainingTask(tiny.config(), "none"), {MASKED, POOLER}, {NEXT, SQUAD, CLASSIFIER, POOLER, *THEIRS}),
    (
        FillMaskTask(tiny.config(), tiny.VOCAB),
        {MASKED, POOLER, "cls.predictions.extra"},
        {NEXT, SQUAD, CLASSIFIER, POOLER, *THEIRS - {"cls.predictions.extra"}},
    ),
]


def _matching(patterns):
    every = {POOLER, CLASSIFIER, SQUAD, MASKED, NEXT, ENCODER, *THEIRS}
    return {name for name in every if any(re.fullmatch(pattern, name) for pattern in patterns)}


@pytest.mark.parametrize(("task", "fresh", "unused"), CASES)
def test_what_is_excused(task, fresh, unused):
    assert _matching(heads.fresh(task)) == fresh
    assert _matching(heads.unused(task)) == unused


def test_without_a_head_all_are_of_others():
    assert _matching(heads.others(())) == {CLASSIFIER, SQUAD, MASKED, NEXT, *THEIRS}
