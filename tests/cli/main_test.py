"""How programs are started, what their flags become, and how errors that a user can mend end."""

import ast
import functools
import os
import pathlib
import platform
import re
import subprocess
import sys
import types
from importlib import metadata

import pytest
from absl import app, flags

import bert_tf
from bert_tf.cli import command_runner, main
from bert_tf.tasks.built_in import BUILT_IN_TASKS
from bert_tf.utils import lean_keras
from bert_tf.utils.settings import Flag, Settings, command_line, with_attributes, with_default
from tests.cli.support import start_program
from tests.conftest import ROOT

TABLE = (
    Flag("size", 3, "How many.", "integer", low=1),
    Flag("rate", 0.5, "How fast.", "float", low=0, high=1),
    Flag("kind", "a", "Which.", choices=("a", "b")),
    Flag("names", ["x"], "Who.", "list"),
    Flag("do_lower_case", None, "Whether.", "bool"),
)


def start(*words):
    """Returns what a program prints and its status, from a process of its own."""
    command = [sys.executable, "-m", "bert_tf", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_program_is_listed():
    """A program is a task's command, or a module of the package with flags and a main; the others help them."""
    found = set()
    for path in pathlib.Path(main.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assigned = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
        names = {target.id for target in assigned if isinstance(target, ast.Name)}
        found |= {path.stem} if "FLAGS" in names else set()
    assert found | {task.command for task in BUILT_IN_TASKS} == set(main.PROGRAMS)


def test_the_version_is_shown_with_those_of_what_it_stands_on_without_importing_them():
    code = "from bert_tf.cli.main import main; import sys; main(['--version']); print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    *lines, imported = done.stdout.splitlines()
    names, versions = zip(*map(str.split, lines), strict=True)
    assert names == ("bert_tf", "python", *main.STANDS_ON) and imported == "False"
    assert versions[:3] == (bert_tf.__version__, platform.python_version(), metadata.version("tensorflow"))


def test_the_version_says_what_is_not_installed(capsys, monkeypatch):
    monkeypatch.setattr(main, "STANDS_ON", ("numpy", "no-such-package"))
    main.main(["--version"])
    assert capsys.readouterr().out.splitlines()[2:] == [
        f"numpy {metadata.version('numpy')}", "no-such-package is not installed",
    ]  # fmt: skip


def test_both_ways_to_start_are_one():
    script = pathlib.Path(sys.executable).with_name("bert-tf")
    assert 'bert-tf = "bert_tf.cli.main:main"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    said = start("--version").stdout
    assert said.startswith(f"bert_tf {bert_tf.__version__}\n")
    if script.exists():
        assert subprocess.run([script, "--version"], capture_output=True, text=True).stdout == said


def test_flags_without_effect_are_named_once(caplog):
    table = [*TABLE, Flag("cores", 8, "No effect.", "integer"), Flag("pools", 0, "No effect: none.")]
    settings = Settings({flag.name: flag.default for flag in table}, ["size", "cores", "pools"])
    command_runner.warn_of_ignored(settings, table)
    assert [record.getMessage() for record in caplog.records] == ["These flags have no effect: --cores."]


def test_a_mistake_is_one_message_in_flags():
    refused = start("score_squad", "--data_file=none.json", "--predictions_file=none.json", "superfluous")
    assert refused.returncode == 1 and "Traceback" not in refused.stderr
    assert refused.stderr == (
        "Error: Every argument must have the form --flag=value; got 'superfluous'. See `bert-tf score_squad "
        "--help=all`.\n"
    )


@pytest.mark.parametrize("given", [None, "0"])
def test_programs_set_the_level_of_tensorflow_s_log_unless_the_user_has(given):
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": given} if given else {}
    done = start_program("print(os.environ['TF_CPP_MIN_LOG_LEVEL'])", environment)
    assert done.stdout == f"{given or 2}\n", done.stderr


@pytest.mark.parametrize(("end", "status"), [("os.abort()", -6), ("raise ImportError('libcudart')", 1)])
def test_the_last_words_of_an_import_that_ends_the_process_are_shown(tmp_path, end, status):
    source = f"import os\nos.write(2, b'F0000 The library was compiled to use AVX')\n{end}\n"
    (tmp_path / "tensorflow.py").write_text(source, encoding="utf-8")
    done = start_program("import tensorflow", path=tmp_path)
    assert done.returncode == status and "F0000 The library was compiled to use AVX" in done.stderr
    assert ("ImportError: libcudart" in done.stderr) == (status == 1)


def read(*words):
    values = flags.FlagValues()
    command_runner.define(values, TABLE)
    values(["program", *words])
    return command_runner.read_settings(values, [flag.name for flag in TABLE])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["tune", "run_classifier", "--task_name=mrpc"],
         "Unknown flag --task_name. Flags of the tuned command go after `--`."),
        (["run_classifier", "--learning_rat=1"], "Unknown flag --learning_rat. Did you mean --learning_rate?"),
        (["train", "classifier", "--lr=1"], "Unknown flag --lr. Did you mean --learning_rate?"),
        (["train", "classifier", "--output_dir=a", "--schedule=cosin"], "--schedule must be one of linear, polynomial, "
         "cosine, trapezoid; got cosin. Did you mean cosine?"),
        (["run_squad", "--output_dir"], "--output_dir requires a value: --output_dir=..."),
        (["run_squad", "--flagfile=/none"], "Flag file not found: /none (--flagfile). Check its spelling."),
        (["run_squad", "--do_train=5"], "--do_train must be true or false; got 5."),
        (["run_squad", "--do_train", "false"], "Every argument must have the form --flag=value; got 'false'. A boolean "
         "flag takes its value after an equals sign."),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_one_line(words, told, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(lean_keras, "import_keras_without_extras", lambda: None)  # other tests need all of Keras
    with pytest.raises(SystemExit) as end:
        main.main(words)
    name = "train classifier" if words[0] == "train" else words[0]
    assert end.value.code == 1
    assert capsys.readouterr() == ("", f"Error: {told} See `bert-tf {name} --help=all`.\n")


def test_flags_become_settings():
    settings = read("--size=5", "--names=a,b", "--nodo_lower_case")
    assert (settings.size, settings.rate, settings.kind, settings.names, settings.do_lower_case) == (
        *(5, 0.5, "a", ["a", "b"], False),
    )
    assert settings.given == {"size", "names", "do_lower_case"}
    assert read().do_lower_case is None and read().names == ["x"] and not read().given


@pytest.mark.parametrize("words", [["--remat"], ["--gradients", "--norm=2", "--noremat"]])
def test_an_alias_is_another_name_of_its_flag(words):
    table = [Flag("gradients", False, "Save memory.", "bool", aliases=("remat",)), Flag("norm", 1, "N.", "integer")]
    values = flags.FlagValues()
    command_runner.define(values, table)
    command_runner.parse(values, table, words)
    settings = command_runner.read_settings(values, [flag.name for flag in table])
    assert settings.gradients == (words[-1] == "--remat") and "gradients" in settings.given and "remat" not in settings


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("--size=0", "--size must be a positive integer; got 0."),
        ("--rate=1.5", "--rate must be a number from 0 to 1; got 1.5."),
        ("--kind=c", "--kind must be one of a, b; got c."),
        ("--size=x", "--size must be a positive integer; got x."),
        ("--pets=cat,cow", "--pets must be one or more of cat, dog, separated by commas; got cow."),
        ("--speed=fast", "--speed must be a non-negative number or auto; got fast."),
        ("--count=1.5", "--count must be an integer; got 1.5."),
        ("--wide=-1", "--wide must be a number, 0.5 or more; got -1."),
        ("superfluous", "Every argument must have the form --flag=value; got 'superfluous'."),
    ],
)
def test_values_that_are_not_allowed_are_refused(word, told):
    more = (
        Flag("pets", [], "Which.", "list", choices=("cat", "dog")),
        Flag("speed", 1.0, "How fast.", "float", low=0, words=("auto",)),
        Flag("count", 1, "How many.", "integer"),
        Flag("wide", 1.0, "How wide.", "float", low=0.5),
    )
    with pytest.raises(ValueError, match=f"Flags of `test`: {re.escape(told)} See `bert-tf test --help=all`"):
        command_runner.parse_flags("test", (*TABLE, *more), [word])
    assert command_runner.parse_flags("test", more, ["--speed=auto", "--pets=dog"]).to_dict() == {
        "pets": ["dog"], "speed": "auto", "count": 1, "wide": 1.0,
    }  # fmt: skip


