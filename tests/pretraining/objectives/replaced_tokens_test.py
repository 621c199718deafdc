"""Replaced tokens: losses and scores by hand and by torch's ELECTRA, the two configurations, what is refused."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.names import family_mappings
from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.objectives.electra_configs import make_generator_config, to_electra_config
from bert_tf.pretraining.objectives.registry import Electra
from bert_tf.pretraining.objectives.replaced_tokens import ReplacedTokensTask, add_unmasked_ids, sampling_draws
from bert_tf.training.adamw import AdamW
from bert_tf.training.step import StepConfig, TrainStep
from tests import parity, tiny
from tests.fake_batches import fake_batch

CONFIG = tiny.config()
V = CONFIG.vocab_size


def _task(packed=False):
    return Electra(generator_size=0.5).make_task(CONFIG, "none", packed)


def _batch(task, **arguments):
    return fake_batch((*task.features, "masked_lm_ids"), vocab_size=V, **arguments)


def test_sums_loss_and_scores_by_hand():
    task = _task()
    batch, rng = _batch(task), np.random.default_rng(0)
    logits, mask = rng.standard_normal((4, 16)).astype(np.float32), batch["input_mask"] > 0
    replaced = (rng.random((4, 16)) < 0.3) * mask.astype(np.float32)
    outputs = {"mlm_logits": np.zeros((4, 3, V), np.float32), "replaced_logits": logits}
    outputs["replaced"] = replaced.astype(np.float32)
    losses = np.log1p(np.exp(np.where(replaced > 0, -logits, logits)))[mask].mean()
    told, there = logits[mask] > 0, replaced[mask] > 0
    kept = {name: value.numpy() for name, value in task.reduce_outputs(outputs, batch).items()}
    scores = task.metrics(kept)
    assert all(values.shape[0] == 4 for values in kept.values()) and set(scores) == set(task.metric_names)
    expected = {
        "masked_lm_loss": np.log(V),
        "replaced_loss": losses,
        "replaced_accuracy": (told == there).mean(),
        "replaced_accuracy_majority_baseline": 1 - there.mean(),
        "replaced_precision": there[told].mean(),
        "replaced_recall": told[there].mean(),
        "replaced_share": there.mean(),
        "loss": np.log(V) + 50 * losses,
    }
    assert {name: scores[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    assert float(task.loss(outputs, batch, task.loss_normalizers(batch))) == pytest.approx(expected["loss"], rel=1e-5)
    nothing = {name: np.zeros_like(values) for name, values in kept.items()}
    assert np.isnan(task.metrics(nothing)["replaced_accuracy"]) and task.metrics(nothing)["replaced_precision"] == 0


def test_rows_that_only_fill_a_batch_up_count_for_nothing():
    task = _task()
    batch = _batch(task) | {"is_real_example": np.array([1, 1, 0, 1], np.float32)}
    outputs = {"replaced_logits": np.ones((4, 16), np.float32), "replaced": np.zeros((4, 16), np.float32)}
    outputs["mlm_logits"] = np.zeros((4, 3, V), np.float32)
    kept = task.reduce_outputs(outputs, batch)
    assert kept["replaced_weights"].numpy().tolist() == (batch["input_mask"].sum(1) * [1, 1, 0, 1]).tolist()
    assert float(task.loss_normalizers(batch)["replaced_weights"]) == kept["replaced_weights"].numpy().sum()


def test_draws_are_of_the_seed_and_the_number_of_the_batch():
    batch = {"masked_lm_positions": np.zeros((50, 20), np.int32)}
    one, same, next_one, other = (
        sampling_draws(batch, *which)["sampling_draws"].numpy() for which in ((1, 7), (1, 7), (1, 8), (2**32 - 1, 7))
    )
    assert one.shape == (50, 20) and (one == same).all() and (one >= 0).all() and (one < 1).all()
    assert (one != next_one).mean() > 0.99 and (one != other).mean() > 0.99 and abs(one.mean() - 0.5) < 0.05


@pytest.mark.slow
def test_both_networks_learn():
    task = _task()
    batch = {name: tf.constant(values) for name, values in _batch(task, batch_size=8).items()}
    keras.utils.set_random_seed(0)
    model, optimizer = task.build_model(), AdamW(3e-3)
    optimizer.build(model.trainable_variables)
    step = TrainStep(task, model, optimizer, StepConfig())
    first, *_, last = ({name: float(value) for name, value in step(batch).items()} for _ in range(41))
    assert first["loss"] == pytest.approx(first["masked_lm_loss"] + 50 * first["replaced_loss"], rel=1e-5)
    assert last["masked_lm_loss"] < 0.7 * first["masked_lm_loss"]
    assert last["replaced_loss"] < 0.5 * first["replaced_loss"]


def test_what_is_put_back_is_what_was_there():
    batch = fake_batch(("input_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights", "unmasked_ids"))
    expected = batch.pop("unmasked_ids")
    assert (expected != batch["input_ids"]).any()
    np.testing.assert_array_equal(add_unmasked_ids(batch)["unmasked_ids"], expected)


def test_its_own_variables_and_others():
    task = _task(packed=True)
    assert "sentence_ids" in task.features and not task.uses_pooler and not task.config.has_pooler
    assert task.head == ("cls/replaced_tokens/.*", "generator/.*")
    assert isinstance(task, ReplacedTokensTask) and task.loss_weights == {"masked_lm_loss": 1.0, "replaced_loss": 50.0}


@pytest.mark.parametrize(
    "shape, share, hidden, heads, intermediate",
    [
        ((256, 4, 1024), 0.25, 64, 1, 256),  # as ELECTRA-Small
        ((768, 12, 3072), 1 / 3, 256, 4, 1024),  # as ELECTRA-Base
        ((1024, 16, 4096), 0.25, 256, 4, 1024),  # as ELECTRA-Large
        ((32, 2, 64), 0.1, 3, 1, 6),
        ((60, 6, 90), 0.5, 30, 3, 45),
        ((50, 5, 90), 0.5, 25, 1, 45),  # two heads would not divide 25
    ],
)
def test_the_generator_s_size(shape, share, hidden, heads, intermediate):
    names = ("hidden_size", "num_attention_heads", "intermediate_size")
    config = dataclasses.replace(CONFIG, **dict(zip(names, shape, strict=True)), num_hidden_layers=5)
    made = make_generator_config(config, share)
    assert [getattr(made, name) for name in names] == [hidden, heads, intermediate]
    assert made.num_hidden_layers == 5 and made.embedding_width == config.hidden_size


def test_a_generator_as_narrow_as_its_table_has_the_map_that_its_family_always_has():
    albert = tiny.config(model_type="albert", num_hidden_groups=1, embedding_size=16)
    made = make_generator_config(albert, 0.5)
    assert made.hidden_size == made.embedding_width == 16 and made.has_embedding_map
    assert EncoderConfig.from_dict(made.to_dict()).has_embedding_map  # as whoever reads the file will build it


@pytest.mark.parametrize("size", [0.0, -1.0, 1.5])
def test_a_share_that_is_none(size):
    with pytest.raises(ValueError, match=r"`generator_size` must be a fraction .*, above 0 and below 1; got "):
        make_generator_config(CONFIG, size)


def test_a_generator_as_large_as_the_discriminator_is_refused():
    message = r"must be smaller than the discriminator.*got `generator_size=1.0`: 8,192 weights in its layers, and"
    with pytest.raises(ValueError, match=f"{message} 8,192 in"):
        make_generator_config(CONFIG, 1.0)


def test_what_is_written_is_an_electra_where_it_can_be(tmp_path):
    written = to_electra_config(CONFIG)
    assert (written.model_type, written.embedding_size, written.has_pooler) == ("electra", 32, False)
    assert to_electra_config(written) == written
    written.save(tmp_path / "bert_config.json")
    assert EncoderConfig.load(tmp_path) == written and written.hidden_act == CONFIG.hidden_act
    for other in ({"model_type": "roberta", "first_position": 2}, {"task_type_vocab_size": 3, "model_type": "ernie"}):
        kept = to_electra_config(dataclasses.replace(CONFIG, classifier_act="tanh", **other))
        assert kept.model_type == other["model_type"] and not kept.has_pooler


# === Parity: torch's ElectraForMaskedLM and ElectraForPreTraining, one step ===


GOLDEN = parity.GOLDENS / "replaced_tokens"
FILES = ("model.safetensors", "generator/model.safetensors", "expected.safetensors")
TOLERANCE = 1e-5
NAMES, OURS = family_mappings.hugging_face("electra"), "generator/"


@pytest.fixture(scope="module")
def step():
    """The task, its model with torch's weights, the batch, the outputs, the loss and its gradients by path."""
    config = EncoderConfig.load(GOLDEN)
    assert to_electra_config(config) == config
    task = ReplacedTokensTask(config, EncoderConfig.load(GOLDEN / "generator"))
    model = task.build_model()
    report = assign_weights(GOLDEN, model.variables, ["generator/.*"])
    there = load_file(GOLDEN / "generator" / "model.safetensors")
    arrays = {f"{OURS}{NAMES.to_ours(name)}": array.astype(np.float32) for name, array in there.items()}
    assert report.allowed_missing == [v.path for v in model.variables if v.path in arrays]
    assert len(report.loaded) + len(arrays) == len(model.variables)
    for variable in model.variables:
        if variable.path in arrays:
            array = arrays[variable.path]
            variable.assign(array.T if NAMES.transposed(variable.path.removeprefix(OURS)) else array)
    expected = load_file(GOLDEN / "expected.safetensors")
    batch = add_unmasked_ids({name: tf.constant(expected[name]) for name in expected if expected[name].ndim == 2
                               and not name.startswith(("gradient/", "sampled"))})  # fmt: skip
    with tf.GradientTape() as tape:
        outputs = model({name: batch[name] for name in task.features}, training=True)
        loss = task.loss(outputs, batch, task.loss_normalizers(batch))
    found = tape.gradient(loss, [v.value for v in model.trainable_variables])
    gradients = {v.path: tf.convert_to_tensor(g).numpy() for v, g in zip(model.variables, found, strict=True)}
    return task, batch, outputs, float(loss), gradients, expected


