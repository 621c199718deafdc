"""Other ways to compute the same, for some graphs only: wanted while such a graph is traced."""

import contextlib
import threading

LAYER_NORM_KERNEL = "a layer norm in the form that grappler makes one kernel"
INT8_PRODUCTS = "products of 8-bit integers, from constants of the graph"
ROW_PACKING = "short texts packed into rows"
_thread = threading.local()


@contextlib.contextmanager
def graph_forms(*names: str):
    """Makes layers compute in these forms, in what is traced inside by this thread."""
    before = getattr(_thread, "notes", {})
    _thread.notes = {name: {} for name in names}
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
