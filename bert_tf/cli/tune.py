"""Search the hyperparameters of a fine-tuning command.

    bert-tf tune train classifier --output_dir=tuned --tuning_metric=eval_f1 \\
        --search='learning_rate=2e-5,5e-5,1e-4;train_batch_size=16,32' -- \\
        --train_file=train.tsv --eval_file=dev.tsv \\
        --init_checkpoint=demo/weights/minilm

Flags after `--` are passed to every trial; each trial runs in a separate
process. Writes trials.tsv and report.html to --output_dir. Run the same command
again to resume.
"""

import dataclasses
import os
from typing import ClassVar

from absl import logging

from bert_tf.cli.command_runner import parse_flags
from bert_tf.utils.extras import require_packages
from bert_tf.utils.files import find_files
from bert_tf.utils.folder_lock import alone_in
from bert_tf.utils.logged_runs import LOG_FILE, check_passed_flags
from bert_tf.utils.manifest import check_manifest, contents
from bert_tf.utils.settings import UserSettings, flags_of, option
from bert_tf.utils.subprocesses import resumable


@dataclasses.dataclass(frozen=True)
class TuneSettings(UserSettings):
    """Trials to run, and what to keep of them."""

    GROUP: ClassVar[str] = "What to do"

    search: str | None = option(
        None,
        "Flags to vary, with their values: name=value,value;name=value,value. Instead of values, a number may have a "
        "range, low..high.",
        required=True,
    )
    tuning_metric: str | None = option(
        None,
        "Metric used to rank trials, as named in eval_results.txt, with or without eval_: accuracy, f1, loss, ...",
        required=True,
    )
    output_dir: str | None = option(
        None,
        "Directory for the trials and the report.",
        required=True, group="Output", essential=True,
    )
    trials: int | None = option(None, "Number of trials. Default: every combination of the values, once.", low=1)
    sampler: str | None = option(
        None,
        "How the values of --trials are chosen. random: independently of other trials; tpe: from the scores of earlier "
        "trials, with Optuna's tree-structured Parzen estimator (requires pip install 'bert-tf[tune]'). With "
        "--trials, default: random.",
        choices=("random", "tpe"), requires=("trials",),
    )
    search_seed: int = option(0, "Random seed of the trials' values; a trial's own seed is a flag after `--`.", low=0)
    stages: int = option(
        1,
        "Number of stages of successive halving: each stage keeps the better half of the trials and doubles "
        "the epochs; the last stage trains for all epochs. With 1, every trial trains for all epochs.",
        low=1,
    )
    keep_models: str = option(
        "best",
        "Models to keep on disk. best: that of the best trial; all: those of all trials.",
        choices=("best", "all"), group="Output",
    )


SETTINGS = TuneSettings
FLAGS = flags_of(SETTINGS)
TAKES_TEXTS = True  # the program's name, and its flags after `--`
WHERE_OTHER_FLAGS_GO = "Flags of the tuned command go after `--`. "

_NEEDED = {"do_train", "do_eval", "output_dir", "num_train_epochs"}  # flags of a program that can be tuned
_FILES = ("train_file", "eval_file", "test_file", "data_dir", "vocab_file")  # whose contents must stay the same
_NOTE_FILE = "tune.json"
_BY_SCORES = "tpe"  # the sampler that uses the scores of earlier trials


def main(settings: TuneSettings, words):
    """Makes the trials."""
    with resumable():
        _search(settings, *_program(words))


def _program(words):
    """Returns the program's name, its flags as it has them, and those of the command line."""
    from bert_tf.cli import commands

    tables = {}
    for name in commands.PROGRAMS:
        flags = commands.load_command(name).FLAGS
        if {flag.name for flag in flags} >= _NEEDED:
            tables[name] = flags
    found = commands.find(words)
    if found.name not in tables:
        tunable = ", ".join(map(commands.command_name, tables))
        raise ValueError(
            f"The first argument must be the command to tune: one of {tunable}; got {found.typed or 'none'}. "
            "Example: `bert-tf tune train classifier --search=... -- --train_file=...`."
        )
    return found.name, tables[found.name], found.rest


