"""scikit-learn estimators for texts: `BertEmbedder`, a frozen encoder, and `BertClassifier`, which fine-tunes it."""

from bert_tf.inference.sklearn.classifier import BertClassifier
from bert_tf.inference.sklearn.embedder import BertEmbedder

__all__ = ["BertClassifier", "BertEmbedder"]
