"""Flag files: `--flagfile=PATH` stands for the lines of a file, each of which is one flag, as absl reads them."""

import os
import re
from collections.abc import Iterable, Sequence

from bert_tf.utils.files import read_with_losses

# Flags whose value may end in a blank that counts; from other values, blanks at the end of a line are removed.
_ENDING_IN_BLANKS = ("document_start", "label_separator", "prompt", "separator")
_COMMENTS = ("#", "//")
_TEXTS_FOLLOW = "--"
_DIRECTIVE = re.compile(r"--?flagfile(?:=(.*))?", re.DOTALL)
# A word that may be a flag without its dashes: after other dashes, as word processors write them, or before a value.
_LOST_DASHES = re.compile(r"(?P<mark>[-\s\ufeff\u200b\u2010-\u2015\u2212]*)(?P<name>\w+)(?P<value>=.*)?", re.DOTALL)


def expand_flag_files(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Replaces each `--flagfile=PATH` of a command line with the flags in that file.

    A file has one `--flag=value` per line. Empty lines and those that begin with # or // are skipped. A file may name
    another one. What follows a line `--` is passed on as it is: texts, or the flags of another program.

    Args:
        words: words of the command line, without the program.

    Returns:
        (the words, {flag: the file and line that it comes from}).

    Raises:
        ValueError: a file cannot be read, includes itself, or has a line that is no flag.
    """
    expanded, places, rest = [], {}, list(words)
    while rest and rest[0] != _TEXTS_FOLLOW:
        word = rest.pop(0)
        directive = _DIRECTIVE.fullmatch(word)
        if not directive:
            expanded.append(word)
        elif directive[1] is not None:
            expanded += _read(directive[1], places)
        elif rest:
            expanded += _read(rest.pop(0), places)
        else:
            raise ValueError("--flagfile requires a value: --flagfile=...")
    return expanded + rest, places


def _read(path, places, inside=()):
    """Returns the words in a flag file, and notes in `places` where each flag is."""
    path = os.path.expanduser(path.strip())
    if os.path.realpath(path) in inside:
        raise ValueError(f"The flag file {path} must not include itself. Remove its --flagfile from {inside[-1]}.")
    if not os.path.exists(path):
        raise ValueError(f"Flag file not found: {path or 'no name was given'} (--flagfile). Check its spelling.")
    text, lost = read_with_losses(path)
    if lost:
        raise ValueError(f"{path}:{min(lost)}: a flag file must be UTF-8 text. Convert it, for example with iconv.")
    words, are_texts = [], False
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if not line.strip() or line.startswith(_COMMENTS):
            continue
        word = _without_blanks(line)
        if are_texts:
            words.append(word if word.startswith("-") else line)
        elif word == _TEXTS_FOLLOW:
            words.append(word)
            are_texts = True
        elif directive := _DIRECTIVE.fullmatch(word):
            words += _read(directive[1] or "", places, (*inside, os.path.realpath(path)))
        else:
            words.append(word)
            places[_flag_name(word, f"{path}:{number}")] = f"{path}:{number}"
    return words


def _without_blanks(line):
    """Returns a line without the blanks around it, except for those that belong to the flag's value."""
    name, _, value = line.lstrip().partition("=")
    return f"{name}={value}" if name.lstrip("-") in _ENDING_IN_BLANKS else line.strip()


def _flag_name(word, place):
    """Returns the name of the flag in a line; raises ValueError if the line is something else."""
    name = word.partition("=")[0]
    if not re.fullmatch(r"--?[^-\s]\S*", name):
        separate = re.fullmatch(r"(--?\w+)\s+(.*)", word)
        remedy = f" Write {separate[1]}={separate[2]}." if separate else ""
        raise ValueError(f"{place}: every line of a flag file must have the form --flag=value; got {word!r}.{remedy}")
    return name.lstrip("-")


def check_dashes(texts: Iterable[str], names: Iterable[str]):
    """Raises ValueError if one of the texts of a command line is a flag without its dashes.

    Args:
        texts: the words that are not flags, without those after `--`.
        names: names of the program's flags, and their aliases.
    """
    names = set(names)
    for text in texts:
        found = _LOST_DASHES.fullmatch(text)
        if found and found["name"] in names and (found["mark"].strip() or found["value"]):
            flag = f"--{found['name']}{found['value'] or ''}"
            raise ValueError(
                f"The text {text!r} looks like a flag without its two hyphens. Write {flag}, or put texts after `--`."
            )
