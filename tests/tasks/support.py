"""Options of tasks as their programs make them."""

from bert_tf.cli import run_classifier, run_embedder, run_multiple_choice, run_squad, run_tagger
from bert_tf.tasks.options import (
    ClassificationOptions,
    EmbeddingOptions,
    MultipleChoiceOptions,
    SquadOptions,
    TaggingOptions,
)
from bert_tf.utils.settings import Settings, options_of

PROGRAMS = {
    ClassificationOptions: run_classifier,
    EmbeddingOptions: run_embedder,
    MultipleChoiceOptions: run_multiple_choice,
    SquadOptions: run_squad,
    TaggingOptions: run_tagger,
}


def options(kind, **given):
    """Returns the options of a class of `PROGRAMS` where the user gave these flags of its program."""
    defaults = {flag.name: flag.default for flag in PROGRAMS[kind].FLAGS}
    return options_of(kind, Settings({**defaults, **given}, given))
