"""Fine-tunes BERT to answer questions from a text (SQuAD 1.1 and 2.0), scores it, and answers new questions.

    bert-tf run_squad --train_file=train-v1.1.json --predict_file=dev-v1.1.json --output_dir=out \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --do_train --do_predict

The same command started again continues a run that was interrupted. All flags: --help; docs/run_squad.md.
"""

from bert_tf.cli.common_flags import FINE_TUNING, RECURRENT, TEACHER
from bert_tf.tasks import options
from bert_tf.utils.settings import with_default

FLAGS = with_default((*FINE_TUNING, *RECURRENT, *TEACHER, *options.SQUAD_FLAGS), max_seq_length=384)


def main(settings):
    from bert_tf.cli.fine_tuning_run import run_task
    from bert_tf.tasks.squad import QuestionAnsweringTask

    run_task(QuestionAnsweringTask, settings)
