"""Wording that a native reader stumbles over, and home-made terms: counted in the pages and in what the code prints.

    .venv/bin/python -m tools.wording               # words, pages, and hits per pattern
    .venv/bin/python -m tools.wording --show=told   # each hit of one pattern, with its file and line

`tests/documentation/wording_test.py` fails on every hit that is not among its exceptions.
"""

import ast
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

from tools.docs.navigation import COMMANDS, ROOT


class Pattern(NamedTuple):
    """A kind of wording.

    Attributes:
        name: of the kind, for --show.
        find: a regular expression, tried on text without code, in lower case except for the first letters of sentences.
        write: what to write instead.
    """

    name: str
    find: re.Pattern
    write: str


def _pattern(name, find, write):
    return Pattern(name, re.compile(find), write)


# What has no legitimate use in text that users read.
PATTERNS = (
    _pattern("bit", r"\bto the (last )?bit\b", "bit-exact, bit-identical"),
    _pattern("superlative", r"\b(likelie(r|st)|commone(r|st)|surest|surer)\b", "most likely, most common"),
    _pattern("atomic", r"\b(whole|all) or (not at all|none|nothing)\b|\bboth or (neither|none)\b", "atomically"),
    _pattern("whoever", r"\b[Ww]hoever\b|\bone's own\b", "you, your own"),
    _pattern("told", r"\b(is|are|was|were|be|been|being) told\b", "is logged, reported, shown"),
    _pattern("goes on", r"\b(go|goes|going|went) on\b", "resumes, continues"),
    _pattern("packed", r"\bpacked \(\.?gz|\balso packed\b", "gzipped"),
    _pattern("mend", r"\b(mend|mends|mended|mending|astray)\b", "fix; diverge"),
    _pattern("held to", r"\bheld (to|against)\b", "checked against, compared with"),
    _pattern(
        "distributive",
        r"\b[a-z]+s a second\b(?! (time|run))"
        r"|\b(text|example|sentence|phrase|name|token|piece|row)s? an? (line|text|second|row|step)\b",
        "per line, per second",
    ),
    _pattern("anew", r"\banew\b", "again, from scratch"),
    _pattern("remedy", r"\b(remedy|remedies)\b", "fix"),
    _pattern(
        "is no",
        r"(?<!there )\b(is|are|was|were) no (?!longer\b|more than\b|larger\b|better\b|effect\b)\w+",
        "is not a, does not",
    ),
    _pattern("come with", r"\bmust come (with|without)\b", "requires; cannot be combined with"),
    _pattern("got", r"\. Got\b", "must be X; got Y"),
    _pattern("received it", r"\b[Rr]eceived (it|none|both)\b", "what was received"),
    _pattern("behind", r"\b(behind|beside)\b(?! a (proxy|load balancer|firewall))", "after; next to; compared with"),
    _pattern("of topic", r"^(Of|Its|In which)\b", "a noun phrase or an imperative"),
    _pattern("so many", r"\bso (many|few)\b", "this many, N"),
    _pattern("but for", r"\bbut for\b", "except for"),
    _pattern("piece", r"\b(word |sub-?word )?pieces?\b(?! of)", "token"),
    _pattern("rate", r"\b(the|a|higher|lower|peak|its|one|same) rates?\b(?! (of|at|limit))", "learning rate"),
    _pattern("blank", r"\b(fills?|filled|filling)( in)? (the |a )?blanks?\b", "fill-mask, predict masked tokens"),
    _pattern("norms", r"\bnorms (first|behind)\b|\bheads off\b", "pre-LN, post-LN; head ablation"),
    _pattern("processor", r"\bprocessors?\b", "CPU"),
    _pattern("honest", r"\bhonest (probabilit|number)", "calibrated"),
    _pattern("hostile", r"\b(hostile files?|files? from anywhere)\b", "untrusted files"),
    _pattern("forms", r"\bother programs' forms?\b|\bother people's checkpoints\b", "formats of other libraries"),
    _pattern("rooms", r"\brooms\b", "packages"),
    _pattern("white space", r"\bwhite space\b", "whitespace"),
    _pattern("None colon", r"(^|[;.] )None: [a-z]", "None for all; if None, all are read"),
    _pattern(
        "empty remedy",
        r"[;.] ([Cc]orrect (it|this line)|[Uu]se (another|others)( one| file| model)?)\.",
        "what to do, or nothing",
    ),
)

