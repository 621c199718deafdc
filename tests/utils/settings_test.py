"""Settings: what a field says, and the flags that follow from it."""

import dataclasses

import pytest

from bert_tf.utils.settings import Flag, flags_of, option, option_as


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
