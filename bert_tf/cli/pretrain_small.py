"""Pretrain a small encoder on your text within a time budget.

    bert-tf pretrain_small --input_file=corpus/ --output_dir=small --minutes=45

Learns a vocabulary, creates the records and trains, with train_vocabulary,
create_pretraining_data and run_pretraining, whose commands it prints. Fine-tune
the result with run_classifier or another command. Run the same command again to
resume.
"""

from bert_tf.pretraining.settings import CorpusSettings
from bert_tf.runs import pretraining_recipes
from bert_tf.runs.pretraining_recipes import SMALL_VOCABULARY
from bert_tf.utils import names
from bert_tf.utils.settings import Flag, flags_of
from bert_tf.utils.subprocesses import resumable

_TEXT = tuple(flag for flag in flags_of(CorpusSettings) if flag.name != "drop_junk_lines")

FLAGS = (
    *_TEXT,
    Flag(
        "output_dir", "small",
        "Directory for the encoder, from which an interrupted run also resumes.",
        group="Output", essential=True,
    ),
    Flag(
        "minutes", 45.0,
        "Time budget in minutes, everything included.",
        "float", low=0, group="Training", essential=True,
    ),
    Flag(
        "teacher", None,
        "Model to distill: the encoder is made of some of its layers, with its vocabulary and width, and learns from "
        "it.",
        group="Distillation",
    ),
    Flag("vocab_file", None, "Vocabulary file. Default: a vocabulary is trained.", group="Model"),
    Flag(
        "vocab_size", SMALL_VOCABULARY,
        "Number of tokens of the vocabulary that is trained.",
        "integer", low=1, group="Vocabulary",
    ),
    Flag(
        "do_lower_case", None,
        "Lowercase the text. Default: as tokenizer_config.json next to --vocab_file, or in --teacher, says; "
        "otherwise true.",
        "bool", group="Model",
    ),
    Flag(
        "eval_file", None,
        "Held-out text, evaluated at each checkpoint and at the end: files, glob patterns or directories.",
        "list", group="Data", essential=True,
    ),
    Flag(
        "precision", "auto",
        "Data type of the computation. auto: mixed_bfloat16 if the CPU multiplies in it, otherwise float32.",
        choices=("auto", *names.PRECISIONS), group="Devices", essential=True,
    ),
    Flag(
        "seed", 0,
        "Random seed for new weights, example order and masks.",
        "integer", low=0, group="Training", essential=True,
    ),
)
_READING = ("input_format", "text_column", "document_start", "language")


def make_options(settings):
    """Returns the `QuickOptions` that the flags describe.

    Raises:
        ValueError: flags contradict each other.
    """
    from bert_tf.pretraining.quick.inputs import QuickOptions

    if settings.teacher and settings.vocab_file:
        raise ValueError(
            "`teacher` and `vocab_file` cannot be combined, because the student has the teacher's vocabulary; got "
            f"{settings.teacher} and {settings.vocab_file}. Remove one."
        )
    if "vocab_size" in settings.given and (settings.teacher or settings.vocab_file):
        raise ValueError(
            "`vocab_size` cannot be combined with `vocab_file` or `teacher`, which have a vocabulary; got "
            f"{settings.vocab_size} and {settings.vocab_file or settings.teacher}. Remove one."
        )
    given = {name: value for name, value in settings.given_values().items() if name in _READING}
    return QuickOptions(**settings.to_dict(), text_flags=given)


def main(settings):
    """Makes what remains to be done of the encoder, and logs its files."""
    from bert_tf.cli.next_command import log_after_pretraining
    from bert_tf.pretraining.quick.plan import SizeRecipe
    from bert_tf.pretraining.quick.run import pretrain_small

    recipe = pretraining_recipes.SMALL_TAUGHT if settings.teacher else pretraining_recipes.SMALL
    with resumable():
        steps = pretrain_small(make_options(settings), SizeRecipe.of(recipe))
    log_after_pretraining(settings, steps)
