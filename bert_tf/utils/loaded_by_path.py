"""Objects with a loaded model that pickle as their arguments, and read the model again when they are first used."""

import functools
import inspect
import os
import threading
from typing import Any, ClassVar


class LoadedByPath:
    """Base class of objects that load a model from a path, such as `Predictor`.

    A pickle or a deep copy has the arguments of the constructor instead of the model, so that it can go to joblib, to
    `multiprocessing` with spawn, or into a file. The model is read again, from the same path, at the first use.

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
        args, given = vars(self)["_made_of"]
        bound = inspect.signature(type(self)).bind(*args, **given).arguments
        path = bound[self.MODEL]
        if not isinstance(path, str | bytes | os.PathLike):
            raise TypeError(
                f"A {type(self).__name__} of a model in memory cannot be pickled or copied. Save the model with "
                "`bert_tf.save`, and create it from that directory."
            )
        if os.path.exists(path):  # otherwise, it is a name on the Hub
            bound[self.MODEL] = os.path.abspath(path)
        return _restore, (type(self), dict(bound))

    def __getattr__(self, name):
        """Loads the model of a restored object, which has no attributes before."""
        waiting = vars(self).get("_waiting")
        if waiting is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with waiting:
            if "_waiting" in vars(self):
                args, given = vars(self)["_made_of"]
                vars(self).update(vars(type(self)(*args, **given)))
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

    @functools.wraps(init)
    def remember(self, *args, **given):
        vars(self).setdefault("_made_of", (args, given))
        init(self, *args, **given)
        vars(self)["_process"] = os.getpid()

    return remember


def _restore(kind: type[LoadedByPath], arguments: dict[str, Any]) -> LoadedByPath:
    """Returns an object that loads its model when it is first used."""
    restored = kind.__new__(kind)
    vars(restored).update(_made_of=((), arguments), _waiting=threading.Lock())
    return restored
