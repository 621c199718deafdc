"""Predictions with models exported for LiteRT, without TensorFlow.

    predictor = bert_tf.lite.Predictor("reviews_litert")
    predictor("A warm, funny film.")["label"]
"""

from bert_tf.lite.predictor import LitePredictor as Predictor

__all__ = ["Predictor"]
