"""Flags of the demo."""

from bert_tf import names
from bert_tf.settings import Flag

DEMO = (
    Flag("demo_dir", "demo", "Where everything is put."),
    Flag("precision", "float32", "Of the arithmetic in training.", choices=names.PRECISIONS),
    Flag("num_train_epochs", 2.0, "Passes over the text.", "float", low=0),
    Flag("seed", 1, "For the order and dropout.", "integer", low=0),
)
