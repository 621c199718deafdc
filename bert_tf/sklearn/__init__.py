"""scikit-learn estimators for texts: `BertEmbedder` (frozen encoder) and fine-tuned classifier, regressor, tagger."""

from bert_tf.sklearn.classifier import BertClassifier
from bert_tf.sklearn.embedder import BertEmbedder
from bert_tf.sklearn.regressor import BertRegressor
from bert_tf.sklearn.tagger import BertTagger

__all__ = ["BertClassifier", "BertEmbedder", "BertRegressor", "BertTagger"]
