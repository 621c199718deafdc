"""Fine-tunes BERT to choose one of several texts for a context (SWAG), scores it, and answers new questions.

    bert-tf run_multiple_choice --train_file=train.csv --eval_file=val.csv --output_dir=out \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --do_train --do_eval

The same command started again continues a run that was interrupted. All flags: --help; docs/run_multiple_choice.md.
"""

from bert_tf.cli.common_flags import FINE_TUNING, RECURRENT, STOPPING, TEACHER
from bert_tf.tasks import options

FLAGS = (*FINE_TUNING, *STOPPING, *RECURRENT, *TEACHER, *options.MULTIPLE_CHOICE_FLAGS)


def main(settings):
    from bert_tf.cli.fine_tuning_run import run_task
    from bert_tf.tasks.multiple_choice import MultipleChoiceTask

    run_task(MultipleChoiceTask, settings)
