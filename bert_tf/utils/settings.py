"""Settings: each is declared once, as a dataclass field. Flags follow from fields; `Settings` contains the values."""

import dataclasses
import functools
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

if TYPE_CHECKING:
    from typing_extensions import Self  # in `typing` from Python 3.11 on

Options = TypeVar("Options")

NO_EFFECT = "No effect"  # begins the help of a flag that is taken because Google's programs have it
SCORES = "scores"  # `Flag.decides_result` of settings that affect only how a trained model is scored


@dataclasses.dataclass(frozen=True)
class Flag:
    """One flag, as a program, or a task for its program, declares it.

    Attributes:
        name: without dashes.
        default: its value if it is not given; None for no default.
        help: one or two sentences for --help.
        kind: "string", "bool", "integer", "float" or "list" (texts with commas between them).
        choices: the values of a string, or of each text in a list, that are allowed; () allows all.
        low, high: inclusive bounds of a number; None for no bound.
        words: texts that a "float" accepts in place of a number, and keeps as they are.
        required: it cannot be left out.
        group: title under which --help shows it.
        essential: --help shows it even if the command has many flags.
        requires: what must be set if this is: names of settings, or `name=value`.
        excludes: what cannot be combined with it, in the same form.
        aliases: other accepted names, which --help does not show.
        renamed_choices: pairs of another accepted value, which --help does not show, and the choice that it stands for.
        decides_result: whether the result of a run depends on it. If True, its value is part of the run's identity, so
            a resumed run must have the same. A string: the same applies to the identity's entry with this name, such as
            the number of steps, which follows from the number of epochs. `SCORES`: only scores depend on it, and a
            resumed run may have another value. If False, nothing does, so trying several values is useless.
        reads_model: whether it names a model to read, or a "list" several: a path, or a name on the Hugging Face Hub,
            in whose place the program has the path of the downloaded files. "tokenizer": the weights are not read.
    """

    name: str
    default: Any
    help: str
    kind: str = "string"
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    required: bool = False
    words: tuple[str, ...] = ()
    group: str = ""
    essential: bool = False
    requires: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    renamed_choices: tuple[tuple[str, str], ...] = ()
    decides_result: bool | str = False
    reads_model: bool | str = False

    @property
    def has_effect(self) -> bool:
        """Whether the program reads the flag; --help leaves out what it does not."""
        return not self.help.startswith(NO_EFFECT)


def option(default: Any, help_text: str, **of_flag: Any) -> Any:
    """Returns a field that declares a setting: its default, its help, and what else a `Flag` has, such as `choices`.

    The default `group` is the class attribute `GROUP`. Pass `name` if the flag's name differs from the field's, because
    it is that of another program or reserved in Python.
    """
    metadata = {"flag": {"help": help_text, **of_flag}}
    if isinstance(default, list):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def option_as(kind: type, name: str, default: Any = dataclasses.MISSING, **of_flag: Any) -> Any:
    """Returns a field that redeclares the setting `name` of another class, with another default or other attributes."""
    field = kind.__dataclass_fields__[name]
    if default is dataclasses.MISSING:
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    said = {**_said(kind, name), **of_flag}
    return option(default, said.pop("help"), **said)


_KINDS = {str: "string", bool: "bool", int: "integer", float: "float", Sequence[str]: "list"}


@functools.cache
def flags_of(kind: type) -> tuple[Flag, ...]:
    """Returns the flags of a settings class: one for each field that `option` created, in it or in a base class.

    A plain field changes the default of the option that a base class declares.
    """
    defaults, annotations = vars(kind()), get_type_hints(kind)
    said = {name: _said(kind, name) for name in defaults}
    return tuple(
        Flag(**{"name": name, "default": default, "kind": _kind_of(annotations[name]), **said[name]})
        for name, default in defaults.items()
        if said[name]
    )


@functools.cache
def _fields(kind):
    """Returns {name of the setting: name of its field}."""
    said = {field.name: _said(kind, field.name) for field in dataclasses.fields(kind)}
    return {each.get("name", field): field for field, each in said.items() if each}


def _said(kind, name):
    """Returns the arguments of a field's `option`, with its group; None if it is not an option."""
    fields = {each: each.__dict__.get("__dataclass_fields__", {}).get(name) for each in kind.__mro__}
    said = next((field for field in fields.values() if field and "flag" in field.metadata), None)
    if said is None:
        return None
    *_, first = (each for each, field in fields.items() if field is said)  # the class that says it
    return {"group": getattr(first, "GROUP", ""), **said.metadata["flag"]}


