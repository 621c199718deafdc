"""What others open a SavedModel with: saved_model_cli, and the old TensorFlow that TensorFlow Serving links."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests import other_envs
from tests.export.saved_model_test import NOT_UTF8, TEXTS

# The command saved_model_cli itself does not know tensorflow-text's ops, which every TensorFlow Serving has.
# Both of its commands in one process, for starting TensorFlow takes seconds.
CLI = """
import json, sys, tensorflow_text
from tensorflow.python.tools.saved_model_cli import main
for sys.argv in json.loads(sys.argv[1]):
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
    print("END OF", sys.argv[1])
"""


@pytest.fixture(scope="module")
def path(exported):
    return exported("classification")


def _cli(*commands):
    """Returns what each said."""
    argv = json.dumps([["saved_model_cli", *command] for command in commands])
    done = subprocess.run([sys.executable, "-c", CLI, argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return re.split(r"^END OF .*\n", done.stdout, flags=re.M)[:-1]


@pytest.mark.slow
def test_saved_model_cli_show_and_run(path):
    model = ["--dir", path, "--tag_set", "serve", "--signature_def", "serving_default"]
    shown, said = _cli(["show", *model], ["run", *model, "--input_exprs", 'text=["good film"]'])
    assert "inputs['text'] tensor_info:" in shown and "outputs['probabilities'] tensor_info:" in shown
    expected = tf.saved_model.load(path).signatures["serving_default"](text=tf.constant(["good film"]))
    numbers = said.partition("Result for output key probabilities:\n")[2].strip(" []\n").split()
    np.testing.assert_allclose([float(n.strip("[]")) for n in numbers[:2]], expected["probabilities"][0], atol=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="TensorFlow 2.12 is for Python up to 3.11")
def test_an_old_tensorflow_gives_the_same_answers(path):
    texts = [text[:10_000] for text in TEXTS]  # one argument of a command has a limit
    got = other_envs.old_tensorflow_answers(path, [*(text.encode() for text in texts), NOT_UTF8])
    serve = tf.saved_model.load(path).signatures["serving_default"]
    np.testing.assert_allclose(got, serve(text=tf.constant([*texts, NOT_UTF8]))["probabilities"], atol=1e-5)
