"""`bert-tf train NAME`: the command of a task that another package provides."""

import pytest

from bert_tf.cli import commands, main, usage
from bert_tf.cli.custom_task import CustomTaskCommand
from tests.tasks import custom_task

OPTIONS = """
import dataclasses
from my_tasks.rating import RatingTask
from bert_tf.tasks.options import RunOptions, option

@dataclasses.dataclass(frozen=True)
class Options(RunOptions):
    {field}

class Task(RatingTask):
    name = "mine"
    options = Options()
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    custom_task.install(tmp_path, monkeypatch)
    return tmp_path


def test_it_is_found_and_listed_under_its_name(site, capsys):
    found = ("train rating", "train rating", ["--do_train"])
    assert commands.find(["train", "rating", "--do_train"]) == found
    assert commands.find(["rating"]).name == ""
    main.main(["train"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["  train rating", "      Train a model for a custom task of the package my-tasks."]
    with pytest.raises(SystemExit) as end:
        main.main(["train", "ratin"])
    assert end.value.code.startswith("Error: Unknown command 'train ratin'. Did you mean `bert-tf train rating`?")


def test_its_flags_are_those_of_all_tasks_and_its_options(site):
    command = CustomTaskCommand("rating")
    names = [flag.name for flag in command.FLAGS]
    assert len(names) == len(set(names))
    assert {"do_train", "train_file", "metric_for_best_model", "lora_rank", "highest"} <= {*names}
    assert not {"teacher", "class_weights"} & {*names}  # which this task does not follow
    page = usage.help_page(command, "train rating", "bert-tf train rating", with_all=True)
    assert page.startswith("Predict ratings from 0 to --highest") and "Highest rating; the lowest is 0." in page


def test_a_package_that_does_not_work_is_one_message(site, capsys):
    custom_task.write_metadata(site, "broken", {"broken": "no_such_module:Task"})
    with pytest.raises(SystemExit) as end:
        main.main(["train", "broken", "--help"])
    assert end.value.code.startswith("Error: The task 'broken' of the package broken, no_such_module:Task, cannot be")


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ('seed: int = option(1, "Which.")', "Options of the task 'mine' have names of flags that all tasks have: seed"),
        ("most: int = 3", "Options of the task 'mine' have no flag: most. Declare them with `option`."),
        ('most: list[str] = option([], "Which.")', "An option must be of the type str, bool, int, float or Sequence"),
    ],
)
def test_options_that_make_no_flags_are_refused(site, field, message, monkeypatch):
    (site / "mine_of_test.py").write_text(OPTIONS.format(field=field), encoding="utf-8")
    monkeypatch.delitem(main.sys.modules, "mine_of_test", raising=False)
    custom_task.write_metadata(site, "mine", {"mine": "mine_of_test:Task"})
    with pytest.raises(ValueError, match=message):
        CustomTaskCommand("mine")


def test_a_command_of_ours_is_not_replaced(site):
    custom_task.write_metadata(site, "other", {"classifier": "my_tasks.rating:RatingTask"})
    assert commands.find(["train", "classifier"]).name == "run_classifier"
    assert [each.alias for each in commands.custom_commands()] == ["train rating"]
