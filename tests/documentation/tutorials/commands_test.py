"""The shell tutorials run from top to bottom as they are written, and print what they show."""

import itertools
import pathlib
import re
import shutil
import signal

import pytest

from tests.conftest import ROOT
from tests.documentation.tutorials import commands, pages
from tests.documentation.tutorials.running import DATA, PAGES, REASONS, WEIGHTS, check, check_block, model
from tests.documentation.tutorials.shell import PROGRAMS, Shell


@pytest.fixture(scope="module")
def process(request):
    runs_pages = any(item.get_closest_marker("slow") for item in request.session.items)
    with Shell(PROGRAMS if runs_pages else ()) as shell:
        yield shell


@pytest.fixture
def shell(process, tmp_path):
    """A shell in a folder of its own, which has the data of the tutorials where a checkout has them."""
    shutil.copytree(ROOT / DATA, tmp_path / DATA)
    process.folder = tmp_path
    yield process
    process.stop()


def beginning(name):
    """Returns the blocks of a page before the first that needs a model."""
    blocks = [block for block in commands.blocks(PAGES[name].read_text(encoding="utf-8")) if not block.not_run]
    return list(itertools.takewhile(lambda block: WEIGHTS not in block.text, blocks))


def test_every_block_of_every_page_is_one_that_is_run_or_says_why_not():
    assert len(PAGES) == 8
    for page in PAGES.values():
        text = page.read_text(encoding="utf-8")
        found = commands.blocks(text)
        shown = sum(len(block.shown) for block in found)
        assert text.count("```") == 2 * (len(found) + shown), f"{page.name}: a block of another language"
        assert {block.not_run for block in found} - {None} <= REASONS


def test_every_tutorial_is_run_and_listed_on_the_first_page():
    first_page = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\]\(tutorials/([a-z_]+\.md)\)", first_page))
    python = pages.pages()
    assert {page.name for page in [*python, *PAGES.values()]} == listed - {"index.md"}
    assert {page.name for page in pages.FOLDER.glob("*.md")} - {"index.md"} == listed - {"index.md"}
    assert not {page.stem for page in python} & PAGES.keys()


def test_every_file_of_data_is_copied_by_a_page():
    copied = {name for page in PAGES.values() for name in re.findall(rf"{DATA}/(\w+)", page.read_text("utf-8"))}
    assert copied == {directory.name for directory in (ROOT / DATA).iterdir()}


MADE_UP = """
<!-- not run: needs docker -->
```bash
docker run it
```

```bash
printf '12:30:59 one 0.51\\ntwo\\n' && echo three >&2
```

prints

<!-- by the weights -->
```text
one 0.50
two
```

and in the log

```text
three
```

<!-- status 1 -->
```bash
false
echo never
```
"""


def test_blocks(shell):
    left_out, prints, fails = commands.blocks(MADE_UP)
    assert left_out == commands.Block(4, "docker run it\n", [], "needs docker")
    assert prints.shown == [commands.Shown("one 0.50\ntwo\n", commands.BY_THE_WEIGHTS), commands.Shown("three\n")]
    assert fails.status == 1 and fails.line == 27
    (python,) = commands.blocks("```python\nfor name in \"$a\", 'b':\n    print(name)\n```\n\n```text\n$a\nb\n```\n")
    check_block(shell.run(python.text), python, True, 0.0)
    with pytest.raises(ValueError, match="Line 3: a block must be bash or Python, .* got 'json'"):
        commands.blocks("\n```json\n1\n```\n")
    with pytest.raises(ValueError, match="Line 3: a comment before commands .* got perhaps."):
        commands.blocks("<!-- perhaps -->\n```bash\nls\n```\n")


@pytest.mark.parametrize(
    "shown, printed, is_match",
    [
        ("a\nb", "a\nb\n", True),
        ("a", "a\nb", False),
        ("a\n...", "a\nb\nc", True),
        ("...\nc", "a\nb\nc", True),
        ("...\nb\n...", "a\nb\nc", True),
        ("a\n...\nb", "a\nb", True),
        ("...\nb", "b\nc", False),
        ("a\n...\nd\n...", "a\nb\nc", False),
        ("a 0.50 b ...", "a  0.55 b c d", False),
        ("a 0.50 b ...", "a  0.52 b c d", True),
        ("a ...", "a", True),
        ("a b ...", "a\nb", False),
        ("loss 0.50", "12:00:01 loss  0.52", True),
        ("loss 0.50", "loss 0.54", False),
        ("9 of 10", "8 of 10", False),
    ],
)
def test_what_a_page_shows_is_what_was_printed(shown, printed, is_match):
    assert commands.matches(shown, printed, tolerance=0.03) == is_match


