"""Finds the tasks of other packages by their entry points; imports none of them, and no TensorFlow.

A package declares its tasks in its metadata, such as pyproject.toml:

    [project.entry-points."bert_tf.tasks"]
    rating = "my_package.rating:RatingTask"
"""

import importlib.metadata

GROUP = "bert_tf.tasks"


def custom_tasks() -> dict[str, list[importlib.metadata.EntryPoint]]:
    """Returns {task name: its entry points, one for each package that provides it} of the installed packages."""
    found = {}
    for each in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda each: (each.name, package_of(each))):
        found.setdefault(each.name, []).append(each)
    return found


def package_of(entry_point: importlib.metadata.EntryPoint) -> str:
    """Returns the name of the package that declares an entry point."""
    return entry_point.dist.name
