"""Tests of the program of any task, with `from tests.tasks.program_tests import *` in a module of its own.

Such a module has

    PROGRAM     its name
    CASES       {case: arguments} that must succeed; "whole" trains, scores, answers and exports into HOME/whole
    LATER       {case: names of the files} that a case writes alike, of the model in HOME/whole
    BAD         {case: (arguments, text or pattern of the message)} that are refused
    PAGE        texts of the page of "whole"
    COLUMNS     of its eval_predictions.tsv

and the fixture `home`, the folder that HOME stands for.
"""

import json
import re

import pytest

from tests.scripts import Cases, assert_same_tensors, at, files, run_programs


def pytest_generate_tests(metafunc):
    for name in ("case", "later", "bad"):
        if name in metafunc.fixturenames:
            cases = metafunc.module.CASES if name == "case" else getattr(metafunc.module, name.upper())
            metafunc.parametrize(name, cases)


@pytest.fixture(scope="module")
def results(request, home):
    """{case: {"status", "log"}} of CASES and BAD, run one after the other in one process."""
    module = request.module
    with Cases(module.PROGRAM) as program:
        found = {case: program.run(at(home, arguments)) for case, arguments in module.CASES.items()}
        before = files(home)
        found |= {case: program.run(at(home, arguments)) for case, (arguments, _) in module.BAD.items()}
    assert files(home) == before  # not one file was made, changed or lost by what was refused
    return found


def scores_of(folder, name="eval_results.txt"):
    """Returns {score: value} of a run."""
    lines = (folder / name).read_text().splitlines()
    return {name: float(value) for name, value in (line.split(" = ") for line in lines)}


def json_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def table_of(folder, name="eval_predictions.tsv"):
    """Returns the header and the lines of a run's table."""
    header, *lines = (line.split("\t") for line in (folder / name).read_text(encoding="utf-8").splitlines())
    return header, lines


def test_it_runs(results, case):
    assert results[case]["status"] == 0, results[case]["log"]


def test_the_page_and_a_table_show_what_was_answered(request, home, results):
    page = (home / "whole" / "report.html").read_text(encoding="utf-8")
    assert [text for text in request.module.PAGE if text not in page] == []
    assert table_of(home / "whole")[0] == request.module.COLUMNS


def test_a_trained_model_answers_later_as_it_did(request, home, results, later):
    for name in request.module.LATER[later]:
        assert (home / later / name).read_bytes() == (home / "whole" / name).read_bytes()


def test_bad_input_gets_one_clear_message(request, results, bad):
    status, log, said = results[bad]["status"], results[bad]["log"], request.module.BAD[bad][1]
    assert status == 1 and "Traceback" not in log and len(re.findall("Error: ", log)) == 1, log
    assert said.search(log) if isinstance(said, re.Pattern) else said in log, log


@pytest.mark.slow
def test_started_again_it_makes_no_step_and_stays_to_the_bit(request, home, results):
    left_out = ("--do_export", "--save_format", "--output_dir")
    arguments = [a for a in at(home, request.module.CASES["whole"]) if not a.startswith(left_out)]
    first, again = run_programs(request.module.PROGRAM, [[*arguments, f"--output_dir={home}/again"]] * 2)
    step = int(scores_of(home / "whole")["global_step"])
    assert first["status"] == again["status"] == 0 and f"Continuing this run from step {step}" in again["log"]
    assert_same_tensors(home / "whole" / f"model.ckpt-{step}", home / "again" / f"model.ckpt-{step}")
