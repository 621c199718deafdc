"""What the tests of models share."""

import pytest

from bert_tf.models.training_ops import program_scope


@pytest.fixture
def unfused():
    """Runs element-wise operations one by one, as in a program that is compiled whole.

    Outside of one, XLA compiles them anew for each shape, which is most of the time of a tiny model.
    """
    with program_scope(True):
        yield