def test_required_flags_are_named_together():
    table = with_attributes(TABLE, "kind", default=None, required=True, help="Kind of thing, such as a.")
    with pytest.raises(ValueError, match=r"^Flags of `test`: --kind is required: kind of thing\."):
        command_runner.parse_flags("test", table, [])
    table = with_attributes(table, "size", default=None, required=True, help="URL of it; default: none.")
    with pytest.raises(ValueError, match=r": --size \(URL of it\) and --kind \(kind of thing\) are required\."):
        command_runner.parse_flags("test", table, [])


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("`size` must be 1; got 0.", "--size must be 1; got 0."),
        ("pass `kind=b`, or `size`.", "pass --kind=b, or --size."),
        ("`unknown` stays, `all` too; and so does `x y`.", "`unknown` stays, `all` too; and so does `x y`."),
        ("`names=a,b c/d.txt` is taken whole", "--names=a,b c/d.txt is taken whole"),
    ],
)
def test_parameters_are_shown_as_flags(message, shown):
    assert command_runner.in_flags(message, [flag.name for flag in TABLE]) == shown


def _run(module):
    """Runs a program as `main.start_program` does."""
    with command_runner.defined_flags(module):
        parse = functools.partial(command_runner.parse_command_line, module)
        app.run(functools.partial(command_runner.run_program, module), flags_parser=parse)


