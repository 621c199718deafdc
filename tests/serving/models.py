"""Small SavedModels with the signatures that exports have, and broken ones."""

import atexit
import functools
import os
import pathlib
import shutil
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import classification_pb2, predict_pb2, prediction_log_pb2

from bert_tf.serving.server.options import Bundle
from bert_tf.serving.server.versions import Loading

# How versions are loaded where the test is not about their warm-up, which takes most of the time.
QUICK = Loading(Bundle(enable_model_warmup=False))
_TEXT = tf.TensorSpec([None], tf.string, "text")
_EXAMPLES = tf.TensorSpec([None], tf.string, "inputs")


class Film(tf.Module):
    """Calls a text "good" that has a word of the vocabulary; `tag` in the label's probability tells versions apart.

    Signatures: serving_default (text), pair (text_a, text_b), numbers (x, scale), classify, regress.
    """

    def __init__(self, vocabulary: str, tag: float = 0.75, ballast: int = 1):
        self.vocabulary = tf.saved_model.Asset(vocabulary)
        self.tag = tf.Variable(tag)
        self.ballast = tf.Variable(tf.random.stateless_normal([ballast, 256], (1, 2)))
        line, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
        words = tf.lookup.TextFileInitializer(vocabulary, tf.string, line, tf.int64, number)
        self.table = tf.lookup.StaticHashTable(words, -1)

    def _classify(self, text):
        known = self.table.lookup(tf.strings.split(text)).to_tensor(-1)
        good = tf.reduce_any(known >= 0, -1)
        kept = self.tag + 0 * self.ballast[0, 0]  # the ballast is weights that no optimizer can drop
        first = tf.where(good, 1 - kept, kept)
        probabilities = tf.stack([first, 1 - first], -1)
        names = tf.constant(["bad", "good"])
        return {
            "label": tf.gather(names, tf.argmax(probabilities, -1)),
            "probabilities": probabilities,
            "labels": tf.tile(names[None], [tf.size(text), 1]),
        }

    @tf.function(input_signature=[_TEXT])
    def text(self, text):
        return self._classify(text)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name) for name in ("text_a", "text_b")])
    def pair(self, text_a, text_b):
        return self._classify(text_a + " " + text_b)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "scale")])
    def numbers(self, x, scale):
        return {"y": x * tf.cast(scale, tf.float32)[:, None], "total": tf.cast(scale, tf.int64)}

    @tf.function(input_signature=[_EXAMPLES])
    def classify(self, inputs):
        found = self._classify(self._parsed(inputs))
        return {"classes": found["labels"], "scores": found["probabilities"]}

    @tf.function(input_signature=[_EXAMPLES])
    def regress(self, inputs):
        return {"outputs": self._classify(self._parsed(inputs))["probabilities"][:, 1]}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "image_bytes")])
    def echo(self, image_bytes):
        return {"image_bytes": image_bytes}

    @staticmethod
    def _parsed(inputs):
        return tf.io.parse_example(inputs, {"text": tf.io.FixedLenFeature([], tf.string)})["text"]


def export(base: pathlib.Path, version: int, tag: float = 0.75, ballast: int = 1, warm: bool = False, default="text"):
    """Writes `base`/`version`, published by rename, with `Film.<default>` as default signature; returns its path."""
    aside = base / f"writing-{version}"
    shutil.copytree(_exported(tag, ballast, default), aside)
    if warm:
        write_warmup(aside)
    aside.rename(base / str(version))
    return base / str(version)


@functools.cache
def _exported(tag, ballast, default):
    """Returns the folder of a version, made once: to trace and to save takes much longer than to copy."""
    folder = pathlib.Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("fine\ngood\n")
    module = Film(str(vocabulary), tag, ballast)
    names = {
        "serving_default": getattr(module, default),
        "pair": module.pair,
        "numbers": module.numbers,
        "echo": module.echo,
    }
    exported = folder / "exported"
    tf.saved_model.save(module, str(exported), names | {"classify": module.classify, "regress": module.regress})
    vocabulary.unlink()  # so that only the asset is left
    _name_methods(exported)
    return exported


def write_warmup(folder: pathlib.Path, requests: int = 1):
    """Puts Predict and Classify requests into the folder's warm-up file."""
    file = folder / "assets.extra" / "tf_serving_warmup_requests"
    file.parent.mkdir()
    predict = predict_pb2.PredictRequest()
    predict.inputs["text"].CopyFrom(tf.make_tensor_proto(["a fine film"]))
    classify = classification_pb2.ClassificationRequest()
    classify.model_spec.signature_name = "classify"
    classify.input.example_list.examples.append(example("a fine film"))
    with tf.io.TFRecordWriter(str(file)) as writer:
        for _ in range(requests):
            for kind, request in (("predict_log", predict), ("classify_log", classify)):
                log = prediction_log_pb2.PredictionLog()
                getattr(log, kind).request.CopyFrom(request)
                writer.write(log.SerializeToString())


def example(text: str) -> tf.train.Example:
    values = tf.train.BytesList(value=[text.encode()])
    return tf.train.Example(features=tf.train.Features(feature={"text": tf.train.Feature(bytes_list=values)}))


def truncate(file: pathlib.Path):
    os.truncate(file, file.stat().st_size // 2)


def variables(version: pathlib.Path) -> pathlib.Path:
    return version / "variables" / "variables.data-00000-of-00001"


def expected(tag: float, good: bool) -> np.ndarray:
    """The probabilities of "bad" and "good" that version `tag` gives, float32 [2]."""
    return np.array([1 - tag, tag] if good else [tag, 1 - tag], np.float32)


def _name_methods(folder):
    """Writes the method names that TensorFlow Serving's documentation asks for; tf.saved_model.save has only one."""
    path = folder / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for name in ("classify", "regress"):
        saved.meta_graphs[0].signature_def[name].method_name = f"tensorflow/serving/{name}"
    path.write_bytes(saved.SerializeToString())
