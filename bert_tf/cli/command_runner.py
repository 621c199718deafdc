"""The frame of every command, and the only reader of its flags: checks its files, and turns errors into messages.

A command is a module of this package with

    SETTINGS        its settings class
    FLAGS           a tuple of `settings.Flag`, created from the class by `flags_of`
    main(settings)  what it does, with an instance of the class or, without SETTINGS, `Settings`; with
                    TAKES_TEXTS = True, main(settings, texts): the words without dashes

and, if users may expect it to have flags that belong elsewhere, WHERE_OTHER_FLAGS_GO, a sentence and a space.
"""

import contextlib
import dataclasses
import difflib
import errno
import functools
import itertools
import re
import sys
from collections.abc import Iterable, Sequence

from absl import flags, logging

from bert_tf.cli import usage
from bert_tf.cli.closed_output import is_output_closed
from bert_tf.cli.commands import command_name
from bert_tf.cli.flag_files import check_dashes, expand_flag_files
from bert_tf.cli.given_files import check_files, check_output_paths
from bert_tf.runs.devices import strategy_name
from bert_tf.training.settings import DeviceSettings
from bert_tf.utils import requirements
from bert_tf.utils.flag_synonyms import suggest
from bert_tf.utils.hub_names import hub_name
from bert_tf.utils.progress import LogFormatter, use_bars
from bert_tf.utils.settings import NO_EFFECT, Flag, Settings, allowed_values, check_combinations, options_of
from bert_tf.utils.signals import Terminated, orderly_end

_TPU_ADDRESS = ("tpu_name", "tpu_zone", "gcp_project", "master")  # where the TPU of --distribution_strategy=tpu is
_ACTIONS = ("do_train", "do_eval", "do_predict", "do_export", "dry_run")
_LOST = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError", "FailedPreconditionError")


def parse_command_line(program, argv: Sequence[str]) -> list[str]:
    """Reads a program's command line into `flags.FLAGS`; returns the other words, or ends with a message."""
    try:
        return [argv[0], *parse(flags.FLAGS, program.FLAGS, argv[1:], getattr(program, "TAKES_TEXTS", False))]
    except ValueError as error:
        where = getattr(program, "WHERE_OTHER_FLAGS_GO", "") if isinstance(error, UnknownFlag) else ""
        print(f"Error: {error} {where}See `{argv[0]} --help=all`.", file=sys.stderr)
        sys.exit(1)


class UnknownFlag(ValueError):
    """A command line with a flag that the program does not have."""


class _Refused(ValueError):
    """A value that a flag does not take."""

    def __init__(self, flag, value):
        super().__init__(f"--{flag.name} must be {allowed_values(flag)}; got {value}.")
        if near := difflib.get_close_matches(str(value), flag.choices, 1):
            self.args = (f"{self} Did you mean {near[0]}?",)


def define(values: flags.FlagValues, table: Iterable[Flag]):
    """Defines flags with absl, so that `values` can parse a command line; `parse` sees to required ones."""
    for flag in table:
        if flag.kind == "bool":
            flags.DEFINE_bool(flag.name, flag.default, flag.help, flag_values=values)
        elif flag.kind == "list":
            flags.DEFINE_list(flag.name, flag.default, flag.help, flag_values=values)
        else:
            parser = {"string": flags.ArgumentParser, "integer": flags.IntegerParser, "float": flags.FloatParser}
            bounds = () if flag.kind == "string" else (flag.low, flag.high)
            flags.DEFINE(parser[flag.kind](*bounds), flag.name, flag.default, flag.help, values,
                         flags.ArgumentSerializer())  # fmt: skip
        values[flag.name].parser = _Parser(flag, values[flag.name].parser)
        for alias in flag.aliases:
            flags.DEFINE_alias(alias, flag.name, flag_values=values)


def _accepted_names(table: Iterable[Flag]) -> list[str]:
    """Returns the names of flags and their aliases."""
    return [name for flag in table for name in (flag.name, *flag.aliases)]


class _Parser(flags.ArgumentParser):
    """Reads the value of one flag, and refuses in the words of `usage` what it does not take."""

    def __init__(self, flag, parser):
        self._flag, self._parser = flag, parser
        self.syntactic_help = parser.syntactic_help

    def parse(self, argument):
        flag = self._flag
        if argument in flag.words:
            return argument
        try:
            value = self._parser.parse(argument)
        except (TypeError, ValueError) as error:
            raise _Refused(flag, argument) from error
        renamed = dict(flag.renamed_choices)
        if flag.kind == "string":
            value = renamed.get(value, value)
        elif flag.kind == "list":
            value = [renamed.get(each, each) for each in value]
        for each in (value if flag.kind == "list" else [value]) if flag.choices else ():
            if each not in flag.choices:
                raise _Refused(flag, each)
        return value

    def flag_type(self):
        return self._parser.flag_type()


