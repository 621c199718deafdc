"""Runs shell tutorials from top to bottom, with a tiny model or with MiniLM's weights."""

import re
import socket
import string

from tests import sentence_folders, tiny
from tests.conftest import ROOT
from tests.documentation.tutorials import commands, pages

PAGES = {page.stem: page for page in pages.pages("bash")}
WEIGHTS = "demo/weights/minilm"  # where the pages expect a model
DATA = "docs/tutorials/data"  # what the pages copy their files from
# Why blocks of the pages are not run here. There is no other reason.
REASONS = {"makes the environment", "fetches the weights", "needs docker", "trains for 45 minutes"}


def model(folder, text):
    """Writes a tiny model where pages expect one.

    Its vocabulary has all words of a page and of the files that the page copies, long ones in two pieces.
    """
    for directory in re.findall(rf"{DATA}/\w+", text):
        text += "".join(file.read_text(encoding="utf-8") for file in (ROOT / directory).iterdir())
    words = sorted(set(re.findall(r"[a-z]+|[0-9]+|[^\w\s]", text.lower())))
    pieces = [piece for word in words for piece in ([word] if len(word) < 7 else [word[:5], f"##{word[5:]}"])]
    letters = [f"{start}{letter}" for start in ("", "##") for letter in string.ascii_lowercase + string.digits]
    vocab = list(dict.fromkeys([*tiny.VOCAB, *pieces, *letters]))
    place = tiny.checkpoint(folder / WEIGHTS, vocab=vocab, vocab_size=len(vocab), max_position_embeddings=512)
    sentence_folders.write(place)


def on_free_ports(text):
    """Returns a page's text with free ports in place of those that it asks on; they are under those of connections."""
    free = (port for port in range(21000, 32000) if _is_free(port))
    for port in commands.PORTS:
        text = text.replace(port, str(next(free)))
    return text


def _is_free(port):
    with socket.socket() as tried:
        return tried.connect_ex(("localhost", port)) != 0


def check(shell, text, with_weights, tolerance=0.0):
    """Runs a page and compares what it prints with what it shows, lines that go by the weights `with_weights` alone.

    Returns what each block printed on stdout, except those that stay.
    """
    printed = []
    for block in commands.blocks(on_free_ports(text)):
        if block.not_run:
            assert block.not_run in REASONS
        elif block.sign:
            shell.stay(block.text, block.sign)
        else:
            ended = shell.run(block.text)
            check_block(ended, block, with_weights, tolerance)
            printed.append(ended.stdout)
    for status, log in shell.stop():
        assert status == 0, log
    return printed


def check_block(ended, block, with_weights, tolerance):
    said = f"line {block.line}:\n{block.text}\nstdout:\n{ended.stdout}\nstderr:\n{ended.stderr}"
    assert ended.returncode == block.status, f"status {ended.returncode}, {said}"
    for shown in block.shown:
        if with_weights or not shown.mark:
            found = [commands.matches(shown.text, text, tolerance, shown.mark) for text in (ended.stdout, ended.stderr)]
            assert any(found), f"{shown.text}\n{said}"
