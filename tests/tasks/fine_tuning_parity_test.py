"""Fine-tuning against torch Transformers: the losses of a real run's first steps, without dropout."""

import dataclasses
import os
import pathlib
import time

import keras
import numpy as np
import pytest

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.names import family_mappings
from bert_tf.data import batch_order, dataset, glue
from bert_tf.models.config import EncoderConfig
from bert_tf.tasks.classification.encoding import tokenize_examples
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.question_answering.data import read_squad
from bert_tf.tasks.question_answering.encoding import encode_squad
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.training.adamw import AdamW
from bert_tf.training.schedules import WarmupLinearDecay
from bert_tf.training.step import StepConfig, TrainStep
from tests import parity

DATA = pathlib.Path(os.environ.get("BERT_TF_DATA", pathlib.Path.home() / ".cache" / "bert_tf_data"))
EPOCHS, PEAK = 3, 5e-5
TOLERANCE = 1e-3

pytestmark = pytest.mark.slow


def _config(minilm):
    return dataclasses.replace(EncoderConfig.load(minilm), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def _first_batches(rows, batch_size, steps, max_seq_length):
    """Returns the first batches of a run of EPOCHS over `rows`, and how many steps it has."""
    whole = len(rows) * EPOCHS // batch_size
    order = batch_order.training_order(rows.lengths, batch_size, whole, seed=0)[:steps]
    return list(dataset.build_batches(rows, order, max_seq_length)), whole


def _ours(task, minilm, batches, schedule):
    """Returns the losses, float32 [steps], and the weights that the model began with and the checkpoint lacks.

    That training has an effect on them is checked: the last batches' losses are not what they would be without.
    """
    keras.utils.set_random_seed(0)
    model = task.build_model()
    allowed = (*heads.fresh(task), *heads.unused(task))
    missing = assign_weights(minilm, model.variables, allow_unmatched=allowed).allowed_missing
    fresh = [v for v in model.variables if v.path in missing]
    head = {family_mappings.hugging_face().from_ours(v.path): v.numpy() for v in fresh}
    untrained = [_loss(task, model, batch) for batch in batches[-10:]]
    optimizer = AdamW(schedule)
    optimizer.build(model.trainable_variables)
    step = TrainStep(task, model, optimizer, StepConfig())
    losses = np.array([float(step(batch)["loss"]) for batch in batches], np.float32)
    assert np.abs(losses[-10:] - untrained).max() > 10 * TOLERANCE
    return losses, head


def _loss(task, model, batch):
    outputs = model({name: batch[name] for name in task.features})
    return float(task.loss(outputs, batch, task.loss_normalizers(batch)))


def _padded(batches):
    """Returns {name: [steps, B, ...]}: the batches, padded to the widest."""
    width = max(batch["input_ids"].shape[1] for batch in batches)

    def pad(values):
        return np.pad(values, [(0, 0), (0, width - values.shape[1])]) if values.ndim == 2 else values

    return {name: np.stack([pad(batch[name].numpy()) for batch in batches]) for name in batches[0]}


def _torch(folder, minilm, batches, head, schedule):
    numbers = schedule.get_config()
    np.savez(folder / "batches.npz", **_padded(batches), **{f"head/{n}": v for n, v in head.items()}, **numbers)
    files = folder / "batches.npz", folder / "torch.npz"
    parity.run_torch("torch_fine_tuning.py", minilm, *files)
    return np.load(files[1])["losses"]


def _check(folder, minilm, task, rows, batch_size, steps, max_seq_length):
    """Asserts that the losses of a run's first steps are torch's."""
    batches, whole = _first_batches(rows, batch_size, steps, max_seq_length)
    schedule, begin = WarmupLinearDecay(PEAK, whole, whole // 10), time.monotonic()
    ours, head = _ours(task, minilm, batches, schedule)
    assert head and len(batches) == steps
    between = time.monotonic()
    true = _torch(folder, minilm, batches, head, schedule)
    seconds = (between - begin, time.monotonic() - between)
    print(f"of {whole} steps, {ours[:5].mean():.4f} to {ours[-5:].mean():.4f}: largest difference "
          f"{np.abs(ours - true).max():.1e}; {seconds[0]:.0f} s, torch {seconds[1]:.0f} s")  # fmt: skip
    np.testing.assert_allclose(ours, true, atol=TOLERANCE * max(1.0, np.max(true)), rtol=0)  # squared errors are large


@pytest.mark.parametrize("name", ["CoLA", "STS-B", "RTE"])
def test_fifty_steps_of_glue(name, minilm, shared_data, tmp_path):
    row = glue.find_glue_task(name)
    examples = glue.read_split(shared_data / "glue" / name, name, "train")
    rows = tokenize_examples(WordPieceTokenizer.from_directory(minilm), examples, 128, list(row.labels), row.problem)
    task = ClassificationTask(_config(minilm), len(row.labels) or 1, row.problem)
    _check(tmp_path, minilm, task, rows, 16, 50, 128)


def test_thirty_steps_of_squad(minilm, tmp_path):
    file = DATA / "squad" / "train-v1.1.json"
    if not file.exists():
        pytest.skip(f"{file} is not there; BERT_TF_DATA names the folder that holds squad")
    examples = read_squad(file, with_answers=True)
    lists = ("ids", "questions", "contexts", "answers", "is_impossible", "positions")
    few = dataclasses.replace(examples, **{name: getattr(examples, name)[:100] for name in lists})  # warm after 7 steps
    rows = encode_squad(WordPieceTokenizer.from_directory(minilm), few, 384, 128, 64, with_answers=True)
    _check(tmp_path, minilm, QuestionAnsweringTask(_config(minilm)), rows, 4, 30, 384)
