"""Every flag of the programs, defined once. A program's `main` reads them and hands on plain values."""

from absl import flags

from bert_tf.flags.devices import apply_run_flags, define_devices, define_google_tpu
from bert_tf.flags.model import define_export, define_fill_mask, define_model
from bert_tf.flags.pretraining import (
    define_pretraining,
    held_out_records,
    largest_step,
    masks_for,
    pretraining_config,
    pretraining_plan,
)
from bert_tf.flags.program import run
from bert_tf.flags.text import (
    define_classifier_data,
    define_corpus,
    define_extend_vocabulary,
    define_pretraining_data,
    define_train_vocabulary,
)
from bert_tf.flags.training import define_run, define_training, model_paths, run_config

FLAGS = flags.FLAGS

__all__ = [
    "FLAGS",
    "apply_run_flags",
    "define_classifier_data",
    "define_corpus",
    "define_devices",
    "define_export",
    "define_extend_vocabulary",
    "define_fill_mask",
    "define_google_tpu",
    "define_model",
    "define_pretraining",
    "define_pretraining_data",
    "define_run",
    "define_train_vocabulary",
    "define_training",
    "held_out_records",
    "largest_step",
    "masks_for",
    "model_paths",
    "pretraining_config",
    "pretraining_plan",
    "run",
    "run_config",
]
