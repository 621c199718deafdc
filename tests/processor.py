"""What the tests of some exports need of the CPU."""

import pytest

from bert_tf.utils.resources import computes_int8

needs_int8 = pytest.mark.skipif(not computes_int8(), reason="needs a CPU with instructions for int8 products")
