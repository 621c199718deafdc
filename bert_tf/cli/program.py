"""Start of a command: reads its flags, checks its files, sets up devices, turns errors into messages."""

import contextlib
import errno
import glob
import logging as standard_logging
import os
import re
import sys
from collections.abc import Iterable, Sequence

from absl import flags, logging

from bert_tf.cli.main import is_output_closed
from bert_tf.utils.files import check_exists
from bert_tf.utils.names import OF_TRAINING
from bert_tf.utils.progress import erased, use_bars
from bert_tf.utils.settings import NO_EFFECT, Flag, Settings

# === Given files ===
# The files that a command names are there: that is found out before TensorFlow is imported, which takes 5 s.


# Flags of files that a program reads -> what makes it read them; (): it does so whatever is asked for.
_READ = {
    "train_file": ("do_train", "dry_run"),
    "eval_file": ("do_eval", "do_train", "dry_run"),
    "predict_file": ("do_predict",),
    **dict.fromkeys(
        ("input_file", "data_file", "predictions_file", "null_odds_file", "words_file", "phrase_file",
         "bert_config_file", "vocab_file"),
        (),
    ),
}  # fmt: skip


def check_files(settings: Settings):
    """Raises ValueError where a flag names a file that is not there, although it would be read."""
    for name, actions in _READ.items():
        value, asked = settings.where_given(name), [settings.get(action) for action in actions if action in settings]
        if not value or asked and not any(asked):
            continue
        if isinstance(value, str):
            check_exists(value, name)
            continue
        for pattern in value:  # of a list: folders and patterns too
            if not (os.path.exists(pattern) or "://" in pattern or glob.glob(pattern, recursive=True)):
                raise ValueError(
                    f"`{name}` must be files, folders or patterns that match some. Received {pattern!r}, which matches "
                    "no file; check its spelling."
                )


# === Devices ===
# Settings of the whole process: its devices, the seed, determinism, precision.


def strategy_name(settings: Settings) -> str:
    """Returns the name of the strategy, one of `names.STRATEGIES`: --use_tpu stands for one."""
    name = settings.get("distribution_strategy", "default")
    return "tpu" if name == "default" and settings.get("use_tpu") else name


def prepare_process(settings: Settings):
    """Sets what holds for the whole process. To be called before TensorFlow is used for anything else.

    Returns:
        the tf.distribute strategy, and whether to compile steps with XLA.

    Raises:
        ValueError: the devices of the strategy are not available.
    """
    import keras
    import tensorflow as tf

    from bert_tf.training import distribution

    name = strategy_name(settings)
    if settings.use_tpu and name != "tpu":
        raise ValueError(f"--use_tpu must come with --distribution_strategy=tpu or without it. Received: {name!r}.")
    tpu = (settings.tpu_name or settings.master, settings.tpu_zone, settings.gcp_project) if name == "tpu" else ()
    strategy = distribution.make_strategy(name, settings.worker_hosts, settings.task_index, tpu)
    keras.utils.set_random_seed(settings.seed)
    if settings.deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.config.set_dtype_policy(settings.precision)
    if name == "tpu":
        return strategy, False  # everything on a TPU is compiled anyway, and as a whole
    return strategy, distribution.xla_by_default() if settings.use_xla == "auto" else settings.use_xla == "true"


# === Program ===
# The frame of every program: reads its flags, here alone, and turns errors that the user can mend into messages.
#
# A program is a module of this package with
#
#     FLAGS           a tuple of `settings.Flag`
#     main(settings)  what it does; with TAKES_TEXTS = True, main(settings, texts): the words that are no flags
#
# and, where people may look for a flag that is none of them, WHERE_OTHER_FLAGS_GO, which ends in "; ".


_TPU_ADDRESS = ("tpu_name", "tpu_zone", "gcp_project", "master")  # where the TPU of --distribution_strategy=tpu is
_ACTIONS = ("do_train", "do_eval", "do_predict", "do_export", "dry_run")
_LOST = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError", "FailedPreconditionError")


def parse_command_line(program, argv: Sequence[str]) -> list[str]:
    """Reads a program's command line into `flags.FLAGS`; returns what is no flag. What is wrong ends the program."""
    where_others_go = getattr(program, "WHERE_OTHER_FLAGS_GO", "")
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        said = str(error).strip().removesuffix(".").replace(" ?", "?")
        then = " " if said.endswith("?") else "; "
        print(f"Error: {said}{then}{where_others_go}`{argv[0]} --help` lists the flags.", file=sys.stderr)
        sys.exit(1)


