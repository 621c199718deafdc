"""BERT's Adam against a plain numpy version of google-research/bert's AdamWeightDecayOptimizer."""

import contextlib
import functools
import json
import pathlib
import subprocess

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training.adamw import AdamW, is_decayed
from bert_tf.training.schedules import WarmupLinearDecay
from tests import other_envs, tiny

TORCH = pathlib.Path(__file__).parents[1] / "goldens" / "adamw.json"
PATHS = ("layer/kernel", "layer/bias", "layer/LayerNorm/gamma")
SHAPES = ([3, 4], [4], [4])


def make_variables():
    rng = np.random.default_rng(0)
    made = []
    for path, shape in zip(PATHS, SHAPES, strict=True):
        *scopes, name = path.split("/")
        with contextlib.ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(keras.name_scope(scope))
            made.append(keras.Variable(0.1 * rng.normal(size=shape), name=name, dtype="float32"))
    assert [v.path for v in made] == list(PATHS)
    return made


def _google(weights, gradients, rate_of, corrects=False):
    """optimization.py, AdamWeightDecayOptimizer.apply_gradients, in float64; or with bias correction."""
    m, v = ([np.zeros(w.shape) for w in weights] for _ in range(2))
    weights = [w.astype(np.float64) for w in weights]
    for step, grads in enumerate(gradients):
        for i, g in enumerate(grads):
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * g * g
            first, second = (1 - 0.9 ** (step + 1), 1 - 0.999 ** (step + 1)) if corrects else (1, 1)
            update = m[i] / first / (np.sqrt(v[i] / second) + 1e-6)
            if PATHS[i] == "layer/kernel":
                update = update + 0.01 * weights[i]
            weights[i] = weights[i] - rate_of(step) * update
    return weights, m, v


def test_ten_steps_equal_google_s_formula():
    variables, rng = make_variables(), np.random.default_rng(1)
    sizes = 10.0 ** np.arange(-6, 4)  # the small ones show epsilon
    gradients = [[(size * rng.normal(size=shape)).astype(np.float32) for shape in SHAPES] for size in sizes]
    schedule = WarmupLinearDecay(1e-3, 20, 3)
    expected, m, v = _google([x.numpy() for x in variables], gradients, lambda step: float(schedule(step)))
    optimizer = AdamW(schedule)
    optimizer.build(variables)
    for grads in gradients:
        optimizer.apply([tf.constant(g) for g in grads], variables)
    # 1 - 0.999 is off by 1.3e-5 of itself in float32, in which TensorFlow computes it.
    slots = optimizer.slots(variables)
    assert list(slots)[:2] == ["layer/kernel/adam_m", "layer/kernel/adam_v"]
    for i, path in enumerate(PATHS):
        np.testing.assert_allclose(variables[i].numpy(), expected[i], rtol=0, atol=1e-6)
        np.testing.assert_allclose(slots[f"{path}/adam_m"].numpy(), m[i], rtol=2e-5)
        np.testing.assert_allclose(slots[f"{path}/adam_v"].numpy(), v[i], rtol=2e-5)


RULES = ((".*/kernel", 0.25, 0), (".*/bias", 0.5, 4))  # gamma: 1, from the start


def assert_paces(optimizer_class, formula):
    """Ten steps; what begins to move in the fifth moves as a run does that begins there, at its own rate."""
    rng, schedule = np.random.default_rng(1), WarmupLinearDecay(1e-3, 20, 3)
    gradients = [[rng.normal(size=shape).astype(np.float32) for shape in SHAPES] for _ in range(10)]
    variables = make_variables()
    start = [v.numpy() for v in variables]
    optimizer = optimizer_class(schedule, layer_rules=RULES)
    optimizer.build(variables)
    for step, grads in enumerate(gradients):
        optimizer.apply([tf.constant(g) for g in grads], variables)
        assert (variables[1].numpy() != start[1]).any() == (step >= 4)
        assert all(s.numpy().any() == (step >= 4) for n, s in optimizer.slots(variables).items() if "/bias/" in n)
    for i, (factor, first) in enumerate(((0.25, 0), (0.5, 4), (1.0, 0))):

        def rate_of(step, factor=factor, first=first):
            return factor * float(schedule(step + first))

        expected, m, _ = formula(start, gradients[first:], rate_of)
        np.testing.assert_allclose(variables[i].numpy(), expected[i], rtol=0, atol=1e-6, err_msg=PATHS[i])
        np.testing.assert_allclose(optimizer.slots(variables)[f"{PATHS[i]}/adam_m"].numpy(), m[i], rtol=2e-5, atol=1e-7)


def test_each_variable_has_its_own_rate_and_first_step():
    assert_paces(AdamW, _google)
    assert_paces(functools.partial(AdamW, bias_correction=True), functools.partial(_google, corrects=True))


