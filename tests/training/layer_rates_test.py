"""Which layers move and how fast: each option changes what it says, and nothing else."""

import logging
import os
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints import tf1
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training.adamw import AdamW
from bert_tf.training.layer_rates import LayerRates, top_layers
from bert_tf.training.run_config import RunConfig
from bert_tf.training.step import StepConfig, TrainStep
from tests import tiny
from tests.training import runs
from tests.training.runs import EXAMPLES, assert_equal, saved

TASK = ClassificationTask(tiny.config(num_hidden_layers=2), 2)
RATE = 1e-3
DEPTHS = ("bert/embeddings/", "bert/encoder/layer_0/", "bert/encoder/layer_1/", ("bert/pooler/", "classifier/"))


def _depth(path):
    return next(depth for depth, prefix in enumerate(DEPTHS) if path.startswith(prefix))


def one_step(rates=None, **options):
    """Returns (weights before, weights after, {name: slot}, step) of one step; nothing is clipped."""
    keras.utils.set_random_seed(0)
    model, rules = TASK.build_model(), ()
    if rates:
        rates.freeze_in(model.variables)
        rules = rates.rules()
    before = {v.path: v.numpy() for v in model.variables}
    optimizer = AdamW(RATE, layer_rules=rules)
    optimizer.build(model.trainable_variables)
    step = TrainStep(TASK, model, optimizer, StepConfig(clip_norm=1e9, **options))
    step(_batch())
    slots = {name: slot.numpy() for name, slot in optimizer.slots(model.trainable_variables).items()}
    return before, {v.path: v.numpy() for v in model.variables}, slots, step


def _batch():
    (batch,) = tiny.batches(EXAMPLES, 16)
    return batch


@pytest.fixture(scope="module")
def plain():
    return one_step()


@pytest.mark.slow
def test_what_is_in_no_layer_belongs_to_the_nearest_one():
    """The map of the embeddings, as in ELECTRA's code, and the convolution, which is parallel to the first layer."""
    frozen = [LayerRates(2, layers).is_frozen for layers in (1, 0)]
    for path in ("bert/encoder/embedding_hidden_mapping_in/kernel", "bert/encoder/conv/LayerNorm/gamma"):
        assert [is_frozen(path) for is_frozen in frozen] == [True, False]
    patterns = [pattern for pattern, *_ in LayerRates(2, layerwise_lr_decay=0.5).rules()]
    assert [re.fullmatch(each, "bert/encoder/conv/bias") is not None for each in patterns] == [False, True, False]
    assert top_layers([f"bert/encoder/layer_{n}/a" for n in range(2)], 2)[:2] == tuple(patterns[1:])


FROZEN = {1: DEPTHS[:2], 2: DEPTHS[:3], "all": (*DEPTHS[:3], "bert/pooler/")}


@pytest.mark.slow
@pytest.mark.parametrize("freeze", [1, *(pytest.param(freeze, marks=pytest.mark.slow) for freeze in (2, "all"))])
def test_frozen_layers_stay_to_the_bit_and_the_others_move_as_ever(plain, freeze):
    before, after, slots, step = one_step(LayerRates(2, freeze))
    frozen = {path for path in before if path.startswith(FROZEN[freeze])}
    assert frozen and {v.path for v in step.model.trainable_variables} == before.keys() - frozen
    assert {name.rpartition("/")[0] for name in slots} == before.keys() - frozen
    for path, value in after.items():
        np.testing.assert_array_equal(value, (before if path in frozen else plain[1])[path], err_msg=path)
        assert path in frozen or (value != before[path]).any(), path


@pytest.mark.slow
def test_no_gradient_is_computed_for_what_is_frozen(plain):
    """The graph of forward and backward has a product more for each kernel, and for the input of each."""

    def products(step):
        denominators = step.task.loss_normalizers(_batch())
        graph = step._micro_step.get_concrete_function(_batch(), denominators, tf.zeros(2, tf.int32), 1.0).graph
        return sum(op.type in ("MatMul", "BatchMatMulV2") for op in graph.get_operations())

    everything, one, head = (products(step) for *_, step in (plain, one_step(LayerRates(2, 1)),
                                                             one_step(LayerRates(2, "all"))))  # fmt: skip
    forward = 2 * (6 + 2) + 2  # of each layer six linear maps, scores and mixing; pooler and head
    assert head == forward + 1
    assert forward < head < one < everything
    assert everything - one > 20  # a layer's backward pass


