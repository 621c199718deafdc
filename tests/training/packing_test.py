"""Packed examples in programs of XLA: results as with padding, a few programs, and runs that resume."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.training_ops import gather_tokens
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.embedding.task import EmbeddingTask
from bert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from bert_tf.tasks.reranking.task import RerankingTask
from bert_tf.tasks.tagging.task import TaggingTask
from bert_tf.training.adamw import AdamW
from bert_tf.training.run_config import RunConfig
from bert_tf.training.schedules import WarmupLinearDecay
from bert_tf.training.step import StepConfig, TrainStep
from tests import tiny
from tests.training import runs

PACKED = StepConfig(use_xla=True, pack_examples=True)
TASK = ClassificationTask(tiny.config(), 2)


def _make(config, task=TASK, seed=0):
    keras.utils.set_random_seed(seed)
    model = task.build_model()
    optimizer = AdamW(WarmupLinearDecay(1e-3, 40, 4))
    optimizer.build(model.trainable_variables)
    return TrainStep(task, model, optimizer, config)


def _run(step, steps=20, width=16):
    """Returns the losses and gradient norms of some steps, and the weights after them."""
    results = [step(batch) for batch in tiny.batches(tiny.tokenized(64), 16, steps, width)]
    values = [[float(each[name]) for name in ("loss", "gradient_norm")] for each in results]
    return np.array(values), {v.path: v.numpy() for v in step.model.variables}


def _assert_equal(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(found[0], expected[0], rtol=tolerance, atol=tolerance)
    for path, value in expected[1].items():
        np.testing.assert_allclose(found[1][path], value, rtol=0, atol=1e-4, err_msg=path)


@pytest.fixture(scope="module")
def padded():
    return _run(_make(StepConfig()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [{}, {"accumulation": 4}, {"packed_shares": (1.0,)}, {"packed_shares": (0.3, 0.4, 1.0), "accumulation": 2}],
    ids=str,
)
def test_packed_in_a_program_twenty_steps_are_those_of_padded_examples(padded, more):
    assert padded[0][-1, 0] < 0.7 * padded[0][0, 0]
    _assert_equal(_run(_make(StepConfig(use_xla=True, pack_examples=True, **more))), padded)


@pytest.mark.slow
def test_after_a_step_that_did_not_fit_the_parts_are_packed_anew(padded):
    step = _make(PACKED)
    step.accumulate(2)
    _assert_equal(_run(step), padded)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [tiny.MODERNBERT, tiny.DEBERTA, tiny.BIASED, tiny.NOMIC, tiny.GTE],
    ids=["modern", "deberta", "biased", "nomic", "gte"],
)  # fmt: skip
def test_families_with_relative_positions(changes):
    task = ClassificationTask(tiny.config(**changes), 2)
    _assert_equal(_run(_make(PACKED, task)), _run(_make(StepConfig(), task)))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_in_half_precision(precision):
    keras.config.set_dtype_policy(precision)
    try:
        config = {"scale_loss": precision == "mixed_float16"}
        steps = [_make(StepConfig(**config)), _make(StepConfig(use_xla=True, pack_examples=True, **config))]
    finally:
        keras.config.set_dtype_policy("float32")
    padded, packed = (_run(step)[0][:, 0] for step in steps)
    np.testing.assert_allclose(packed, padded, rtol=0, atol=0.02)


@pytest.mark.slow
def test_dropout_is_a_function_of_the_seed():
    task = ClassificationTask(tiny.config(dropout=0.2), 2)
    first, again, other = (_run(_make(config, task), 3)[0] for config in (
        PACKED, PACKED, StepConfig(seed=1, use_xla=True, pack_examples=True)))  # fmt: skip
    assert (first == again).all() and (first != other).all()


def _texts(*shape, seed=0):
    """Returns the inputs of random texts, int32 [*shape, 12]; among several of an example, some are missing."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(5, len(tiny.VOCAB), (*shape, 12))
    lengths = rng.integers(3, 9, shape)
    if len(shape) > 1:
        lengths[1::3, -1] = 0
    mask = np.arange(12) < lengths[..., np.newaxis]
    inputs = {"input_ids": ids * mask, "input_mask": mask, "segment_ids": 0 * mask}
    return {name: each.astype(np.int32) for name, each in inputs.items()}


