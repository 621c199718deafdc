"""Pretrain a small encoder on your text within a time budget.

    bert-tf pretrain quick --input_file=corpus/ --output_dir=small --minutes=45

Learns a vocabulary, creates the records and trains, with `vocab train`,
`pretrain data` and `pretrain run`, whose commands it prints. Fine-tune
the result with `train classifier` or another command. Run the same command
again to resume.
"""

from bert_tf.pretraining.settings import QuickOptions
from bert_tf.runs import pretraining_recipes
from bert_tf.utils.settings import flags_of
from bert_tf.utils.subprocesses import resumable

SETTINGS = QuickOptions
FLAGS = flags_of(SETTINGS)


def main(settings: QuickOptions):
    """Makes what remains to be done of the encoder, and logs its files."""
    from bert_tf.cli.next_command import log_after_pretraining
    from bert_tf.pretraining.quick.recipe import SizeRecipe
    from bert_tf.pretraining.quick.run import pretrain_small

    recipe = pretraining_recipes.SMALL_TAUGHT if settings.teacher else pretraining_recipes.SMALL
    with resumable():
        steps = pretrain_small(settings, SizeRecipe.of(recipe))
    log_after_pretraining(settings.output_dir, steps)
