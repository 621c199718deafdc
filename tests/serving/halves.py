"""Half plus two: the small models that TensorFlow Serving's own end-to-end test asks, made here."""

import pathlib

import tensorflow as tf

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
    half = Half(addend)
    signatures = {
        "serving_default": half.predict,
        "regress_x_to_y": half.regress,
        "classify_x_to_y": half.classify,
    }
    tf.saved_model.save(half, str(folder), signatures)


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
