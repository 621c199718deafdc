"""Makes a small encoder from a folder of text in the minutes given, to be fine-tuned.

    bert-tf pretrain_small --input_file=corpus/ --output_dir=small --minutes=45

Vocabulary, records and training are made by train_vocabulary, create_pretraining_data and run_pretraining, whose
commands it prints. The same command goes on where it was stopped. See docs/pretrain_small.md.
"""

from bert_tf.cli.ending import tell_next_of_pretraining
from bert_tf.cli.flags import recipes
from bert_tf.cli.flags.pretrain_small import PRETRAIN_SMALL
from bert_tf.utils.child_programs import resumable

FLAGS = PRETRAIN_SMALL


def main(settings):
    """Makes what is left to do of the encoder, and says where it lies."""
    from bert_tf.pretraining.quick.recipe import Recipe
    from bert_tf.pretraining.quick.run import pretrain

    recipe = recipes.SMALL_TAUGHT if settings.teacher else recipes.SMALL
    with resumable():
        steps = pretrain(settings, Recipe.of(recipe))
    tell_next_of_pretraining(settings, steps)
