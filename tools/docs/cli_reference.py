"""The reference of the command line, docs/reference/cli.md and docs/reference/cli/*.md, from docstrings and flags.

    .venv/bin/python -m tools.docs.cli_reference      # writes the pages
"""

import collections
import functools
import inspect
import pathlib
import re
import textwrap

from bert_tf.cli import commands, usage
from bert_tf.tasks.built_in import BUILT_IN_TASKS
from bert_tf.utils.settings import Flag, allowed_values
from tools.docs.navigation import COMMANDS, ROOT

INDEX = COMMANDS.with_suffix(".md")
TRAINING = COMMANDS / "training_flags.md"
COMMON = COMMANDS / "common_flags.md"
_PAGES = 3  # with the same row of a flag, from which on the row is on a page of its own
FINE_TUNING = tuple(task.command for task in BUILT_IN_TASKS)
_FEW = 12  # flags, which need no groups
_NOTE = "<!-- Generated; do not edit. Source: {}. Write it with `.venv/bin/python -m tools.docs.cli_reference`. -->\n\n"
_FLAG = re.compile(r"(?<![`\w-])(--[a-z]\w*(?![\w-])(?:=[^\s;)]*[^\s;,.):])?)")  # in a sentence
_INTRODUCTION = """\
# Command line

`bert-tf` alone lists the most important commands, and `bert-tf --all` lists every command. `bert-tf COMMAND --help`
shows the essential flags of a command by group, and `bert-tf COMMAND --help=all` shows all of them.
`python -m bert_tf COMMAND` is the same as `bert-tf COMMAND`. In a checkout, the script is `.venv/bin/bert-tf`.

In a command's name, an underscore can replace a hyphen: `bert-tf fill_mask` is `bert-tf fill-mask`. Earlier names, such
as `bert-tf run_classifier`, are [still accepted](#old-names). In the examples, `demo/weights/minilm` is the model that
`make demo` [downloads](../get_started/quickstart_cli.md).

- Write a value after an equals sign: `--max_seq_length=128`.
- A boolean flag needs no value: `--do_train` turns it on; `--do_train=false` or `--nodo_train` turns it off.
- Separate the values of a list with commas: `--text_column=question,answer`.
- Some flags have the same meaning in several commands: see [Common flags](cli/common_flags.md).
- Texts and paths without a flag are accepted only by commands whose examples show them. After `--`, nothing is read as
    a flag of the command itself.
- `--flagfile=flags.txt` reads flags from a file, one `--name=value` per line; `#` begins a comment. Any other line is
    an error. Blanks that end a line count in `--prompt`, `--separator`, `--label_separator` and `--document_start`.

The exit status is 0 if a command succeeded or showed its help, 1 after an error, 130 after Ctrl-C, 143 after SIGTERM,
129 after SIGHUP, and 141 if the reader of its output closed the pipe. After a signal, unfinished output is removed;
what a killed command left is removed when it runs again. An error that you can fix is reported in one message,
without a traceback.

In a checkout, `run_classifier.py`, `run_squad.py` and `run_pretraining.py` run `train classifier`, `train qa` and
`pretrain run`, and are called in the same way as the scripts of google-research/bert.
"""
_OLD_NAMES = """\
## Old names

These names of commands, flags and values are still accepted. Help and messages show only the new ones. In Python, an
old keyword or value causes a `DeprecationWarning`.
"""
_TRAINING_INTRODUCTION = (
    "All commands that fine-tune a model have these flags, in addition to their own: {}. See the [fine-tuning "
    "recipes](../../guides/fine_tuning.md) for examples."
)
_SHARED = (
    "The tables list the flags of this command. For {} more, such as `--learning_rate`, see [Common training "
    "flags](training_flags.md)."
)
_COMMON_INTRODUCTION = (
    "These flags have the same meaning in several commands, whose pages only name them. For those that all commands "
    "share which fine-tune a model, see [Common training flags](training_flags.md)."
)


