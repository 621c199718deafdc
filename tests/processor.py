"""What the tests of some exports need of the CPU."""

import pytest

from bert_tf.utils.resources import INT8_SETS, instruction_sets, uses_onednn

needs_int8 = pytest.mark.skipif(
    not (uses_onednn() and instruction_sets() & set(INT8_SETS)),
    reason="needs a CPU with instructions for int8: without them, TensorFlow cannot compute in it, or less exactly",
)