def define(values: flags.FlagValues, table: Iterable[Flag]):
    """Defines flags with absl, so that `values` can parse a command line."""
    for flag in table:
        more = {"required": flag.required, "flag_values": values}
        if flag.words:
            flags.DEFINE(
                _NumberOrWord(flag.words, flag.low, flag.high), flag.name, flag.default, flag.help, values,
                flags.ArgumentSerializer(), required=flag.required,
            )  # fmt: skip
            continue
        if flag.kind in ("integer", "float"):
            more |= {"lower_bound": flag.low, "upper_bound": flag.high}
            make = flags.DEFINE_integer if flag.kind == "integer" else flags.DEFINE_float
        elif flag.choices and flag.kind == "string":
            make, more["enum_values"] = flags.DEFINE_enum, flag.choices
        else:
            make = {"string": flags.DEFINE_string, "bool": flags.DEFINE_bool, "list": flags.DEFINE_list}[flag.kind]
        of_list = f"<{'|'.join(flag.choices)}>: " if flag.choices and flag.kind == "list" else ""  # as absl has others
        make(flag.name, flag.default, help=of_list + flag.help, **more)
        if of_list:
            _check_choices(values, flag)


class _NumberOrWord(flags.FloatParser):
    """Takes a number within its bounds, or one of some words."""

    def __init__(self, words, low, high):
        super().__init__(low, high)
        self._words = words

    def parse(self, argument):
        return argument if argument in self._words else super().parse(argument)


def parse_flags(program: str, table: Iterable[Flag], words: Iterable[str]) -> Settings:
    """Returns what a command line of another program says.

    Args:
        program: its name, for the message.
        table: its flags.
        words: of the command line, all of them flags.

    Raises:
        ValueError: the program would not take them.
    """
    values, table = flags.FlagValues(), list(table)
    define(values, table)
    try:
        rest = values([program, *words])[1:]
    except flags.Error as error:
        raise ValueError(
            f"There must be flags that {program} takes. Received: {str(error).strip().removesuffix('.')}; "
            f"`bert-tf {program} --help` lists them."
        ) from error
    if rest:
        raise ValueError(f"{program} must be given everything as --flag=value. Received: {' '.join(rest)}; correct it.")
    return read_settings(values, [flag.name for flag in table])


def _check_choices(values, flag):
    """Has absl refuse a list with a text in it that the flag does not allow."""
    message = f"each must be one of {', '.join(flag.choices)}"
    flags.register_validator(flag.name, lambda texts: set(texts or ()) <= set(flag.choices), message, values)


def read_settings(values: flags.FlagValues, names: Iterable[str]) -> Settings:
    """Returns the values of these flags once `values` has parsed a command line."""
    return Settings({name: values[name].value for name in names}, [name for name in names if values[name].present])


def in_flags(text: str, names: Iterable[str]) -> str:
    """Returns a message of the library in the words of the command line: `name` and `name=value` become flags.

    Args:
        text: the message; what stands between backticks and is no flag stays as it is.
        names: of the program's flags.
    """
    names = set(names)
    return re.sub(r"`(\w+)(=[^`]*)?`", lambda m: f"--{m[0][1:-1]}" if m[1] in names else m[0], text)


class _Formatter(standard_logging.Formatter):
    """Puts the time before each message, and speaks of flags where the library names its parameters."""

    def __init__(self, names):
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")
        self._names = frozenset(names)

    def format(self, record):
        return erased() + in_flags(super().format(record), self._names)


@contextlib.contextmanager
def defined_flags(program):
    """Has a program's flags defined, and its docstring shown by --help, as long as the context lasts."""
    values, table, main = flags.FLAGS, list(program.FLAGS), sys.modules["__main__"]
    takes_texts = getattr(program, "TAKES_TEXTS", False)
    doc, gnu = main.__doc__, values.is_gnu_getopt()
    values.unparse_flags()  # of a program that ran before in this process
    define(values, table)
    try:
        for flag in table:
            if flag.has_effect:  # --help shows what is registered so
                values.register_key_flag_for_module(sys.argv[0], values[flag.name])
        main.__doc__ = program.__doc__.replace("%", "%%")
        values.set_gnu_getopt(takes_texts)  # flags may come after texts; what follows "--" is all text
        yield
    finally:
        main.__doc__ = doc
        values.set_gnu_getopt(gnu)
        for flag in table:
            delattr(values, flag.name)


