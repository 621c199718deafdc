"""A file of pytest tests as a test of Bazel."""

load("@rules_python//python:defs.bzl", "py_test")

_MAIN = "//tools/build_rules:pytest_main.py"

def pytest_test(name, deps = [], data = [], size = "medium", **kwargs):
    """Runs the tests of <name>.py that are not marked slow, as `make test` does.

    Args:
      name: the file of this package, without .py.
      deps: libraries that the tests import; //tests:conftest is always among them.
      data: other files that they read, or that programs started by them read.
      size: how long it may take: "small" a minute, "medium" five, "large" fifteen.
      **kwargs: as for py_test.
    """
    py_test(
        name = name,
        size = size,
        srcs = [
            name + ".py",
            _MAIN,
        ],
        main = _MAIN,
        args = ["%s/%s.py" % (native.package_name(), name)],
        # The lock stands for the installed packages: when it changes, results in the cache are no longer valid.
        data = data + [
            "//:pyproject.toml",
            "//:requirements.lock",
        ],
        legacy_create_init = 0,
        deps = deps + ["//tests:conftest"],
        **kwargs
    )