def test_with_bias_correction_it_is_torch_s_to_the_millionth():
    torch = json.loads(TORCH.read_text(encoding="utf-8"))
    variables, rates = make_variables(), torch["rates"]
    for variable in variables:
        variable.assign(torch["start"][variable.path])
    optimizer = AdamW(rates[0], **torch["numbers"], bias_correction=True)
    optimizer.build(variables)
    for step, rate in enumerate(rates):
        optimizer.learning_rate = rate
        optimizer.apply([tf.constant(torch["gradients"][path][step]) for path in PATHS], variables)
    slots = optimizer.slots(variables)
    for variable in variables:
        path, moved = variable.path, np.subtract(torch["end"][variable.path], torch["start"][variable.path])
        assert np.abs(moved).max() > 1e-3
        np.testing.assert_allclose(variable.numpy(), torch["end"][path], rtol=0, atol=1e-6, err_msg=path)
        np.testing.assert_allclose(slots[f"{path}/adam_m"].numpy(), torch["exp_avg"][path], rtol=2e-5)
        np.testing.assert_allclose(slots[f"{path}/adam_v"].numpy(), torch["exp_avg_sq"][path], rtol=2e-5)


@pytest.mark.slow
def test_torch_gives_what_is_kept(tmp_path):
    subprocess.run([other_envs.torch_python(), "-B", TORCH.with_name("torch_adamw.py"), tmp_path / "again"], check=True)
    kept, again = (json.loads(path.read_text(encoding="utf-8")) for path in (TORCH, tmp_path / "again"))
    assert kept["gradients"] == again["gradients"] and kept["numbers"] == again["numbers"]
    for path in PATHS:
        np.testing.assert_allclose(again["end"][path], kept["end"][path], rtol=0, atol=1e-7)


def test_a_checkpoint_does_not_know_of_bias_correction():
    """A run of before, and one with it, have the same slots: what is corrected is computed from the step's number."""
    variables = make_variables()
    names = []
    for corrects in (False, True):
        optimizer = AdamW(bias_correction=corrects)
        optimizer.build(variables)
        names.append(list(optimizer.slots(variables)))
        assert AdamW.from_config(optimizer.get_config()).bias_correction is corrects
    assert names[0] == names[1]


def test_gradients_of_what_does_not_move_yet_are_nothing():
    variables = make_variables()
    optimizer = AdamW(layer_rules=RULES)
    optimizer.build(variables)
    gradients = [tf.fill(shape, np.float32(np.inf)) for shape in SHAPES]  # not even an overflow is seen
    for step, moves in ((0, False), (3, False), (4, True)):
        optimizer.iterations.assign(step)
        kernel, bias, gamma = (g.numpy() for g in optimizer.mask_frozen_gradients(gradients, variables))
        assert np.isinf(kernel).all() and np.isinf(gamma).all()
        assert np.isinf(bias).all() if moves else (bias == 0).all()


def test_every_variable_of_a_model_is_covered_and_the_right_ones_decay():
    model = ClassificationTask(tiny.config(), 2).build_model()
    decayed = {v.path for v in model.trainable_variables if is_decayed(v.path)}
    kept = {v.path for v in model.trainable_variables} - decayed
    assert {path.rsplit("/", 1)[1] for path in decayed} == {
        "kernel", "output_weights", "word_embeddings", "position_embeddings", "token_type_embeddings"}  # fmt: skip
    assert {path.rsplit("/", 1)[1] for path in kept} == {"gamma", "beta", "bias", "output_bias"}


def test_weights_of_a_custom_head_decay_except_biases_and_norms():
    assert is_decayed("head/kernel") and is_decayed("head/dense/thresholds")
    assert not any(map(is_decayed, ("head/bias", "head/dense/bias", "head/norm/gamma", "head/beta")))


def test_a_variable_that_no_rule_covers_is_an_error():
    with keras.name_scope("layer"):
        stranger = keras.Variable(np.zeros(2), name="temperature")
    with pytest.raises(ValueError, match=r"No weight-decay rule covers .*'layer/temperature'.*decay_rules"):
        AdamW().build([stranger])
    optimizer = AdamW(decay_rules=[(".*/temperature", False)])
    optimizer.build([stranger])
    assert set(optimizer.slots([stranger])) == {"layer/temperature/adam_m", "layer/temperature/adam_v"}


@pytest.mark.slow
def test_it_works_in_compile_and_fit_and_survives_saving(tmp_path):
    task, examples = ClassificationTask(tiny.config(), 2), tiny.tokenized(64)
    (batch,) = tiny.batches(examples, 64)
    x, y = {name: batch[name].numpy() for name in task.features}, batch["label_ids"].numpy()
    keras.utils.set_random_seed(0)
    model = task.build_model()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    rules = ((".*/embeddings/.*", 0.5, 1),)
    model.compile(AdamW(WarmupLinearDecay(2e-3, 100), layer_rules=rules), loss, jit_compile=False)
    history = model.fit(x, y, batch_size=16, epochs=15, verbose=0, shuffle=False).history["loss"]
    assert history[-1] < 0.8 * history[0]
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(again.optimizer, AdamW) and again.optimizer.decay_rules == model.optimizer.decay_rules
    assert again.optimizer.layer_rules == model.optimizer.layer_rules == rules
    both = [m.fit(x, y, batch_size=16, verbose=0, shuffle=False).history["loss"] for m in (model, again)]
    assert both[0] == pytest.approx(both[1], abs=1e-5)
