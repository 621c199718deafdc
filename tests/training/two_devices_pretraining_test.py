"""Pretraining on two devices does what it does on one: what is drawn for a row is the same wherever it is computed."""

import json

import numpy as np
import pytest

from tests import processes


@pytest.mark.slow
def test_replaced_tokens():
    done = processes.run("-m", "tests.training.two_devices_pretraining")
    assert done.returncode == 0, done.stderr[-4000:]
    one, *others = json.loads(done.stdout).values()
    assert len(one) == 6 and one[-1]["loss"] < one[0]["loss"]
    for other in others:
        for name in ("loss", "masked_lm_loss", "replaced_loss"):
            found, expected = ([step[name] for step in steps] for steps in (other, one))
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=name)
