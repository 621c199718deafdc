"""What is to be done as soon as another package is imported, by whomever, and not before."""

from collections.abc import Callable


class AroundImport:
    """For `sys.meta_path`: lets the import of one package go its way, inside of a function.

    A finder as `importlib.abc.MetaPathFinder` has it, which is not imported: it takes longer than all else here.

    Args:
        name: of the package.
        around: called as around(module, execute); execute(module) runs the package's own code, and must be called.
    """

    def __init__(self, name: str, around: Callable):
        self._name, self._around, self._asking = name, around, False

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self._name or self._asking:
            return None
        import importlib.util  # here, since most of what imports bert_tf first does without such a package

        self._asking = True  # the others are asked now
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: self._around(module, execute)
        return spec
