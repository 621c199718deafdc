"""Train a reranker (cross-encoder) that scores documents for a query.

    bert-tf run_reranker --train_file=train.jsonl --eval_file=dev.jsonl \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=out \\
        --do_train --do_eval

Ranks the documents of each query; evaluates by MRR@10, nDCG@10 and MAP. Run the
same command again to resume an interrupted run.
"""

from bert_tf.runs.settings import fine_tuning_settings
from bert_tf.tasks.reranking.options import RerankingOptions
from bert_tf.utils.settings import flags_of

FLAGS = flags_of(fine_tuning_settings(RerankingOptions))


def main(settings):
    from bert_tf.cli.fine_tuning_command import fine_tune
    from bert_tf.tasks.reranking.task import RerankingTask

    fine_tune(RerankingTask, settings)
