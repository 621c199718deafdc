"""The py_runtime that is built into Bazel, under the name of rules_python."""

py_runtime = native.py_runtime
