"""Commands of the documentation run to their end, as they stand there."""

import pytest

from bert_tf.cli.main import PROGRAMS
from tests.documentation import commands, inputs, running
from tests.documentation.pages import markdown

# Tutorials have tests of their own; the pages in reference/cli show the examples of docstrings.
PAGES = {commands.name_of(page): page for page in markdown.pages() if not {"tutorials", "cli"} & {*page.parts}}


def runnable(page):
    return [command for command in commands.in_blocks(PAGES[page]) if running.reason(command) is None]


def test_every_program_has_a_command_that_is_run():
    run = {command.program for page in PAGES for command in runnable(page)}
    assert set(PROGRAMS) - run == {"demo"}


@pytest.fixture(scope="module")
def runner():
    with running.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def library(tmp_path_factory, runner):
    return inputs.Library(tmp_path_factory.mktemp("library"), runner)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)])
def test_documented_commands_run(page, tmp_path, runner, library):
    """Some five minutes of one core for all."""
    found = runnable(page)
    here = running.Page(PAGES[page].read_text(encoding="utf-8"), found, tmp_path, runner, library)
    try:
        for command in found:
            print(command.text)
            here.run(command)
    finally:
        here.end()
