"""Stand-ins for the repositories that Bazel before version 7 would fetch: they hand out the rules built into Bazel."""

_EXPORTS = """package(default_visibility = ["//visibility:public"])

exports_files(glob(["*.bzl"]))
"""

def _natives(names):
    return "".join(["%s = native.%s\n" % (name, name) for name in names])

# Repository -> path in it -> content.
_STUBS = {
    # Bazel asks for both names when it analyses a test, and runs neither unless coverage is asked for.
    "remote_coverage_tools": {
        "BUILD": """package(default_visibility = ["//visibility:public"])

filegroup(name = "coverage_report_generator")

filegroup(name = "lcov_merger")
""",
    },
    "rules_cc": {
        "cc/BUILD": _EXPORTS,
        "cc/defs.bzl": _natives([
            "cc_binary",
            "cc_import",
            "cc_library",
            "cc_proto_library",
            "cc_test",
            "cc_toolchain",
            "cc_toolchain_suite",
            "fdo_prefetch_hints",
            "fdo_profile",
            "objc_import",
            "objc_library",
        ]),
    },
    "rules_java": {
        "java/BUILD": _EXPORTS,
        "java/defs.bzl": _natives([
            "java_binary",
            "java_import",
            "java_library",
            "java_package_configuration",
            "java_plugin",
            "java_runtime",
            "java_test",
            "java_toolchain",
        ]),
    },
    "rules_python": {
        "python/BUILD": _EXPORTS,
        "python/defs.bzl": _natives(["py_binary", "py_library", "py_test"]),
        "python/py_runtime.bzl": _natives(["py_runtime"]),
        "python/py_runtime_pair.bzl": """load("@bazel_tools//tools/python:toolchain.bzl", _py_runtime_pair = "py_runtime_pair")

py_runtime_pair = _py_runtime_pair
""",
    },
}

def _stub_impl(ctx):
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    for path, content in _STUBS[ctx.name].items():
        ctx.file(path, content)

_stub = repository_rule(implementation = _stub_impl)

def stub_repositories():
    """Declares all of them, which are all that Bazel's own tools load from outside in a tree of Python."""
    for name in _STUBS:
        _stub(name = name)
