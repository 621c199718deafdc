"""How `make setup` follows pip, and that the lock has all that it must have without a resolver."""

import hashlib
import importlib.metadata
import io
import json
import re
import subprocess
import sys
import zipfile

import pytest

from tests import toml
from tests.conftest import ROOT
from tools import install

HOLES = ROOT / "tools" / "known_holes.json"
# As pip 23 and pip 26 say it.
OLD = """Ignoring colorama: markers 'sys_platform == "win32"' don't match your environment
Collecting absl-py==2.5.1 (from -r requirements.lock (line 3))
  Downloading absl_py-2.5.1-py3-none-any.whl (137 kB)
Processing /opt/files/attrs-26.1.0-py3-none-any.whl (from -r requirements.lock (line 24))
Collecting tensorflow==2.21.0 (from -r requirements.lock (line 296))
  Downloading tensorflow-2.21.0-cp311-cp311-manylinux_2_27_x86_64.whl (572.4 MB)
Installing collected packages: absl-py, attrs, tensorflow
Successfully installed absl-py-2.5.1
"""
NEW = """Ignoring colorama: markers 'sys_platform == "win32"' don't match your environment
Collecting absl-py==2.5.1 (from -r requirements.lock (line 3))
  Using cached absl_py-2.5.1-py3-none-any.whl.metadata (3.3 kB)
Collecting tensorflow==2.21.0 (from -r requirements.lock (line 296))
  Downloading tensorflow-2.21.0-cp311-cp311-manylinux_2_27_x86_64.whl.metadata (4.4 kB)
Using cached absl_py-2.5.1-py3-none-any.whl (137 kB)
Downloading attrs-26.1.0.tar.gz (65 kB)
Downloading tensorflow-2.21.0-cp311-cp311-manylinux_2_27_x86_64.whl (572.4 MB)
Installing collected packages: absl-py, attrs, tensorflow
"""


@pytest.mark.parametrize("said", [OLD, NEW])
def test_what_is_fetched_is_counted(said):
    shown, lines = [], iter(said.splitlines(keepends=True))
    progress = install.Progress("fetching", 4, shown.append, terminal=True)
    assert install.follow(lines, progress)
    progress.end()
    told = [line.strip() for line in "".join(shown).split("\r")[1:]]
    assert told[0].startswith("fetching 1 of 3: absl_py 2.5.1, 137 kB")
    assert told[1].startswith("fetching 2 of 3: attrs 26.1.0")
    assert told[2] == "fetching 3 of 3: tensorflow 2.21.0, 572.4 MB"
    assert shown[-1] == "\n"


def test_without_a_terminal_few_lines_are_written():
    shown = []
    progress = install.Progress("fetching", 25, shown.append, terminal=False)
    lines = [f"  Downloading p{i}-1.0-py3-none-any.whl ({573 if i == 4 else 1} MB)\n" for i in range(25)]
    assert not install.follow(lines, progress), "pip ended before it installed anything"
    progress.end()
    counts = [line.split()[1] for line in shown]
    assert counts == ["5", "10", "20", "25"] and shown[0] == "  fetching 5 of 25: p4 1.0, 573 MB\n"


def test_pins_are_the_lines_that_name_a_package():
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    names = [line.partition("==")[0] for line in install.pins(lock)]
    assert "tensorflow" in names and all("==" in line for line in install.pins(lock))
    assert len(names) == lock.count("==") - sum(line.count("==") - 1 for line in install.pins(lock))


def skip_unless_locked(version):
    there = importlib.metadata.version("tensorflow")
    if there != version:
        pytest.skip(f"needs the packages of the lock; here is TensorFlow {there}")


def test_the_lock_needs_no_resolver():
    """Every package that a package of the lock needs is in it, in a version that fits; here, of what is installed."""
    from packaging.requirements import Requirement

    from bert_tf.cli import doctor

    pinned = {}
    for line in install.pins((ROOT / "requirements.lock").read_text(encoding="utf-8")):
        each = Requirement(line)
        if each.marker is None or each.marker.evaluate():
            pinned[doctor.plain_name(each.name)] = next(iter(each.specifier)).version
    skip_unless_locked(pinned["tensorflow"])
    faults = [each for each in doctor.examine_packages(pinned) if each.state == doctor.FAULT]
    assert not faults, [finding.text for finding in faults]


LOCKS = ("requirements.lock", "tools/docs/requirements.lock")
CUDA_LOCK = "requirements-cuda.lock"


@pytest.mark.parametrize("lock", [*LOCKS, CUDA_LOCK])
def test_every_file_that_is_installed_has_a_hash(lock):
    text = (ROOT / lock).read_text(encoding="utf-8")
    packages = re.split(r"\n(?=\w)", text)[1:]
    assert len(packages) == len(install.pins(text)) > 10
    assert not [each.split()[0] for each in packages if not re.search(r" \\\n    --hash=sha256:[0-9a-f]{64}\b", each)]


