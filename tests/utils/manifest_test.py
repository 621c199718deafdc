"""A manifest: what work was begun with is written down, gains new names, and refuses other values by name."""

import json

import pytest

from bert_tf.utils.manifest import check_manifest, check_same, list_differences, read_manifest


def test_differences_have_both_values_and_the_names_within_objects():
    then = {"seed": 0, "rate": 0.1, "input_file": {"rows": 3, "sha256": "a"}, "gone": [1], "phases": None}
    now = {"seed": 1, "rate": 0.1, "input_file": {"rows": 4, "sha256": "a"}, "phases": {"steps": 5}}
    assert list_differences(then, now) == [
        "gone: [1] before, None now",
        "input_file rows: 3 before, 4 now",
        "phases: None before, {'steps': 5} now",
        "seed: 0 before, 1 now",
    ]
    assert not list_differences(then, {**then, "new": None})


def test_values_are_compared_as_json_has_them():
    check_same("run.json", {"betas": [0.9, 0.999]}, {"betas": (0.9, 0.999)}, "")


def test_a_manifest_is_written_gains_names_and_refuses_other_values(tmp_path):
    path = tmp_path / "work.json"
    assert read_manifest(path) == {}
    check_manifest(path, {"seed": 1}, "")
    check_manifest(path, {"steps": 2}, "")  # what a command does not name may stay
    assert json.loads(path.read_text()) == {"seed": 1, "steps": 2}
    with pytest.raises(ValueError) as error:
        check_manifest(path, {"seed": 3, "more": 4}, "Name another `output_dir`.")
    assert str(error.value) == (
        f"A run can only resume with the settings that it began with ({path}). Changed: seed: 1 before, 3 now. "
        "Name another `output_dir`."
    )
    assert read_manifest(path) == {"seed": 1, "steps": 2}


def test_a_damaged_manifest_is_refused(tmp_path):
    (tmp_path / "work.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"work.json must be a record .* a list in place of an object; remove it\."):
        read_manifest(tmp_path / "work.json", "remove it")