def run_program(program, argv: Sequence[str]):
    """Runs a program: what the user can mend ends in one message and status 1, everything else in a traceback.

    Args:
        program: its module.
        argv: what `parse_command_line` left of the command line, the program's own name first.
    """
    names, words = [flag.name for flag in program.FLAGS], argv[1:]
    settings = read_settings(flags.FLAGS, names)
    logging.set_verbosity(logging.INFO)
    logging.use_absl_handler()
    logging.get_absl_handler().setFormatter(_Formatter(names))
    use_bars()
    takes_texts = getattr(program, "TAKES_TEXTS", False)
    warn_of_ignored(settings, program.FLAGS)
    try:
        if words and not takes_texts:
            raise ValueError(f"Everything must be given as --flag=value. Received: {' '.join(words)}")
        check_actions(settings, program.FLAGS)
        check_files(settings)
        program.main(settings, *([words] if takes_texts else []))
    except Exception as error:
        if not _log_error(error, settings):
            raise
        logging.debug("Traceback:", exc_info=True)
        sys.exit(1)
    except KeyboardInterrupt:
        logging.error("Interrupted. The same command %s.", _continuation(settings))
        sys.exit(130)


def _continuation(settings):
    """Returns what happens when an interrupted command is given again."""
    if settings.get("do_train") or "folds" in settings:
        return "goes on from the last checkpoint, if one was written"
    if "rows_per_part" in settings:
        return "goes on after the parts that were written"
    return "starts over; what was half-made is removed"


def warn_of_ignored(settings: Settings, table: Iterable[Flag]):
    """Says once which flags of the command line have no effect: those that never have, and those of other devices.

    Flags that give their reason in their help are left to their program.
    """
    strategy = strategy_name(settings)
    names = () if strategy == "tpu" else _TPU_ADDRESS
    names += () if strategy == "multi_worker" else ("worker_hosts", "task_index")
    names = dict.fromkeys((*names, *(flag.name for flag in table if flag.help == f"{NO_EFFECT}.")))
    if given := [name for name in names if name in settings.given]:
        logging.warning("These flags have no effect here: %s.", ", ".join(f"--{name}" for name in given))


def check_actions(settings: Settings, table: Iterable[Flag]):
    """Raises ValueError where nothing was asked for, or something that needs training came without it."""
    defaults = {flag.name: flag.default for flag in table}
    actions = [name for name in _ACTIONS if name in settings]
    if len(actions) > 1 and not any(settings.get(name) for name in actions):  # a lone one is an option
        raise ValueError(f"There must be something to do. Received none of --{', --'.join(actions)}.")
    if settings.get("output_dir") == "":
        raise ValueError("--output_dir must name a directory. Received an empty name.")
    for name in OF_TRAINING:
        if name in settings and settings.get(name) != defaults[name] and not settings.get("do_train", True):
            raise ValueError(f"--{name} must come with --do_train. Received it without.")


def _log_error(error, settings):
    """Logs what the user can do about an error; returns False where there is nothing to do."""
    if isinstance(error, BrokenPipeError) and is_output_closed():
        return False  # `main.start_program` ends the program, quietly
    tf = sys.modules.get("tensorflow")  # not imported here: some programs do without
    if tf and strategy_name(settings) == "multi_worker" and isinstance(error, _kinds(tf, _LOST)):
        logging.error("Error: another worker of this run has ended or cannot be reached; its own log says why.")
        logging.error("The same command, started again on all workers, goes on from the last checkpoint.")
        return True
    if not isinstance(error, (ValueError, OSError) + (_kinds(tf, ["ResourceExhaustedError"]) if tf else ())):
        return False
    logging.error("Error: %s", error)
    if isinstance(error, OSError) and error.errno:  # of a file; without a number it is the network's
        full = error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
        remedy = "Free space" if full else "Make it accessible"
        logging.error("%s, or name another place; what was there before is unchanged.", remedy)
    return True


def _kinds(tf, names):
    return tuple(getattr(tf.errors, name) for name in names)
