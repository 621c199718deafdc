"""Installs what requirements.lock names into the environment of the Python that runs this, and says how far it is.

    .venv/bin/python tools/install.py requirements.lock

The lock names every package and its version, so that pip is not asked to work out what goes with what: it takes the
lines whose markers are true here, and only files whose hashes are in the lock. All is compiled at the end, by all
cores: with PYTHONDONTWRITEBYTECODE, which many containers set, every program would else compile TensorFlow anew, for
some 5 seconds.
"""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable

COMMAND = (
    *(sys.executable, "-m", "pip", "install", "--no-deps", "--no-compile", "--disable-pip-version-check"),
    *("--progress-bar", "off", "--require-hashes", "--requirement"),
)
# The line with which a file begins to come; what ends in .metadata is only looked at.
_FILE = re.compile(
    r"(?:Downloading|Using cached|Processing) (?:\S*/)?([\w.]+?)-(\d[^-\s]*?)(?:-\S*)?\.(?:whl|tar\.gz)"
    r"(?: \(([\d.]+ [kMG]B)\)|\s|$)"
)
_LARGE = re.compile(r"\d{2,}(\.\d+)? MB|[\d.]+ GB")  # takes a while: it is named before it comes
_EVERY = 10  # packages between two lines where nobody looks on
_PAUSE = 0.5  # seconds between two looks at what is installed


def pins(text: str) -> list[str]:
    """Returns the lines of a lock that name a package, markers included, without the hashes that follow."""
    return [line.removesuffix("\\").strip() for line in text.splitlines() if line[:1].isalnum()]


class Progress:
    """Says how many packages there are by now: on a terminal in one line, else in a line now and then.

    Args:
        doing: what happens to them.
        total: how many there will be.
        write: takes text.
        terminal: whether a line can be written anew.
    """

    def __init__(self, doing: str, total: int, write: Callable[[str], None], terminal: bool):
        self._doing, self.total, self._write, self._terminal = doing, total, write, terminal
        self.count, self._width = 0, 0

    def show(self, count: int, what: str = "", important: bool = False):
        """Tells of `count` packages, the last of which is `what`."""
        line = f"  {self._doing} {count} of {self.total}{': ' if what else ''}{what}"
        if self._terminal:
            self._write("\r" + line.ljust(self._width))
            self._width = len(line)
        elif important or count // _EVERY > self.count // _EVERY or count == self.total != self.count:
            self._write(line + "\n")
        self.count = count

    def end(self):
        """Ends the line."""
        if self._terminal and self.count:
            self._write("\n")


def follow(lines: Iterable[str], progress: Progress) -> bool:
    """Shows what pip fetches, as its lines come; returns at their end, or with True where pip begins to install."""
    count = 0
    for line in lines:
        if line.startswith("Ignoring "):
            progress.total -= 1  # its marker is not true here
        elif found := _FILE.match(line.strip()):
            count += 1
            name, version, size = found.groups()
            progress.show(count, f"{name} {version}{', ' if size else ''}{size or ''}", bool(_LARGE.match(size or "")))
        elif line.startswith("Installing collected packages"):
            return True
    return False


def count_installed(folder: pathlib.Path) -> int:
    """Returns how many packages lie in site-packages."""
    return sum(1 for _ in folder.glob("*.dist-info"))


def main(lock: str) -> int:
    """Installs; returns pip's status."""
    folder, terminal = pathlib.Path(sysconfig.get_paths()["purelib"]), sys.stdout.isatty()

    def write(text):
        sys.stdout.write(text)
        sys.stdout.flush()

    total = len(pins(pathlib.Path(lock).read_text(encoding="utf-8")))
    now = {**os.environ, "PYTHONUNBUFFERED": "1"}  # each line when it is true
    process = subprocess.Popen([*COMMAND, lock], stdout=subprocess.PIPE, text=True, env=now)
    fetched = Progress("fetching", total, write, terminal)
    begins = follow(process.stdout, fetched)
    fetched.end()
    if begins:
        watch(process, folder, Progress("installing", fetched.total, write, terminal))
    process.stdout.read()  # so that pip is never left waiting
    if not process.wait():
        write("  compiling\n")
        # What it cannot compile, such as templates, is never imported.
        subprocess.run([sys.executable, "-m", "compileall", "-qq", "-j", "0", folder], check=False)
    return process.returncode


def watch(process: subprocess.Popen, folder: pathlib.Path, progress: Progress):
    """Shows how many packages are installed until the process ends."""
    there = count_installed(folder)
    while process.poll() is None:
        progress.show(max(0, count_installed(folder) - there))
        time.sleep(_PAUSE)
    if not process.returncode:
        progress.show(progress.total)
    progress.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
