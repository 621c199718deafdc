"""Tasks of other packages: found by their names, imported only when asked for, and named in task.json."""

import json
import re
import sys

import pytest

from bert_tf.models.config_files import TASK_FILE
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.entry_points import custom_tasks
from bert_tf.tasks.registry import TASKS_BY_NAME, load_custom_task, read_task, save_task
from tests import tiny
from tests.tasks import custom_task

CONFIG = tiny.config()


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on the path with the package of the guide."""
    folder = tmp_path / "site"
    custom_task.install(folder, monkeypatch)
    return folder


def _write_task(folder, **values):
    (folder / TASK_FILE).write_text(json.dumps(values | {"text_inputs": ["text"], "max_seq_length": 8}))


def test_a_task_is_found_by_its_name(site, tmp_path):
    kind = load_custom_task("rating")
    assert (kind.__module__, kind.name) == ("my_tasks.rating", "rating")
    save_task(str(tmp_path), TrainedTask(kind(CONFIG, 3), ("text",), 16))
    described = json.loads((tmp_path / TASK_FILE).read_text())
    assert list(described.items())[:3] == [("task", "rating"), ("package", "my-tasks"), ("highest", 3)]
    read = read_task(str(tmp_path), CONFIG)
    assert type(read.task) is kind and read.task.highest == 3 and read.max_seq_length == 16


def test_nothing_is_imported_for_another_task(site, tmp_path):
    assert [each.value for each in custom_tasks()["rating"]] == ["my_tasks.rating:RatingTask"]
    save_task(str(tmp_path), TrainedTask(ClassificationTask(CONFIG, 2), ("text",), 16))
    read_task(str(tmp_path), CONFIG)
    _write_task(tmp_path, task="my_tasks.rating:RatingTask")  # a path to code is no name
    with pytest.raises(ValueError, match="No installed package provides the task 'my_tasks.rating:RatingTask'"):
        read_task(str(tmp_path), CONFIG)
    assert "my_tasks.rating" not in sys.modules


def test_a_missing_package_is_named(site, tmp_path):
    _write_task(tmp_path, task="poetry", package="my-poems")
    message = (
        f"{tmp_path / TASK_FILE}: No installed package provides the task 'poetry'. Install the package 'my-poems', "
        "which must have an entry point of this name in the group bert_tf.tasks. Known tasks: "
        f"{', '.join(TASKS_BY_NAME)}, rating."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        read_task(str(tmp_path), CONFIG)
    with pytest.raises(ValueError, match="Install the package that provides it, which must have an entry point"):
        load_custom_task("poetry")


@pytest.mark.parametrize("name", [None, 5, ["rating"], {}])
def test_a_task_json_without_a_name_is_refused(name, tmp_path):
    _write_task(tmp_path, task=name)
    with pytest.raises(ValueError, match=r"task.json must describe a task, one of \['classification'"):
        read_task(str(tmp_path), CONFIG)


def test_settings_that_the_package_does_not_know_are_refused(site, tmp_path):
    _write_task(tmp_path, task="rating", lowest=1)
    with pytest.raises(ValueError, match="must describe the task 'rating' as its package defines it.*'lowest'"):
        read_task(str(tmp_path), CONFIG)


def test_a_name_that_two_packages_provide_is_refused(site):
    custom_task.write_metadata(site, "other-tasks", {"rating": "other:Task"})
    with pytest.raises(ValueError, match="Several packages provide the task 'rating': my-tasks, other-tasks. Uninst"):
        load_custom_task("rating")


def test_a_name_of_ours_stays_ours(site, tmp_path):
    custom_task.write_metadata(site, "other-tasks", {"classification": "my_tasks.rating:RatingTask"})
    with pytest.raises(ValueError, match="'classification' of the package other-tasks has the name of a task of bert"):
        load_custom_task("classification")
    save_task(str(tmp_path), TrainedTask(ClassificationTask(CONFIG, 2), ("text",), 16))
    assert "package" not in json.loads((tmp_path / TASK_FILE).read_text())
    assert type(read_task(str(tmp_path), CONFIG).task) is ClassificationTask


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module:Task", "cannot be imported: ModuleNotFoundError.*no_such_module.*reinstall the package"),
        ("my_tasks.rating:Nothing", "cannot be imported: AttributeError"),
        ("my_tasks.rating:RatingOptions", "must be a subclass of FineTuningTask with `name` 'broken'; got <c"),
        ("my_tasks.rating:RatingTask", "must be a subclass of FineTuningTask.*with the name 'rating'"),
    ],
)
def test_a_broken_entry_point_names_its_package(site, value, message):
    custom_task.write_metadata(site, "broken-tasks", {"broken": value})
    with pytest.raises(ValueError, match=f"'broken' of the package broken-tasks, {value}, {message}"):
        load_custom_task("broken")
    assert load_custom_task("rating").name == "rating"
