"""Switches layers to other kernels (int8, fused, packed, two threads) while a graph is traced."""

import contextlib
import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import tensorflow as tf

LAYER_NORM_KERNEL = "a layer norm in the form that grappler makes one kernel"
INT8_PRODUCTS = "products of 8-bit integers, from constants of the graph"
INT8_RANGES = "how far the inputs of products go, noted for products of integers"
FUSED_INT8 = "products of 8-bit integers with ranges that are known, in fused kernels"
RANGES = "ranges"  # among the notes of FUSED_INT8
FLAT_ROWS = "the tokens of a batch one below the other"
ROW_PACKING = "short texts packed into rows"
TENSOR_PARALLEL = "layers in parts that are computed side by side"
_thread = threading.local()


@contextlib.contextmanager
def graph_forms(*names: str, ranges: Mapping[str, Any] | None = None, parts: dict | None = None):
    """Makes layers compute in these forms, in what is traced inside by this thread.

    Args:
        names: of the forms.
        ranges: {path of a kernel: how far each column of its input goes, float32 [in]}; with them `FUSED_INT8` is
            wanted, too. With parts a dict, to which their own are added.
        parts: what `TENSOR_PARALLEL` keeps, from one graph to the next; with it that is wanted, too.
    """
    before = getattr(_thread, "notes", {})
    _thread.notes = {name: {} for name in names}
    if ranges is not None:
        _thread.notes[FUSED_INT8] = {RANGES: ranges}
    if parts is not None:
        _thread.notes[TENSOR_PARALLEL] = parts
    try:
        yield
    finally:
        _thread.notes = before


def notes(name: str) -> dict | None:
    """Returns what the form keeps for as long as it is wanted, to be filled by it; None: it is not wanted."""
    return getattr(_thread, "notes", {}).get(name)


def is_wanted(name: str) -> bool:
    """Returns whether this thread is inside `graph_forms` of that name."""
    return notes(name) is not None


def once_in_graph(name: str, key: Hashable, make: Callable[[], Any]) -> Any:
    """Returns what `make` makes, such as constants: one for each key in a graph, as long as the form is wanted.

    Args:
        name: of a form that is wanted.
        key: `id` of a variable, or a tuple of such. Other graphs than this have their own, such as branches of one.
        make: of no arguments.
    """
    found, key = notes(name), (key, id(tf.compat.v1.get_default_graph()))
    if key not in found:
        found[key] = make()
    return found[key]
