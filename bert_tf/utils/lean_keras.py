"""Imports Keras without the packages that it uses only for wrappers and plots.

Keras imports scikit-learn and matplotlib if they are installed, which takes a third of the time of TensorFlow's import
and 60 MiB of memory. Keras then lacks `keras.wrappers` and its plots of images; everything else, such as the metrics of
bert_tf, imports these packages when it needs them.
"""

import sys

from bert_tf.utils.keras_names import KerasFinder

_OPTIONAL = ("sklearn", "matplotlib")


def import_keras_without_extras():
    """Makes the first import of Keras, by any module, skip scikit-learn and matplotlib in this process."""
    if "keras" not in sys.modules:
        sys.meta_path.insert(0, KerasFinder(_execute_without_extras))


def _execute_without_extras(execute, keras):
    hidden = [name for name in _OPTIONAL if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # None: an import of it raises ImportError
    try:
        execute(keras)
    finally:
        for name in hidden:
            del sys.modules[name]
