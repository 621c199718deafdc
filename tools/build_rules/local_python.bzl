"""A Python toolchain around an interpreter of this machine, with the packages it has: nothing is downloaded.

It is the one that $BERT_TF_PYTHON names, else the first python3 on PATH.
"""

_NEEDED = ["absl", "numpy", "pytest", "tensorflow", "tensorflow_text"]

_CHECK = "import importlib.util, sys; print(*[n for n in sys.argv[1:] if importlib.util.find_spec(n) is None])"

_BUILD = """load("@rules_python//python:py_runtime.bzl", "py_runtime")
load("@rules_python//python:py_runtime_pair.bzl", "py_runtime_pair")

py_runtime(
    name = "runtime",
    interpreter_path = "{interpreter}",
    python_version = "PY3",
    stub_shebang = "#!{interpreter}",  # the launcher that Bazel writes asks for a `python` on PATH otherwise
)

py_runtime_pair(
    name = "runtime_pair",
    py3_runtime = ":runtime",
)

toolchain(
    name = "toolchain",
    toolchain = ":runtime_pair",
    toolchain_type = "@bazel_tools//tools/python:toolchain_type",
    visibility = ["//visibility:public"],
)
"""

def _interpreter(ctx):
    named = ctx.os.environ.get("BERT_TF_PYTHON")
    if named and not named.startswith("/"):
        fail("BERT_TF_PYTHON must be an absolute path; got %s." % named)
    found = named or ctx.which("python3")
    if not found:
        fail("Bazel needs a Python. There is no python3 on PATH; name one in BERT_TF_PYTHON, or run `make bazel-test`.")
    return str(found)

def _local_python_impl(ctx):
    interpreter = _interpreter(ctx)
    check = ctx.execute([interpreter, "-c", _CHECK] + _NEEDED)
    missing = check.stdout.strip()
    if check.return_code or missing:
        fail("The Python of BERT_TF_PYTHON must have the packages of requirements.lock; got %s, which %s; %s" % (
            interpreter,
            "lacks " + missing if missing else "does not run: " + check.stderr.strip(),
            "`make setup` makes one in .venv, `make bazel-test` uses it.",
        ))
    ctx.file("BUILD", _BUILD.format(interpreter = interpreter))
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)

local_python = repository_rule(
    implementation = _local_python_impl,
    environ = ["BERT_TF_PYTHON", "PATH"],
    local = True,
)
