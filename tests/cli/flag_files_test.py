"""Flag files: what their lines become, and which lines are refused."""

import re

import pytest

from bert_tf.cli import command_runner
from bert_tf.utils.settings import Flag

TABLE = (
    Flag("prompt", None, "What comes first."),
    Flag("server", "localhost", "Where."),
    Flag("timeout", 60, "How long.", "integer", low=1, aliases=("time_limit",)),
    Flag("tls", False, "Whether.", "bool", aliases=("t_l",)),
)


def parse(*words, takes_texts=True):
    """Returns the settings and the texts of a command line."""
    values = command_runner.flags.FlagValues()
    values.set_gnu_getopt(takes_texts)
    command_runner.define(values, TABLE)
    texts = command_runner.parse(values, TABLE, words, takes_texts)
    return command_runner.read_settings(values, [flag.name for flag in TABLE]).given_values(), texts


def written(folder, data, name="flags.txt"):
    """Returns the path of a file with these bytes."""
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


@pytest.mark.parametrize(
    ("data", "values", "texts"),
    [
        (b"\xef\xbb\xbf--timeout=30\r\n--tls\r\n", {"timeout": 30, "tls": True}, []),  # as Windows writes it
        ("--prompt=query: \n--server=a:1 \n", {"prompt": "query: ", "server": "a:1"}, []),
        ("--prompt=query: \t", {"prompt": "query: \t"}, []),
        ("# one\n\n// two\n   --tls   \n-timeout=7", {"tls": True, "timeout": 7}, []),
        ("--timeout=3\n--\ntwo words \n--tls\n", {"timeout": 3}, ["two words ", "--tls"]),
    ],
)
def test_lines_are_flags(tmp_path, data, values, texts):
    assert parse(f"--flagfile={written(tmp_path, data)}") == (values, texts)


def test_files_are_read_where_they_are_named(tmp_path):
    inner = written(tmp_path, "--timeout=5\n--server=inner", "inner.txt")
    outer = written(tmp_path, f"--timeout=4\n--flagfile={inner} \n--server=outer")
    given, texts = parse("a", "--timeout=1", "--flagfile", outer, "b", "--", f"--flagfile={inner}")
    assert given == {"timeout": 5, "server": "outer"} and texts == ["a", "b", f"--flagfile={inner}"]
    assert parse(f"--flagfile={outer}", "--timeout=1", "--server", "c")[0] == {"timeout": 1, "server": "c"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("--tls\ntimeout=30", ":2: every line of a flag file must have the form --flag=value; got 'timeout=30'."),
        ("–timeout=30", ":1: every line of a flag file must have the form --flag=value; got '–timeout=30'."),
        ("--timeout 30", ":1: every line .* got '--timeout 30'. Write --timeout=30."),
        ("--tls\n\n--timeout=soon", ":3: --timeout must be a positive integer; got soon."),
        ("--timeuot=30", ":1: Unknown flag --timeuot. Did you mean --timeout?"),
        (b"--tls\n--server=caf\xe9", ":2: a flag file must be UTF-8 text."),
        ("--tls".encode("utf-16"), " must be UTF-8 text, but it begins with the byte-order mark of UTF-16."),
        ("--flagfile={path}", "The flag file {path} must not include itself. Remove its --flagfile from {path}."),
    ],
)
def test_other_lines_are_refused_with_their_place(tmp_path, data, message):
    path = str(tmp_path / "flags.txt")
    written(tmp_path, data.replace("{path}", path) if isinstance(data, str) else data)
    expected = re.escape(message).replace(r"\.\*", ".*").replace(r"\{path\}", re.escape(path))
    with pytest.raises(ValueError, match=expected) as refused:
        parse(f"--flagfile={path}")
    assert path in str(refused.value)


@pytest.mark.parametrize(
    "text",
    ["timeout=30", "\ufeff--timeout=30", "—timeout=30", "–tls", "\ufeff--tls", "time_limit=30", "–t_l"],  # two aliases
)
def test_a_text_that_is_a_flag_without_its_hyphens_is_refused(text):
    with pytest.raises(ValueError, match=f"{text[-3:]}' looks like a flag without its two hyphens. Write --t"):
        parse("first", text)
    assert parse("first", "--", text)[1] == ["first", text]


@pytest.mark.parametrize("text", ["timeout", "tls", "x=1", "timeout = 30", "– a list", "wait: timeout=30", ""])
def test_other_texts_are_texts(text):
    assert parse("--server", "timeout=1", text) == ({"server": "timeout=1"}, [text])
