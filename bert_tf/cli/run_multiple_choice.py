"""Fine-tune a model for multiple choice (SWAG).

    bert-tf run_multiple_choice --train_file=train.csv --eval_file=val.csv \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=out \\
        --do_train --do_eval

Picks the best of several continuations for a context. Run the same command
again to resume an interrupted run.
"""

from bert_tf.runs.settings import fine_tuning_settings
from bert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from bert_tf.utils.settings import flags_of

FLAGS = flags_of(fine_tuning_settings(MultipleChoiceOptions))


def main(settings):
    from bert_tf.cli.fine_tuning_command import fine_tune
    from bert_tf.tasks.multiple_choice.task import MultipleChoiceTask

    fine_tune(MultipleChoiceTask, settings)
