"""Settings: what a field says, and the flags that follow from it."""

import dataclasses

import pytest

from bert_tf.utils.settings import (
    Flag,
    Settings,
    UserSettings,
    allowed_values,
    check_combinations,
    flags_of,
    option,
    option_as,
    options_of,
    part_of,
)


@dataclasses.dataclass(frozen=True)
class Counting:
    """Two settings, and a field that is none."""

    train_file: str | None = option(None, "Texts.")
    most: int = option(3, "The greatest.", low=1)
    names: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Fewer(Counting):
    """Another default, and another help."""

    most: int = 2
    train_file: str | None = option_as(Counting, "train_file", help="Other texts.", required=True)


def test_flags_are_made_of_fields():
    most = Flag("most", 3, "The greatest.", "integer", low=1)
    assert flags_of(Counting) == (Flag("train_file", None, "Texts."), most)


def test_a_class_changes_what_another_says():
    assert flags_of(Fewer) == (
        Flag("train_file", None, "Other texts.", required=True),
        Flag("most", 2, "The greatest.", "integer", low=1),
    )


def test_a_list_is_not_shared():
    @dataclasses.dataclass(frozen=True)
    class Several:
        names: list[str] = option(["a"], "Names.")

    assert Several().names == ["a"] and Several().names is not Several().names
    with pytest.raises(ValueError, match="must be of the type str, bool, int, float or Sequence"):
        flags_of(Several)


def test_a_number_may_be_a_word():
    @dataclasses.dataclass(frozen=True)
    class Rate:
        rate: float | str = option(1.0, "Rate.", words=("auto",))

    assert flags_of(Rate) == (Flag("rate", 1.0, "Rate.", "float", words=("auto",)),)


def test_a_flag_may_have_another_name_than_its_field():
    @dataclasses.dataclass(frozen=True)
    class Move:
        source: str | None = option(None, "Whence.", name="from")

    assert flags_of(Move) == (Flag("from", None, "Whence."),)
    assert options_of(Move, Settings({"from": "here"}, ["from"])) == Move("here")


@dataclasses.dataclass(frozen=True)
class Trying(UserSettings):
    """Settings of a run, and one that only this kind has."""

    size: int = option(3, "How many.", decides_result=True)
    rate: float = option(0.5, "How fast.", decides_result="learning_rate")
    folder: str | None = option(None, "Where.")


def test_settings_of_a_run_tell_what_the_user_gave():
    settings = options_of(Trying, Settings({"size": 1, "rate": 0.5, "folder": None}, ["size"]))
    assert settings == Trying(size=1) and settings.given_values() == {"size": 1}
    assert settings.where_given("size") == 1 and settings.where_given("rate") is None
    adopted = settings.adopt({"size": 5, "rate": 0.6, "folder": None})
    assert adopted.to_dict() == {"folder": None, "rate": 0.6, "size": 1} and adopted.given == {"size"}
    assert settings.give({"folder": "out"}).given_values() == {"folder": "out", "size": 1}
    assert adopted.deciding_values() == {"size": 1}


def test_settings_that_not_every_run_has_are_their_defaults_elsewhere():
    assert part_of(Trying(size=2), Trying).size == 2 and part_of(Counting(), Trying) == Trying()


_EXCLUDING = (
    Flag("pair", False, "Two.", "bool", excludes=("choices", "mode=one")),
    Flag("choices", False, "Several.", "bool"),
    Flag("mode", "all", "Which.", choices=("all", "one")),
)


@pytest.mark.parametrize(
    ("given", "other"), [({"pair": True, "choices": True}, "choices"), ({"pair": True, "mode": "one"}, "mode=one")]
)
def test_settings_that_exclude_each_other_are_refused(given, other):
    values = {flag.name: flag.default for flag in _EXCLUDING} | given
    with pytest.raises(ValueError, match=f"`pair` and `{other}` cannot be combined. Remove one."):
        check_combinations(_EXCLUDING, Settings(values, given))


def test_what_is_off_or_another_value_is_not_excluded():
    for given in ({"pair": True, "choices": False, "mode": "all"}, {"pair": False, "choices": True, "mode": "one"}):
        check_combinations(_EXCLUDING, Settings(given, given))


@pytest.mark.parametrize(
    ("flag", "as_flag", "as_keyword"),
    [
        (Flag("a", False, "", "bool"), "true or false", "True or False"),
        (Flag("a", [], "", "list"), "a comma-separated list", "a list of strings"),
        (Flag("a", [], "", "list", ("b", "c")), "one or more of b, c, separated by commas",
         "a list of one or more of b, c"),
        (Flag("a", None, ""), "a text", "a string"),
        (Flag("a", 1, "", "integer", low=1), "a positive integer", "a positive integer"),
        (Flag("a", 1.0, "", "float", low=0.5, words=("auto",)), "a number, 0.5 or more or auto",
         "a number, 0.5 or more or 'auto'"),
    ],
)  # fmt: skip
def test_values_are_described_for_flags_and_for_keywords(flag, as_flag, as_keyword):
    assert (allowed_values(flag), allowed_values(flag, in_python=True)) == (as_flag, as_keyword)