def _search(settings, program, table, others):
    from bert_tf.experiments.tuning.trials import Folder, SuccessiveHalving, numbered
    from bert_tf.experiments.tuning.tuner import Tuner

    axes, points, epochs = _plan(settings, program, table, others)
    out, stages = settings.output_dir, SuccessiveHalving(settings.stages)
    folder = Folder(out, stages, settings.tuning_metric)
    os.makedirs(out, exist_ok=True)
    with alone_in(out, wait=True) as claim:
        made_with = _made_with(settings, program, others)
        check_manifest(os.path.join(out, _NOTE_FILE), made_with, "Name another `output_dir`.")
        sampler = _make_sampler(settings, axes, folder.higher)
        trials = numbered(points) if sampler is None else sampler.trials()
        tuner = Tuner(program, others, epochs, trials, folder, settings.keep_models == "all", claim, sampler)
        tuner.run()
        tuner.report()
    logging.info("Report: %s", os.path.join(out, "report.html"))
    _conclude(tuner)


def _plan(settings, program, table, others):
    """Returns the search space, the combinations and the epochs of a trial, after all checks that need no trial.

    There are no combinations yet if each depends on the scores of earlier trials.
    """
    from bert_tf.experiments.tuning.search_space import combinations, draw_trials, parse_axes
    from bert_tf.experiments.tuning.tuner import OURS

    axes = parse_axes(settings.search, table)
    check_passed_flags(others, {*OURS, *(axis.name for axis in axes)}, "tune")
    if settings.sampler == _BY_SCORES:
        require_packages(f"`sampler={_BY_SCORES}`", "optuna")
        points = []
    elif settings.trials:
        points = draw_trials(axes, settings.trials, settings.search_seed)
    else:
        points = combinations(axes)
    alike = ["--output_dir=.", *others]
    epochs = parse_flags(program, table, alike).num_train_epochs
    for axis in axes:
        for value in axis.values or map(axis.format, (axis.low, axis.high)):
            parse_flags(program, table, [*alike, f"--{axis.name}={value}"])
    return axes, points, epochs


def _make_sampler(settings, axes, higher):
    """Returns what suggests trials from the scores of earlier ones; None if their values do not depend on them."""
    if settings.sampler != _BY_SCORES:
        return None
    from bert_tf.experiments.tuning.samplers import TpeSampler

    return TpeSampler(settings.output_dir, axes, settings.trials, settings.search_seed, higher)


def _made_with(settings, program, others):
    """Returns what must stay the same from command to command; how many trials there are may change."""
    given = dict(flag.lstrip("-").partition("=")[::2] for flag in others)
    read = [given[name] for name in _FILES if given.get(name)]
    return {
        **contents(path for each in read for path in find_files(each)),
        "program": program,
        "flags": " ".join(others),
        "search": settings.search,
        "sampler": settings.sampler or ("random" if settings.trials else "grid"),
        "search_seed": settings.search_seed if settings.trials else None,  # None: every combination
        "stages": settings.stages,
    }


def _conclude(tuner):
    from bert_tf.experiments.tuning.trials import format_trial_numbers

    for trial, stage in tuner.failed:
        logging.warning("Failed: %s; log: %s", trial, tuner.folder.of(trial, stage) / LOG_FILE)
    best = tuner.best()
    if not best:
        raise ValueError(
            f"No trial succeeded; {len(tuner.failed)} failed. See their logs; run the same command again to retry "
            "them."
        )
    if equal := tuner.as_good():
        tied, metric = format_trial_numbers(result.trial for result in (best, *equal)), tuner.folder.metric
        logging.warning("Tied for the best: %s. The first is used; %s is the same.", tied, metric)
    logging.info("Best trial: %s, %s = %.5g. Its model is in %s. Its command:", best.trial, tuner.folder.metric,
                 best.score, best.folder)  # fmt: skip
    print(tuner.command(best), flush=True)
