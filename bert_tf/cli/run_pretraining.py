"""Pretrain BERT on records made with `pretrain data`.

    bert-tf pretrain run --input_file='records/train-*' \\
        --eval_file=records/held_out.tfrecord --output_dir=out \\
        --bert_config_file=bert_config.json --vocab_file=vocab.txt \\
        --do_train --do_eval

Starts from random weights, or from --init_checkpoint. Run the same command
again to resume an interrupted run.
"""

from bert_tf.cli.command_runner import in_flags
from bert_tf.runs.devices import keep_compiled_programs
from bert_tf.runs.settings import PretrainingSettings
from bert_tf.utils.settings import flags_of

SETTINGS = PretrainingSettings
FLAGS = flags_of(SETTINGS)


def main(settings: PretrainingSettings):
    """Trains and scores, or reports whether the training would fit."""
    keep_compiled_programs(settings)  # the next lines import TensorFlow
    from bert_tf.cli.next_command import log_after_pretraining
    from bert_tf.runs.pretrain import run_pretraining
    from bert_tf.training.workers import is_chief

    run = run_pretraining(settings, lambda text: print(in_flags(text, (flag.name for flag in FLAGS))))
    if run and settings.do_train and is_chief(run.strategy):
        log_after_pretraining(settings.output_dir, run.trainer.global_step)
