"""Every flag of the programs, defined once. A program's `main` reads them and hands on plain values."""

from absl import flags

from bert_tf.flags.classifier import classifier_run, classifier_settings, classifier_source, classifier_splits
from bert_tf.flags.devices import apply_run_flags, define_devices, define_google_tpu
from bert_tf.flags.fine_tuning import define_layers, define_long_text, define_loss, fine_tuning_run
from bert_tf.flags.glue import define_run_glue
from bert_tf.flags.model import define_export, define_fill_mask, define_model
from bert_tf.flags.pretraining import (
    config_for_objective,
    define_pretraining,
    held_out_records,
    largest_step,
    masks_for,
    pretraining_config,
    pretraining_plan,
)
from bert_tf.flags.program import OF_TRAINING, run
from bert_tf.flags.squad import define_squad, squad_files, squad_options
from bert_tf.flags.squad_scorer import define_squad_scorer
from bert_tf.flags.text import (
    define_classifier_data,
    define_corpus,
    define_extend_vocabulary,
    define_pretraining_data,
    define_train_vocabulary,
)
from bert_tf.flags.training import define_run, define_training, model_paths, run_config, task_paths

FLAGS = flags.FLAGS

__all__ = [
    "FLAGS",
    "OF_TRAINING",
    "apply_run_flags",
    "classifier_run",
    "classifier_settings",
    "classifier_source",
    "classifier_splits",
    "config_for_objective",
    "define_classifier_data",
    "define_corpus",
    "define_devices",
    "define_export",
    "define_extend_vocabulary",
    "define_fill_mask",
    "define_google_tpu",
    "define_layers",
    "define_long_text",
    "define_loss",
    "define_model",
    "define_pretraining",
    "define_pretraining_data",
    "define_run",
    "define_run_glue",
    "define_squad",
    "define_squad_scorer",
    "define_train_vocabulary",
    "define_training",
    "fine_tuning_run",
    "held_out_records",
    "largest_step",
    "masks_for",
    "model_paths",
    "pretraining_config",
    "pretraining_plan",
    "run",
    "run_config",
    "squad_files",
    "squad_options",
    "task_paths",
]
