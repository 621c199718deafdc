"""Flags of training: what is done, where it goes, and how a step is made."""

from bert_tf.cli.flags.conversion import SAVE
from bert_tf.cli.flags.devices import DEVICES
from bert_tf.utils import names
from bert_tf.utils.settings import Flag, with_attributes

# How the optimizer moves the weights; `training.optimizers.AdamConfig` has the same names.
_OPTIMIZER = (
    Flag("learning_rate", 5e-5, "The peak of Adam's rate.", "float", low=0),
    Flag("schedule", "linear", "How the rate falls behind the warm-up.", choices=names.SCHEDULES),
    Flag("weight_decay_rate", 0.01, "Share of each weight, times the rate, that a step takes away; not of LayerNorm "
         "and biases.", "float", low=0),  # fmt: skip
    Flag("adam_beta1", 0.9, "How much of the mean of the gradients stays from step to step.", "float", low=0, high=1),
    Flag("adam_beta2", 0.999, "The same of the mean of their squares.", "float", low=0, high=1),
    Flag("adam_epsilon", 1e-6, "Added to the root of that mean.", "float", low=0),
    Flag("clip_norm", 1.0, "Gradients whose norm over all weights is above this are scaled down to it; 0: none are.",
         "float", low=0),  # fmt: skip
    Flag("bias_correction", False, "Correct both means for having begun at 0, as Adam does and BERT's Adam does not.",
         "bool"),  # fmt: skip
)

# Of any training.
TRAINING = (
    *DEVICES,
    Flag("output_dir", None, "Where checkpoints, scores and predictions go.", required=True),
    Flag("overwrite_output_dir", False, "With --do_train: remove an earlier run there and start over. Without it, "
         "an interrupted run continues.", "bool"),  # fmt: skip
    Flag("do_train", False, "Train.", "bool"),
    Flag("do_eval", False, "Score on held-out examples.", "bool"),
    Flag("train_batch_size", 32, "Examples per step, over all devices.", "integer", low=1),
    Flag("eval_batch_size", 8, "Examples at a time in --do_eval.", "integer", low=1),
    *_OPTIMIZER,
    Flag("save_checkpoints_steps", 1000, "Steps between two checkpoints.", "integer", low=1),
    Flag("keep_checkpoints", 5, "How many of the last checkpoints are kept.", "integer", low=1),
    Flag("keep_optimizer", False, "Keep the optimizer's state in the run's result too; without it, the last checkpoint "
         "and the best one hold only the model once the run has ended.", "bool"),  # fmt: skip
    Flag("gradient_accumulation_steps", 1, "Cut each batch into this many parts, to save memory; the result stays "
         "the same.", "integer", low=1),  # fmt: skip
    Flag("rematerialize", False, "Compute activations again in the backward pass, to save memory.", "bool"),
    Flag("precision", "float32", "What layers compute in; weights stay float32.", choices=names.PRECISIONS),
    Flag("use_xla", "auto", "Compile with XLA; auto: with a GPU or TPU only.", choices=names.USE_XLA),
    Flag("seed", 0, "For new weights, the order of the examples and dropout.", "integer", low=0),
    Flag("deterministic", False, "The same command gives the same weights, bit for bit; may be slower.", "bool"),
    Flag("tracking", None, "Tell losses and scores to Weights & Biases or MLflow too; the package must be installed.",
         choices=names.TRACKERS),  # fmt: skip
    *SAVE,
)

# Of fine-tuning.
_RATE = "The peak of Adam's rate; auto: as a short range test finds before the first step."
RUN = (
    *with_attributes(TRAINING, "learning_rate", help=_RATE, words=(names.AUTO,)),
    Flag("do_predict", False, "Answer for examples without labels.", "bool"),
    Flag("predict_batch_size", 8, "Examples at a time in --do_predict.", "integer", low=1),
    Flag("num_train_epochs", 3.0, "Passes over the training examples.", "float", low=0),
    Flag("warmup_proportion", 0.1, "Share of the steps in which the rate rises.", "float", low=0, high=1),
    Flag("bucket_by_length", True, "Batch examples of similar lengths and pad to the longest only.", "bool"),
    Flag("bucket_batches", None, "With --bucket_by_length: the examples of so many batches are sorted by length "
         "together. Fewer: batches are more random, and need more padding; 1: random. Unset: a fortieth of an epoch's, "
         "from 4 to 50.", "integer", low=1),  # fmt: skip
    Flag("pack_examples", False, "Train on rows that hold several short examples each, and little padding.", "bool"),
)
