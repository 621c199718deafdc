"""Objects with a loaded model that pickle as their arguments, and read the model again when they are first used."""

import functools
import inspect
import os
import threading
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from bert_tf.utils.hub_names import hub_name


class _MadeOf(NamedTuple):
    """The arguments of a constructor, with the path of the model made absolute, and that path."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    model: Any


class LoadedByPath:
    """Base class of objects that load a model from a path, such as `Predictor`.

    A pickle or a copy has the arguments of the constructor instead of the model, so that it can go to joblib, to
    `multiprocessing` with spawn, or into a file. The model is read again, from the same path, at the first use; of a
    directory of versions, the newest one by then.

    In a child process that was forked after the model was loaded, it must not be used: it would wait for threads that
    are only in the parent.

    Attributes:
        MODEL: name of the argument with the path.
    """

    MODEL: ClassVar[str] = "path"

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = _remembering(cls.__init__)

    def __reduce__(self):
        made_of = vars(self)["_made_of"]
        if not isinstance(made_of.model, str | bytes | os.PathLike):
            raise TypeError(
                f"A {type(self).__name__} of a model in memory cannot be pickled or copied. Save the model with "
                "`bert_tf.save`, and create it from that directory."
            )
        return _restore, (type(self), made_of)

    if not TYPE_CHECKING:  # or every misspelled attribute would be one

        def __getattr__(self, name):
            """Loads the model of a restored object, which has no attributes before."""
            waiting = vars(self).get("_waiting")
            if waiting is None or name.startswith("__"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            with waiting:
                if "_waiting" in vars(self):
                    made_of = vars(self)["_made_of"]
                    vars(self).update(vars(type(self)(*made_of.args, **made_of.kwargs)))
                    del vars(self)["_waiting"]
            return getattr(self, name)

    def check_process(self):
        """Raises RuntimeError in a child process that was forked after the model was loaded, where it would hang."""
        if vars(self).get("_process", os.getpid()) != os.getpid():
            raise RuntimeError(
                f"This {type(self).__name__} was loaded before the process was forked, and would wait forever for "
                "threads that are only in the parent. Start processes with `multiprocessing.get_context('spawn')`, and "
                "pass it to them: a pickle loads its model again."
            )


def _remembering(init):
    """Returns a constructor that keeps its arguments; of several, the one that was called first."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def remember(self, *args, **given):
        if "_made_of" not in vars(self):
            vars(self)["_made_of"] = _made_of(signature, self, args, given)
        init(self, *args, **given)
        vars(self)["_process"] = os.getpid()

    return remember


def _made_of(signature, target, args, given):
    """Returns what `target` is made of; None for wrong arguments, which its constructor reports."""
    try:
        bound = signature.bind(target, *args, **given)
    except TypeError:
        return None
    arguments, name = bound.arguments, target.MODEL
    for each, value in arguments.items():
        arguments[each] = list(value) if isinstance(value, list) else value  # the caller may change it
    model = arguments.get(name)
    if isinstance(model, str | os.PathLike):
        text = os.fspath(model)
        if isinstance(text, str) and "://" not in text and hub_name(text) is None:
            arguments[name] = os.path.abspath(text)
    return _MadeOf(bound.args[1:], bound.kwargs, arguments.get(name))


def _restore(kind: type[LoadedByPath], made_of: _MadeOf) -> LoadedByPath:
    """Returns an object that loads its model when it is first used."""
    restored = kind.__new__(kind)
    vars(restored).update(_made_of=made_of, _waiting=threading.Lock())
    return restored
