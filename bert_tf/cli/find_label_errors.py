"""Find training examples that are probably mislabeled, and duplicates.

    bert-tf data label-errors --train_file=train.tsv --output_dir=labels \\
        --init_checkpoint=demo/weights/minilm

Cross-validates: each example is judged by a model that was not trained on it.
Writes label_errors.tsv (most suspicious first), near_duplicates.tsv and
label_errors.html to --output_dir. Run the same command again to resume.
"""

import dataclasses
import os
from typing import ClassVar

from absl import logging

from bert_tf.cli.commands import load_command
from bert_tf.tasks.classification.options import ClassificationOptions
from bert_tf.utils import logged_runs, subprocesses
from bert_tf.utils.names import LAYERS
from bert_tf.utils.settings import Settings, command_line, flags_of, option, options_of, with_attributes

# Of `train classifier`: which examples, and where everything goes; and how a model of a fold is made.
_ABOUT_FILE = (
    "train_file", "header", "separator", "encoding", "drop_empty", "text_column", "label_column", "task_name",
    "data_dir", "xnli_language", "output_dir",
    "overwrite_output_dir",
)  # fmt: skip
_MODEL = ("init_checkpoint", "bert_config_file", "vocab_file", "do_lower_case", "max_seq_length", "precision", "seed")
_ABOUT_RUNS = (
    "long_text", "doc_stride", "max_windows", "save_checkpoints_steps", "train_batch_size", "predict_batch_size",
    "learning_rate", "num_train_epochs", "warmup_proportion", "schedule", "gradient_accumulation_steps",
    "bucket_by_length", "freeze_layers", "layerwise_lr_decay", "class_weights", "label_smoothing", "use_xla",
    "distribution_strategy", "deterministic",
)  # fmt: skip
_ABOUT_MODELS = (*_MODEL, *_ABOUT_RUNS)
_OF_CLASSIFIER = (*_ABOUT_FILE, *_ABOUT_MODELS)
_OVERWRITE = "Delete an earlier search in --output_dir and start over. Otherwise, an interrupted search resumes."

_CLASSIFIER_FLAGS = load_command("run_classifier").FLAGS


@dataclasses.dataclass(frozen=True)
class FindLabelErrorsSettings:
    """Options for judging the examples."""

    GROUP: ClassVar[str] = "Data"

    folds: int = option(
        5,
        "Number of folds of the file; each is predicted by a model that was trained on the others.",
        low=2, essential=True,
    )
    feature_layers: str = option(
        "last",
        "Encoder layers used as features, along with word counts, while the encoder is frozen.",
        choices=LAYERS, group="Layers, adapters and loss", essential=True, excludes=("fine_tune",),
        aliases=("features",),
    )
    fine_tune: bool = option(
        False,
        "Fine-tune a model for each fold instead: much slower, but better if the model learns the task well.",
        group="What to do", essential=True,
    )


FLAGS = (
    *flags_of(FindLabelErrorsSettings),
    *with_attributes(
        (flag for flag in _CLASSIFIER_FLAGS if flag.name in _OF_CLASSIFIER), "overwrite_output_dir", help=_OVERWRITE
    ),
)

_RUN = "run"  # a fold's, in its folder
_SHOWN = 10  # most likely errors that are printed


def main(settings):
    """Writes the lists, and prints the most likely errors."""
    from bert_tf.experiments.label_errors import search
    from bert_tf.experiments.label_errors.report import (
        ERRORS_FILE,
        PAGE_FILE,
        change,
        summarize_findings,
        write_findings,
    )
    from bert_tf.utils.folder_lock import alone_in

    _check(settings)
    examples = _examples(settings)
    os.makedirs(settings.output_dir, exist_ok=True)
    with subprocesses.resumable(), alone_in(settings.output_dir):  # another search may be at what this one removes
        found = search.start_search(
            settings.output_dir, examples, settings.folds, settings.seed, _identity(settings),
            settings.overwrite_output_dir,
        )  # fmt: skip
        findings = found.findings(_probabilities(settings, found))
        write_findings(settings.output_dir, findings)
    for sentence in summarize_findings(findings):
        logging.info("%s", sentence)
    for i in findings.suspects[:_SHOWN]:
        print(f"{findings.examples.where(i)}: {change(findings, i)}: {findings.text(i)}")
    folder = settings.output_dir
    print(f"All {len(findings.suspects):,}: {folder}/{ERRORS_FILE}; report: {folder}/{PAGE_FILE}")