def parse(
    values: flags.FlagValues, table: Iterable[Flag], words: Sequence[str], takes_texts: bool = False
) -> list[str]:
    """Reads a command line into `values`; returns the words that are not flags.

    Args:
        values: in which `define` has defined the flags.
        table: the flags.
        words: words of the command line, without the program.
        takes_texts: words that are no flags are allowed.

    Raises:
        ValueError: the program would not take it; the message says why.
        UnknownFlag: it has a flag that is not in the table.
    """
    table = list(table)
    words, places = expand_flag_files(words)
    try:
        texts = values(["", *words])[1:]
    except flags.UnrecognizedFlagError as error:
        near = suggest(error.flagname, [flag.name for flag in table if flag.has_effect])
        ask = f" Did you mean --{near}?" if near else ""
        raise UnknownFlag(_in_place(f"Unknown flag --{error.flagname}.{ask}", places)) from error
    except flags.Error as error:
        raise ValueError(_in_place(_reason(error), places)) from error
    if takes_texts:
        before = set(itertools.takewhile(lambda word: word != "--", words))
        check_dashes([text for text in texts if text in before], _accepted_names(table))
    if texts and not takes_texts:
        hint = " A boolean flag takes its value after an equals sign." if texts[0].lower() in ("true", "false") else ""
        raise ValueError(f"Every argument must have the form --flag=value; got {texts[0]!r}.{hint}")
    missing = [flag for flag in table if flag.required and values[flag.name].value is None]
    if len(missing) == 1:
        raise ValueError(f"--{missing[0].name} is required: {usage.first_clause(missing[0].help)}.")
    if missing:
        named = [f"--{flag.name} ({usage.first_clause(flag.help)})" for flag in missing]
        raise ValueError(f"{', '.join(named[:-1])} and {named[-1]} are required.")
    return texts


def _in_place(message, places):
    """Puts the line of a flag file before a message about a flag that is in it."""
    named = re.search(r"--(\w+)", message)
    place = places.get(named[1]) if named else None
    return f"{place}: {message}" if place else message


def _reason(error):
    """Returns the message of an error of absl's."""
    if isinstance(error.__context__, _Refused):
        return str(error.__context__)
    if match := re.match(r"Missing value for flag -*(\w+)", str(error)):
        return f"--{match[1]} requires a value: --{match[1]}=..."
    return f"{str(error).removeprefix('ERROR::').strip().removesuffix('.')}."


def parse_flags(program: str, table: Iterable[Flag], words: Iterable[str]) -> Settings:
    """Parses a command line of another program.

    Args:
        program: one of `commands.PROGRAMS`, for the message.
        table: its flags.
        words: words of the command line, all of them flags.

    Raises:
        ValueError: the program would not take them.
    """
    values, table = flags.FlagValues(), list(table)
    define(values, table)
    try:
        parse(values, table, list(words))
    except ValueError as error:
        shown = command_name(program)
        raise ValueError(f"Flags of `{shown}`: {error} See `bert-tf {shown} --help=all`.") from error
    return read_settings(values, [flag.name for flag in table])


def read_settings(values: flags.FlagValues, names: Iterable[str]) -> Settings:
    """Returns the values of these flags once `values` has parsed a command line."""
    return Settings({name: values[name].value for name in names}, [name for name in names if values[name].present])


def in_flags(text: str, names: Iterable[str]) -> str:
    """Returns a message of the library in the words of the command line: `name` and `name=value` become flags.

    Args:
        text: the message; what stands between backticks and is no flag stays as it is.
        names: names of the program's flags.
    """
    names = set(names)
    return re.sub(r"`(\w+)(=[^`]*)?`", lambda m: f"--{m[0][1:-1]}" if m[1] in names else m[0], text)


@contextlib.contextmanager
def defined_flags(program):
    """Has a program's flags defined as long as the context lasts."""
    values, table, gnu = flags.FLAGS, list(program.FLAGS), flags.FLAGS.is_gnu_getopt()
    values.unparse_flags()  # of a program that ran before in this process
    define(values, table)
    try:
        # Flags may come after texts; what follows "--" is all text.
        values.set_gnu_getopt(getattr(program, "TAKES_TEXTS", False))
        yield
    finally:
        values.set_gnu_getopt(gnu)
        for name in _accepted_names(table):
            delattr(values, name)