@pytest.mark.slow
def test_freezing_works_with_rematerialized_layers(plain):
    task = ClassificationTask(tiny.config(num_hidden_layers=2), 2, gradient_checkpointing=True)
    keras.utils.set_random_seed(0)
    model, rates = task.build_model(), LayerRates(2, 1)
    rates.freeze_in(model.variables)
    optimizer = AdamW(RATE, layer_rules=rates.rules())
    optimizer.build(model.trainable_variables)
    TrainStep(task, model, optimizer, StepConfig(clip_norm=1e9))(_batch())
    for v in model.variables:
        expected = plain[0 if v.path.startswith(FROZEN[1]) else 1][v.path]
        np.testing.assert_allclose(v.numpy(), expected, rtol=0, atol=1e-5, err_msg=v.path)


@pytest.mark.slow
def test_each_layer_has_its_rate_and_the_moments_are_as_ever(plain):
    before, after, slots, _ = one_step(LayerRates(2, layerwise_lr_decay=0.5))
    factors = (1 / 8, 1 / 4, 1 / 2, 1)
    for path, start in before.items():
        m, v = (slots[f"{path}/{name}"].astype(np.float64) for name in ("adam_m", "adam_v"))
        assert (slots[f"{path}/adam_m"] == plain[2][f"{path}/adam_m"]).all() and v.any() == m.any()
        decay = 0.0 if path.endswith(("bias", "gamma", "beta")) else 0.01
        rate = RATE * factors[_depth(path)]
        expected = start - rate * (m / (np.sqrt(v) + 1e-6) + decay * start)
        np.testing.assert_allclose(after[path], expected, rtol=0, atol=1e-3 * rate + 6e-8, err_msg=path)


def _run(folder, rates=None, steps=9, **changes):
    values = {"learning_rate": RATE, "save_checkpoints_steps": 1, "keep_checkpoints": 100, "layer_rates": rates}
    values["keep_optimizer"] = True
    return RunConfig(os.fspath(folder), 8, steps, **{**values, **changes})


def _fit(run, kill_after=None, seed=0):
    runs.fit(TASK, run, kill_after, seed)


def _ours(name):
    """Returns the depth of a name in a checkpoint, in which the head has no scope; None: of the run."""
    if name.startswith("training/") or name == "global_step":
        return None
    return _depth(name) if name.startswith("bert/") else 3


@pytest.mark.slow
def test_layers_thaw_one_by_one_from_the_top_and_do_not_move_before(tmp_path):
    _fit(_run(tmp_path, LayerRates(2, unfreeze_steps=2)))
    steps = [saved(tmp_path, step) for step in range(1, 10)]
    thawed = (7, 5, 3, 1)  # embeddings, layer_0, layer_1, head and pooler: the first step that moves them
    for name, first in steps[0].items():
        if (depth := _ours(name)) is None:
            continue
        is_slot = name.endswith(("/adam_m", "/adam_v"))
        for step in range(1, thawed[depth]):
            np.testing.assert_array_equal(steps[step - 1][name], np.zeros_like(first) if is_slot else first)
        if name.endswith(("kernel", "kernel/adam_m", "kernel/adam_v")):
            for step in range(max(2, thawed[depth]), 10):
                assert (steps[step - 1][name] != steps[step - 2][name]).any(), (name, step)


@pytest.mark.slow
def test_until_they_thaw_it_is_as_if_they_were_frozen(tmp_path):
    """To the clipping: the gradients of what does not move must not shrink those of what does."""
    _fit(_run(tmp_path / "thawing", LayerRates(2, unfreeze_steps=3), 3))
    _fit(_run(tmp_path / "frozen", LayerRates(2, 2), 3))
    thawing, frozen = saved(tmp_path / "thawing", 3), saved(tmp_path / "frozen", 3)
    assert frozen.keys() < thawing.keys()
    for name in frozen.keys() - {"training/settings", "training/unreported"}:
        np.testing.assert_allclose(thawing[name], frozen[name], rtol=0, atol=1e-7, err_msg=name)


ALL_AT_ONCE = LayerRates(2, 1, 0.7, 3)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "lamb"])
def test_a_run_resumed_while_layers_thaw_is_one_that_never_stopped_to_the_bit(tmp_path, optimizer):
    values = {"save_checkpoints_steps": 4, "optimizer": optimizer}
    _fit(_run(tmp_path / "whole", ALL_AT_ONCE, **values))
    for kill_after, seed in ((5, 0), (8, 3), (None, 4)):
        _fit(_run(tmp_path / "parts", ALL_AT_ONCE, **values), kill_after, seed=seed)
    whole = saved(tmp_path / "whole", 9)
    assert_equal(whole, saved(tmp_path / "parts", 9))
    weights = {v.path.removeprefix("classifier/") for v in TASK.build_model().variables}
    frozen = {name for name in weights if name.startswith(FROZEN[1])}
    assert weights < whole.keys() and {n for n in weights if f"{n}/adam_m" not in whole} == frozen
    assert all(np.isfinite(whole[name]).all() for name in weights)