@pytest.mark.slow
def test_the_same_pieces_are_sampled(step):
    _, batch, outputs, _, _, expected = step
    replaced, real = np.zeros(batch["input_ids"].shape, np.int32), expected["masked_lm_weights"] > 0
    places = real.nonzero()[0], expected["masked_lm_positions"][real]
    replaced[places] = (expected["sampled"] != expected["masked_lm_ids"])[real]
    assert 0 < replaced.sum() < real.sum()  # one was guessed right
    np.testing.assert_array_equal(outputs["replaced"], replaced)


def test_losses(step):
    task, batch, outputs, loss, _, expected = step
    parts = task.loss_parts(outputs, batch, task.loss_normalizers(batch))
    scores = task.metrics({name: value.numpy() for name, value in task.reduce_outputs(outputs, batch).items()})
    for name in ("masked_lm_loss", "replaced_loss"):
        assert float(parts[name]) == pytest.approx(float(expected[name]), rel=TOLERANCE)
        assert scores[name] == pytest.approx(float(expected[name]), rel=TOLERANCE)
    whole = float(expected["masked_lm_loss"] + 50 * expected["replaced_loss"])
    assert loss == pytest.approx(whole, rel=TOLERANCE) and scores["loss"] == pytest.approx(whole, rel=TOLERANCE)


def test_gradients(step):
    *_, gradients, expected = step
    parity.check_gradients(gradients, expected, _theirs, TOLERANCE)


def _theirs(path):
    own = path.removeprefix(OURS)
    return f"{'generator.' if own != path else ''}{NAMES.from_ours(own)}", NAMES.transposed(own)


@pytest.mark.slow
def test_torch_makes_the_same_golden_again(tmp_path):
    parity.run_torch("torch_replaced_tokens.py", tmp_path)
    parity.check_same(tmp_path, [f"replaced_tokens/{file}" for file in FILES])
