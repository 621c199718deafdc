"""The commands of `bert-tf`: their names and aliases, their groups, their guides, and the lists that show them."""

import ast
import importlib
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from bert_tf.tasks.built_in import BUILT_IN_TASKS


class CliCommand(NamedTuple):
    """One command.

    Attributes:
        name: name of its module in this package, or of a task's command; accepted, but shown only as an old name.
        alias: the name that help, messages and documentation use, such as "train classifier".
        guide: the page of docs/ that shows how to use it, without ".md".
        others: further accepted names, shown only as old names.
    """

    name: str
    alias: str
    guide: str
    others: tuple[str, ...] = ()


GROUPS = {
    "Get started": (
        CliCommand("demo", "demo", "get_started/quickstart_cli"),
        CliCommand("doctor", "doctor", "get_started/installation"),
    ),
    "Data": (
        CliCommand("split", "data split", "guides/prepare_data"),
        CliCommand("clean_data", "data clean", "guides/prepare_data"),
        CliCommand("check_data", "data check", "guides/prepare_data"),
        CliCommand("find_label_errors", "data label-errors", "guides/prepare_data"),
        CliCommand("mine_negatives", "data mine-negatives", "guides/train_embeddings"),
    ),
    "Train": (
        *(CliCommand(task.command, task.alias, task.guide) for task in BUILT_IN_TASKS),
        CliCommand("tune", "tune", "guides/hyperparameter_search"),
    ),
    "Evaluate": (
        CliCommand("compare", "compare", "guides/evaluation"),
        CliCommand("cross_validate", "cross-validate", "guides/evaluation"),
        CliCommand("visualize", "visualize", "guides/interpretability", ("see",)),
        CliCommand("probe", "inspect probe", "guides/interpretability"),
        CliCommand("run_glue", "benchmark glue", "guides/glue"),
        CliCommand("score_squad", "benchmark squad-score", "guides/question_answering"),
    ),
    "Predict": (
        CliCommand("predict", "predict", "guides/batch_inference"),
        CliCommand("embed", "embed", "guides/sentence_embeddings"),
        CliCommand("search", "search", "guides/semantic_search"),
        CliCommand("delete_texts", "index delete", "guides/semantic_search"),
        CliCommand("zero_shot", "zero-shot", "guides/zero_shot"),
        CliCommand("fill_mask", "fill-mask", "guides/fill_mask"),
        CliCommand("score_text", "score-text", "guides/fill_mask"),
        CliCommand("extract_features", "inspect features", "guides/feature_extraction"),
    ),
    "Export": (
        CliCommand("export", "export", "guides/export"),
        CliCommand("verify", "verify", "guides/export"),
        CliCommand("convert", "convert", "guides/convert_checkpoints"),
        CliCommand("edit_model", "model edit", "guides/model_editing", ("surgery",)),
    ),
    "Serve": (
        CliCommand("serve", "serve", "guides/serving"),
        CliCommand("ask", "client ask", "guides/client"),
        CliCommand("load_test", "client load-test", "guides/client"),
    ),
    "Pretrain": (
        CliCommand("pretrain_small", "pretrain quick", "guides/quick_pretraining"),
        CliCommand("create_pretraining_data", "pretrain data", "guides/pretraining_data"),
        CliCommand("run_pretraining", "pretrain run", "guides/pretraining"),
        CliCommand("train_vocabulary", "vocab train", "guides/pretraining_data"),
        CliCommand("extend_vocabulary", "vocab extend", "guides/pretraining_data"),
    ),
}
COMMANDS = {command.name: command for group in GROUPS.values() for command in group}
PROGRAMS = tuple(COMMANDS)
_TASKS = {task.command: task for task in BUILT_IN_TASKS}
_CUSTOM_GUIDE = "guides/custom_tasks"
# What people type for a command, under the names of other tools -> what is suggested.
OTHER_NAMES = {
    "evaluate": ("train classifier --do_eval", "compare"), "eval": ("train classifier --do_eval", "compare"),
    "ner": ("train tagger",), "classify": ("predict", "train classifier"), "finetune": ("train",),
    "fine-tune": ("train",), "quantize": ("export --export_dtype=int8",), "infer": ("predict",),
    "download": ("convert",), "encode": ("embed",), "rerank": ("search --rerank", "train reranker"),
    "squad": ("train qa",), "mask": ("fill-mask",), "pretraining": ("pretrain run",),
}  # fmt: skip

_SHORT = """\
Usage: bert-tf COMMAND [--flags]

Get started   demo               train, evaluate and serve a model in minutes
              doctor             check Python, TensorFlow, CPU and GPU
Data          data clean|split   clean a table; train/eval/test without leaks
              data check         find problems in training data
              data label-errors  find examples that are probably mislabeled
Train         train classifier   text classification and regression
              train tagger       named entity recognition
              train qa           extractive question answering (SQuAD)
              train embedder     sentence embeddings
              train reranker     rerankers (cross-encoders) for search
              tune               hyperparameter search
Evaluate      compare            compare two runs, with significance tests
              visualize          attention and attributions as an HTML page
Predict       predict            batch inference over a file
              embed, search      sentence embeddings; semantic search
              zero-shot          classify by labels in words, without training
Export        export, verify     SavedModel or LiteRT; check the export
              convert            convert between checkpoint formats
Serve         serve              REST and gRPC server (TensorFlow Serving API)
              client             query and load-test a server
Pretrain      pretrain quick     small encoder from your text in N minutes
              pretrain data|run  full pretraining pipeline

`bert-tf COMMAND --help` shows a command's flags, `bert-tf --all` all commands."""


