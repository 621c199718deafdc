"""Evaluate a classifier by k-fold cross-validation.

    bert-tf cross-validate --folds=5 --output_dir=folds -- \\
        --train_file=reviews.tsv --init_checkpoint=demo/weights/minilm

Trains a classifier for each fold on the rows of the other folds, and evaluates
it on this fold. Flags after `--` are passed to `train classifier`. Writes the
mean and standard deviation of each metric, and out-of-fold predictions, to
--output_dir. To resume, run the same command again.
"""

import dataclasses
import os
import pathlib
from typing import ClassVar

from absl import logging

from bert_tf.cli.command_runner import parse_flags
from bert_tf.cli.commands import load_command
from bert_tf.utils.files import check_exists
from bert_tf.utils.folder_lock import alone_in
from bert_tf.utils.logged_runs import check_passed_flags, name_of_flag
from bert_tf.utils.manifest import check_manifest, contents
from bert_tf.utils.settings import UserSettings, flags_of, option
from bert_tf.utils.subprocesses import resumable


@dataclasses.dataclass(frozen=True)
class CrossValidateSettings(UserSettings):
    """Options for creating the folds."""

    GROUP: ClassVar[str] = "Data"

    folds: int = option(
        5,
        "Number of folds; each is evaluated with a model that was trained on the others.",
        low=2, essential=True,
    )
    output_dir: str | None = option(
        None,
        "Directory for the folds and the report.",
        required=True, group="Output", essential=True,
    )
    group_column: str | None = option(
        None,
        "Column, by name or by number from 0, such as the user: rows with the same value stay in one fold.",
    )
    seed: int = option(0, "Random seed of the folds; pass the seed of the training runs after `--`.", low=0)


SETTINGS = CrossValidateSettings
FLAGS = flags_of(SETTINGS)
TAKES_TEXTS = True  # the flags of `train classifier`, after `--`
WHERE_OTHER_FLAGS_GO = "Flags of `train classifier` go after `--`. "

_FITS = ("metric_for_best_model", "early_stopping", "fit_temperature", "fit_thresholds", "fit_abstention")
_NOTE_FILE = "cross_validation.json"


def main(settings: CrossValidateSettings, words):
    """Trains and evaluates the folds, and prints their metrics."""
    from bert_tf.data.dialect import Dialect
    from bert_tf.data.splitting import Columns, check_copyable, split_folds
    from bert_tf.evaluation.results import RESULTS_FILE
    from bert_tf.experiments import cross_validation

    check_passed_flags(words, cross_validation.OURS, "cross-validate")
    asked = parse_flags("run_classifier", load_command("run_classifier").FLAGS, ["--output_dir=.", *words])
    if fits := sorted(asked.given & set(_FITS)):
        raise ValueError(f"--{fits[0]} would fit the models to the folds that they are evaluated on. Remove it.")
    if asked.drop_empty:
        raise ValueError(
            "--drop_empty would leave out rows, but each row gets a prediction. Remove it, and clean the file "
            "first, for example with `bert-tf data clean`."
        )
    if not asked.train_file:
        raise ValueError("--train_file is required: pass it after `--`.")
    check_copyable(asked.train_file, asked.encoding)
    check_exists(asked.train_file, "train_file")
    columns = Columns(
        asked.text_column, asked.label_column, settings.group_column, asked.header, asked.problem_type,
        asked.label_separator, Dialect(asked.separator, asked.encoding), tuple(asked.label_columns or ()),
    )  # fmt: skip
    out = pathlib.Path(settings.output_dir)
    out.mkdir(parents=True, exist_ok=True)
    with resumable(), alone_in(out, wait=True) as claim:
        made_with = {**contents([asked.train_file]), "flags": " ".join(words)}
        made_with |= {name: getattr(settings, name) for name in ("folds", "group_column", "seed")}
        check_manifest(out / _NOTE_FILE, made_with, "Name another `output_dir`.")
        files, fold_of = split_folds(asked.train_file, os.fspath(out / "folds"), settings.folds, columns, settings.seed)
        others = [word for word in words if name_of_flag(word) != "train_file"]
        cross_validation.CrossValidation(out, files, fold_of, others, claim).run()
    print((out / cross_validation.TABLE_FILE).read_text(), end="")
    logging.info("Means: %s; report: %s", out / RESULTS_FILE, out / cross_validation.PAGE_FILE)
