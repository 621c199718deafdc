"""A folder of pytest files as a test of Bazel."""

load("@rules_python//python:defs.bzl", "py_test")

_MAIN = "//:tools/build_rules/pytest_main.py"

def pytest_tests(name, deps = [], data = [], parts = 1, size = "enormous", **kwargs):
    """Runs the tests of every *_test.py here and below that are not marked slow, as `make test` does, each file by itself.

    One target for all, because most of a short file's time is TensorFlow's import, which they share.

    Args:
      name: of the target.
      deps: libraries that the tests import; //tests:conftest is always among them.
      data: other files that they read, or that programs started by them read.
      parts: among how many processes the files are dealt out: more for a folder that takes minutes, so that all cores
        have something to do.
      size: how long a part may take: "large" a quarter of an hour, "enormous" a whole one, for
        machines that do more besides.
      **kwargs: as for py_test.
    """
    files = native.glob(["**/*_test.py"])
    py_test(
        name = name,
        size = size,
        srcs = files + [_MAIN],
        main = _MAIN,
        args = ["%s/%s" % (native.package_name(), file) for file in files],
        # The lock stands for the installed packages: when it changes, results in the cache are no longer valid.
        data = data + [
            "//:pyproject.toml",
            "//:requirements.lock",
        ],
        legacy_create_init = 0,
        shard_count = parts if parts > 1 else None,
        deps = deps + ["//tests:conftest"],
        **kwargs
    )