def _kind_of(annotation):
    alternatives = get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    kinds = [each for each in alternatives if each is not types.NoneType]
    if len(kinds) == 2 and str in kinds:  # a number, or one of its `words`
        kinds.remove(str)
    if len(kinds) != 1 or kinds[0] not in _KINDS:
        raise ValueError(f"An option must be of the type str, bool, int, float or Sequence[str]; got {kinds[0]}.")
    return _KINDS[kinds[0]]


_BOOLS = {"true": "True", "false": "False"}  # choices of a string, which may also be passed as a bool in Python


def takes_bools(flag: Flag) -> bool:
    """Returns whether some of the choices of a string are "true" and "false", as which Python passes True and False."""
    return flag.kind == "string" and _BOOLS.keys() <= {*flag.choices}


def allowed_values(flag: Flag, in_python: bool = False) -> str:
    """Returns a description of the values that a setting accepts: "one of a, b"; "an integer from 1 to 64".

    Args:
        flag: flag of the setting.
        in_python: as a keyword argument; otherwise as a flag.
    """
    if flag.kind == "bool":
        return "True or False" if in_python else "true or false"
    if flag.kind in ("integer", "float"):
        return " or ".join([_describe_numbers(flag), *(map(repr, flag.words) if in_python else flag.words)])
    choices = ", ".join(_BOOLS.get(each, each) if in_python else each for each in flag.choices)
    if flag.kind == "list" and in_python:
        return f"a list of one or more of {choices}" if choices else "a list of strings"
    if flag.kind == "list":
        return f"one or more of {choices}, separated by commas" if choices else "a comma-separated list"
    return f"one of {choices}" if choices else "a string" if in_python else "a text"


def _describe_numbers(flag):
    noun, low, high = {"integer": "integer", "float": "number"}[flag.kind], flag.low, flag.high
    article = "an" if noun == "integer" else "a"
    if low is not None and high is not None:
        return f"{article} {noun} from {format_number(low)} to {format_number(high)}"
    if low is not None:
        known = {("integer", 1): "a positive integer", ("integer", 0): "a non-negative integer",
                 ("float", 0): "a non-negative number"}  # fmt: skip
        return known.get((flag.kind, low), f"{article} {noun}, {format_number(low)} or more")
    return f"{article} {noun}"


def format_number(value: float) -> str:
    """Returns a number as people write it: 1e-6 instead of 1e-06."""
    return f"{value:g}".replace("e-0", "e-")


def with_attributes(flags: Iterable[Flag], name: str, **attributes) -> tuple[Flag, ...]:
    """Returns flags of which one is changed: `with_attributes(flags, "input_file", required=False)`."""
    flags = tuple(flags)
    assert any(flag.name == name for flag in flags), f"there is no flag {name}"
    return tuple(dataclasses.replace(flag, **attributes) if flag.name == name else flag for flag in flags)


def with_default(flags: Iterable[Flag], **defaults) -> tuple[Flag, ...]:
    """Returns flags of which some have other defaults: `with_default(flags, max_seq_length=384)`."""
    for name, default in defaults.items():
        flags = with_attributes(flags, name, default=default)
    return tuple(flags)


def command_line(values: Mapping[str, Any]) -> list[str]:
    """Returns the words that give a program these values: {"do_train": True, "seed": 1} -> --do_train --seed=1."""
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in values.items()]


