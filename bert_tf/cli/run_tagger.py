"""Fine-tune a model for named entity recognition (token classification).

    bert-tf run_tagger --train_file=eng.train --eval_file=eng.testa \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=out \\
        --do_train --do_eval

Evaluates with entity-level precision, recall and F1, as conlleval computes
them. Run the same command again to resume an interrupted run.
"""

from bert_tf.cli.common_flags import FINE_TUNING, LABELS, RECURRENT, TEACHER
from bert_tf.tasks import options
from bert_tf.utils.settings import with_attributes

FLAGS = with_attributes(
    (*FINE_TUNING, *LABELS, *RECURRENT, *TEACHER, *options.TAGGING_FLAGS),
    "lstm_units",
    help="Units per direction of the BiLSTM. With --features: of its two layers, 256 by default. Without: of a single "
    "layer between encoder and head, which is absent by default.",
)


def main(settings):
    from bert_tf.cli.fine_tuning_command import fine_tune
    from bert_tf.tasks.tagging import TaggingTask

    fine_tune(TaggingTask, settings)
