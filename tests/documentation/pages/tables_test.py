"""The Python API and the CLI reference say what the code says, and leave out no name that is public or used."""

import ast
import pathlib
import re

import pytest

from bert_tf.cli import commands
from bert_tf.utils.settings import Flag
from tests.documentation.pages import markdown
from tools.docs import cli_reference, navigation, tables

API = tables.PAGE
_FENCED = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_DOTTED = re.compile(r"\bbert_tf(?:\.\w+)+")
_NO_PAGE_FOR_USERS = ("CONTRIBUTING.md",)  # it names modules, to those who change them


@pytest.fixture(scope="module")
def pages():
    """{path: text} of the pages of the command line, as written now."""
    return cli_reference.pages()


def _text(page):
    return page.read_text(encoding="utf-8")


def test_the_tables_are_filled_from_docstrings():
    text = _text(API)
    assert text == tables.filled(text), "`python -m tools.docs.tables` writes them anew"
    assert tables.names_in(text) and "| |" not in text


@pytest.mark.parametrize(
    "package", ["bert_tf", "bert_tf.inspect", "bert_tf.interpret.page", "bert_tf.serving", "bert_tf.sklearn"]
)
def test_public_names_are_on_the_page(package):
    public = tables.public(package)
    listed = {tables.find(name).name for name in tables.names_in(_text(API))}
    assert public and {tables.find(name).name for name in public} <= listed


def test_the_cli_reference_is_up_to_date(pages):
    there = {cli_reference.INDEX, *navigation.COMMANDS.glob("*.md")}
    assert there == set(pages), "`python -m tools.docs.cli_reference` writes them anew"
    for path, text in pages.items():
        assert _text(path) == text, f"{path.name}: `python -m tools.docs.cli_reference` writes it anew"


@pytest.mark.parametrize("name", commands.PROGRAMS)
def test_the_reference_explains_every_flag(name, pages):
    text = own = pages[navigation.COMMANDS / f"{name}.md"]
    if name in cli_reference.FINE_TUNING:
        assert "](training_flags.md)" in text
        own += pages[cli_reference.TRAINING]
    for page in (cli_reference.TRAINING, cli_reference.COMMON):
        text += pages[page] if f"]({page.name})" in text else ""
    text = text.replace("\\|", "")
    for flag in commands.load_command(name).FLAGS:
        row = re.search(rf"^\| `--{flag.name}` \| [^|]+ \| [^|]* \| [^|]+ \|$", text, re.MULTILINE)
        assert row or not flag.has_effect, flag.name
        assert f"`--{flag.name}`" in own, flag.name


def test_flags_that_all_fine_tuning_commands_share_are_on_one_page(pages):
    shared = cli_reference.common_rows()
    together = pages[cli_reference.TRAINING]
    assert len(shared) > 50 and all(row in together for row in shared)
    for name in cli_reference.FINE_TUNING:
        page = pages[navigation.COMMANDS / f"{name}.md"]
        assert not any(row in page for row in shared), name
        assert "| `--train_file` |" in page


def test_flags_that_several_commands_share_are_on_one_page(pages):
    shared = cli_reference.frequent_rows()
    names = [row.split("`")[1] for row in shared]
    assert len(names) > 20 and len(set(names)) == len(names)  # a name that has two meanings is not among them
    for name in commands.PROGRAMS:
        page = pages[navigation.COMMANDS / f"{name}.md"]
        essential = {f"--{flag.name}" for flag in commands.load_command(name).FLAGS if flag.essential}
        assert {row.split("`")[1] for row in shared if row in page} <= essential, name


def test_a_flag_becomes_a_row():
    flag = Flag("do_it", True, "Do it with --kind=a|b, or --nothing. See `bert-tf x --y`.", "bool")
    assert cli_reference._cell(flag.help) == "Do it with `--kind=a\\|b`, or `--nothing`. See `bert-tf x --y`."
    assert (cli_reference._values(flag), cli_reference._default(flag)) == ("boolean", "`true`")
    flag = Flag("teach", 0.5, "Same as --all=a,b.", "float", requires=("do_train", "kind=a"), excludes=("c", "absent"))
    assert cli_reference._row(flag, ["do_train", "kind", "c", "teach"]) == (
        "| `--teach` | number | `0.5` | Same as `--all=a,b`. Requires `--do_train` and `--kind=a`. Cannot be combined "
        "with `--c`. |"
    )
    flag = Flag("sizes", [], "Sizes.", "list", choices=("s", "m"))
    assert (cli_reference._values(flag), cli_reference._default(flag)) == ("list of `s`, `m`", "")
    flag = Flag("size", None, "Size.", "integer", low=1, required=True)
    assert (cli_reference._values(flag), cli_reference._default(flag)) == ("positive integer", "required")


def _imported(code):
    """Yields the names of bert_tf that Python code imports, or uses by its full name."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bert_tf":
            yield from (f"{node.module}.{each.name}" for each in node.names)
    yield from _DOTTED.findall(code)


def _names_on(page):
    """Returns the names of bert_tf in a page's Python and between its backticks."""
    text = _text(page)
    code = re.findall(r"`([^`\n]+)`", "\n".join(markdown.prose(text)))
    names = {name for span in code if not span.endswith(".py") for name in _DOTTED.findall(span)}
    return names.union(*(_imported(block) for block in _FENCED.findall(text)))


def _with_outer(name):
    """Yields a name, the class that it is of, and so on."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(len(parts), 1, -1))


def test_names_on_other_pages_are_there_and_on_the_page():
    listed, used = {tables.find(name).name for name in tables.names_in(_text(API))}, {}
    for page in markdown.pages():
        if page != API and page.name not in _NO_PAGE_FOR_USERS:
            used.update({name: page.name for name in _names_on(page)})
    assert "bert_tf.load" in used and len(used) > 20
    for name, page in used.items():
        home = tables.find(name)  # raises where there is none
        is_module = isinstance(home.node, ast.Module)
        assert is_module or any(tables.find(each).name in listed for each in _with_outer(name)), f"{name} in {page}"


@pytest.mark.parametrize(
    ("name", "path", "full"),
    [
        ("bert_tf.load", "bert_tf/checkpoints/loading.py", "bert_tf.checkpoints.loading.load"),
        ("bert_tf.serving.Client.ask", "bert_tf/serving/client/base_client.py",
         "bert_tf.serving.client.base_client.BaseClient.ask"),
        ("bert_tf.checkpoints.loading.Bert.features", "bert_tf/checkpoints/loading.py",
         "bert_tf.checkpoints.loading.Bert.features"),
        ("bert_tf.sklearn", "bert_tf/sklearn/__init__.py", "bert_tf.sklearn"),
        ("bert_tf.sklearn.BertEmbedder", "bert_tf/sklearn/embedder.py",
         "bert_tf.sklearn.embedder.BertEmbedder"),
    ],  # fmt: skip
)
def test_names_are_found(name, path, full):
    home = tables.find(name)
    assert home.path == pathlib.PurePosixPath(path) and home.name == full and home.summary


@pytest.mark.parametrize("name", ["bert_tf.no", "bert_tf.models.config.no", "bert_tf.load.no", "numpy.array"])
def test_names_that_are_nowhere_are_refused(name):
    with pytest.raises(ValueError, match="must be defined in bert_tf"):
        tables.find(name)