def pages() -> dict[pathlib.Path, str]:
    """Returns {path: text} of all pages."""
    own = {COMMANDS / f"{name}.md": page(name) for name in commands.PROGRAMS}
    return {INDEX: index(), TRAINING: training_page(), COMMON: common_page(), **own}


def index() -> str:
    """Returns the page of all commands."""
    lines = [_NOTE.format("bert_tf/cli/commands.py") + _INTRODUCTION]
    for title, group in commands.GROUPS.items():
        lines += [f"## {title}", "", "| Command | Purpose |", "|---|---|"]
        for each in group:
            lines.append(f"| [`bert-tf {each.alias}`](cli/{each.name}.md) | {commands.summary(each.name)} |")
        lines.append("")
        if {each.name for each in group} >= {*FINE_TUNING}:
            lines += ["The commands that fine-tune share [most of their flags](cli/training_flags.md).", ""]
    lines += [_OLD_NAMES, "| Old command | Command |", "|---|---|", *_old_commands(), ""]
    lines += ["| Old flag | Flag | Commands |", "|---|---|---|", *_old_flags()]
    return "\n".join(lines).rstrip() + "\n"


def _old_commands():
    """Returns the rows of the names of commands that are only accepted."""
    return sorted(
        f"| `bert-tf {old}` | `bert-tf {each.alias}` |"
        for each in commands.COMMANDS.values()
        for old in (each.name, *each.others)
        if old.replace("_", "-") != each.alias
    )


def _old_flags():
    """Returns the rows of the names and values of flags that are only accepted."""
    found = {}
    for each in commands.COMMANDS.values():
        for flag in commands.load_command(each.name).FLAGS:
            names = [(f"--{alias}", f"--{flag.name}") for alias in flag.aliases]
            values = [(f"--{flag.name}={old}", f"--{flag.name}={new}") for old, new in flag.renamed_choices]
            for pair in (*names, *values):
                found.setdefault(pair, []).append(f"`{each.alias}`")
    return [f"| `{old}` | `{new}` | {', '.join(of)} |" for (old, new), of in sorted(found.items())]


def page(name: str) -> str:
    """Returns the page of one command."""
    module, command = commands.load_command(name), commands.COMMANDS[name]
    summary, *blocks = inspect.cleandoc(module.__doc__).split("\n\n")
    about = f"{summary} See the [guide](../../{command.guide}.md) for examples."
    source = commands.help_source(name).relative_to(ROOT).as_posix()
    lines = [_NOTE.format(source) + f"# bert-tf {command.alias}", "", *_wrapped(about), ""]
    for block in blocks:
        code = block.startswith("    ")
        lines += ["```sh", textwrap.dedent(block), "```", ""] if code else [*_wrapped(_marked(block)), ""]
    if name in FINE_TUNING:
        lines += [*_wrapped(_SHARED.format(len(common_rows()))), ""]
    lines += _sections(own_rows(name))
    for title, link, rows in (("training flags", TRAINING, common_rows()), ("flags", COMMON, frequent_rows())):
        if name in FINE_TUNING and link == TRAINING:
            continue
        if listed := ", ".join(_name(row) for row in _rows(module.FLAGS) if row in rows and row not in own_rows(name)):
            lines += [*_wrapped(f"Also, as in other commands ([Common {title}]({link.name})): {listed}."), ""]
    if idle := [f"`--{flag.name}`" for flag in module.FLAGS if not flag.has_effect]:
        listed = f"Accepted for compatibility, without effect: {', '.join(idle)}."
        lines += ["## Flags without effect", "", *_wrapped(listed)]
    return "\n".join(lines).rstrip() + "\n"


def training_page() -> str:
    """Returns the page of the flags that all fine-tuning commands share."""
    *first, last = (f"[{name}]({name}.md)" for name in FINE_TUNING)
    about = _TRAINING_INTRODUCTION.format(f"{', '.join(first)} and {last}")
    lines = ["# Common training flags", "", *_wrapped(about), "", *_sections(common_rows())]
    return _NOTE.format("bert_tf/cli/fine_tuning_command.py") + "\n".join(lines).rstrip() + "\n"


