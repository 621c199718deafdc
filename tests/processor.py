"""What the tests of some exports need of the CPU."""

import pytest

from bert_tf.utils.resources import INT8_SETS, instruction_sets, uses_onednn

COMPUTES_INT8 = bool(uses_onednn() and instruction_sets() & set(INT8_SETS))
_REASON = "needs a CPU with instructions for int8: without them, TensorFlow cannot compute in it, or less exactly"

needs_int8 = pytest.mark.skipif(not COMPUTES_INT8, reason=_REASON)


def skip_without_int8():
    """Skips the test that runs, or asks for the fixture that runs, where `needs_int8` would have skipped it."""
    if not COMPUTES_INT8:
        pytest.skip(_REASON)
