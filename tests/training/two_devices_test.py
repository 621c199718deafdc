"""Two devices do what one does: MirroredStrategy on two virtual CPU devices, with and without XLA."""

import json

import numpy as np
import pytest

from tests import processes

pytestmark = pytest.mark.slow


def _results(cases):
    done = processes.run("-m", "tests.training.two_devices", cases)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def results():
    return _results("usual")


@pytest.fixture(scope="module")
def options():
    return _results("options")


def test_there_are_two(results):
    assert results["replicas"] == 2


def test_the_losses_of_two_are_those_of_one(results):
    assert len(results["one"]) == 20 and results["one"][-1] < 0.8 * results["one"][0]
    np.testing.assert_allclose(results["two"], results["one"], rtol=0, atol=1e-5)


def test_so_they_are_with_each_half_cut_in_two(options):
    np.testing.assert_allclose(options["two, accumulated"], options["one"][:3], rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", ["two, packed", "two, packed with XLA"])
def test_so_they_are_with_packed_examples(options, case):
    np.testing.assert_allclose(options[case], options["one"][:3], rtol=0, atol=1e-5)


def test_xla_changes_nothing(options):
    np.testing.assert_allclose(options["two, XLA"], options["one"][:8], rtol=0, atol=1e-5)


def test_layers_have_their_rates_and_thaw_on_two_as_on_one(options):
    one, two = options["layers"]
    np.testing.assert_allclose(two, one, rtol=0, atol=1e-5)
    assert abs(one[-1] - options["one"][7]) > 1e-3


def test_bias_correction_is_on_two_as_on_one(options):
    one, two = options["corrected"]
    np.testing.assert_allclose(two, one, rtol=0, atol=1e-5)
    assert abs(one[-1] - options["one"][7]) > 1e-3


def test_float16_on_two_devices(options):
    np.testing.assert_allclose(options["float16"], options["one"][:3], rtol=0, atol=2e-3)


def test_a_resumed_run_is_one_that_never_stopped_to_the_bit(results):
    stopped, again = (results["resumed"][name] for name in ("stopped", "again"))
    assert len(stopped) == 8 and len(again) == 4 and again[:3] == stopped[5:]


def test_scores_and_outputs_of_two_are_those_of_one_in_order(results):
    (scores_1, outputs_1), (scores_2, outputs_2) = results["outputs"]
    assert np.shape(outputs_1) == (66, 2)
    np.testing.assert_allclose(outputs_2, outputs_1, rtol=0, atol=1e-5)
    assert scores_2 == pytest.approx(scores_1, abs=1e-6)
    assert {"accuracy", "loss"} <= set(scores_1)


def test_a_batch_that_two_cannot_share_is_refused(results):
    assert results["uneven"] == (
        "`train_batch_size` must be a positive multiple of 2: 2 replicas times `gradient_accumulation_steps=1`; got 9."
    )


def test_a_batch_that_is_bad_on_one_device_moves_nothing_on_either(options):
    one, two = options["guarded"]
    assert one["skipped"] == two["skipped"] == [0, 0, 0, 1, 0, 0]
    assert one["unmoved"] == two["unmoved"] == [False, False, True, False, False]  # from each step to the next
    assert one["counts"] == [[1], [5]] and two["counts"] == [[1, 1], [5, 5]]
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=0, atol=1e-5)
    assert np.isnan(one["losses"]).tolist() == [False, False, False, True, False, False]
    assert all(first == second for first, second in two["means"])
    first, only = [first for first, _ in two["means"]], [mean for (mean,) in one["means"]]
    np.testing.assert_allclose(first, only, rtol=1e-4, atol=1e-5)


def test_pretraining_of_replaced_tokens_is_on_two_as_on_one():
    done = processes.run("-m", "tests.training.two_devices_pretraining")
    assert done.returncode == 0, done.stderr[-4000:]
    one, *others = json.loads(done.stdout).values()
    assert len(one) == 6 and one[-1]["loss"] < one[0]["loss"]
    for other in others:
        for name in ("loss", "masked_lm_loss", "replaced_loss"):
            found, expected = ([step[name] for step in steps] for steps in (other, one))
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=name)
