"""Flags that name a model to read: a name on the Hugging Face Hub becomes the path of the downloaded files."""

import dataclasses
import types

import pytest
from absl import flags

from bert_tf.checkpoints import hub_models
from bert_tf.cli import command_runner, commands, main
from bert_tf.runs.keywords import read_keywords
from bert_tf.utils.settings import flags_of, option

NAMES = {"model", "init_checkpoint", "teacher", "rerank", "reader", "search_model", "search_reranker", "search_reader",
         "from", "average", "tokenizer"}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Options:
    model: str | None = option(None, "A model.", reads_model=True)
    output_dir: str | None = option(None, "A directory.")


@pytest.fixture
def resolved(monkeypatch):
    """Stands for the download: names begin with org/."""

    def resolve(path, weights=True):
        if path == "org/none":
            raise ValueError("Model not found: org/none")
        return path.replace("org/", "/cache/")

    monkeypatch.setattr(hub_models, "resolve_model", resolve)


def test_every_flag_that_names_a_model_says_so():
    programs = {name: commands.load_command(name).FLAGS for name in main.PROGRAMS}
    table = {(name, flag.name, bool(flag.reads_model)) for name, table in programs.items() for flag in table}
    assert {each for each in table if each[2] != (each[1] in NAMES)} == set()
    assert len({name for name, _, reads in table if reads}) > 20


def test_a_command_has_the_path(resolved, caplog):
    seen = []
    program = types.SimpleNamespace(__doc__="One.", FLAGS=flags_of(Options), SETTINGS=Options, main=seen.append)
    for value in ("org/name", "org/none"):
        with command_runner.defined_flags(program):
            words = command_runner.parse_command_line(program, ["one", f"--model={value}", "--output_dir=org"])
            assert flags.FLAGS["model"].value == value
            if value == "org/name":
                command_runner.run_program(program, words)
                continue
            with pytest.raises(SystemExit, match="1"), caplog.at_level("ERROR", logger="absl"):
                command_runner.run_program(program, words)
    assert seen == [Options("/cache/name", "org")] and "Error: Model not found: org/none" in caplog.text


def test_a_keyword_has_the_path(resolved):
    read = read_keywords("train", flags_of(Options), {"model": "org/name", "output_dir": "org"})
    assert read.given_values() == {"model": "/cache/name", "output_dir": "org"}
