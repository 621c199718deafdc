"""What several tests of tokenizers share."""

import pytest
import tensorflow as tf


@pytest.fixture
def run_eagerly():
    """Runs the tokenizers' functions without graphs: tracing them for each tokenizer would be most of the time."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)
