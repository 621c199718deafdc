"""Converts texts passed by a caller to a list: lists, Series, arrays and generators; everything else is rejected.

It only imports the standard library: objects of pandas, polars, Arrow, numpy and TensorFlow are recognized by their
methods.
"""

from collections.abc import Iterable, Mapping
from typing import Any

_AS_LIST = ("to_pylist", "tolist", "to_list")  # Arrow's, numpy's and pandas's, polars's
_FLOATS = ("float", "float64", "float32", "float16")  # Python's, and numpy's scalars
_SHOWN = 5  # positions that a message names


def text_list(texts: Iterable[Any], parameter: str = "texts", pairs: bool = False) -> list:
    """Returns n texts as a list of str, or n text pairs as a list of tuples, in order.

    A Series yields its values in order, whatever its index; a generator is consumed; bytes are decoded as UTF-8, and
    invalid ones are dropped.

    Args:
        texts: a list, tuple, generator, one-dimensional array, tensor or Series of str or bytes.
        parameter: the parameter name for messages.
        pairs: whether pairs of texts are accepted in place of texts, including an array [n, 2].

    Raises:
        ValueError: it is a single text, a dict, a table or a set; or an item is not a text, such as None or NaN; or
            texts and pairs are mixed.
    """
    given, shape = _listed(texts, parameter), getattr(texts, "shape", ())
    if len(shape) > 1 + pairs:
        raise ValueError(
            f"`{parameter}` must be one-dimensional; got an array of shape {tuple(shape)}; choose one column of "
            "it."
        )
    if all(type(each) is str for each in given):
        return given
    _check_present(given, parameter)
    found = [_text(each, pairs) for each in given]
    kinds = {type(each) for each in found}
    if len(kinds) > 1 or kinds - {str, tuple}:
        odd = next(n for n, each in enumerate(found) if each is None or type(each) is not type(found[0]))
        both = "all strings, or all pairs of strings" if pairs else "strings"
        raise ValueError(
            f"`{parameter}` must be {both}; got {type(given[odd]).__name__} at position {odd}: "
            f"{str(given[odd])[:60]!r}."
        )
    return found


def present_list(values: Iterable[Any], parameter: str = "texts") -> list:
    """Returns per-example values as a list, after checking that none is missing.

    Raises:
        ValueError: it is a single text, or not an ordered collection; or an item is None or NaN.
    """
    given = _listed(values, parameter)
    _check_present(given, parameter)
    return given


def _listed(values, parameter):
    refuse_no_list(values, parameter)
    if callable(getattr(values, "numpy", None)) and hasattr(values, "shape"):  # an eager tensor
        values = values.numpy()
    if getattr(values, "shape", None) == ():
        raise ValueError(
            f"`{parameter}` must be several texts, such as a list; got a single value, {values!r:.60}; put it in "
            "a list."
        )
    converted = next((getattr(values, name) for name in _AS_LIST if callable(getattr(values, name, None))), None)
    return list(converted() if converted else values)


def refuse_no_list(values: Any, parameter: str = "texts"):
    """Raises ValueError for values that are not several texts: a single text, dict, table, set or non-iterable.

    It does not consume generators.
    """
    if isinstance(values, str | bytes | bytearray):
        raise ValueError(
            f"`{parameter}` must be several texts, such as a list; got one text, {values[:60]!r}; put it in a "
            "list."
        )
    columns, kind, odd = _columns(values), type(values).__name__, None
    if columns:
        named = ", ".join(map(str, columns[:_SHOWN]))
        odd = f"a {kind} of {named}; choose one of them, such as `[{columns[0]!r}]`"
    elif columns is not None:
        odd = f"an empty {kind}; pass a list"
    elif isinstance(values, set | frozenset):
        odd = "a set, which has no order; use a list"
    elif not hasattr(values, "__iter__"):
        odd = f"{kind}: {values!r:.60}; use a list"
    if odd:
        raise ValueError(f"`{parameter}` must be several texts, such as a list; got {odd}.")


def is_missing(value: Any) -> bool:
    """Returns whether a value represents a missing one: None, a float NaN, pandas's NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return type(value).__name__ in _FLOATS and value != value


def _columns(values):
    """Returns the column names of a table or the keys of a dict; None for other values."""
    if isinstance(values, Mapping):
        return list(values)
    for name in ("column_names", "columns"):  # Arrow's and datasets'; pandas's and polars's
        found = getattr(values, name, None)
        if found is not None and not callable(found):
            return list(found)
    return None


def _text(value, pairs):
    """Returns a text, or a pair of texts as a tuple; None for other values."""
    if callable(getattr(value, "numpy", None)):  # one of a tf.data.Dataset
        value = value.numpy()
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return bytes(value).decode("utf-8", "ignore")
    if not pairs or not isinstance(value, list | tuple) or len(value) != 2:
        return None
    both = tuple(_text(each, False) for each in value)
    return None if None in both else both


def _check_present(given, parameter):
    missing = [n for n, each in enumerate(given) if is_missing(each)]
    if not missing:
        return
    shown = ", ".join(map(str, missing[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
    places = f"position {shown}" if len(missing) == 1 else f"positions {shown} ({len(missing)} of {len(given)})"
    raise ValueError(
        f"`{parameter}` must not have missing texts; got {given[missing[0]]!r} at {places}; remove them, or use "
        '"".'
    )