@pytest.mark.slow
def test_a_run_goes_on_with_the_same_layers_only(tmp_path):
    _fit(_run(tmp_path, LayerRates(2, 1), 1))
    with pytest.raises(ValueError, match=r"Changed: layer_rates: \{'freeze_layers': 1, .*\} before, None now\."):
        _fit(_run(tmp_path, None, 1))


@pytest.mark.slow
def test_layers_that_all_move_alike_are_a_run_without_layer_rates(tmp_path):
    assert _run(tmp_path).identity() == _run(tmp_path, LayerRates(2)).identity()


@pytest.fixture(scope="module")
def init(tmp_path_factory):
    """A checkpoint in which no variable has the value that a new one has."""
    folder = tiny.checkpoint(tmp_path_factory.mktemp("init"), num_hidden_layers=2)
    prefix, rng = os.fspath(folder / "bert_model.ckpt"), np.random.default_rng(0)
    noisy = {n: (v + 0.02 * rng.normal(size=v.shape)).astype(np.float32) for n, v in tf1.read_tensors(prefix).items()}
    tf1.write_tensors(prefix, noisy)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_top_layers_and_the_pooler_start_anew_and_the_others_do_not(tmp_path, init, layers, caplog):
    run = _run(tmp_path, steps=1, num_warmup_steps=1, reinit_layers=layers, init_checkpoint=os.fspath(init))
    with caplog.at_level(logging.WARNING):
        _fit(run)  # the first step of a warm-up has rate 0
    (warning,) = [r.getMessage() for r in caplog.records if "random weights" in r.getMessage()]
    assert warning.startswith(f"The top {layers} layers and the pooler start from random weights, not from {init}")
    assert "bert/encoder/layer_1/.*" in warning and f"{16 * layers + 2} variables" in warning
    before, after = tf1.read_tensors(os.fspath(init / "bert_model.ckpt")), saved(tmp_path, 1)
    anew = ("bert/pooler/", *DEPTHS[3 - layers : 3])
    for name, value in before.items():
        assert (after[name] != value).any() if name.startswith(anew) else (after[name] == value).all(), name
    assert (after["bert/encoder/layer_1/output/LayerNorm/gamma"] == 1).all()


@pytest.mark.slow
def test_a_resumed_run_starts_nothing_anew(tmp_path, init):
    values = {"steps": 4, "reinit_layers": 1, "init_checkpoint": os.fspath(init), "save_checkpoints_steps": 2}
    _fit(_run(tmp_path / "whole", **values))
    _fit(_run(tmp_path / "parts", **values), kill_after=3)
    _fit(_run(tmp_path / "parts", **values), seed=7)
    assert_equal(saved(tmp_path / "whole", 4), saved(tmp_path / "parts", 4))
    with pytest.raises(ValueError, match=r"Changed: reinit_layers: 1 before, 2 now\."):
        _fit(_run(tmp_path / "parts", **{**values, "reinit_layers": 2}))


@pytest.mark.slow
def test_more_layers_than_there_are_cannot_start_anew(tmp_path, init):
    with pytest.raises(ValueError, match=r"`reinit_layers` must be at most 2, the number of layers; got 3\."):
        _fit(_run(tmp_path / "out", reinit_layers=3, init_checkpoint=os.fspath(init)))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_log_says_what_becomes_of_the_layers():
    assert LayerRates(12, 3).describe(100) == "Layers: frozen: the embeddings and 3 of the layers."
    assert LayerRates(2, "all").describe(100) == "Layers: frozen: the encoder."
    assert LayerRates(2, layerwise_lr_decay=0.5).describe(9) == (
        "Layers: learning rate: times 0.5 per layer, 0.125 at the embeddings."
    )
    thawing, never = "Layers: unfreezing: one more layer from the top every 10 steps", "1 of them, the lowest, NEVER in"
    assert LayerRates(2, unfreeze_steps=10).describe(31) == f"{thawing}."
    assert LayerRates(2, unfreeze_steps=10).describe(30) == f"{thawing}; {never} these 30 steps."
    assert LayerRates(2, 1, unfreeze_steps=10).describe(10).endswith(f"{never} these 10 steps.")