def _check(settings):
    if not settings.init_checkpoint:
        raise ValueError("--init_checkpoint is required: the model to start from.")
    if settings.distribution_strategy == "multi_worker":
        raise ValueError(
            "This command does not support --distribution_strategy=multi_worker. Choose a strategy for a single "
            "machine."
        )
    if not settings.fine_tune and (given := [name for name in _ABOUT_RUNS if name in settings.given]):
        raise ValueError(f"--{given[0]} requires --fine_tune. Add --fine_tune or remove --{given[0]}.")


def _identity(settings):
    """Returns what decides the answers, but for the examples, folds and seed."""
    from bert_tf.inference.sentence_encoder import hash_model

    names = ("init_checkpoint", "max_seq_length", "precision", "feature_layers", "fine_tune", *_ABOUT_RUNS)
    files = settings.bert_config_file, settings.vocab_file, settings.do_lower_case
    return {name: settings.get(name) for name in names} | hash_model(settings.init_checkpoint, *files)


def _examples(settings):
    """Returns the training examples, of one label each."""
    from bert_tf.tasks.classification.task import ClassificationTask

    defaults = {flag.name: flag.default for flag in _CLASSIFIER_FLAGS}
    settings = Settings({**defaults, **settings.to_dict()}, settings.given)
    data = ClassificationTask.read_data(options_of(ClassificationOptions, settings), ["train"], None)
    if not data.source.has_labels:
        raise ValueError(f"--task_name must be a task with labels; those of {settings.task_name} are numbers.")
    return data.examples["train"]


def _probabilities(settings, found):
    """Returns float64 [n, L]: each example's probabilities by a model that had not seen it."""
    from bert_tf.experiments.label_errors import folds, frozen_encoder

    if settings.fine_tune:
        return found.answer_folds(lambda folder: _train(settings, folder, len(folds.text_columns(found.examples)) > 1))
    import keras

    from bert_tf.runs.devices import choose_precision

    output_dir = None if settings.overwrite_output_dir else settings.output_dir
    keras.config.set_dtype_policy(choose_precision(settings.precision, settings.distribution_strategy, output_dir))
    texts = [folds.texts_of(found.examples, i) for i in range(len(found.given))]
    vectors = frozen_encoder.vectors([each if len(each) > 1 else each[0] for each in texts], settings)
    return frozen_encoder.held_out(vectors, [" ".join(each) for each in texts], found.given, found.folds)


def _train(settings, folder, are_pairs):
    """Runs `train classifier` in a separate process to train on a fold's examples and predict those held out.

    Returns:
        the folder of that run, which is taken up again where it was interrupted; None if it failed.
    """
    from bert_tf.experiments.label_errors import folds
    from bert_tf.utils.folder_lock import alone_in

    run = folder / _RUN
    values = {
        **{name: value for name, value in settings.given_values().items() if name in _ABOUT_MODELS},
        "train_file": folder / folds.TRAIN_FILE,
        "predict_file": folder / folds.HELD_OUT_FILE,
        "output_dir": run,
        "do_train": True,
        "do_predict": True,
        "keep_checkpoints": 1,
        **({"text_column": ["text_a", "text_b"]} if are_pairs else {}),
    }
    flags = command_line({name: ",".join(v) if isinstance(v, list) else v for name, v in values.items()})
    with alone_in(folder, wait=True) as claim:
        return run if logged_runs.execute_resumable("run_classifier", flags, run, claim) else None
