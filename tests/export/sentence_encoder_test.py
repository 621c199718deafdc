"""A sentence-transformers directory, exported as it comes: its vectors through the server's graph are its own."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export.trained_model import export_trained
from bert_tf.inference.sentence_encoder import SentenceEncoder
from tests import sentence_folders, tiny

NORMALIZED = (*sentence_folders.PLAIN, ("Normalize", "2_Normalize"))
TEXTS = ["a warm film .", "the story of people and music , the story of people and music", "", "Good"]


@pytest.mark.slow
def test_vectors_without_training(tmp_path):
    folder = tiny.checkpoint(tmp_path / "model")
    pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}
    sentence_folders.write(
        folder, NORMALIZED, **{"1_Pooling__config": pooling, "sentence_bert_config": {"max_seq_length": 8}}
    )
    served = tf.saved_model.load(export_trained(str(folder), str(tmp_path / "export")))
    found = served.signatures["serving_default"](text=tf.constant(TEXTS))["embedding"]
    np.testing.assert_allclose(found, SentenceEncoder(folder)(TEXTS), atol=1e-6)
    assert found.shape == (4, 64)


def test_what_cannot_be_exported(tmp_path):
    folder = tiny.checkpoint(tmp_path / "model")
    with pytest.raises(ValueError, match="A trained model must have task.json"):
        export_trained(str(folder), str(tmp_path / "export"))
    dense = {"2_Dense__config": {"in_features": 32, "out_features": 8}}
    sentence_folders.write(folder, (*sentence_folders.PLAIN, ("Dense", "2_Dense")), **dense)
    with pytest.raises(ValueError, match="`model` must be a model of an encoder, .* with Dense modules"):
        export_trained(str(folder), str(tmp_path / "export"))
