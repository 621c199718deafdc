"""The optimizers by name."""

from bert_tf.training.lamb import Lamb
from bert_tf.training.optimizer import AdamW

# Name on the command line -> factory(learning rate or schedule).
OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb}
