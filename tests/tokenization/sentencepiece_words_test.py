"""A SentencePiece model stays where TensorFlow clears its caches, and is freed with what holds it."""

import gc

import keras
import pytest
import tensorflow as tf

from bert_tf.models.family_registry import family
from bert_tf.tokenization.sentencepiece_words import SentencepieceWords
from bert_tf.tokenization.unigram import UnigramTokenizer
from tests import parity

FOLDER = parity.GOLDENS / "tokenizers" / "unigram"


@pytest.mark.parametrize("set_seed", [tf.random.set_seed, keras.utils.set_random_seed])
@pytest.mark.parametrize("with_graphs", [False, True])
def test_a_seed_that_is_set_later_does_no_harm(set_seed, with_graphs):
    """TensorFlow clears its kernels then, to which tensorflow-text leaves such models (tensorflow/text#570)."""
    tokenizer = UnigramTokenizer.from_directory(FOLDER, family=family("albert"))
    encode = tf.function(tokenizer.tokenize) if with_graphs else tokenizer.tokenize
    texts = tf.constant(["a good film", "bad"])
    before = encode(texts).to_list()
    set_seed(7)
    assert encode(texts).to_list() == before and all(before)


def test_memory_is_freed():
    words = SentencepieceWords((FOLDER / "spiece.model").read_bytes())
    handle = words.resource_handle
    del words
    gc.collect()
    with pytest.raises(tf.errors.NotFoundError):
        tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=False)
