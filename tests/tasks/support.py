"""Options of tasks as their programs make them."""

from bert_tf.cli.commands import load_command
from bert_tf.data.tables import LabeledTexts
from bert_tf.tasks.built_in import BUILT_IN_TASKS
from bert_tf.utils.settings import Settings, options_of

PROGRAMS = {task.load_options(): load_command(task.command) for task in BUILT_IN_TASKS}


def labeled_texts(*rows, labels=None):
    """Returns the examples of a table of (text, second text or None)."""
    text_b = [b for _, b in rows] if rows[0][1] is not None else None
    ids, lines = [str(i) for i in range(len(rows))], [i + 2 for i in range(len(rows))]
    return LabeledTexts(ids, [a for a, _ in rows], text_b, labels, "file.tsv", lines)


def options(kind, **given):
    """Returns the options of a class of `PROGRAMS` where the user gave these flags of its program."""
    defaults = {flag.name: flag.default for flag in PROGRAMS[kind].FLAGS}
    return options_of(kind, Settings({**defaults, **given}, given))
