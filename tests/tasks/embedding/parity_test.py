"""Losses and their gradients beside those of sentence-transformers: of given vectors, and of texts with prompts."""

import json

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.loading import load_description
from bert_tf.data.dataset import build_batches
from bert_tf.tasks.embedding.options import EmbeddingOptions
from bert_tf.tasks.embedding.task import EmbeddingTask
from tests import other_envs, tiny
from tests.parity import GOLDENS
from tests.tasks.embedding.support import pairs
from tests.tasks.support import labeled_texts, options

PROMPTS = {"query": "see it , ", "document": "the story : "}
DIMS, TEMPERATURE = [32, 9, 4], 0.1
RNG = np.random.default_rng(0)
VECTORS, LABELS = RNG.normal(size=(6, 3, 32)).astype(np.float32), RNG.normal(size=6).astype(np.float32)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    path = tmp_path_factory.mktemp("losses") / "given.json"
    given = {"vectors": VECTORS.tolist(), "labels": LABELS.tolist(), "temperature": TEMPERATURE, "dims": DIMS}
    path.write_text(json.dumps(given), encoding="utf-8")
    code = (GOLDENS / "torch_embedding_losses.py").read_text(encoding="utf-8")
    return json.loads(other_envs.run(other_envs.sentence_transformers_python(), code, path))


@pytest.mark.slow
@pytest.mark.parametrize("dims", [(), DIMS])
@pytest.mark.parametrize("loss", ["in_batch_negatives", "margin_mse"])
def test_losses_are_sentence_transformers(loss, dims, theirs):
    task = EmbeddingTask(tiny.config(), loss=loss, loss_temperature=TEMPERATURE, matryoshka_dims=dims)
    batch = {"input_ids": np.arange(36).reshape(6, 3, 2), "input_mask": np.ones([6, 3, 2], np.int32),
             "is_real_example": tf.ones(6), "label_values": tf.constant(LABELS)}  # fmt: skip
    vectors = tf.constant(VECTORS)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        value = task.loss(vectors, {name: tf.convert_to_tensor(each) for name, each in batch.items()},
                          {"examples": tf.constant(6.0)})  # fmt: skip
    expected, gradient = theirs[f"{loss} of {DIMS}" if dims else loss]
    assert float(value) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(tape.gradient(value, vectors), gradient, atol=1e-5 * np.abs(gradient).max())


_WITH_PROMPTS = """
import json, sys
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.data_collator import SentenceTransformerDataCollator
path, prompts, pairs, temperature = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]), float(sys.argv[4])
model = SentenceTransformer(path, device="cpu").eval()
collator = SentenceTransformerDataCollator(preprocess_fn=model.preprocess, prompts=prompts)
batch = collator([{"text_a": a, "text_b": b} for a, b in pairs])
features = [{name.removeprefix(column): values for name, values in batch.items() if name.startswith(column)}
            for column in ("text_a_", "text_b_")]
loss = losses.MultipleNegativesRankingLoss(model, scale=1 / temperature)(features, None)
loss.backward()
words = next(value for name, value in model.named_parameters() if "word_embeddings" in name)
print(json.dumps([loss.item(), words.grad.tolist()]))
"""


@pytest.mark.slow
def test_a_batch_with_prompts_has_sentence_transformers_loss(tmp_path):
    bert_tf.save(bert_tf.load(tiny.checkpoint(tmp_path / "tf1", dropout=0.0)), tmp_path / "m", "sentence_transformers")
    rows, python = pairs(7), other_envs.sentence_transformers_python()
    by_column = dict(zip(("text_a", "text_b"), PROMPTS.values(), strict=True))
    given = tmp_path / "m", json.dumps(by_column), json.dumps(rows), TEMPERATURE
    expected, gradient = json.loads(other_envs.run(python, _WITH_PROMPTS, *given))
    described = load_description([str(tmp_path / "m")])
    start = {"init_checkpoint": str(tmp_path / "m"), "temperature": TEMPERATURE, "prompts": json.dumps(PROMPTS)}
    task = EmbeddingTask.create(described, None, options(EmbeddingOptions, **start), None)
    encoded = task.encode_examples(described.tokenizer, labeled_texts(*rows), 32, True)
    [batch] = build_batches(encoded, np.arange(7)[None], 32, by_length=False)
    model = task.build_model()
    assign_weights(tmp_path / "m", model.variables, allow_unmatched=heads.unused(task))
    with tf.GradientTape() as tape:
        loss = task.loss(model({name: batch[name] for name in task.features}), batch, task.loss_normalizers(batch))
    [words] = [each for each in model.trainable_variables if each.path.endswith("word_embeddings")]
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    found = tf.convert_to_tensor(tape.gradient(loss, words.value)).numpy()
    np.testing.assert_allclose(found, gradient, atol=1e-5 * np.abs(gradient).max())