def run_program(program, argv: Sequence[str]):
    """Runs a program: an error that the user can fix ends in one message and status 1, any other in a traceback.

    Args:
        program: its module.
        argv: what `parse_command_line` left of the command line, the program's own name first.
    """
    names, words = [flag.name for flag in program.FLAGS], argv[1:]
    settings = read_settings(flags.FLAGS, names)
    logging.set_verbosity(logging.INFO)
    logging.use_absl_handler()
    logging.get_absl_handler().setFormatter(LogFormatter(functools.partial(in_flags, names=frozenset(names))))
    use_bars()
    warn_of_ignored(settings, program.FLAGS)
    try:
        if getattr(program, "__name__", "") != "bert_tf.cli.doctor":  # which says the same, and more
            requirements.check()
        check_actions(settings, program.FLAGS)
        check_files(settings)
        check_output_paths(settings)
        settings = _with_local_models(settings, program.FLAGS)
        with orderly_end():  # unfinished files are removed after a signal, too
            kind = getattr(program, "SETTINGS", None)
            typed = options_of(kind, settings) if kind else settings
            program.main(typed, *([words] if getattr(program, "TAKES_TEXTS", False) else []))
    except Exception as error:
        if not _log_error(error, settings):
            raise
        logging.debug("Traceback:", exc_info=True)
        sys.exit(1)
    except KeyboardInterrupt:
        logging.error("Interrupted. Run the same command again to %s.", _continuation(settings))
        sys.exit(130)
    except Terminated as end:
        logging.error("%s: stopped. Run the same command again to %s.", end.signal.name, _continuation(settings))
        raise


def _continuation(settings):
    """Returns what happens when an interrupted command is given again."""
    if settings.get("do_train") and settings.get("overwrite_output_dir"):
        return "start over, or without --overwrite_output_dir to resume from the last checkpoint, if this run wrote one"
    if settings.get("do_train") or "folds" in settings:
        return "resume from the last checkpoint, if one was written"
    if "rows_per_chunk" in settings:
        return "resume after the rows that were written"
    if "dupe_factor" in settings and not settings.runner:
        return "resume after the finished work"
    return "start over; unfinished output was removed"


def _strategy(settings):
    """Returns the name of the strategy by which a command distributes its work; most commands do not distribute it."""
    devices = [field.name for field in dataclasses.fields(DeviceSettings)]
    return strategy_name(DeviceSettings(**{name: settings.get(name) for name in devices if name in settings}))


def warn_of_ignored(settings: Settings, table: Iterable[Flag]):
    """Says once which flags of the command line have no effect: those that never have, and those of other devices.

    Flags that give their reason in their help are left to their program.
    """
    strategy = _strategy(settings)
    names = () if strategy == "tpu" else _TPU_ADDRESS
    names += () if strategy == "multi_worker" else ("worker_hosts", "task_index")
    names = dict.fromkeys((*names, *(flag.name for flag in table if flag.help == f"{NO_EFFECT}.")))
    if given := [name for name in names if name in settings.given]:
        logging.warning("These flags have no effect: %s.", ", ".join(f"--{name}" for name in given))


def _with_local_models(settings, table):
    values = (settings.get(flag.name) or () for flag in table if flag.reads_model)
    paths = [path for value in values for path in ([value] if isinstance(value, str) else value)]
    if not any(map(hub_name, paths)):
        return settings
    from bert_tf.checkpoints.hub_models import with_local_models  # which reads models: other programs do without

    return with_local_models(table, settings)


def check_actions(settings: Settings, table: Iterable[Flag]):
    """Raises ValueError where nothing was asked for, or a flag came without what it requires."""
    actions = [name for name in _ACTIONS if name in settings]
    if len(actions) > 1 and not any(settings.get(name) for name in actions):  # a lone one is an option
        raise ValueError(f"Nothing to do: pass at least one of --{', --'.join(actions)}.")
    if settings.get("output_dir") == "":
        raise ValueError("--output_dir must not be empty. Name a directory.")
    check_combinations(table, settings)


def _log_error(error, settings):
    """Logs what the user can do about an error; returns False if that is nothing."""
    if isinstance(error, BrokenPipeError) and is_output_closed():
        return False  # `main.start_program` ends the program, quietly
    tf = sys.modules.get("tensorflow")  # not imported here: some programs do without
    if tf and _strategy(settings) == "multi_worker" and isinstance(error, _kinds(tf, _LOST)):
        logging.error("Error: another worker of this run has stopped or cannot be reached; see its log.")
        logging.error("Run the same command again on all workers to %s.", _continuation(settings))
        return True
    if not isinstance(error, (ValueError, OSError) + (_kinds(tf, ["ResourceExhaustedError"]) if tf else ())):
        return False
    logging.error("Error: %s", error)
    if isinstance(error, OSError) and error.errno:  # of a file; without a number it is the network's
        full = error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
        remedy = "Free space" if full else "Make it accessible"
        logging.error("%s, or choose another location; existing files are unchanged.", remedy)
    return True


def _kinds(tf, names):
    return tuple(getattr(tf.errors, name) for name in names)
