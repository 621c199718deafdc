"""Half plus two: the small models that TensorFlow Serving's own end-to-end test asks, made here.

As a program it writes the model of Keras in the folder that it is given, made on two virtual CPU devices.
"""

import pathlib
import shutil
import sys

import tensorflow as tf

from tests.serving.models import made_once, set_variable

_EXAMPLES = tf.TensorSpec([None], tf.string, "inputs")


class Half(tf.Module):
    """x / 2 + `addend`.

    Signatures: serving_default (x -> y), regress_x_to_y, classify_x_to_y (tf.Examples with a number `x`).
    """

    def __init__(self, addend: float):
        self.factor, self.addend = tf.Variable(0.5), tf.Variable(addend)

    def _half(self, x):
        return self.factor * x + self.addend

    def _of_examples(self, inputs):
        return self._half(tf.io.parse_example(inputs, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def predict(self, x):
        return {"y": self._half(x)}

    @tf.function(input_signature=[_EXAMPLES])
    def regress(self, inputs):
        return {"outputs": self._of_examples(inputs)}

    @tf.function(input_signature=[_EXAMPLES])
    def classify(self, inputs):
        return {"scores": self._of_examples(inputs)}


def save(folder: pathlib.Path, addend: float):
    """Writes the version in `folder`, as `tf.saved_model.save` does."""

    def write(exported):
        half = Half(addend)
        signatures = {"serving_default": half.predict, "regress_x_to_y": half.regress, "classify_x_to_y": half.classify}
        tf.saved_model.save(half, str(exported), signatures)

    shutil.copytree(made_once("half", write), folder)
    set_variable(folder, "addend", addend)


def save_with_session(folder: pathlib.Path, addend: float, tags=("serve",)):
    """Writes the version in `folder` as TensorFlow 1 did, all signatures on one graph and one placeholder."""
    v1 = tf.compat.v1
    build, method = v1.saved_model.signature_def_utils.build_signature_def, "tensorflow/serving/"
    with v1.Session(graph=tf.Graph()) as session:
        examples = v1.placeholder(tf.string, [None], "examples")
        x = tf.identity(v1.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"], "x")
        factor, add = v1.get_variable("factor", initializer=0.5), v1.get_variable("addend", initializer=addend)
        session.run(v1.global_variables_initializer())
        text, number, half = (v1.saved_model.utils.build_tensor_info(each) for each in (examples, x, factor * x + add))
        signatures = {
            "serving_default": build({"x": number}, {"y": half}, method + "predict"),
            "regress_x_to_y": build({"inputs": text}, {"outputs": half}, method + "regress"),
            "classify_x_to_y": build({"inputs": text}, {"scores": half}, method + "classify"),
        }
        builder = v1.saved_model.builder.SavedModelBuilder(str(folder))
        builder.add_meta_graph_and_variables(session, list(tags), signatures)
        builder.save()


def save_keras(folder: pathlib.Path, devices=()):
    """Writes the version in `folder`: a Keras model [n, 1] -> [n, 1] that changes nothing, made on `devices`."""
    strategy = tf.distribute.MirroredStrategy(devices) if devices else tf.distribute.get_strategy()
    with strategy.scope():
        model = tf.keras.Sequential([
            tf.keras.layers.Input((1,), name="x"),
            tf.keras.layers.Dense(1, kernel_initializer="ones", bias_initializer="zeros"),
            tf.keras.layers.Lambda(lambda x: x, name="y"),
        ])  # fmt: skip
    # Of what tf.saved_model.save makes of a model of Keras 3, TensorFlow's sessions do not restore the weights.
    model.export(str(folder), verbose=False)


if __name__ == "__main__":
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    save_keras(pathlib.Path(sys.argv[1]), ["/cpu:0", "/cpu:1"])