class Settings:
    """The values of a program's flags, as attributes, before they are those of a settings class: see `options_of`.

    Args:
        values: {name: value} of all flags.
        given: names of those that the user gave; the others have their defaults.
    """

    def __init__(self, values: Mapping[str, Any], given: Iterable[str] = ()):
        self._values = dict(values)
        self.given = frozenset(given)

    def __getattr__(self, name):
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"there is no setting {name!r}; there are {sorted(values)}")

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the value of a setting that not every program has."""
        return self._values.get(name, default)

    def where_given(self, name: str) -> Any:
        """Returns the value if the user gave it, else None."""
        return self._values[name] if name in self.given else None

    def given_values(self) -> dict[str, Any]:
        """Returns {name: value} of what the user gave, sorted."""
        return {name: self._values[name] for name in sorted(self.given)}

    def to_dict(self) -> dict[str, Any]:
        """Returns {name: value} of all, sorted."""
        return dict(sorted(self._values.items()))


@dataclasses.dataclass(frozen=True)
class UserSettings:
    """Base of settings classes whose instances distinguish what the user gave from the defaults.

    Attributes:
        given: names of the settings that the user gave, as flags and keywords have them.
    """

    given: frozenset[str] = dataclasses.field(
        default=frozenset(), kw_only=True, repr=False, compare=False, metadata={"has_no_flag": True}
    )

    def where_given(self, name: str) -> Any:
        """Returns the value if the user gave it, else None."""
        return self.to_dict()[name] if name in self.given else None

    def given_values(self) -> dict[str, Any]:
        """Returns {name: value} of what the user gave, sorted."""
        return {name: value for name, value in self.to_dict().items() if name in self.given}

    def to_dict(self) -> dict[str, Any]:
        """Returns {name: value} of all settings, sorted."""
        return {name: getattr(self, field) for name, field in sorted(_fields(type(self)).items())}

    def deciding_values(self) -> dict[str, Any]:
        """Returns {name: value} of the settings whose values are part of a run's identity."""
        deciding = {flag.name for flag in flags_of(type(self)) if flag.decides_result is True}
        return {name: value for name, value in self.to_dict().items() if name in deciding}

    def adopt(self, values: Mapping[str, Any]) -> "Self":
        """Returns the settings with these values, such as a trained model's, where the user gave none.

        Args:
            values: {name: value}; None leaves a setting as it is.
        """
        additions = {name: value for name, value in values.items() if name not in self.given and value is not None}
        return dataclasses.replace(self, **additions)

    def give(self, values: Mapping[str, Any]) -> "Self":
        """Returns the settings with these values, {name: value}, as if the user had given them."""
        return dataclasses.replace(self, **values, given=self.given | values.keys())


def part_of(settings: Any, kind: type[Options]) -> Options:
    """Returns the settings as those of a class that not every run has, or its defaults if this run does not have it."""
    return settings if isinstance(settings, kind) else kind()


def options_of(kind: type[Options], settings: "Settings | UserSettings", **values) -> Options:
    """Returns options with the values of the flags that are named like their fields.

    Args:
        kind: a dataclass, such as one of `tasks.options`; a `UserSettings` also takes the names of what the user gave.
        settings: settings of a program that has all these flags, or an instance of a class that has all these fields.
        values: values of fields that do not take their flag's value.

    Raises:
        AttributeError: it has no flag of a field's name.
    """
    for field in dataclasses.fields(kind):
        if "has_no_flag" in field.metadata or field.name in values:
            continue
        name = field.name if isinstance(settings, UserSettings) else (_said(kind, field.name) or {}).get("name")
        values[field.name] = getattr(settings, name or field.name)
    if issubclass(kind, UserSettings):
        values["given"] = settings.given
    return kind(**values)


_OFF = (None, False, 0, "0", "", [], ())  # values with which a setting does nothing


def check_combinations(flags: Iterable[Flag], settings: Settings | UserSettings):
    """Raises ValueError if a setting is given without what it requires, or with what it excludes.

    Args:
        flags: flags of the settings; those that `settings` does not have require and exclude nothing.
        settings: as the user gave them.
    """
    values = settings.to_dict()
    table = {flag.name: flag for flag in flags if flag.name in values}
    is_set = {name: _is_set(flag, values[name], name in settings.given) for name, flag in table.items()}
    for flag in table.values():
        if is_set[flag.name]:
            _check_required(flag, values)
            _check_excluded(flag, is_set, values)


def _is_set(flag, value, is_given):
    return value != flag.default or (is_given and value not in _OFF)


def _check_required(flag, values):
    for required in flag.requires:
        name, _, expected = required.partition("=")
        current = values.get(name)
        if name not in values or (str(current) == expected if expected else current):
            continue
        if not expected:
            raise ValueError(f"`{flag.name}` requires `{name}`. Add `{name}`, or remove `{flag.name}`.")
        raise ValueError(
            f"`{flag.name}` requires `{required}`; got `{name}={current}`. Change `{name}`, or remove "
            f"`{flag.name}`."
        )


def _check_excluded(flag, is_set, values):
    for excluded in flag.excludes:
        name, _, value = excluded.partition("=")
        if is_set.get(name) and value in ("", str(values[name])):
            raise ValueError(f"`{flag.name}` and `{excluded}` cannot be combined. Remove one.")
