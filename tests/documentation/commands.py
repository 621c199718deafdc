"""The command lines of the documentation, as they stand there: in blocks, and in the middle of sentences."""

import pathlib
import re
import shlex
import textwrap
from typing import NamedTuple

from bert_tf.cli.commands import find
from tests.conftest import ROOT

_BLOCK = re.compile(r"^( *)```([^\n`]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n|\n(?= {4}))+")
_INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_SHELLS = {"sh", "bash", "shell", "console", "shell-session"}
_OTHERS = {"python", "python3", "make", "curl", "docker", "kubectl", "pip", "echo", "head", "tensorflow_model_server"}
_HERE = re.compile(r"(<<'(\w+)'.*\n)(?:.*\n)*?\2$", re.MULTILINE)  # lines that a command is given
_SETTING = re.compile(r"[A-Z_]+=\S*")  # of the environment, before a command
_CUT = "..."  # stands for flags that a page leaves out


class Command(NamedTuple):
    """A command line.

    Attributes:
        page: where it stands, from the top of the checkout.
        text: its lines, joined.
        words: as a shell takes them apart, without the settings of the environment before them.
    """

    page: str
    text: str
    words: tuple[str, ...]

    @property
    def program(self) -> str | None:
        """The name of our program, or None: an alias, such as `train classifier`, stands for it."""
        return self._of_ours()[0]

    @property
    def arguments(self) -> list[str]:
        """What our program is given."""
        return [word for word in self._of_ours()[1] if word != _CUT]

    def _of_ours(self):
        """Returns the program, or None, and the words after its name."""
        first, *more = self.words
        if is_python(first) and more and re.fullmatch(r"run_\w+\.py", more[0]):
            return more[0].removesuffix(".py"), more[1:]
        if is_python(first) and more[:2] == ["-m", "bert_tf"]:
            more = more[2:]
        elif pathlib.PurePath(first).name != "bert-tf":
            return None, []
        if not more or more[0].startswith("-"):
            return None, more
        found = find(more)
        return found.name or found.typed, found.rest

    @property
    def is_cut(self) -> bool:
        """Whether something is left out of it."""
        return _CUT in self.words


def is_python(word: str) -> bool:
    return re.fullmatch(r"python3?", pathlib.PurePath(word).name) is not None


def name_of(page: pathlib.Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: pathlib.Path) -> list[tuple[str, str]]:
    """Returns (language, text) of the blocks of a page: those between fences, then those that are indented."""
    text = page.read_text(encoding="utf-8")
    fenced = [(match[2].strip(), textwrap.dedent(match[3])) for match in _BLOCK.finditer(text)]
    return fenced + [("", textwrap.dedent(match[0].strip("\n"))) for match in _INDENTED.finditer(_BLOCK.sub("", text))]


def in_blocks(page: pathlib.Path) -> list[Command]:
    """Returns the commands of a page's blocks, in order."""
    return [command for language, text in blocks(page) for command in _of_block(name_of(page), language, text)]


def in_text(name: str, text: str) -> list[Command]:
    """Returns the commands of a docstring: its indented blocks."""
    found = (_of_block(name, "", textwrap.dedent(match[0].strip("\n"))) for match in _INDENTED.finditer(text))
    return [command for block in found for command in block]


def in_sentences(page: pathlib.Path) -> list[str]:
    """Returns what stands between backticks outside of blocks, on one line each."""
    prose = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    return [" ".join(match[1].split()) for match in _INLINE.finditer(prose)]


def split(text: str) -> list[str]:
    """Returns the words of a command line, without comments."""
    return shlex.split(text, comments=True)


def parse(page: str, text: str) -> Command | None:
    """Returns a command line of any program that we know of, or None."""
    words = split(text.removesuffix("&"))  # one that runs in the background
    while words and _SETTING.fullmatch(words[0]):
        words = words[1:]
    return Command(page, text, tuple(words)) if words and _is_known(words[0]) else None


def _of_block(page, language, text):
    if language not in {"", *_SHELLS}:
        return []
    lines = re.sub(r"\\\n\s*", "", _HERE.sub(r"\1", text)).splitlines()
    if any(line.startswith("$ ") for line in lines):  # the others are what was printed
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    elif lines[0].startswith("--"):  # flags of the page's program
        lines = [f"bert-tf {pathlib.PurePath(page).stem} {lines[0]} {_CUT}", *lines[1:]]
    elif language == "" and not _begins_like_a_command(text):
        return []
    lines = [line for line in _logical_lines(lines) if not _only_sets(line)]
    found = [parse(page, line) for line in lines]
    if language == "bash":  # a script of the shell, which the tutorials' tests run: not all of it is ours
        return [command for command in found if command]
    assert all(found), f"{page}: a block of commands must be nothing else; see _OTHERS; got\n{text}"
    return found


def _begins_like_a_command(text):
    lines = [line for line in text.splitlines() if not line.startswith("#") and not _SETTING.fullmatch(line)]
    words = [word for word in lines[0].split() if not _SETTING.fullmatch(word)] if lines else []
    return bool(words) and _is_known(words[0])


def _is_known(word):
    return pathlib.PurePath(word).name in {"bert-tf", *_OTHERS}


def _only_sets(line):
    return line.startswith("export ") or _SETTING.fullmatch(line) is not None


def _logical_lines(lines):
    """Returns the lines that say something, those joined through which a quotation goes."""
    found, text = [], ""
    for line in lines:
        text = f"{text}\n{line}" if text else line.strip()
        try:
            said = split(text)
        except ValueError:  # the quotation goes on
            continue
        found, text = [*found, text] if said else found, ""
    assert not text, f"A quotation must end; got {text}"
    return found
