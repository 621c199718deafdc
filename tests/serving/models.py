"""Small SavedModels with the signatures that exports have, and broken ones."""

import atexit
import contextlib
import functools
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import classification_pb2, predict_pb2, prediction_log_pb2

from bert_tf.serving.server.server import Server, serve
from bert_tf.serving.server.session_bundle import Bundle
from bert_tf.serving.server.versions import Loading

# How versions are loaded where the test is not about their warm-up, which takes most of the time.
QUICK = Loading(Bundle(enable_model_warmup=False))
SHARED = "BERT_TF_TEST_EXPORTS"  # environment variable: folder of the exports that all processes of a run share
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

    @tf.function(input_signature=[_TEXT])  # one function for all signatures: the smaller, the sooner it is loaded
    def _classify(self, text):
        words = tf.raw_ops.StringSplitV2(input=text, sep="")
        known = tf.cast(self.table.lookup(words.values) >= 0, tf.int32)
        good = tf.math.unsorted_segment_max(known, words.indices[:, 0], words.shape[0]) > 0
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
    shutil.copytree(made_once(f"film-{ballast}", lambda folder: _save(folder, ballast)), aside)
    set_variable(aside, "tag", tag)
    if default != "text":
        set_default_signature(aside, default)
    if warm:
        write_warmup(aside)
    aside.rename(base / str(version))
    return base / str(version)


def serve_quickly(base: pathlib.Path, name: str = "film", **options) -> Server:
    """Serves what is under `base`, without looking for new versions and without warm-up."""
    return serve(str(base), name, **{"poll_seconds": 0, "bundle": QUICK.bundle} | options)


def made_once(name: str, write: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """Returns the folder of an export that write(folder) makes: once a run, since copies take much less time."""
    folder = _shared_folder() / name
    if not folder.exists():
        aside = pathlib.Path(tempfile.mkdtemp(dir=folder.parent)) / name
        write(aside)
        with contextlib.suppress(OSError):  # another process was sooner
            aside.rename(folder)
    return folder


@functools.cache
def _shared_folder():
    if SHARED in os.environ:
        folder = pathlib.Path(os.environ[SHARED])
        folder.mkdir(exist_ok=True)
        return folder
    folder = pathlib.Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    return folder


def _save(folder, ballast):
    vocabulary = folder.with_name("vocab.txt")
    vocabulary.write_text("fine\ngood\n")
    module = Film(str(vocabulary), ballast=ballast)
    signatures = {name: getattr(module, name) for name in ("pair", "numbers", "echo", "classify", "regress")}
    tf.saved_model.save(module, str(folder), {"serving_default": module.text} | signatures)
    vocabulary.unlink()  # so that only the asset is left
    _name_methods(folder)


def set_variable(folder: pathlib.Path, name: str, value: float):
    """Gives a variable of an export another value."""
    prefix, key = str(folder / "variables" / "variables"), f"{name}/.ATTRIBUTES/VARIABLE_VALUE"
    reader = tf.train.load_checkpoint(prefix)
    values = {each: reader.get_tensor(each) for each in reader.get_variable_to_shape_map()}
    assert key in values
    values[key] = np.float32(value)
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=list(values), shape_and_slices=[""] * len(values), tensors=list(values.values())
    )


def set_default_signature(folder: pathlib.Path, name: str):
    """Makes the default signature of an export the one of that name."""
    path = folder / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    signatures = saved.meta_graphs[0].signature_def
    signatures["serving_default"].CopyFrom(signatures[name])
    path.write_bytes(saved.SerializeToString())


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
