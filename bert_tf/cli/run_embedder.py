"""Trains an encoder so that texts which belong together have near vectors, and scores it.

    bert-tf run_embedder --train_file=pairs.tsv --eval_file=held_out.tsv --init_checkpoint=uncased_L-12_H-768_A-12 \\
        --output_dir=out --do_train --do_eval

The same command started again continues a run that was interrupted. All flags: --help; docs/run_embedder.md.
"""

from bert_tf.cli.common_flags import FINE_TUNING, STOPPING
from bert_tf.tasks import options

FLAGS = (*FINE_TUNING, *STOPPING, *options.EMBEDDING_FLAGS)


def main(settings):
    from bert_tf.cli.fine_tuning_run import run_task
    from bert_tf.tasks.embedding import EmbeddingTask

    run_task(EmbeddingTask, settings)
