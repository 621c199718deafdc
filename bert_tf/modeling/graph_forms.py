"""Other ways to compute the same, for some graphs only: wanted while such a graph is traced."""

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

LAYER_NORM_KERNEL = "a layer norm in the form that grappler makes one kernel"
INT8_PRODUCTS = "products of 8-bit integers, from constants of the graph"
INT8_RANGES = "how far the inputs of products go, noted for products of integers"
FUSED_INT8 = "products of 8-bit integers with ranges that are known, in fused kernels"
RANGES = "ranges"  # among the notes of FUSED_INT8
ROW_PACKING = "short texts packed into rows"
_thread = threading.local()


@contextlib.contextmanager
def graph_forms(*names: str, ranges: Mapping[str, Any] | None = None):
    """Makes layers compute in these forms, in what is traced inside by this thread.

    Args:
        names: of the forms.
        ranges: {path of a kernel: how far each column of its input goes, float32 [in]}; with them `FUSED_INT8` is
            wanted, too.
    """
    before = getattr(_thread, "notes", {})
    _thread.notes = {name: {} for name in names} | ({FUSED_INT8: {RANGES: ranges}} if ranges else {})
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