@pytest.mark.parametrize(
    "shown, printed, is_match",
    [
        ("eval_f1 = 0.57", "eval_f1 = 0.47", True),
        ("eval_f1 = 0.57", "eval_f1 = 0.07", False),
        ("eval_f1 = 0.57", "eval_f2 = 0.57", False),
        ("eval_f1 = 57.5", "eval_f1 = 30.25", True),
        ("eval_f1 = 57.5", "eval_f1 = 20.25", False),
        ("global_step = 57", "global_step = 58", False),
        ("...\neval_f1 = 57.5", "12:00:00   eval_f1 = 57.5", False),  # of a log, not of the file
        ("6\tpayment\t0.5\ttext", "5\tdelivery\t0.9\tother", True),
        ("6\tpayment\t0.5\ttext", "5\tdelivery\t0.9", False),
        ('{"id": "0", "label": "a"}', '{"id": "1", "label": "b"}', True),
        ('{"id": "0", "label": "a"}', '{"id": "1"}', False),
        ("q\n  0.8399        11  a", "q\n  -0.7642         8  b", True),
        ("q\n  0.8399        11  a", "q\n  0.7642", False),
        ('{\n  "q1": "9 euros"\n}', '{\n  "q1": ""\n}', True),
        ('{\n  "q1": "9 euros"\n}', '{\n  "q2": "9 euros"\n}', False),
        ("accuracy: +14.81 ...", "accuracy: -9.63 (p = 0.0001); B is better", True),
        ("accuracy: +14.81 ...", "f1: -9.63 (p = 0.0001); B is better", False),
        ("accuracy: +14.81 (p = 0.12); luck", "accuracy: -9.63 (p = 0.0001); B is better", True),
        ("...\nOnly B correct: 17. Only A correct: 9.", "a\nOnly B correct: 7. Only A correct: 1.", True),
    ],
)
def test_what_depends_on_a_training_is_compared_by_its_form(shown, printed, is_match):
    assert commands.matches(shown, printed, tolerance=0.03, mark=commands.BY_THE_TRAINING) == is_match


def test_a_shell_runs_programs_as_a_terminal_does(shell, tmp_path):
    """Words, folder, streams, pipes and statuses are those of bash; what stays is ended by SIGTERM."""
    _, prints, fails = commands.blocks(MADE_UP)
    check_block(shell.run(prints.text), prints, True, 0.03)
    check_block(shell.run(fails.text), fails, True, 0.03)
    with pytest.raises(AssertionError, match="one 0.50"):
        check_block(shell.run(prints.text), prints, True, 0.0)
    ended = shell.run("mkdir a; cd a; bert-tf --version | tee it; bert-tf nothing || echo $?")
    assert ended.stdout == (tmp_path / "a" / "it").read_text() + "1\n" and ended.stdout.startswith("bert_tf ")
    assert "'nothing'" in ended.stderr
    shell.stay("python -uc 'import time; print(\"begun\"); time.sleep(3600)'", "begun")
    assert shell.stop() == [(-signal.SIGTERM, "begun\n")]
    with pytest.raises(AssertionError, match="gone"):
        shell.stay("echo gone", "never said")


@pytest.mark.parametrize("name", [name for name in PAGES if beginning(name)])
def test_a_page_shows_its_files_as_they_are(name, shell):
    for block in beginning(name):
        check_block(shell.run(block.text), block, with_weights=False, tolerance=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PAGES if name != "model_lifecycle"])  # integration/lifecycle_test.py
def test_a_page_runs_as_it_is_written(name, shell, tmp_path):
    """With a tiny model: what depends on the weights is not compared."""
    text = PAGES[name].read_text(encoding="utf-8")
    model(tmp_path, text)
    check(shell, text, with_weights=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_what_it_says(name, shell, tmp_path, minilm):
    """With the weights of the demo, and numbers within 0.03, as machines differ."""
    (tmp_path / WEIGHTS).parent.mkdir(parents=True)
    (tmp_path / WEIGHTS).symlink_to(pathlib.Path(minilm).resolve())
    check(shell, PAGES[name].read_text(encoding="utf-8"), with_weights=True, tolerance=0.03)
