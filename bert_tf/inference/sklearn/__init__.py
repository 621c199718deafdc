"""scikit-learn estimators on texts: `BertEmbedder`, a frozen encoder, and `BertClassifier`, one that is fine-tuned."""

from bert_tf.inference.sklearn.classifier import BertClassifier
from bert_tf.inference.sklearn.embedder import BertEmbedder

__all__ = ["BertClassifier", "BertEmbedder"]
