"""The help of a command: `bert-tf NAME --help` shows its essential flags by group, `--help=all` shows all of them."""

import inspect
import itertools
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from bert_tf.cli.commands import COMMANDS
from bert_tf.utils.settings import Flag, allowed_values, format_number

_WIDTH, _COLUMN = 80, 28
_FEW = 25  # a command with at most this many flags shows all of them

# Titles of the groups of flags, in the order in which they are shown.
GROUPS = (
    "What to do", "Data", "Model", "Embeddings and features", "Training", "Layers, adapters and loss", "Distillation",
    "Pretraining objective and masking", "Vocabulary", "Evaluation", "Prediction", "Export", "Models to serve",
    "Ports and protocols", "Batching and threads", "Limits", "Server and requests", "Parallel processing", "Devices",
    "Output", "Other",
)  # fmt: skip


def by_group(flags: Iterable[Flag], with_all: bool = True) -> dict[str, list[Flag]]:
    """Returns {title: flags} as they are shown, essential ones first; flags without an effect are left out.

    Args:
        flags: flags of a command.
        with_all: False leaves out what is not essential, if the command has many flags.
    """
    shown = [flag for flag in flags if flag.has_effect]
    if not with_all and len(shown) > _FEW:
        shown = [flag for flag in shown if flag.required or flag.essential]
    shown.sort(key=lambda flag: not flag.essential)
    groups = {title: [flag for flag in shown if group_of(flag) == title] for title in GROUPS}
    return {title: own for title, own in groups.items() if own}


def group_of(flag: Flag) -> str:
    """Returns the title under which a flag is shown."""
    return flag.group if flag.group in GROUPS else GROUPS[-1]


def default_of(flag: Flag) -> str:
    """Returns a flag's default as one would write it on a command line; "" for none, an empty one, and false."""
    value: Any = flag.default
    if value is None or value is False or value in ("", [], ()):
        return ""
    if isinstance(value, list | tuple):
        return ",".join(value)
    if isinstance(value, float):
        return format_number(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _notes(flag):
    """Returns what --help adds to a flag's explanation, in parentheses."""
    notes = ["required"] if flag.required else []
    if flag.choices or flag.words or flag.kind == "list" or flag.low is not None or flag.high is not None:
        notes.append(allowed_values(flag))
    if default := default_of(flag):
        notes.append(f"default: {default}")
    if flag.default is True:
        notes.append(f"--no{flag.name} turns it off")
    return f" ({'; '.join(notes)})" if notes else ""


def describe_combinations(flag: Flag, names: Collection[str]) -> str:
    """Returns what a flag requires and excludes, as sentences: "Requires --a and --b=c. Cannot be combined with --d."

    Before them, a line explains that a model may be named.

    Args:
        flag: flag of a command.
        names: names of all flags of the command; flags that it does not have are left out.
    """
    required, excluded = (
        [f"--{setting}" for setting in settings if setting.partition("=")[0] in names]
        for settings in (flag.requires, flag.excludes)
    )
    sentences = ["May be a name on the Hugging Face Hub: organization/model."] if flag.reads_model else []
    sentences += [f"Requires {' and '.join(required)}."] if required else []
    if excluded:
        *first, last = excluded
        sentences.append(f"Cannot be combined with {' or '.join([*filter(None, [', '.join(first)]), last])}.")
    return " ".join(sentences)


def asked_for(words: Sequence[str]) -> str:
    """Returns "all" or "short" if a command line asks for help, else ""."""
    extents = set()
    for word in itertools.takewhile(lambda word: word != "--", words):
        name, _, value = word.replace("--", "-", 1).lower().partition("=")
        if name in ("-help", "-helpfull", "-helpshort", "-h", "-?") and value not in ("false", "0"):
            extents.add("all" if name == "-helpfull" or value in ("all", "full") else "short")
    return min(extents, default="")  # "all" rather than "short"


def help_page(module, name: str, typed: str, with_all: bool) -> str:
    """Returns what --help prints.

    Args:
        module: module of the command.
        name: name of the command.
        typed: how it was started, such as "bert-tf train classifier".
        with_all: show all flags.
    """
    table = [flag for flag in module.FLAGS if flag.has_effect]
    groups, names = by_group(table, with_all), [flag.name for flag in table]
    lines = [inspect.cleandoc(module.__doc__ or "")]
    for title, flags in groups.items():
        lines += ["", title, *(line for flag in flags for line in _described(flag, names))]
    lines.append("")
    if command := COMMANDS.get(name):
        lines += [f"Guide: docs/{command.guide}.md", *_shown_name(command, typed)]
    if sum(map(len, groups.values())) < len(table):
        lines.append(f"`{typed} --help=all` lists all {len(table)} flags.")
    return "\n".join(lines)


def _shown_name(command, typed):
    shown = f"bert-tf {command.alias}"
    return [] if typed.replace("_", "-") == shown else [f"Name of this command: {shown}"]


def _described(flag, names):
    text = " ".join(filter(None, [flag.help, describe_combinations(flag, names)]))
    lines = textwrap.wrap(text + _notes(flag), _WIDTH - _COLUMN, break_on_hyphens=False)
    name = f"  --{flag.name}"
    first = f"{name:<{_COLUMN}}" if len(name) < _COLUMN - 1 else f"{name}\n{'':{_COLUMN}}"
    return [first + lines[0], *(f"{'':{_COLUMN}}{line}" for line in lines[1:])]


def first_clause(text: str) -> str:
    """Returns a flag's help up to its first stop, to be put into a sentence."""
    clause = text
    for stop in (". ", "; ", ": ", " (", ", such as"):
        clause = clause.partition(stop)[0]
    clause = clause.rstrip(".")
    return clause if clause[1:2].isupper() else clause[:1].lower() + clause[1:]