def common_page() -> str:
    """Returns the page of the flags that several commands share."""
    lines = ["# Common flags", "", *_wrapped(_COMMON_INTRODUCTION), "", *_sections(frequent_rows())]
    return _NOTE.format("bert_tf/cli") + "\n".join(lines).rstrip() + "\n"


def own_rows(name: str) -> dict[str, str]:
    """Returns {row: title of its group} of the flags that a command's page explains."""
    flags = commands.load_command(name).FLAGS
    essential = _rows(flags, only_essential=True).keys() - (common_rows() if name in FINE_TUNING else ())
    elsewhere = (common_rows() | frequent_rows()).keys() - essential
    return {row: title for row, title in _rows(flags).items() if row not in elsewhere}


@functools.cache
def frequent_rows() -> dict[str, str]:
    """Returns {row: title of its group} of the flags that are the same in several commands, but not all that train."""
    tables = [_rows(commands.load_command(name).FLAGS) for name in commands.PROGRAMS]
    counts = collections.Counter(row for table in tables for row in table if row not in common_rows())
    frequent = [row for row, count in counts.items() if count >= _PAGES and "| required |" not in row]
    names = collections.Counter(map(_name, frequent))  # a name that has two meanings is explained where it is used
    titles = {row: title for table in tables for row, title in table.items()}
    return {row: titles[row] for row in frequent if names[_name(row)] == 1}


@functools.cache
def common_rows() -> dict[str, str]:
    """Returns {row: title of its group} of the flags that are the same in all fine-tuning commands."""
    first, *others = (_rows(commands.load_command(name).FLAGS) for name in FINE_TUNING)
    return {row: title for row, title in first.items() if all(other.get(row) == title for other in others)}


def _rows(flags, only_essential=False):
    """Returns {row: title of its group} of a command's flags, as they are shown."""
    names = [flag.name for flag in flags]
    return {
        _row(flag, names): title
        for title, own in usage.by_group(flags).items()
        for flag in own
        if flag.essential or not only_essential
    }


def _name(row):
    """Returns the flag of a row, as code."""
    return row.split(" | ")[0].removeprefix("| ")


def _sections(rows):
    """Returns the lines of tables, one for each group; of few flags, one table."""
    if 0 < len(rows) <= _FEW:
        rows = dict.fromkeys(rows, "Flags")
    lines = []
    for title in dict.fromkeys(rows.values()):
        lines += [f"## {title}", "", "| Flag | Values | Default | Explanation |", "|---|---|---|---|"]
        lines += [*(row for row, group in rows.items() if group == title), ""]
    return lines


def _row(flag, names):
    explanation = f"{flag.help} {usage.describe_combinations(flag, names)}".rstrip()
    return f"| `--{flag.name}` | {_values(flag)} | {_default(flag)} | {_cell(explanation)} |"


def _values(flag: Flag) -> str:
    """Returns the cell of the values that a flag takes."""
    choices = ", ".join(f"`{choice}`" for choice in flag.choices)
    if flag.kind == "list":
        return f"list of {choices}" if choices else "list"
    if flag.kind == "bool":
        return "boolean"
    return choices or re.sub("^an? ", "", allowed_values(flag))


def _default(flag):
    if flag.required:
        return "required"
    value = usage.default_of(flag) or ("false" if flag.default is False else "")
    return f"`{value}`" if value else ""


def _cell(text):
    return _marked(text).replace("|", "\\|")


def _marked(text):
    """Returns a sentence with its flags as code; what is code already stays."""
    parts = " ".join(text.split()).split("`")
    return "`".join(part if number % 2 else _FLAG.sub(r"`\1`", part) for number, part in enumerate(parts))


def _wrapped(text):
    return textwrap.wrap(text, 118, break_on_hyphens=False, break_long_words=False)


def main():
    """Writes the pages, and removes those of commands that are gone."""
    made = pages()
    for old in set(COMMANDS.glob("*.md")) - made.keys():
        old.unlink()
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
