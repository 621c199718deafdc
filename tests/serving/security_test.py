"""SECURITY.md's table of limits is that of the program."""

import re

import pytest

from bert_tf.cli.serve import FLAGS
from bert_tf.serving.limits import Limits
from bert_tf.serving.server.settings import RequestLimitSettings
from bert_tf.utils.settings import flags_of
from tests.conftest import ROOT

_ROW = re.compile(r"^\| `--(\w+)` \| ([\d,.]+)(?: (\w+))? \| (.+) \|$", re.MULTILINE)
_FOLLOWS = re.compile(r"^\| .+ \| ([\d,]+)(?: (\w+))? \| (?:one for|a quarter|fixed).* \|$", re.MULTILINE)
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20}
_BOUND_TOO = {"rest_api_num_threads", "rest_api_timeout_in_ms", "grace_seconds"}  # though their names do not say so


@pytest.fixture(scope="module")
def section():
    return (ROOT / "SECURITY.md").read_text(encoding="utf-8").split("## Limits of the server")[1].split("\n## ")[0]


@pytest.fixture(scope="module")
def rows(section):
    """{flag: (default, what it bounds)} in the page."""
    return {name: (_value(number, unit), what) for name, number, unit, what in _ROW.findall(section)}


def _value(number, unit):
    return float(number.replace(",", "")) * _UNITS[unit]


def limits():
    """{name: default} of every flag of `serve` that bounds something."""
    bounds = {flag.name for flag in flags_of(RequestLimitSettings)} | _BOUND_TOO
    return {flag.name: flag.default for flag in FLAGS if flag.name in bounds or "max" in flag.name.split("_")}


def test_every_limit_is_in_the_table_with_its_default(rows):
    assert {name: default for name, (default, _) in rows.items()} == limits()


def test_limits_that_follow_are_in_the_second_table(section):
    names = ("message_fields", "message_numbers", "json_values", "tensor_elements", "input_text_bytes", "text_bytes",
             "nesting")  # fmt: skip
    defaults = [getattr(Limits(), f"max_{name}") for name in names]
    assert [_value(*found) for found in _FOLLOWS.findall(section)] == defaults


def test_rows_say_what_is_bounded(rows):
    words = ("byte", "row", "token", "second", "memory", "element", "requests", "version", "stack", "run")
    assert all(any(word in what for word in words) for _, what in rows.values()), rows