def test_programs_run_one_after_the_other_in_a_process():
    runs = []

    def refuse(settings):
        raise ValueError(f"`size` must be 1; got {settings.size}; lower `size`, not `rate`.")

    one = types.SimpleNamespace(__doc__="One.", FLAGS=TABLE, main=lambda settings: runs.append(settings.size))
    other = types.SimpleNamespace(
        __doc__="Other.",
        FLAGS=with_default(TABLE[:1], size=7),
        TAKES_TEXTS=True,
        main=lambda settings, texts: runs.append((settings.size, texts)),
    )
    refusing = types.SimpleNamespace(__doc__="Refusing.", FLAGS=TABLE[:1], main=refuse)
    before, argv = set(flags.FLAGS), sys.argv
    try:
        for module, words in ((one, ["--size=2"]), (other, ["a", "--size=4", "--", "--b"]), (one, []), (refusing, [])):
            sys.argv = ["bert-tf test", *words]
            with pytest.raises(SystemExit) as end:
                _run(module)
            assert end.value.code == (1 if module is refusing else None)
    finally:
        sys.argv = argv
    assert runs == [2, (4, ["a", "--b"]), 3]
    assert not {flag.name for flag in TABLE} & (set(flags.FLAGS) | before)


def test_settings_are_told_of_as_a_command_line():
    assert command_line({"do_train": True, "seed": 1}) == ["--do_train", "--seed=1"]


def test_settings_tell_what_was_given():
    settings = Settings({"size": 1, "rate": 2}, ["size"])
    assert settings.where_given("size") == 1 and settings.where_given("rate") is None
    assert settings.given_values() == {"size": 1} and "rate" in settings and settings.get("other", 3) == 3
    with pytest.raises(AttributeError, match="there is no setting 'other'"):
        settings.other  # noqa: B018