def load_command(name: str) -> Any:
    """Returns what `cli.command_runner` runs for one of `PROGRAMS`: its module, or the command of its task."""
    if name in _TASKS:
        from bert_tf.cli.fine_tuning_command import FineTuningCommand  # here: the list of commands does without

        return FineTuningCommand(_TASKS[name])
    return importlib.import_module(f"bert_tf.cli.{name}")


def command_name(name: str) -> str:
    """Returns the name that messages use for one of `PROGRAMS`, or for a custom task's "train NAME"."""
    return COMMANDS[name].alias if name in COMMANDS else name


def help_source(name: str) -> pathlib.Path:
    """Returns the file whose docstring is the help of one of `PROGRAMS`: its module, or the folder of its task."""
    folder = pathlib.Path(__file__).parent
    return folder.parent / "tasks" / _TASKS[name].name / "__init__.py" if name in _TASKS else folder / f"{name}.py"


def custom_commands() -> list[CliCommand]:
    """Returns the commands of the tasks that other packages provide: `bert-tf train NAME`."""
    from bert_tf.tasks.entry_points import custom_tasks  # here: most commands do without

    names = [f"train {name}" for name in custom_tasks()]
    return [CliCommand(name, name, _CUSTOM_GUIDE) for name in names if _plain(name) not in _NAMES]


class Found(NamedTuple):
    """What the words of a command line name.

    Attributes:
        name: the command, one of `PROGRAMS`, or "train NAME" of a custom task; "" if the words name none.
        typed: the words that name it, as they were typed.
        rest: the words after them.
    """

    name: str
    typed: str
    rest: list[str]


def find(words: Sequence[str]) -> Found:
    """Returns the command that a command line begins with: a name or an alias, with hyphens or underscores."""
    for count in (2, 1):
        if len(words) >= count and (name := _NAMES.get(_plain(" ".join(words[:count])))):
            return Found(name, " ".join(words[:count]), list(words[count:]))
    typed = " ".join(words[:2])
    for each in custom_commands() if typed.startswith("train ") else ():
        if _plain(each.alias) == _plain(typed):
            return Found(each.name, typed, list(words[2:]))
    return Found("", " ".join(words[:1]), list(words[1:]))


def _plain(text):
    return text.replace("-", "_")


_NAMES = {_plain(text): each.name for each in COMMANDS.values() for text in (each.name, each.alias, *each.others)}


def starting_with(word: str) -> list[CliCommand]:
    """Returns the commands whose alias has two words, the first of which is `word`: "train" has six."""
    every = [*COMMANDS.values(), *(custom_commands() if word == "train" else ())]
    return [each for each in every if each.alias.startswith(f"{word} ")]


def short_list() -> str:
    """Returns what `bert-tf` alone prints: the commands that most people need."""
    return _SHORT


def full_list() -> str:
    """Returns what `bert-tf --all` prints: every command by group, with its summary."""
    lines = ["Usage: bert-tf COMMAND [--flags]   (or: python -m bert_tf COMMAND [--flags])"]
    for title, group in GROUPS.items():
        lines += ["", title, *described(group)]
    return "\n".join([*lines, "", "`bert-tf COMMAND --help` shows a command's flags."])


def described(several: Sequence[CliCommand]) -> list[str]:
    """Returns two lines for each command: its name, and its summary below it."""
    return [line for each in several for line in (f"  {each.alias}", f"      {summary(each.name)}")]


def summary(name: str) -> str:
    """Returns the first line of a command's docstring; read and not imported, because some bring in TensorFlow."""
    if name not in COMMANDS:
        from bert_tf.tasks.entry_points import custom_tasks, package_of

        packages = [package_of(each) for each in custom_tasks()[name.removeprefix("train ")]]
        return f"Train a model for a custom task of the package {', '.join(packages)}."
    return ast.get_docstring(ast.parse(help_source(name).read_text(encoding="utf-8"))).splitlines()[0]


def unknown(words: Sequence[str]) -> str:
    """Returns the message about words that name no command."""
    from difflib import get_close_matches  # here: everything else does without

    typed = words[:1] if words[1:] and words[1].startswith("-") else words[:2]
    if group := starting_with(words[0]):
        seconds = {_plain(each.alias.split()[1]): each.alias for each in group}
        near = get_close_matches(_plain(typed[1]), seconds, 3, 0.65) if typed[1:] else list(seconds)[:1]
        asks = _did_you_mean([seconds[text] for text in near])
        head = f"Error: Unknown command {' '.join(typed)!r}. {asks}The commands of {words[0]!r}:"
        return "\n".join([head, "", *described(group)])
    known = {_plain(text): (each.name, shown) for each in COMMANDS.values() for text, shown in _spellings(each)}
    if words[0] in OTHER_NAMES:
        asks = _did_you_mean(OTHER_NAMES[words[0]])
        return f"Error: Unknown command {words[0]!r}. {asks}`bert-tf` lists the commands."
    both = get_close_matches(_plain(" ".join(typed)), known, 9, 0.8) if typed[1:] else []
    known |= {first: (first, first) for each in COMMANDS.values() for first in each.alias.split()[:-1]}
    near = {}  # command or group -> how it is named, the nearest first
    for text in both or get_close_matches(_plain(words[0]), known, 9, 0.65):
        near.setdefault(*known[text])
    asks = _did_you_mean(list(near.values())[:3])
    return f"Error: Unknown command {words[0]!r}. {asks}`bert-tf` lists the commands."


def _did_you_mean(names):
    """Returns a question and a blank; "" without names."""
    names = [f"`bert-tf {name}`" for name in names]
    return f"Did you mean {' or '.join([*filter(None, [', '.join(names[:-1])]), names[-1]])}? " if names else ""


def _spellings(command):
    """Yields what people may type for a command, and the name that is suggested then."""
    yield command.alias.split()[-1], command.alias
    yield command.alias, command.alias
    yield command.name, command.alias