def test_nvidia_s_libraries_are_those_that_tensorflow_asks_for():
    from packaging.requirements import Requirement

    locked = install.pins((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    skip_unless_locked(next(line for line in locked if line.startswith("tensorflow==")).split()[0].partition("==")[2])
    lines = map(Requirement, install.pins((ROOT / CUDA_LOCK).read_text(encoding="utf-8")))
    pinned = {each.name: next(iter(each.specifier)).version for each in lines}
    wanted = [Requirement(each) for each in importlib.metadata.requires("tensorflow") if "and-cuda" in each]
    assert len(wanted) > 5 and not [each for each in wanted if not each.specifier.contains(pinned[each.name])]


def test_no_version_has_a_known_hole():
    """tools/known_holes.json says from which version on a package has none; bounds and locks stay above it.

    Only what images and clusters come with may be older, in a bound and not in a lock; the doctor names those.
    """
    from packaging.requirements import Requirement
    from packaging.version import Version

    from bert_tf.cli.doctor import WITHOUT_HOLES

    safe = {name: Version(first) for name, (first, _) in json.loads(HOLES.read_text(encoding="utf-8")).items()}
    project = toml.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    named = [*project["project"]["dependencies"], *project["build-system"]["requires"], *sum(extras.values(), [])]
    lowest = {}
    for each in map(Requirement, named):
        bounds = [Version(part.version) for part in each.specifier if part.operator in (">=", "==")]
        assert bounds or each.name == "bert-tf", f"{each.name} must have a lower bound"
        if each.name in WITHOUT_HOLES:
            bounds = [Version(WITHOUT_HOLES[each.name][0].removeprefix(">="))]
        lowest.setdefault(each.name, []).extend(bounds)
    for lock in LOCKS:
        for line in install.pins((ROOT / lock).read_text(encoding="utf-8")):
            each = Requirement(line)
            lowest.setdefault(each.name, []).append(Version(next(iter(each.specifier)).version))
    assert set(safe) <= set(lowest)
    assert not [(name, str(min(lowest[name])), str(first)) for name, first in safe.items() if min(lowest[name]) < first]


@pytest.fixture
def index(tmp_path):
    """A folder with two wheels."""
    for name in ("first_thing", "second_thing"):
        with zipfile.ZipFile(tmp_path / f"{name}-1.0-py3-none-any.whl", "w") as archive:
            archive.writestr(f"{name}.py", "")
            info = f"{name}-1.0.dist-info"
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
    return tmp_path


@pytest.mark.slow
def test_pip_is_followed_to_its_end(index, monkeypatch, capfd, tmp_path):
    lock, there = index / "lock", tmp_path / "site"
    wheels = list(index.glob("*.whl"))
    hashes = {path.name.partition("-")[0]: hashlib.sha256(path.read_bytes()).hexdigest() for path in wheels}
    lines = ("first-thing==1.0", 'second-thing==1.0 ; python_version >= "3"', 'no==1 ; python_version < "3"')
    names = ("first_thing", "second_thing", "first_thing")
    pairs = list(zip(lines, names, strict=True))
    locked = [f"{line} \\\n    --hash=sha256:{hashes[name]}\n    # via x\n" for line, name in pairs]
    lock.write_text("".join(locked))
    options = ("--no-index", "--find-links", str(index), "--target", str(there), "--requirement")
    monkeypatch.setattr(install, "COMMAND", (*install.COMMAND[:-1], *options))
    monkeypatch.setattr(install.sysconfig, "get_paths", lambda: {"purelib": str(there)})
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    assert install.main(str(lock)) == 0
    assert (there / "first_thing.py").exists() and len(list(there.rglob("*.pyc"))) == 2
    assert out.getvalue().splitlines() == ["  fetching 2 of 2: second_thing 1.0", "  installing 2 of 2", "  compiling"]
    lock.write_text("third-thing==1.0\n")
    assert install.main(str(lock)) == 1 and "third-thing" in capfd.readouterr().err
    other = "".join(locked).replace(hashes["second_thing"], hashes["first_thing"])
    lock.write_text(other)
    assert install.main(str(lock)) == 1 and "DO NOT MATCH" in capfd.readouterr().err.upper()


@pytest.mark.parametrize(
    ("uv", "words"),
    [
        ("", ("tools/install.py requirements.lock", "-m pip check")),
        ("/x/uv", ("pip sync --require-hashes --compile-bytecode", "pip check")),
    ],
)
def test_make_setup_installs_without_a_resolver_and_checks(uv, words):
    command = ["make", "--dry-run", "-W", "requirements.lock", "setup", f"UV={uv}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert all(word in done.stdout for word in words), done.stdout
