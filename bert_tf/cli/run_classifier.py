"""Fine-tunes BERT to classify a text or a pair of texts, scores it, and answers for new texts.

    bert-tf run_classifier --train_file=train.tsv --eval_file=dev.tsv --init_checkpoint=uncased_L-12_H-768_A-12 \\
        --output_dir=out --do_train --do_eval

The same command started again continues a run that was interrupted. All flags: --help; docs/run_classifier.md.
"""

from bert_tf.cli.common_flags import FINE_TUNING, LABELS, RECURRENT, TEACHER
from bert_tf.tasks import options

FLAGS = (*FINE_TUNING, *LABELS, *RECURRENT, *TEACHER, *options.CLASSIFICATION_FLAGS)


def main(settings):
    from bert_tf.cli.fine_tuning_run import run_task
    from bert_tf.tasks.classification import ClassificationTask

    run_task(ClassificationTask, settings)
