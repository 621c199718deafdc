"""Options of tasks as their programs make them."""

from bert_tf.cli import run_classifier, run_embedder, run_multiple_choice, run_reranker, run_squad, run_tagger
from bert_tf.data.tables import LabeledTexts
from bert_tf.tasks.classification.options import ClassificationOptions
from bert_tf.tasks.embedding.options import EmbeddingOptions
from bert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from bert_tf.tasks.question_answering.options import SquadOptions
from bert_tf.tasks.reranking.options import RerankingOptions
from bert_tf.tasks.tagging.options import TaggingOptions
from bert_tf.utils.settings import Settings, options_of

PROGRAMS = {
    ClassificationOptions: run_classifier,
    EmbeddingOptions: run_embedder,
    MultipleChoiceOptions: run_multiple_choice,
    RerankingOptions: run_reranker,
    SquadOptions: run_squad,
    TaggingOptions: run_tagger,
}


def labeled_texts(*rows, labels=None):
    """Returns the examples of a table of (text, second text or None)."""
    text_b = [b for _, b in rows] if rows[0][1] is not None else None
    ids, lines = [str(i) for i in range(len(rows))], [i + 2 for i in range(len(rows))]
    return LabeledTexts(ids, [a for a, _ in rows], text_b, labels, "file.tsv", lines)


def options(kind, **given):
    """Returns the options of a class of `PROGRAMS` where the user gave these flags of its program."""
    defaults = {flag.name: flag.default for flag in PROGRAMS[kind].FLAGS}
    return options_of(kind, Settings({**defaults, **given}, given))
