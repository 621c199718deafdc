"""The wheel, and a folder in which bert_tf comes from it: for tests of what works without a checkout."""

import os
import pathlib
import subprocess
import sys

from tools import dist

LIMIT_S = 300


def run(command: list, folder: pathlib.Path, limit_s: float = LIMIT_S) -> subprocess.CompletedProcess:
    """Runs a command that must succeed, without the checkout on Python's path; returns it."""
    ended = subprocess.run(list(map(str, command)), cwd=folder, env=environment(), text=True, timeout=limit_s,
                           capture_output=True, check=False)  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    return ended


def environment() -> dict[str, str]:
    """Returns the variables of such a command."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def build(folder: pathlib.Path) -> pathlib.Path:
    """Writes the wheel into `folder`, made of a copy, so that the checkout stays as it is; returns its path."""
    source = folder / "source"
    dist.copy_source(source)
    options = ["--quiet", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}"]
    run([sys.executable, "-m", "pip", "wheel", *options, source], folder)
    (path,) = folder.glob("*.whl")
    return path


def install(wheel: pathlib.Path, folder: pathlib.Path):
    """Makes an environment, `venv`, in `folder`: bert_tf comes from the wheel, what it needs from the one we are in.

    Its site-packages name ours in a .pth file. The .pth files there, such as that of an editable bert_tf, are not read.
    """
    run([sys.executable, "-m", "venv", "--without-pip", "venv"], folder)
    python = folder / "venv" / "bin" / "python"
    run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel],
        folder,
    )
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    ours = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "needed.pth").write_text("\n".join(ours) + "\n", encoding="utf-8")
    where = run([python, "-c", "import bert_tf; print(bert_tf.__file__)"], folder).stdout.strip()
    assert pathlib.Path(where).is_relative_to(folder)
