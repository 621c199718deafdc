"""A model that every view can show: labels and a masked-LM head, one head pruned."""

import base64
import dataclasses
import zlib
from collections.abc import Iterator

import keras
import numpy as np

from bert_tf.checkpoints.loading import Bert
from bert_tf.interpret.page import array_text
from bert_tf.models.config import EncoderConfig
from bert_tf.models.heads import ClassificationHead
from bert_tf.models.pretraining_heads import MaskedLMHead
from tests import tiny
from tests.interpret.models import with_words

PAIR = ("The films, a [MASK] story </script><b>of</b>", "is good")


def with_all_heads(**changes) -> Bert:
    """Returns a tiny model of three labels with random weights; `changes` are of its configuration."""
    labels = ["bad", "good", "<b>so so</b>"]
    bert = with_words(ClassificationHead(len(labels), 0.0), labels, **changes)
    return dataclasses.replace(bert, others=weights_of(MaskedLMHead(len(tiny.VOCAB), width=None), bert.config))


def weights_of(head: keras.layers.Layer, config: EncoderConfig) -> dict[str, np.ndarray]:
    """Returns the weights of a head, random ones, by path, as `Bert.others` has them."""
    with keras.name_scope("cls"):
        head.build((None, None, config.hidden_size))
    rng = np.random.default_rng(3)
    return {each.path: rng.standard_normal(each.shape).astype(np.float32) for each in head.variables}


def unpack(packed: array_text.Packed) -> Iterator[np.ndarray]:
    """Yields the parts of an array again, float32, as a browser reads them."""
    types = {array_text.HALF: "<f2", array_text.ROOT: np.uint8, array_text.LINEAR: np.int8}
    for about, text in zip(packed.parts, packed.texts, strict=True):
        data = np.frombuffer(zlib.decompress(base64.b64decode(text)), types[about["kind"]]).astype(np.float32)
        if about["kind"] != array_text.HALF:
            runs = data.reshape(len(about["scales"]), -1)
            runs = runs**2 if about["kind"] == array_text.ROOT else runs
            data = runs * np.float32(about["scales"])[:, np.newaxis]
        yield data.reshape(packed.shape)