_CODE = re.compile(r"^ *```.*?^ *```$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"``[^`]*``|`[^`\n]*(?:\n[^`\n]+)?`")
_TARGET = re.compile(r"\]\([^)\s]*\)|https?://\S+")


class Hit(NamedTuple):
    """A place of the wording: file from the top of the checkout, line, the words around, the pattern's name."""

    file: str
    line: int
    words: str
    name: str


def prose(text: str) -> str:
    """Returns a page's text without code, targets of links and comments; its lines stay where they are."""
    for pattern in (_CODE, _SPAN, _TARGET):
        text = pattern.sub(lambda match: "\n" * match[0].count("\n") + (" X " if "```" not in match[0] else ""), text)
    return text


def pages(root: pathlib.Path = ROOT) -> list[pathlib.Path]:
    """Returns the pages that are written by hand."""
    found = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), root / "benchmarks" / "README.md"]
    return sorted(page for page in found if root / COMMANDS.relative_to(ROOT) not in page.parents)


def page_sentences(page: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Yields (line, text) of a page's lines, list marks and the bars of tables taken off."""
    for number, line in enumerate(prose(page.read_text(encoding="utf-8")).split("\n"), 1):
        for cell in line.strip().lstrip("-*#>0123456789. ").split("|"):
            yield number, cell.strip()


def code_strings(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Yields (line, text) of a Python file's messages, help and first lines of docstrings, of a command's all lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
            if not getattr(node, "name", "").startswith("_"):
                is_help = node is tree and path.parent.name == "cli"
                shown = text if is_help else text.split("\n")[0]
                yield getattr(node, "lineno", 1), _SPAN.sub("X", shown)
        elif isinstance(node, (ast.Raise, ast.Call)) and (text := _message(node)):
            yield node.lineno, _SPAN.sub("X", text)


def _message(node):
    """Returns the text of an error, a log line or a setting's help; X stands for values. None for other code."""
    if isinstance(node, ast.Raise):
        call = node.exc if isinstance(node.exc, ast.Call) else None
        arguments = call.args if call else []
    else:
        name = _name(node.func)
        if name.startswith("logging.") and name.split(".")[1] in ("info", "warning", "error", "exception"):
            arguments = node.args[:1]
        elif name == "option":
            arguments = node.args[1:2]
        elif name == "option_as":
            arguments = [keyword.value for keyword in node.keywords if keyword.arg == "help"]
        else:
            return None
    return "".join(_text(each) for each in arguments) or None


def _name(function):
    """Returns `f` or `module.f`; "" for what has no such name."""
    if isinstance(function, ast.Name):
        return function.id
    is_dotted = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
    return f"{function.value.id}.{function.attr}" if is_dotted else ""


def _text(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(each.value if isinstance(each, ast.Constant) else "X" for each in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return ""


def hits(root: pathlib.Path = ROOT) -> list[Hit]:
    """Returns every hit of every pattern, in pages and then in code."""
    sources = [(page, page_sentences) for page in pages(root)]
    sources += [(path, code_strings) for path in sorted((root / "bert_tf").rglob("*.py"))]
    found = []
    for path, read in sources:
        for line, text in read(path):
            for pattern in PATTERNS:
                found += [
                    Hit(path.relative_to(root).as_posix(), line, text[max(0, match.start() - 40) : match.end() + 40],
                        pattern.name)
                    for match in pattern.find.finditer(text)
                ]  # fmt: skip
    return found


def main():
    """Prints the counts, or the hits of one pattern."""
    options = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
    root = pathlib.Path(options.get("root", ROOT))
    found = hits(root)
    if name := options.get("show"):
        for hit in found:
            if hit.name == name:
                print(f"{hit.file}:{hit.line}: {hit.words}")
        return
    count = sum(len(re.findall(r"[A-Za-z][\w'-]*", prose(page.read_text(encoding="utf-8")))) for page in pages(root))
    print(f"{len(pages(root))} pages written by hand, {count:,} words of prose")
    for pattern in PATTERNS:
        of = [hit for hit in found if hit.name == pattern.name]
        in_pages = sum(hit.file.endswith(".md") for hit in of)
        print(f"{pattern.name:<14} {in_pages:>5} in pages {len(of) - in_pages:>5} in code   write: {pattern.write}")


if __name__ == "__main__":
    main()
