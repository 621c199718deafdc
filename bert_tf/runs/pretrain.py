"""Pretraining on records: `pretrain` with keywords, `run_pretraining` with settings."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import keras
import tensorflow as tf

from bert_tf.evaluation.results import write_results
from bert_tf.runs.devices import compiles, keep_compiled_programs, prepare_devices, with_precision
from bert_tf.runs.keywords import read_keywords
from bert_tf.runs.pretraining import Pretraining
from bert_tf.runs.pretraining_memory import largest_step
from bert_tf.runs.pretraining_options import complete
from bert_tf.runs.process import run_in_process
from bert_tf.runs.save_formats import save_formats
from bert_tf.runs.settings import PretrainingSettings
from bert_tf.training.memory_budget import available_memory, check_weights, describe_memory
from bert_tf.training.output_directory import prepare_directory
from bert_tf.training.scored_files import scored_files
from bert_tf.training.scoring import EvalBatches
from bert_tf.training.tracking import tracked
from bert_tf.training.trainer import Trainer
from bert_tf.training.workers import by_chief
from bert_tf.utils.settings import check_combinations, flags_of, options_of

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in `typing` from Python 3.11 on

    from bert_tf.runs.keyword_types import PretrainingKeywords


class PretrainingRun:
    """A finished run of pretraining.

    Attributes:
        output_dir: directory with the model and all other files of the run.
        metrics: {metric: score} of eval_results.txt; empty without evaluation.
        num_steps: training step of the result.
        trainer: with the model as it was trained.
        strategy: in whose scope it ran.
    """

    def __init__(self, output_dir: str, trainer: Trainer, strategy: tf.distribute.Strategy, metrics: dict[str, float]):
        self.output_dir, self.trainer, self.strategy, self.metrics = output_dir, trainer, strategy, metrics
        self.num_steps = trainer.global_step

    @property
    def model(self) -> keras.Model:
        """The Keras model, with the heads of pretraining."""
        return self.trainer.model

    def __repr__(self) -> str:
        return f"PretrainingRun(output_dir={self.output_dir!r}, num_steps={self.num_steps}, metrics={self.metrics})"


def pretrain(
    input_file: str | os.PathLike | Sequence[str | os.PathLike] | None = None,
    *,
    output_dir: str | os.PathLike,
    eval_file: str | os.PathLike | Sequence[str | os.PathLike] | None = None,
    verbose: bool = True,
    **settings: "Unpack[PretrainingKeywords]",
) -> PretrainingRun:
    """Pretrains on records, like `bert-tf pretrain run`, and evaluates if there are held-out records.

        bert_tf.pretrain("records/", output_dir="model", init_checkpoint="bert-base-uncased", num_train_steps=1000)

    Args:
        input_file: records made with `bert-tf pretrain data`: files, directories or patterns. If None,
            nothing is trained.
        output_dir: directory of the run; an interrupted run resumes from it.
        eval_file: held-out records, evaluated at each checkpoint and at the end.
        verbose: log the progress.
        settings: all other settings by the names of the command's flags; see docs/reference/cli/run_pretraining.md.

    Raises:
        TypeError: an argument is unknown or has the wrong type.
        ValueError: settings, records or checkpoints are invalid.
        KeyboardInterrupt: Ctrl-C; a checkpoint was saved first, and the same call resumes from it.
    """
    for name in ("do_train", "do_eval"):
        if name in settings:
            raise TypeError(
                f"pretrain() has no argument `{name}`: it trains on `input_file` and evaluates on `eval_file`."
            )
    if "dry_run" in settings:
        raise TypeError("pretrain() has no argument `dry_run`. Use the command, which prints what training needs.")
    files = {"input_file": input_file, "eval_file": eval_file}
    given = settings | {"output_dir": output_dir} | {name: file for name, file in files.items() if file is not None}
    actions = {"do_train": input_file, "do_eval": eval_file}
    given |= {action: True for action, file in actions.items() if file is not None}
    read = read_keywords("pretrain", flags_of(PretrainingSettings), given, ("verbose",))
    with run_in_process(verbose):
        run = run_pretraining(options_of(PretrainingSettings, read))
    assert run is not None, "only a dry run has no result"
    return run


def run_pretraining(settings: PretrainingSettings, show: Callable[[str], None] = print) -> PretrainingRun | None:
    """Trains and evaluates on records, as the settings ask: do_train, do_eval.

    Args:
        settings: settings of pretraining.
        show: prints what `dry_run` finds out.

    Returns:
        the run; None after a dry run.

    Raises:
        ValueError: settings, records or checkpoints are invalid.
    """
    settings = complete(settings)
    check_combinations(flags_of(PretrainingSettings), settings)
    keep_compiled_programs(settings)
    settings = with_precision(settings)
    strategy = prepare_devices(settings)
    pretraining = Pretraining.of(settings)
    batches, scored = pretraining.streams()
    with strategy.scope():
        pretraining.load_teacher()
        trained, scored_rows = pretraining.plan.num_train_examples, settings.max_eval_steps * settings.eval_batch_size
        use_xla = compiles(settings, trained if settings.do_train else scored_rows)
        config, task = pretraining.run_config(use_xla), pretraining.task()
        if settings.dry_run:
            show(_describe_memory(pretraining, task))
            return None
        trainer = Trainer(task, config, pretraining.history(config))
        scores = _train_and_score(pretraining, trainer, batches, scored)
    save_formats(settings, strategy)
    return PretrainingRun(settings.output_dir, trainer, strategy, scores)


def _train_and_score(pretraining, trainer, batches, scored):
    """Returns {metric: score}; {} where nothing is scored."""
    settings, scoring = pretraining.settings, EvalBatches(scored)
    if settings.do_eval or settings.eval_file:
        next(scored())  # records that cannot be read, or do not fill a batch, end the run before it begins
    with tracked(trainer.history):
        if settings.do_train:
            trainer.fit(batches, pretraining.begin, held_out=scoring if settings.eval_file else None)
            pretraining.save_generator()
        else:
            trainer.restore()
            by_chief(prepare_directory, settings.output_dir)
        return _score(settings, trainer, scoring) if settings.do_eval else {}


def _score(settings, trainer, scoring):
    scores, paths = trainer.scores(scoring), settings.eval_file or settings.input_file
    files = scored_files(settings.output_dir, paths, trainer.global_step)
    by_chief(write_results, settings.output_dir, scores, trainer.global_step, "", files.suffix)
    by_chief(files.note)
    trainer.history.concluded(trainer.global_step, {} if files.is_another else scores)
    return scores


def _describe_memory(pretraining, task):
    check_weights(task.config, available_memory())
    step = largest_step(pretraining, task.config, task.build_model().count_params())
    return describe_memory(step, available_memory())
