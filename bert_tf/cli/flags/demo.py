"""Flags of the demo."""

from bert_tf.utils import names
from bert_tf.utils.settings import Flag

DEMO = (
    Flag("demo_dir", "demo", "Where everything is put."),
    Flag("precision", "auto", "Of the arithmetic in training; auto: mixed_bfloat16 where the processor computes in it, "
         "else float32.", choices=("auto", *names.PRECISIONS)),  # fmt: skip
    Flag("num_train_epochs", None, "Passes over the text; default: from 1 to 2, as many as take a few minutes on this "
         "machine.", "float", low=0),  # fmt: skip
    Flag("seed", 1, "For the order and dropout.", "integer", low=0),
)
