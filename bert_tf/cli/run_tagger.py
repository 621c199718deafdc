"""Fine-tune a model for named entity recognition (token classification).

    bert-tf run_tagger --train_file=eng.train --eval_file=eng.testa \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=out \\
        --do_train --do_eval

Evaluates with entity-level precision, recall and F1, as conlleval computes
them. Run the same command again to resume an interrupted run.
"""

from bert_tf.runs.settings import fine_tuning_settings
from bert_tf.tasks.tagging.options import TaggingOptions
from bert_tf.utils.settings import flags_of

FLAGS = flags_of(fine_tuning_settings(TaggingOptions))


def main(settings):
    from bert_tf.cli.fine_tuning_command import fine_tune
    from bert_tf.tasks.tagging.task import TaggingTask

    fine_tune(TaggingTask, settings)
