"""The py_runtime_pair of Bazel's tools, under the name of rules_python."""

load("@bazel_tools//tools/python:toolchain.bzl", _py_runtime_pair = "py_runtime_pair")

py_runtime_pair = _py_runtime_pair