def _batches():
    """Returns {name: (class and arguments of a task, the argument that says whether XLA compiles it, a batch)}."""
    rng, one, several = np.random.default_rng(1), _texts(8), _texts(8, 3)
    tags = np.where(one["input_mask"], rng.integers(-1, 3, (8, 12)), -1).astype(np.int32)
    spans = {name: rng.integers(0, 3, 8).astype(np.int32) for name in ("start_positions", "end_positions")}
    labels, gains = {"label_ids": rng.integers(0, 2, 8).astype(np.int32)}, rng.integers(0, 2, (8, 3))
    return {
        "tagging": (TaggingTask, (["O", "B-a", "I-a"],), None, one | {"tag_ids": tags}),
        "answers": (QuestionAnsweringTask, (), None, one | {"context_mask": one["input_mask"]} | spans),
        "choices": (MultipleChoiceTask, (), "every_window", several | labels),
        "documents": (RerankingTask, (), "every_window", several | {"relevances": gains.astype(np.float32)}),
        "embeddings": (EmbeddingTask, (), "every_row", several),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", _batches())
@pytest.mark.parametrize("parts", [1, 2])
def test_each_task_has_the_losses_of_padded_examples(name, parts):
    kind, arguments, every, batch = _batches()[name]
    batch = {name: tf.constant(each) for name, each in batch.items()} | {"is_real_example": tf.ones([8])}

    def results(config):
        more = {every: config.use_xla} if every else {}
        step = _make(config, kind(tiny.config(initializer_range=0.3), *arguments, **more))
        return [[float(each[key]) for key in ("loss", "gradient_norm")] for each in (step(batch) for _ in range(3))]

    packed = StepConfig(use_xla=True, pack_examples=True, accumulation=parts)
    np.testing.assert_allclose(results(packed), results(StepConfig(accumulation=parts)), rtol=1e-5, atol=1e-5)


def test_the_gradient_of_a_gather_is_that_of_tensorflow():
    """Padding included, whose gradient belongs to the first token of its text."""
    sources = np.array([[3, 4, 5, -1], [0, 6, 7, -1]], np.int32)  # texts of 1, 3 and 2 tokens
    indices = np.array([[4, 4, 4], [0, 1, 2], [5, 6, 5]], np.int32)
    rng = np.random.default_rng(0)
    tokens, dy = (tf.constant(rng.normal(size=shape).astype(np.float32)) for shape in ((8, 5), (3, 3, 5)))
    values, gradients = [], []
    for gather in (tf.gather, lambda tokens, indices: gather_tokens(tokens, indices, sources)):
        with tf.GradientTape() as tape:
            tape.watch(tokens)
            values.append(gather(tokens, indices))
        gradients.append(tf.convert_to_tensor(tape.gradient(values[-1], tokens, dy)))
    np.testing.assert_array_equal(*values)
    np.testing.assert_allclose(*gradients, rtol=1e-6)


@pytest.mark.slow
def test_a_resumed_run_is_one_that_never_stopped_to_the_bit(tmp_path):
    task = tiny.shallow(ClassificationTask)(tiny.config(dropout=0.2), 2)

    def run(name):
        step = StepConfig(seed=3, use_xla=True, pack_examples=True)
        return RunConfig(str(tmp_path / name), 8, 10, 2, 1e-3, save_checkpoints_steps=4, keep_optimizer=True, step=step)

    whole = runs.fit(task, run("whole"))
    parts = [runs.fit(task, run("parts"), kill_after=6), runs.fit(task, run("parts"), seed=5)]
    assert [sorted(losses) for losses in parts] == [list(range(1, 7)), list(range(5, 11))]
    assert all(loss == whole[step] for losses in parts for step, loss in losses.items())
    runs.assert_equal(*(runs.saved(tmp_path / name, 10) for name in ("whole", "parts")))


@pytest.mark.slow
def test_a_command_compiles_at_most_four_programs_for_its_steps(tmp_path):
    texts = tiny.texts(2000)
    train, init = tiny.write_tsv(tmp_path / "train.tsv", texts), tiny.checkpoint(tmp_path / "start")
    flags = {"train_file": train, "init_checkpoint": init, "output_dir": tmp_path / "out", "use_xla": "true",
             "compilation_cache_dir": tmp_path / "programs", "train_batch_size": 20, "num_train_epochs": 1,
             "max_seq_length": 32}  # fmt: skip
    words = [f"--{flag}={value}" for flag, value in flags.items()]
    command = [sys.executable, "-m", "bert_tf", "run_classifier", "--do_train", "--pack_examples", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-4000:]
    assert (tmp_path / "out" / "model.ckpt-100.index").exists()
    assert 1 < len(list((tmp_path / "programs").glob("*/*.pb"))) <= 4
