"""Train a sentence embedding model (bi-encoder) on text pairs.

    bert-tf run_embedder --train_file=pairs.tsv --eval_file=held_out.tsv \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=out \\
        --do_train --do_eval

Texts that belong together get similar embeddings; evaluates by rank correlation
or retrieval. Run the same command again to resume an interrupted run.
"""

from bert_tf.runs.settings import fine_tuning_settings
from bert_tf.tasks.embedding.options import EmbeddingOptions
from bert_tf.utils.settings import flags_of

FLAGS = flags_of(fine_tuning_settings(EmbeddingOptions))


def main(settings):
    from bert_tf.cli.fine_tuning_command import fine_tune
    from bert_tf.tasks.embedding.task import EmbeddingTask

    fine_tune(EmbeddingTask, settings)
