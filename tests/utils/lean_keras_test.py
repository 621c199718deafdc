"""Keras is imported without scikit-learn and matplotlib, which others can import afterwards."""

import json
import subprocess
import sys

import keras  # noqa: F401
import pytest

from bert_tf.utils.lean_keras import import_keras_without_extras

PROGRAM = """
import json, sys
from bert_tf.utils.lean_keras import import_keras_without_extras
import_keras_without_extras()
import tensorflow as tf
import keras
found = [name for name in ("sklearn", "matplotlib") if name in sys.modules]
layer = keras.layers.Dense(2)
layer(tf.ones([1, 3]))
import matplotlib, sklearn.base
print(json.dumps([found, len(layer.weights), "bert_tf>LayerNorm" in keras.saving.get_custom_objects()]))
"""


@pytest.mark.slow
def test_keras_does_not_import_its_optional_packages_and_others_still_can():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == [[], 2, True]


def test_a_process_that_has_keras_is_left_alone():
    before = list(sys.meta_path)

    import_keras_without_extras()

    assert sys.meta_path == before
