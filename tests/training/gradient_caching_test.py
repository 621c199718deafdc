"""Losses of a whole batch in micro-batches: loss and gradients as without them, with each micro-batch's dropout."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.training_ops import seed_scope
from bert_tf.tasks.distilled_task import DistilledTask
from bert_tf.tasks.embedding.task import EmbeddingTask
from bert_tf.training.adamw import AdamW
from bert_tf.training.schedules import WarmupLinearDecay
from bert_tf.training.step import StepConfig, TrainStep
from tests import tiny

ROWS, TEXTS, WIDTH = 8, 3, 6


def _make(kind=EmbeddingTask, dropout=0.0, **config):
    keras.utils.set_random_seed(0)
    layers = "last" if kind is EmbeddingTask else "embeddings"
    more = {"loss_temperature": 0.3, "every_row": config.get("use_xla", False)}
    task = kind(tiny.config(dropout=dropout, initializer_range=0.3), layers, **more)
    model = task.build_model()
    optimizer = AdamW(WarmupLinearDecay(1e-3, 40, 4))
    optimizer.build(model.trainable_variables)
    return TrainStep(task, model, optimizer, StepConfig(**config))


def _batch():
    """Pairs and triplets of random ids; one of the examples fills the batch up."""
    rng = np.random.default_rng(0)
    ids = rng.integers(5, len(tiny.VOCAB), (ROWS, TEXTS, WIDTH)).astype(np.int32)
    mask = (np.arange(WIDTH) < rng.integers(2, WIDTH + 1, (ROWS, TEXTS, 1))).astype(np.int32)
    mask[::3, 2] = 0
    real = np.float32([1] * (ROWS - 1) + [0])
    values = {"input_ids": ids * mask, "input_mask": mask, "segment_ids": 0 * mask, "is_real_example": real}
    return {name: tf.constant(each) for name, each in values.items()}


SHALLOW = tiny.shallow(EmbeddingTask)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "parts"), [(SHALLOW, 2), pytest.param(EmbeddingTask, 8, marks=pytest.mark.slow)])
def test_a_step_is_that_of_the_whole_batch(kind, parts):
    whole, cached = _make(kind), _make(kind, accumulation=parts)
    for _ in range(2):
        expected, found = whole(_batch()), cached(_batch())
        for name in ("loss", "gradient_norm"):
            assert float(found[name]) == pytest.approx(float(expected[name]), rel=1e-5)
    for one, other in zip(whole.model.variables, cached.model.variables, strict=True):
        np.testing.assert_allclose(other.numpy(), one.numpy(), atol=1e-5, err_msg=one.path)


class _Taught(SHALLOW):
    """Vectors that are to be near a teacher's, besides those of their partners."""

    def distillation_losses(self, outputs, teacher_outputs, batch, temperature):
        return tf.reduce_sum(tf.square(outputs - teacher_outputs["vectors"]), [1, 2])


@pytest.mark.slow
def test_a_teacher_reads_one_micro_batch_at_a_time():
    most_rows = tf.Variable(0)

    def teacher(batch):
        ids = batch["input_ids"]
        most_rows.assign(tf.maximum(most_rows, tf.shape(ids)[0]))
        return {"vectors": tf.sin(tf.cast(ids[..., :1], tf.float32) + tf.range(32.0))}

    def taught(*args, **more):
        return DistilledTask(_Taught(*args, **more), teacher)

    whole, cached = (_make(taught, accumulation=parts) for parts in (1, 4))
    expected = {name: float(value) for name, value in whole(_batch()).items()}
    assert most_rows.numpy() == ROWS and expected["teacher_loss"] > 0
    most_rows.assign(0)
    found = cached(_batch())
    assert most_rows.numpy() == ROWS // 4
    for name in ("loss", "label_loss", "teacher_loss", "gradient_norm"):
        assert float(found[name]) == pytest.approx(expected[name], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"scale_loss": True}, {"use_xla": True}, {"pack_examples": True},
                                  {"use_xla": True, "pack_examples": True}])  # fmt: skip
def test_gradients_are_those_of_one_backward_pass_through_all_micro_batches(more):
    """Dropout included: the masks of a micro-batch are the same in both of its forward passes."""
    dropout = 0.0 if more.get("use_xla") else 0.3  # XLA draws other masks
    step, batch, scale = _make(dropout=dropout, accumulation=4, **more), _batch(), tf.constant(2.0**10)
    scale = scale if more.get("scale_loss") else tf.constant(1.0)
    normalizers = step.task.loss_normalizers(batch)

    def seed(index):
        return tf.stack([tf.constant(7), tf.cast(index, tf.int32)])

    laid_out = step._with_layout(batch)
    losses, found = tf.function(lambda: step._cache_gradients(laid_out, 4, normalizers, seed, scale), autograph=False)()
    variables = step.model.trainable_variables

    @tf.function(autograph=False)  # eagerly, layers draw other masks, because they know the shapes
    def in_one_pass():
        with tf.GradientTape() as tape:
            outputs = []
            for index in range(4):
                part = {name: batch[name][2 * index : 2 * index + 2] for name in step.task.features}
                with seed_scope(seed(index)):
                    outputs.append(step._forward(part, training=True))
            loss = step.task.loss(tf.concat(outputs, 0), batch, normalizers)
        return loss, [tf.convert_to_tensor(each) for each in tape.gradient(loss, [each.value for each in variables])]

    loss, expected = in_one_pass()
    assert float(losses["loss"]) == pytest.approx(float(loss), rel=1e-5)
    largest = max(float(tf.reduce_max(tf.abs(each))) for each in expected)
    for variable, one, other in zip(variables, expected, found, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5 * largest, err_msg=variable.path)
